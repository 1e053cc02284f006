#!/bin/sh
# test_cli.sh PROGRAM - the command line from outside: exit codes, messages, files, signals.

. "$(dirname -- "$0")/common.sh"
lenet=$root/models/lenet.onnx
few_of_mnist few 4000 1000
export ONNXTRAIN_DATA="$work/few"

# wants CODE TEXT ARGUMENTS...: the exit code, and a text on stderr
wants() {
    code=$1 text=$2
    shift 2
    "$program" "$@" >out 2>err
    got=$?
    [ $got = "$code" ] || fail "onnxtrain $*: exit $got, $code is right"
    grep -qF -- "$text" err || fail "onnxtrain $*: says nothing of '$text'"
    [ "$code" = 0 ] || [ ! -s out ] || fail "onnxtrain $*: an error with text on stdout"
}

# shows TEXT ARGUMENTS...: exit 0, and a text on stdout
shows() {
    text=$1
    shift
    "$program" "$@" >out 2>err || fail "onnxtrain $*: exit $?"
    grep -qF -- "$text" out || fail "onnxtrain $*: '$text' is not on stdout"
}

# train ARGUMENTS...: a small training must go well
train() {
    "$program" "$lenet" --data mnist --batch-size 32 -q "$@" >out 2>err || fail "training with $*: exit $?"
}

# ---- usage: 2 --------------------------------------------------------------------

wants 2 "Try 'onnxtrain --help'"
wants 2 "did you mean '--batch-size'" "$lenet" --data mnist --bach-size 3
for pair in learning-rate:lr learning_rate:lr batch_size:batch-size bs:batch-size; do
    wants 2 "did you mean '--${pair#*:}'" "$lenet" --data mnist --${pair%:*} 3
done
wants 2 "unknown option '--nonsense'" "$lenet" --nonsense
wants 2 "--data needs a value" "$lenet" --data
wants 2 "--data is missing" "$lenet"
wants 2 "needs a model" eval
wants 2 "unexpected argument 'more'" eval "$lenet" more
wants 2 "unknown command 'evil'" evil "$lenet"
wants 2 "out of range" "$lenet" --data mnist --batch-size 0
wants 2 "not a whole number" "$lenet" --data mnist --epochs 1.5
wants 2 "did you mean 'sgd'" "$lenet" --data mnist --optimizer sdg
wants 2 "has no parameter 'momentum'" "$lenet" --data mnist --optimizer adamw:momentum=0.9
wants 2 "unknown loss" "$lenet" --data mnist --loss nonsense
wants 2 "needs step_size" "$lenet" --data mnist --schedule step
wants 2 "--lr-scale nothing*" "$lenet" --data mnist --lr-scale 'nothing*=2' --steps 1
wants 2 "--no-decay nothing*" "$lenet" --data mnist --no-decay 'norms,nothing*' --steps 1
wants 2 "--freeze nothing*" "$lenet" --data mnist --freeze 'nothing*' --steps 1
wants 2 "does not apply to this command" run "$lenet" --epochs 3
wants 2 "did you mean 'lenet'" new lenett

# ---- models 3, data 4, files 7, devices 9, divergence 6 ----------------------------

printf 'this is no model' >text.onnx
wants 3 text.onnx text.onnx --data mnist
head -c 5000 "$lenet" >short.onnx
wants 3 short.onnx short.onnx --data mnist
wants 7 nowhere.onnx nowhere.onnx --data mnist
wants 4 no-such-set "$lenet" --data no-such-set
printf 'no archive' >bad.npz
wants 4 bad.npz "$lenet" --data bad.npz
wants 7 /no/such/folder "$lenet" --data mnist -o /no/such/folder/out.onnx
wants 7 /no/such/folder "$lenet" --data mnist --log /no/such/folder/log
module=${ONNXTRAIN_CUDA_MODULE-}
export ONNXTRAIN_CUDA_MODULE=/no/module.so
wants 9 "/no/module.so: cannot open" "$lenet" --data mnist --device cuda
export ONNXTRAIN_CUDA_MODULE="$module"
wants 6 "step " "$lenet" --data mnist --optimizer sgd:lr=1e30 --steps 40 -o never.onnx --run-dir diverged --batch-size 16
[ ! -e never.onnx ] || fail "a model after divergence"
grep -q '"reason":"diverged"' diverged/log.jsonl || fail "the log does not end with the divergence"
grep -q '"loss":null.*"nonfinite"' diverged/log.jsonl || fail "a loss that is no number is not null in the log"

# ---- what is asked for goes to stdout -----------------------------------------------

shows "onnxtrain [train] MODEL --data DATA" --help
shows "--on-nonfinite" --help-all
shows "onnxtrain 0." --version
shows conv1.weight inspect "$lenet"
shows '"trained": 431080' inspect "$lenet" --json
shows trainable check "$lenet"
shows Convolve plan "$lenet" --batch-size 8
shows MaxPool ops
awk 'NR == 1 { at = index($0, "gradient") } /^$/ { exit } substr($0, at - 1, 2) !~ /^ [^ ]/ { exit 1 }' out || fail "ops: a name is wider than its column"
shows processor env
shows '"version"' env --json

