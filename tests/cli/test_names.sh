#!/bin/sh
# test_names.sh PROGRAM - names in files and paths can neither forge a line nor drive a terminal.

. "$(dirname -- "$0")/common.sh"
LC_ALL=C
export LC_ALL

# Names of equal length take the place of those that `new` gives, so the file stays one: a line end and what the
# program says of itself, a terminal's escape, its bell, a C1 and a byte that is no UTF-8.
forged='x\nonnxtrain: all is well'
"$program" new mlp -o plain.onnx --input 1x2x2 --hidden 5 --classes 3 -q || exit 1
nl='
'
for name in input output; do grep -q "$name" plain.onnx || fail "the model has no '$name'"; done
sed -e 's/input/i\x0anp\x1b/g' -e 's/output/o\x07t\xc2\x9b\xff/g' -e 's/fc1/f\x0a1/g' plain.onnx >evil.onnx
cmp -s plain.onnx evil.onnx && fail "no name was changed"
printf 'a,b,c,d,target\n1,2,3,4,0\n2,3,4,5,1\n3,4,5,6,2\n4,5,6,7,0\n' >d.csv
printf 'a,b\nonnxtrain: all is well,x\n1,2\n' >odd.csv

# clean CODE ARGUMENTS...: that exit code; nothing shown drives a terminal, and no line is forged
clean() {
    code=$1
    shift
    "$program" "$@" >out 2>err
    got=$?
    [ $got = "$code" ] || fail "onnxtrain $(printf '%s ' "$@" | tr -c '[:print:]' '?'): exit $got, $code is right"
    for stream in out err; do
        tr -d '[:print:]\n' <$stream >rest # in the C locale: printing ASCII
        [ ! -s rest ] || fail "$(printf '%s ' "$@" | tr -c '[:print:]' '?'): $stream has $(od -An -c rest | head -n 2)"
        ! grep -q -e '^onnxtrain: all is well' -e '^np' -e '^1[.:]' $stream || fail "$(printf '%s ' "$@" | tr -c '[:print:]' '?'): $stream has a forged line"
    done
}

clean 0 inspect evil.onnx
grep -q 'i\\nnp\\x1b' out || fail "inspect does not show the name"
clean 0 inspect evil.onnx --graph
clean 0 inspect evil.onnx --json
clean 0 plan evil.onnx --why
clean 0 plan evil.onnx --json
clean 0 check evil.onnx
clean 0 check evil.onnx --json
clean 0 evil.onnx --data d.csv --target target --steps 2 --threads 1 --run-dir run -o trained.onnx -v
clean 0 eval trained.onnx --data d.csv --target target
clean 0 eval trained.onnx --data d.csv --target target --json
clean 2 evil.onnx --data d.csv --target target --loss "$(printf 'x\033[31m')"
clean 2 evil.onnx --freeze "$(printf 'x\nonnxtrain: all is well')" --data d.csv --target target --steps 1
clean 4 evil.onnx --data d.csv --target "$(printf 'x\nonnxtrain: all is well')" --steps 1
clean 4 run evil.onnx --data odd.csv -o y.npz
clean 2 "$(printf -- '--\033[31mx')" m
clean 2 eval "$(printf 'a\033')" "$(printf 'b\nonnxtrain: all is well')"
clean 7 "$(printf 'no\033\377\nonnxtrain: all is well')" --data d.csv
sed -e 's/Relu/R\x0alu/g' plain.onnx >operator.onnx
clean 3 check operator.onnx
clean 3 inspect operator.onnx

# A path that is no UTF-8: the log has its lines, and the options their form.
path=$(printf 'm\377\033.onnx')
if cp evil.onnx "$path" 2>/dev/null; then
    clean 0 "$path" --data d.csv --target target --steps 2 --threads 1 --run-dir odd -o "$(printf 'o\377.onnx')" --log "$(printf 'l\377.jsonl')"
    for event in start step end; do grep -q "\"event\":\"$event\"" odd/log.jsonl || fail "the log has no $event"; done
    grep -q 'm\\\\xff' odd/log.jsonl || fail "the log does not show the path"
    clean 0 inspect "$path" --json
    grep -q '"model"' out || fail "inspect --json has no model"
fi
path=$(printf 'm\nseed = 7\n.onnx')
if cp evil.onnx "$path" 2>/dev/null; then
    clean 0 "$path" --data d.csv --target target --steps 2 --threads 1 --run-dir odd2 -o trained.onnx
    ! grep -q '^seed' odd2/options.conf || fail "a path sets an option"
fi

[ $bad = 0 ] && echo "no name forges a line"
[ $bad = 0 ]
