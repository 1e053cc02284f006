# test_calls.sh PROGRAM - what a step of training asks of the device once it is recorded: an upload, one graph, a
# download, and nothing that allocates or waits for it.

. "$(dirname -- "$0")/setup.sh"

# check NAME RUNS OPTIONS...: RUNS batches are given, all but the first step-by-step ones as graphs.
check() {
    name=$1
    runs=$2
    shift 2
    ONNXTRAIN_EMULATOR_LOG=log "$program" model.onnx --data data.csv --loss mse --device cuda -o out.onnx --run-dir run -q "$@" ||
        fail "$name: the training failed"
    awk -v name="$name" -v runs="$runs" '
        $2 == "cudaGraphLaunch" {
            # Recording lies between the first launches.
            if (launches > 3 && (copies != 2 || other != "" || waits > 1)) {
                printf "FAILED: %s: between launches %d and %d: %d copies, %d waits%s\n", name, launches, launches + 1, copies, waits, other
                failed = 1
                exit
            }
            launches++
            copies = waits = 0
            other = ""
            next
        }
        $2 == "cudaMemcpyAsync" { copies++; next }
        $2 == "cudaEventSynchronize" { waits++; all_waits += launches > 3; next }
        $2 == "cudaEventRecord" { next }
        { other = other ", " $2 }
        END {
            if (failed) exit 1
            if (launches != runs) { printf "FAILED: %s: %d graphs for %d runs\n", name, launches, runs; exit 1 }
            printf "%s: %d graphs, %d waits\n", name, launches, all_waits
        }' log || exit 1
}

# Of the captured kernels all that follow one may begin before it ends; without, the training writes the same model.
check "with overlap" 199 --steps 200 --batch-size 4
mv out.onnx first.onnx
all=$(grep -c ' recorded' log) early=$(grep -c ' recorded, overlaps' log)
[ "$early" -gt 5 ] && [ $((2 * early)) -gt "$all" ] || fail "$early of $all captured kernels may begin early"
export ONNXTRAIN_CUDA_OVERLAP=0
check "without overlap" 199 --steps 200 --batch-size 4
grep -q ' overlaps' log && fail 'ONNXTRAIN_CUDA_OVERLAP=0 is ignored'
cmp out.onnx first.onnx || fail 'another model without overlap'
unset ONNXTRAIN_CUDA_OVERLAP

check "one batch an update" 199 --steps 200 --batch-size 4
check "kept in order" 199 --steps 200 --batch-size 4 --no-shuffle
# Two batches an update are two recordings, of the batch alone and of batch and update: each begins step by step.
check "two batches an update" 98 --steps 50 --batch-size 4 --accumulate 2
