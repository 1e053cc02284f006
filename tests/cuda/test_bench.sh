# test_bench.sh - `bench --kernels` on a device: every library's kernels are there with times, and the captured graphs have one.

. "$(dirname "$0")/setup.sh"

"$program" new lenet -o lenet.onnx -q || fail "no model"
"$program" bench lenet.onnx --device cuda --batch-sizes 4 --steps 2 --kernels --json -q >out.json || fail "exit $?"
for kernel in cuda cudnn cublaslt; do
    grep -q "\"kernel\": \"$kernel\"" out.json || fail "no kernel of $kernel"
done
awk -F'[:,]' '
    /"(kernels|eager|graph)_ms"/ { found++; bad += !($2 > 0) }
    /"us"/ { rows++; bad += !($2 > 0) }
    END { exit !(found == 6 && rows > 20 && !bad) }' out.json || fail "times are missing: $(grep -E '_ms|"us"' out.json)"
grep -q 'in one launch' out.json || fail "no group of kernels"
echo 'bench on a device: ok'
