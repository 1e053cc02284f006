#!/bin/sh
# names.sh NM STUB OUT - a C file with a weak function, which fails, for every name that NVIDIA's stub of libcuda has.
"$1" -D --defined-only "$2" | awk '$2 == "T" && $3 ~ /^cu/ { printf "__attribute__((weak)) int %s(void) { return 100; }\n", $3 }' >"$3"
[ -s "$3" ]