# ---- a run: model, log, folder -------------------------------------------------------

train --steps 12 --run-dir run -o a.onnx --log log.jsonl --seed 3 --threads 1
[ "$(wc -c <a.onnx)" = "$(wc -c <"$lenet")" ] || fail "the model has another size"
cmp -s a.onnx "$lenet" && fail "nothing was trained"
[ "$(grep -c '"event":"step"' log.jsonl)" = 12 ] || fail "the log has not 12 steps"
for event in start eval end; do grep -q "\"event\":\"$event\"" log.jsonl || fail "the log has no $event"; done
for key in planned_bytes peak_bytes rss_peak rss_before_model samples_per_second '"reason":"finished"' '"steps":12'; do
    grep '"event":"end"' log.jsonl | grep -qF "$key" || fail "the end has no $key"
done
cmp -s log.jsonl run/log.jsonl || fail "the log in the folder is another"
for file in options.conf best.onnx; do [ -s run/$file ] || fail "the run's folder has no $file"; done
[ ! -s err ] || fail "-q is not quiet"

# What is said at the end can be done: the command that evaluates, with the data and the loss just used.
"$program" "$lenet" --data mnist --loss cross_entropy:label_smoothing=0.1 --steps 2 --run-dir "run 2" -o "a b.onnx" >out 2>err || fail "a file with a space: exit $?"
grep -q "test: loss .*, accuracy .* % (1000 samples" err || fail "the evaluation's line has another form"
sed -n 's/^to evaluate: *onnxtrain //p' err >command
grep -q "^eval 'a b.onnx' --data mnist --loss cross_entropy:label_smoothing=0.1$" command || fail "the command that evaluates is another: $(cat command)"
eval "set -- $(cat command)"
shows accuracy "$@"

# The same seed and number of threads: the same bits.  Another seed: others.
train --steps 12 --run-dir run -o b.onnx --seed 3 --threads 1
cmp -s a.onnx b.onnx || fail "the same seed gives another model"
[ -s run.1/log.jsonl ] || fail "the older run did not move to run.1"
train --steps 12 --run-dir run2 -o c.onnx --seed 4 --threads 1
cmp -s a.onnx c.onnx && fail "another seed gives the same model"
train --steps 3 --run-dir run2 -o d.onnx --optimizer sgd:lr=0 --threads 2
cmp -s d.onnx "$lenet" || fail "a rate of 0 changes the file"

train --steps 8 --run-dir run2 -o e.onnx --threads 2
train --steps 8 --run-dir run2 -o f.onnx --threads 2
cmp -s e.onnx f.onnx || fail "two threads give another model the second time"

# Folders are numbered where none is named, and the model has its own name.
train --steps 1
train --steps 1
[ -d runs/lenet-1 ] && [ -d runs/lenet-2 ] && [ -s lenet-trained.onnx ] || fail "runs/lenet-<n> or lenet-trained.onnx is missing"

# A config file counts, and arguments win over it.
printf '# a comment\nsteps = 5\nseed = 9\nno-shuffle = true\n' >run.conf
train --config run.conf --run-dir run3 --steps 2
[ "$(grep -c '"event":"step"' run3/log.jsonl)" = 2 ] || fail "the config file wins over the argument"
grep -q '^seed = 9' run3/options.conf || fail "the config file does not count"
printf 'stepz = 5\n' >run.conf
wants 2 "run.conf:1" "$lenet" --data mnist --config run.conf

shows accuracy eval a.onnx --data mnist
unset ONNXTRAIN_DATA # all of it
shows '"confusion"' eval a.onnx --data mnist --json
"$program" new mlp -o mlp.onnx -q && "$program" check mlp.onnx >out 2>err || fail "a fresh mlp cannot be trained"

# ---- signals ----------------------------------------------------------------------------

# stopped SIGNAL CODE: the step is finished, the model written, the code tells the signal
stopped() {
    rm -f s.onnx
    "$program" "$lenet" --data mnist --epochs 1000 --run-dir sig -o s.onnx --threads 1 >out 2>err &
    pid=$!
    n=0
    while [ $n -lt 300 ] && ! grep -q '"step"' sig/log.jsonl 2>/dev/null; do sleep 0.1 && n=$((n + 1)); done
    kill -"$1" $pid
    wait $pid
    got=$?
    [ $got = "$2" ] || fail "after SIG$1: exit $got, $2 is right"
    [ -s s.onnx ] || fail "after SIG$1: no model"
    grep -q '"reason":"cancelled"' sig/log.jsonl || fail "after SIG$1: the log has no end"
    rm -rf sig
}
stopped TERM 143
stopped INT 130
stopped HUP 129

[ $bad = 0 ] && echo "the command line keeps its contract"
[ $bad = 0 ]
