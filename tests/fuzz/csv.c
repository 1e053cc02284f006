/* csv.c - a table, plain or in gzip; the column with the first name is also tried as target. */
#include <string.h>

#include "tests/fuzz/arrays.h"

const char *const fuzz_words[] = { "\n",       "\r\n",         ",",     ";",    "\t", "\"",     "\"\"",
                                   "nan",      "inf",          "1e400", "0x10", "-0", "target", "\xef\xbb\xbf",
                                   "\xff\xfe", "x,y,target\n", NULL };

void ot_fuzz(const uint8_t *p, size_t n)
{
    ot_error e = { 0 };
    bool packed = n > 1 && p[0] == 0x1f && p[1] == 0x8b;
    ot_dataset *d = fuzz_open(fuzz_write(packed ? "x.csv.gz" : "x.csv", p, n), OT_SPLIT_TRAIN);
    char column[64];
    int k = 0;
    for (size_t i = 0; i < n && k < 63 && p[i] && !strchr(",\"\r\n", p[i]); i++) column[k++] = (char)p[i];
    column[k] = 0;
    if (d && k && !packed && p[0] != '"') fuzz_status("ot_dataset_target", ot_dataset_target(d, column, &e), &e);
    ot_dataset_free(d);
}
