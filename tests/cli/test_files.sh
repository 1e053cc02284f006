#!/bin/sh
# test_files.sh PROGRAM - what is read is never written over, runs do not meet, nothing is left behind.

. "$(dirname -- "$0")/common.sh"

# small data: 40 samples of 4 numbers and a class
data() {
    printf 'a,b,c,d,target\n'
    i=0
    while [ $i -lt 40 ]; do
        echo "0.$((i % 7)),0.$((i % 5)),0.$((i % 3)),1,$((i % 3))" && i=$((i + 1))
    done
}
"$program" new mlp -o m.onnx --input 1x2x2 --hidden 5 --classes 3 -q || exit 1
data >d.csv
data >v.csv
printf 'seed = 1\n' >c.conf
printf 'some text\n' >notes.txt
: >empty
printf '{"event":"start"}\n' >old.jsonl
chmod 644 ./*

# refuses TEXT FILES ARGUMENTS...: exit 2 before anything is written; the files stay as they are, and none comes
refuses() {
    text=$1 kept=$2
    shift 2
    sums=$(cat $kept | cksum)
    before=$(find . | sort)
    "$program" "$@" >out 2>err
    got=$?
    [ $got = 2 ] || fail "onnxtrain $*: exit $got, 2 is right"
    grep -qF -- "$text" err || fail "onnxtrain $*: says nothing of '$text'"
    [ "$(cat $kept | cksum)" = "$sums" ] || fail "onnxtrain $*: $kept is not as it was"
    [ "$(find . | sort)" = "$before" ] || fail "onnxtrain $*: files came or went"
}
: >out
: >err
train="m.onnx --data d.csv --steps 2 --threads 1 --target target"

# ---- an output that is an input, under every name ----------------------------------

ln d.csv hard.csv
ln -s d.csv soft.csv
ln m.onnx hard.onnx
ln -s m.onnx soft.onnx
mkdir sub
for name in m.onnx hard.onnx soft.onnx ./sub/../m.onnx "$work/m.onnx"; do
    refuses "is the model that is being read" m.onnx $train -o "$name"
    refuses "is the model that is being read" m.onnx $train -o x.onnx --log "$name"
done
for name in d.csv hard.csv soft.csv sub/../d.csv; do
    refuses "is data that is being read" d.csv $train -o "$name"
    refuses "is data that is being read" d.csv $train -o x.onnx --log "$name"
done
refuses "is data that is being read" v.csv $train --val v.csv -o v.csv
refuses "is data that is being read" v.csv $train --val v.csv -o x.onnx --log v.csv
refuses "is the config file that is being read" c.conf $train --config c.conf -o c.conf
refuses "is the config file that is being read" c.conf $train --config c.conf -o x.onnx --log c.conf

# a named set is several files
set=$root/models/data/mnist
if [ -d "$set" ]; then
    mkdir mnist && cp "$set"/* mnist/
    for file in mnist/*; do
        case $file in *images*) ;; *labels*) ;; *) continue ;; esac
        refuses "not overwritten" "$file" "$root/models/lenet.onnx" --data mnist/ --steps 1 -o x.onnx --log "$file"
    done
    rm -rf mnist
fi

refuses "is the model that is being read" m.onnx $train -o x.onnx --deploy soft.onnx
refuses "is data that is being read" d.csv $train -o x.onnx --deploy hard.csv
refuses "is the same file as -o" m.onnx $train -o x.onnx --deploy ./x.onnx
refuses "is the model that is being read" m.onnx export m.onnx -o hard.onnx
refuses "is not an ONNX file" notes.txt export m.onnx -o notes.txt

# ---- an output that is something else -----------------------------------------------

refuses "is not an ONNX file" notes.txt $train -o notes.txt
refuses "is not an ONNX file" old.jsonl $train -o old.jsonl
refuses "is not a run log" notes.txt $train -o x.onnx --log notes.txt
refuses "is the same file as -o" d.csv $train -o x.onnx --log ./x.onnx
refuses "is not an ONNX file" notes.txt new mlp -o notes.txt
refuses "is not an ONNX file" d.csv new mlp -o d.csv
refuses "the config file that is being read" c.conf new mlp --config c.conf -o c.conf

# ---- what may be replaced --------------------------------------------------------------

ok() {
    "$program" "$@" >out 2>err || fail "onnxtrain $*: exit $?"
}
ok $train -o t.onnx --run-dir r1
ok $train -o t.onnx --run-dir r1 --log old.jsonl
grep -q "r1 contained an older run, which was renamed to r1.1" err || fail "an older run is moved without a word"
grep -q '"event":"end"' old.jsonl || fail "the old log is not replaced"
cp empty t2.onnx && cp empty l2.jsonl
ok $train -o t2.onnx --log l2.jsonl --run-dir r1
ok $train -o t2.onnx --log /dev/null --run-dir r1
ok $train -o t2.onnx --run-dir r2
ok $train -o t2.onnx --run-dir r2 --log ./r2/log.jsonl
ok new mlp -o t2.onnx
grep -q "was replaced" err || fail "new replaces a model without a word"

# ---- outputs through links: what they lead to is written, and they stay -------------------------

mkdir store
ok $train --run-dir none -o plain.onnx
for name in here.onnx gone.onnx; do
    cp t.onnx store/here.onnx && rm -f store/gone.onnx
    ln -sf store/$name link.onnx
    ok $train --run-dir none -o link.onnx
    [ -h link.onnx ] && cmp -s store/$name plain.onnx || fail "-o through a link: store/$name is not the trained model"
done
ok export m.onnx -o link.onnx && ok new mlp -o link.onnx
[ -h link.onnx ] && grep -q "was replaced" err || fail "export and new replace a link"
for form in csv json npz; do
    ln -s store/p.$form p.$form
    ok predict m.onnx d.csv --target target -o p.$form && ok predict m.onnx d.csv --target target -o p.$form
    [ -h p.$form ] && [ -f store/p.$form ] || fail "predict -o p.$form replaces a link"
done
ln -s store/c.onnx a.onnx && ln -s store/c.onnx b.onnx
refuses "is the same file as -o" m.onnx $train -o a.onnx --deploy b.onnx
# as /dev/stdout is one
ln -s /proc/self/fd/1 out.onnx && ln -s out.onnx out.csv
refuses_io() {
    "$program" "$@" >captured 2>err
    [ $? = 7 ] && grep -q "an open file of a process" err && [ ! -s captured ] || fail "onnxtrain $*: a link to standard output is not refused"
    [ -h out.onnx ] && [ -h out.csv ] || fail "onnxtrain $* replaces a link to standard output"
}
refuses_io $train --run-dir none -o out.onnx
refuses_io export m.onnx -o out.onnx
refuses_io new mlp -o out.onnx
refuses_io predict m.onnx d.csv --target target -o out.csv
rm -rf store plain.onnx link.onnx a.onnx b.onnx out.onnx out.csv p.csv p.json p.npz captured

# ---- names, and what is no file ------------------------------------------------------------------

printf 'steps=2\0 000\n' >zero.conf
refuses "zero.conf: contains a zero byte" zero.conf $train -o x.onnx --config zero.conf
(ulimit -f 8 && "$program" new mlp -o large.onnx >out 2>err)
got=$?
{ [ $got = 7 ] && grep -q 'File too large' err && [ ! -e large.onnx ]; } || fail "a limit on the size of files: exit $got, 7 is right"

refuses "the file name must not end in .npz" m.onnx $train -o x.npz
refuses "the file name must not end in .npz" m.onnx $train -o x.onnx --deploy x.npz
refuses "the file name must not end in .csv" m.onnx $train -o x.onnx --log x.csv
refuses "the file name must not end in .npz" m.onnx export m.onnx -o x.npz
refuses "the file name must not end in .json" m.onnx new mlp -o x.json
refuses "cannot be written to standard output" m.onnx $train -o -
refuses "without -o, predictions are printed to standard output" m.onnx predict m.onnx mnist -o -
refuses "is the same file as --log" old.jsonl $train -o x.onnx --log old.jsonl --deploy old.jsonl
refuses "not overwritten" r1/log.jsonl $train -o x.onnx --run-dir r1 --deploy r1/log.jsonl
refuses "the run writes this file itself" m.onnx $train -o x.onnx --run-dir r1 --deploy r1/best.onnx

ok $train -o t.onnx --run-dir none --log -
grep -q '"event":"end"' out || fail "--log - does not write to standard output"
[ ! -e - ] || fail "--log - makes a file"

# fails_with CODE TEXT ARGUMENTS...: within ten seconds
fails_with() {
    want=$1 text=$2
    shift 2
    "$program" "$@" >out 2>err &
    pid=$!
    n=0
    while [ $n -lt 100 ] && kill -0 $pid 2>/dev/null; do sleep 0.1 && n=$((n + 1)); done
    kill -9 $pid 2>/dev/null
    wait $pid
    got=$?
    [ $got = "$want" ] || fail "onnxtrain $*: exit $got, $want is right"
    grep -qF -- "$text" err || fail "onnxtrain $*: says nothing of '$text'"
}
mkfifo pipe
fails_with 7 "pipe: is a pipe without a reader" $train -o x.onnx --run-dir none --log pipe
fails_with 7 "pipe: is not a regular file" $train -o x.onnx --run-dir none --config pipe
fails_with 7 "pipe: is not a regular file; write what a pipe has into a file first" m.onnx --data pipe -o x.onnx --run-dir none
fails_with 7 "notes.txt: is a file; --run-dir needs a folder" $train -o x.onnx --run-dir notes.txt
[ ! -e x.onnx ] || fail "something is written in spite of a pipe"
cat pipe >read &
pid=$!
ok $train -o t.onnx --run-dir none --log pipe
wait $pid
grep -q '"event":"end"' read || fail "a pipe with a reader gets no log"
rm -f pipe read

# a trained model is not lost where its folder has gone
mkdir gone spare
mkfifo lines
{ IFS= read -r line && rmdir gone && cat >/dev/null; } <lines &
TMPDIR=$PWD/spare "$program" m.onnx --data d.csv --steps 3000 --threads 1 --target target --run-dir none --log lines \
    -o gone/o.onnx >out 2>err
[ $? = 7 ] || fail "a model that cannot be written: another exit code than 7"
wait
kept=$(find "$PWD/spare" -name o.onnx)
grep -qF "it is in $kept" err || fail "a trained model whose folder has gone is lost"
"$program" inspect "$kept" >out 2>err || fail "the model written elsewhere cannot be read"
rm -r spare lines

# what is trained is not lost with its log
if [ -c /dev/full ]; then
    "$program" $train -o kept.onnx --run-dir none --log /dev/full >out 2>err
    [ $? = 7 ] && grep -q "/dev/full: cannot be written" err || fail "a log that cannot be written is not told"
    "$program" check kept.onnx >/dev/null 2>&1 || fail "a log that cannot be written costs the trained model"
    rm -f kept.onnx
fi

# ---- arrays -------------------------------------------------------------------------------

python=$(command -v python3)
if [ -n "$python" ] && "$python" - <<'EOF'
import struct, sys, zipfile
def npy(shape, data):
    head = ("{'descr': '<f4', 'fortran_order': False, 'shape': %r, }" % (shape,)).encode()
    head += b' ' * (63 - (len(head) + 10) % 64) + b'\n'
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head + data
with zipfile.ZipFile('x.npz', 'w') as z:
    z.writestr('input.npy', npy((2, 4), struct.pack('<8f', *range(8))))
    z.writestr('target.npy', npy((2, 3), struct.pack('<6f', *range(6))))
EOF
then
    refuses "is data that is being read" x.npz run m.onnx --data x.npz -o x.npz
    refuses "is the model that is being read" m.onnx run m.onnx --data x.npz -o m.onnx
    refuses "is data that is being read" x.npz grad m.onnx --data x.npz --loss mse -o x.npz
    refuses "is not an .npz" notes.txt run m.onnx --data x.npz -o notes.txt
    refuses "the file name must not end in .onnx" m.onnx run m.onnx --data x.npz -o y.onnx
    "$python" -c "import zipfile; zipfile.ZipFile('papers.zip', 'w').writestr('letter.xml', 'text')"
    refuses "is not an .npz" papers.zip run m.onnx --data x.npz -o papers.zip
    ok run m.onnx --data x.npz -o y.npz --threads 1
    ok run m.onnx --data x.npz -o y.npz --threads 1
fi

# ---- the folder of a run -----------------------------------------------------------------------

# links planted in it are not followed; files in it that are read stay
mkdir planted && ln -s ../notes.txt planted/log.jsonl
refuses "is a symbolic link" notes.txt $train -o x.onnx --run-dir planted
# nor are links in place of folders within it
ok $train -o x.onnx --run-dir within
mkdir outside && cp notes.txt outside/loss.svg && ln -s ../outside within/plots
fails_with 2 "is a symbolic link" report within --plots
mkdir within2 && ln -s ../outside within2/tensorboard
fails_with 2 "is a symbolic link" $train -o x.onnx --run-dir within2 --tensorboard
cmp -s notes.txt outside/loss.svg && [ "$(ls outside)" = loss.svg ] || fail "files were written through the link of a folder: $(ls outside)"
mkdir mine && ln m.onnx mine/best.onnx
refuses "contains a file best.onnx" m.onnx $train -o x.onnx --run-dir mine
mkdir copies && cp notes.txt copies/checkpoint-000000001.npz
refuses "contains a file checkpoint-000000001.npz" copies/checkpoint-000000001.npz $train -o x.onnx --run-dir copies --keep 1
ln -f d.csv mine/log.jsonl && rm mine/best.onnx
refuses "is data that is being read" d.csv $train -o x.onnx --run-dir mine
mkdir conf && ln -s ../notes.txt conf/options.conf # an older run is known by its options.conf; this is none
refuses "is not from a run" notes.txt $train -o x.onnx --run-dir conf
rm conf/options.conf && printf 'seed = 1\n' >conf/options.conf
refuses "is not from a run" conf/options.conf $train -o x.onnx --run-dir conf
# an older run does not move with what is read now, nor from under the user's feet
mkdir -p work/deep && cp m.onnx work/deep && cp d.csv work
ok work/deep/m.onnx --data work/d.csv --steps 1 --target target -o x.onnx --run-dir work
refuses "work/deep/m.onnx, which is being read" "work/deep/m.onnx work/d.csv" work/deep/m.onnx --data d.csv --steps 1 --target target -o x.onnx --run-dir work
refuses "work/d.csv, which is being read" work/d.csv m.onnx --data work/d.csv --steps 1 --target target -o x.onnx --run-dir work/
rm work/d.csv
refuses "cannot be renamed" m.onnx $train -o x.onnx --run-dir work/.
ok $train -o x.onnx --run-dir work
[ -e work.1/deep/m.onnx ] || fail "what else lies in an older run is lost"
rm -rf work work.1
refuses "the run writes this file itself" r1/best.onnx $train --val v.csv --run-dir r1 -o r1/best.onnx 2>/dev/null
refuses "not overwritten" r1/options.conf $train --run-dir r1 -o x.onnx --deploy r1/options.conf
rm -rf planted mine conf conf.1 x.onnx

# none is made
before=$(find . | sort)
ok $train --val v.csv --run-dir none -o t.onnx
[ "$(find . | sort)" = "$before" ] || fail "--run-dir none makes files"

# two at once: the second says so, and the first's folder is its own
"$program" m.onnx --data d.csv --target target --threads 1 --epochs 100000000 --run-dir busy -o b.onnx -q >out 2>err &
pid=$!
n=0
while [ $n -lt 300 ] && ! grep -q '"step"' busy/log.jsonl 2>/dev/null; do sleep 0.1 && n=$((n + 1)); done
"$program" $train -o b2.onnx --run-dir busy >out 2>err2
[ $? = 2 ] && grep -q "another run is writing to it" err2 || fail "a folder in use is taken"
[ ! -e busy.1 ] || fail "the folder of a run moves away under it"
# a folder that is moved takes its run along
mv busy elsewhere && mkdir busy
kill -INT $pid # ignored by jobs in the background of a shell without job control, but not by a run
wait $pid
[ -z "$(ls busy)" ] || fail "the run writes to a folder that is not its own"
grep -q '"event":"end"' elsewhere/log.jsonl || fail "the moved run has no end"

# a hangup that the parent ignores (nohup) stays ignored
(
    trap '' HUP
    exec "$program" m.onnx --data d.csv --target target --threads 1 --epochs 100000000 --run-dir none --log i.jsonl -o b.onnx -q >out 2>err
) &
pid=$!
n=0
while [ $n -lt 300 ] && ! grep -q '"step"' i.jsonl 2>/dev/null; do sleep 0.1 && n=$((n + 1)); done
kill -HUP $pid
sleep 0.5
kill -TERM $pid || fail "an ignored SIGHUP ends the training"
wait $pid
[ $? = 143 ] || fail "SIGTERM after an ignored SIGHUP: exit $?"

# a limit on processor time, and output that is not read any more, stop a training as SIGTERM does
endless="m.onnx --data d.csv --target target --threads 1 --epochs 100000000 --run-dir none -o s.onnx"
(ulimit -S -t 2 && exec "$program" $endless -q >out 2>err)
got=$?
{ [ $got = 152 ] && "$program" check s.onnx >out 2>&1; } || fail "a limit on processor time: exit $got, 152 is right"
rm -f s.onnx
mkfifo pipe
grep -q "step 5" pipe & # the training has begun
"$program" $endless --log-every 1 >out 2>pipe
got=$?
{ [ $got = 141 ] && "$program" check s.onnx >out 2>&1; } || fail "messages that are not read: exit $got, 141 is right"
rm -f s.onnx
head -c 300 pipe >/dev/null &
"$program" $endless -q --log - >pipe 2>err
got=$?
{ [ $got = 7 ] && "$program" check s.onnx >out 2>&1; } || fail "a log that is not read: exit $got, 7 is right"
rm -f s.onnx pipe

# a run folder that is deleted: reported once, nothing more is written to it, and the model is not lost
for file in . log.jsonl options.conf; do
    "$program" m.onnx --data d.csv --val v.csv --target target --threads 1 --epochs 100000000 --checkpoint-every 20steps --run-dir gone -o g.onnx -q >out 2>err &
    pid=$!
    n=0
    while [ $n -lt 300 ] && ! ls gone/checkpoint-* >/dev/null 2>&1; do sleep 0.1 && n=$((n + 1)); done
    if [ $file = . ]; then until rm -rf gone 2>/dev/null; do :; done; else rm gone/$file; fi
    while [ $n -lt 300 ] && ! grep -q "was deleted during training" err; do sleep 0.1 && n=$((n + 1)); done
    there=$(ls gone 2>/dev/null | sort)
    sleep 0.3
    kill -TERM $pid
    wait $pid
    got=$?
    [ $got = 7 ] && grep -q "^onnxtrain: gone: the run folder, or the log in it, was deleted" err || fail "$file of a run folder is deleted: exit $got, 7 is right"
    [ "$(grep -c "^warning: gone: the run folder" err)" = 1 ] || fail "$file of a run folder is deleted: not one warning"
    [ "$(ls gone 2>/dev/null | sort)" = "$there" ] || fail "$file of a run folder is deleted: files come again"
    "$program" check g.onnx >/dev/null 2>&1 || fail "$file of a run folder is deleted: no model is written"
    rm -rf gone g.onnx i.jsonl
done

# many at once, numbered: each gets a folder
i=0
pids=
while [ $i -lt 6 ]; do
    "$program" $train -q -o many$i.onnx >/dev/null 2>&1 &
    pids="$pids $!"
    i=$((i + 1))
done
for p in $pids; do wait "$p" || fail "one of six runs at once: exit $?"; done
[ "$(ls runs | wc -l)" = 6 ] || fail "six runs at once have $(ls runs | wc -l) folders"
for r in runs/*; do [ "$(grep -c '"event":"end"' $r/log.jsonl)" = 1 ] || fail "$r has another's log"; done

# ---- a second signal, at any moment of the writing, leaves nothing half -----------------------------------

"$program" new mlp -o wide.onnx --input 1x2x2 --hidden 1500,3000 --classes 3 -q
mkdir out.d
cut=0
for pause in 0 0.01 0.02 0.03 0.05 0.08 0.12 0.2 0.3; do
    "$program" wide.onnx --data d.csv --target target --threads 1 --epochs 100000000 --run-dir none --log out.d/log -o out.d/w.onnx -q >out 2>err &
    pid=$!
    n=0
    while [ $n -lt 300 ] && [ ! -s out.d/log ]; do sleep 0.05 && n=$((n + 1)); done
    kill -TERM $pid
    sleep $pause
    kill -TERM $pid 2>/dev/null
    wait $pid
    got=$?
    [ $got = 143 ] || fail "two signals: exit $got, 143 is right"
    rm -f out.d/log
    for file in $(ls -A out.d); do
        [ "$file" = w.onnx ] || fail "two signals $pause s apart leave $file"
        "$program" check out.d/w.onnx >/dev/null 2>&1 || fail "two signals $pause s apart leave half a model"
    done
    [ -e out.d/w.onnx ] || cut=$((cut + 1))
    rm -f out.d/w.onnx
done
[ $cut -gt 0 ] || fail "no second signal came before the model was there"

# ---- a place where no file can be made is found before anything is computed ---------------------------

cannot() { fails_with 7 onnxtrain: m.onnx --data d.csv --target target --epochs 100000000 --threads 1 --run-dir none "$@"; }
cannot -o /proc/x.onnx
cannot -o /dev/null
cannot -o sub
(cd /proc && "$program" "$work/m.onnx" --data "$work/d.csv" --target target --epochs 100000000 --threads 1 --run-dir none >"$work/out" 2>"$work/err")
[ $? = 7 ] && ! grep -q "^step\|^epoch" err || fail "a current folder that cannot be written is found after the training"
cannot --log sub
cannot -o t.onnx --log /proc/x.log
if [ "$(id -u)" != 0 ]; then
    cp m.onnx keep.onnx && chmod 444 keep.onnx
    cannot -o keep.onnx
    cmp -s m.onnx keep.onnx || fail "a read-only file is replaced"
    mkdir ro && cp m.onnx d.csv ro/ && chmod 555 ro
    (cd ro && "$program" m.onnx --data d.csv --target target --steps 1 -o ../ro.onnx >../out 2>../err)
    [ $? = 7 ] && grep -q -- "--run-dir none" err || fail "a read-only folder: no word of --run-dir none"
    (cd ro && "$program" m.onnx --data d.csv --target target --steps 1 -o ../ro.onnx --run-dir none >../out 2>../err) ||
        fail "a read-only folder with --run-dir none: exit $?"
fi

[ $bad = 0 ] && echo "no input is lost, no run meets another"
[ $bad = 0 ]
