# setup.sh - what the scripts of this folder share: a folder of their own, a model and data small enough for thousands of
# calls.  Sourced with the program's path in $1.

program=$1
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1

fail() {
    printf 'FAILED: %s\n' "$*"
    exit 1
}

awk 'BEGIN { print "a,b,c,d,y"; for (i = 0; i < 40; i++) printf "%d,%d,%d,%d,%g\n", i % 7, i % 3, i % 5, i * i % 11, i % 7 * 0.3 - i % 5 * 0.1 }' >data.csv
"$program" new mlp --input 1x2x2 --hidden 8 --classes 1 -o model.onnx -q || fail "no model"
