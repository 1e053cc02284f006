#!/bin/sh
# test_bombs.sh PROGRAM - files of a few hundred bytes that ask for more than there is (bombs/): each is answered soon, in
# little memory, by the exit code for what it is and the node that asks.

program=${1:?usage: test_bombs.sh PROGRAM}
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd -P) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
bad=0 n=0

# The sanitizers take several times the time, and memory that `ulimit -v` would deny.
if grep -q __asan_init "$program"; then seconds=60; else seconds=10 && ulimit -v 1048576; fi

# answers CODE TEXT ARGUMENTS...: CPU seconds are counted, so that a busy machine fails nothing
answers() {
    code=$1 text=$2
    shift 2
    n=$((n + 1))
    (ulimit -t "$seconds" && exec "$program" "$@") >"$work/out" 2>"$work/err"
    got=$?
    if [ "$got" != "$code" ] || ! grep -qF -- "$text" "$work/err"; then
        echo "FAILED: onnxtrain $*: exit $got, $code and '$text' are right"
        head -n 3 "$work/err"
        bad=$((bad + 1))
    fi
}

for bomb in nested-loops deep-loops empty-loop loop-scan-output; do
    answers 3 'loop: ' check "$here/bombs/$bomb.onnx"
done
answers 5 'loop: ' check "$here/bombs/scan.onnx"
for bomb in lstm trilu eyelike range onehot resize reversesequence pad-reflect pad-wrap; do
    answers 5 'n: ' check "$here/bombs/$bomb.onnx"
done
answers 5 "'y', float32[1048576,1048576]: 4194304 MiB" run "$here/bombs/expand.onnx" --data "$here/bombs/one.npz" -o "$work/y.npz"
answers 3 'loop: ' run "$here/bombs/loop-constants.onnx" --data "$here/bombs/one.npz" -o "$work/y.npz"
# These are no more than work, which is left to the run.
answers 3 'nothing to train' check "$here/bombs/constant-products.onnx"
[ "$bad" = 0 ] && echo "$n bombs answered"
exit "$((bad != 0))"
