# test_described.sh PROGRAM - plan --device-description: a plan for a GPU that is not there, by the real libraries; what is no description
# and what would have to run is refused.

program=$1
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset ONNXTRAIN_CUDA_MODULE # the one beside the program
export XDG_CACHE_HOME="$work/cache"

fail() {
    printf 'FAILED: %s\n' "$*"
    exit 1
}

# refused CODE WORDS OPTIONS...
refused() {
    code=$1 words=$2
    shift 2
    "$program" plan lenet.onnx "$@" >out 2>&1
    got=$?
    [ $got = "$code" ] || fail "$*: exit $got, should be $code: $(cat out)"
    grep -q -- "$words" out || fail "$*: does not say '$words': $(cat out)"
}

"$program" new lenet -o lenet.onnx -q || fail 'no model'
"$program" plan lenet.onnx --device-description "$here/h200.json" --json >plan.json 2>err
case $? in
0) ;;
9) echo "skipped: no CUDA libraries: $(cat err)" && exit 77 ;;
*) fail "$(cat err)" ;;
esac
for kernel in cuda cudnn; do
    grep -q "\"kernel\": \"$kernel\"" plan.json || fail "no kernel of $kernel"
done
ls "$work"/cache/onnxtrain/*-nvrtc[0-9]*.[0-9]/* >/dev/null || fail 'no kernel in the cache, under a key without the libraries'
first=$(ls "$work"/cache/onnxtrain/*-nvrtc[0-9]*.[0-9] | wc -l)

# Threads compile side by side: the same files as without.
XDG_CACHE_HOME="$work/alone" "$program" plan lenet.onnx --device-description "$here/h200.json" --threads 1 --json >/dev/null || fail 'one thread'
XDG_CACHE_HOME="$work/four" "$program" plan lenet.onnx --device-description "$here/h200.json" --threads 4 --json >/dev/null || fail 'four threads'
diff -r "$work"/alone/onnxtrain/*-nvrtc[0-9]*.[0-9] "$work"/four/onnxtrain/*-nvrtc[0-9]*.[0-9] || fail 'four threads compile other files than one'

# Another device of the architecture, with other units, compiles nothing again.
sed 's/"multiProcessorCount":132/"multiProcessorCount":114/; s/NVIDIA H200/NVIDIA H100/' "$here/h200.json" >h100.json
"$program" plan lenet.onnx --device-description h100.json --json >plan.json || fail 'no plan for another device'
again=$(ls "$work"/cache/onnxtrain/*-nvrtc[0-9]*.[0-9] | wc -l)
[ "$again" -lt $((2 * first)) ] || fail "$first kernels, $again with another device of the architecture"

# Every kernel waits for the one in front of it before it uses global memory, where the architecture can: in PTX, for a device that
# is newer than NVRTC.
sed 's/"deviceVer":900/"deviceVer":9000/' "$here/h200.json" >later.json
"$program" new mlp --input 1x8x8 -o mlp.onnx -q || fail 'no model'
"$program" plan mlp.onnx --device-description later.json --json >plan.json || fail 'no plan for a later device'
kernels=0
for code in "$work"/cache/onnxtrain/compute_*-nvrtc[0-9]*.[0-9]/*; do
    tr -d '\000' <"$code" | awk '
        /\.entry / { entry = $0; waits = 0; kernels++ }
        /griddepcontrol\.wait/ { waits = 1 }
        /(ld|st|atom|red)\.(volatile\.)?global|[ \t](ld|st)\.(v2\.|v4\.)?[busf][0-9]/ { if (!waits) early = early entry ": " $0 "\n" }
        /^}/ { if (entry != "" && !waits) early = early entry ": no wait\n"; entry = "" }
        END { if (early != "" || !kernels) { print early; exit 1 } }' || fail "kernels that do not wait in $code"
    kernels=$((kernels + 1))
done
[ $kernels -gt 5 ] || fail "only $kernels texts for a later device"

echo '{"deviceName":"none"}' >none.json
refused 4 'lacks deviceVer' --device-description none.json
refused 7 'absent.json' --device-description absent.json
refused 2 'only described' --device-description h100.json --device cpu
refused 2 'only described' --device-description h100.json --precision auto
refused 2 'training only' --device-description h100.json --batch-size auto
"$program" train lenet.onnx --data mnist --device-description h100.json >out 2>&1
[ $? = 2 ] || fail 'a training takes a description'
echo "a plan for a described device: ok ($first kernels, $again with a second device)"
