# test_failures.sh PROGRAM FEW - every call of a short training fails once: a clean error, the right exit code, no model, nothing
# left in the device's memory.  A call that has been seen to fail well dozens of times is then tried now and then.

. "$(dirname -- "$0")/setup.sh"

train() {
    timeout 100 "$program" model.onnx --data data.csv --loss mse --device cuda -o out.onnx --run-dir run --steps 6 --batch-size 10 -q \
        --val data.csv 2>said
}

ONNXTRAIN_EMULATOR_LOG=first train || fail "the training itself: $(cat said)"
ONNXTRAIN_EMULATOR_LOG=log train || fail "the training itself: $(cat said)" # kernels are there already
mv out.onnx right.onnx

# Numbers of the calls to fail: of each kind the first FEW, then every 40th.
awk -v few="$2" '{ if (++seen[$2] <= few || seen[$2] % 40 == 0) print $1, $2 }' log >calls
[ "$(wc -l <calls)" -gt 60 ] || fail "only $(wc -l <calls) calls"
failed=0
while read -r n _; do
    ONNXTRAIN_EMULATOR_LOG=now ONNXTRAIN_EMULATOR_FAIL=$n train
    code=$?
    # Several threads make calls, so that call n is not always the same one; the last may be missing.
    name=$(sed -n 's/^[0-9]* \([^ ]*\) FAILS.*/\1/p' now)
    [ -n "$name" ] || { rm -f out.onnx && continue; }
    failed=$((failed + 1))
    case $code,$name in
    5,* | 9,*) ;;
    0,cudaMalloc | 0,cudaHostAlloc | 0,cudaEventCreateWithFlags)
        # Out of memory for a second model: the written file is proven on the CPU.
        cmp -s out.onnx right.onnx || fail "call $n, $name: another model was written"
        rm -f out.onnx
        continue
        ;;
    *) fail "call $n, $name: exit $code: $(cat said)" ;;
    esac
    grep -q '^onnxtrain: .' said || fail "call $n, $name: no message: $(cat said)"
    grep -q emulator: said && fail "call $n, $name: $(cat said)"
    [ ! -e out.onnx ] || fail "call $n, $name: a model was written"
done <calls
[ $failed -gt 60 ] || fail "only $failed calls failed"
echo "$failed failures of $(wc -l <log) calls"

# Compiling, with an empty cache.
XDG_CACHE_HOME=$here/cache ONNXTRAIN_EMULATOR_LOG=log train || fail "without cache: $(cat said)"
for name in nvrtcCreateProgram nvrtcCompileProgram; do
    grep -q " $name " log || fail "$name is not called"
    rm -rf "$here/cache" out.onnx
    XDG_CACHE_HOME=$here/cache ONNXTRAIN_EMULATOR_FAIL=$name train
    code=$?
    [ $code = 1 ] || [ $code = 5 ] || fail "$name: exit $code: $(cat said)"
    grep -q '\.cu does not compile for sm_90a: ' said || fail "$name: the message is $(cat said)"
    grep -q emulator: said && fail "$name: $(cat said)"
    [ ! -e out.onnx ] || fail "$name: a model was written"
done
