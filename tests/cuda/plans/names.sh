#!/bin/sh
# names.sh NM LIBCUDA OUT - writes a C file with a weak function that returns an error for every function that NVIDIA's libcuda exports.
"$1" -D --defined-only "$2" | awk '$2 == "T" && $3 ~ /^cu/ { printf "__attribute__((weak)) int %s(void) { return 100; }\n", $3 }' >"$3"
[ -s "$3" ]
