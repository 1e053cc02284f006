# common.sh - sourced first by the scripts here: a folder of their own to work in, and what failed.
# Leaves: program, root, work, bad (the count), fail TEXT, few_of_mnist FOLDER TRAINING TEST.

program=${1:?usage: $0 PROGRAM}
root=$(CDPATH= cd -- "$(dirname -- "$0")/../.." && pwd -P) || exit 1
work=$(mktemp -d) || exit 1
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work" || exit 1
OMP_WAIT_POLICY=passive
export OMP_WAIT_POLICY

bad=0
fail() {
    echo "FAILED: $1"
    tail -n 5 err 2>/dev/null
    bad=$((bad + 1))
}

# few_of_mnist FOLDER TRAINING TEST: so many of its first samples: most trainings here need no 10,000 samples to be evaluated at their end.
few_of_mnist() {
    mkdir -p "$1/mnist"
    for part in "train $2" "t10k $3"; do
        set -- "$1" $part
        count=$(printf '\\%o' $(($3 >> 24 & 255)) $(($3 >> 16 & 255)) $(($3 >> 8 & 255)) $(($3 & 255)))
        { printf "\\0\\0\\10\\3$count\\0\\0\\0\\34\\0\\0\\0\\34" && gzip -dc "$root/models/data/mnist/$2-images-idx3-ubyte.gz" | tail -c +17 | head -c $(($3 * 784)); } \
            >"$1/mnist/$2-images-idx3-ubyte"
        { printf "\\0\\0\\10\\1$count" && gzip -dc "$root/models/data/mnist/$2-labels-idx1-ubyte.gz" | tail -c +9 | head -c "$3"; } \
            >"$1/mnist/$2-labels-idx1-ubyte"
    done
}
