# common.sh - sourced first by the scripts here: a folder of their own to work in, and what failed.
# Leaves: program, root, work, bad (the count), fail TEXT.

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
