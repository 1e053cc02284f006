# test_refused.sh PROGRAM - a cuDNN that has no engine for this device is said, and everything runs without it.

. "$(dirname -- "$0")/setup.sh"

"$program" new lenet --input 1x16x16 --classes 3 -o net.onnx -q || fail "no network"
awk 'BEGIN { for (i = 0; i < 8; i++) { for (k = 0; k < 256; k++) printf "%g,", (i * 7 + k * 3) % 11 / 11; print i % 3 } }' >images.csv

# run NAME: the plan, and the loss of a short training.
run() {
    "$program" plan net.onnx --data images.csv --device cuda --why >plan 2>&1 || fail "$1: plan: $(cat plan)"
    "$program" net.onnx --data images.csv --device cuda --steps 3 --batch-size 4 --run-dir none -o out.onnx >said 2>&1 ||
        fail "$1: the training: $(cat said)"
}

run "with cuDNN"
grep -q 'cudnn ' plan || fail "the plan has no kernel of cuDNN: $(cat plan)"
grep -q 'refused all' said && fail "said though cuDNN computes: $(cat said)"
export ONNXTRAIN_EMULATOR_CUDNN=none XDG_CACHE_HOME=$here/cache # plans on disk would be found
run "without cuDNN"
grep -q 'cudnn refused all [0-9]* operators that it was tried for (cuDNN has no engine for it)' said ||
    fail "not said: $(cat said)"
echo "a library that refuses everything is said"
