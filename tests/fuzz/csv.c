/* csv.c - a table, plain or packed; the column with the first name is also tried as target, and what is recorded of it is
 * recalled for the same file. */
#include <string.h>

#include "tests/fuzz/arrays.h"

const char *const fuzz_words[] = { "\n",
                                   "\r\n",
                                   ",",
                                   ";",
                                   "\t",
                                   "\"",
                                   "\"\"",
                                   "nan",
                                   "inf",
                                   "1e400",
                                   "0x10",
                                   "-0",
                                   "target",
                                   "\xef\xbb\xbf",
                                   "\xff\xfe",
                                   "x,y,target\n",
                                   "NA",
                                   "?",
                                   "null",
                                   "true",
                                   "false",
                                   "2024-02-29",
                                   "2024-02-29T12:30:00+01:00",
                                   "007",
                                   "red",
                                   "blue",
                                   NULL };

/* The record gives the inputs the values that they had without it. */
static void recall(const char *path)
{
    const ot_data_input in = { .name = "x", .dtype = OT_F32, .shape = { .rank = -1 } };
    ot_data_options o = { .input = &in, .n_inputs = 1 };
    ot_dataset *first = NULL, *again = NULL;
    ot_error e = { 0 }, e1 = { 0 };
    fuzz_status("ot_dataset_open", ot_dataset_open(path, OT_SPLIT_TRAIN, &o, &first, &e), &e);
    o.preprocess = first ? first->preprocess : NULL;
    if (o.preprocess) {
        ot_status s = ot_dataset_open(path, OT_SPLIT_TRAIN, &o, &again, &e1);
        FUZZ_HOLD(!s, "what was recorded is refused: %s", e1.text);
        FUZZ_HOLD(first->n == again->n, "%d arrays, then %d", first->n, again->n);
        for (int i = 0; i < first->n; i++) fuzz_same(&first->array[i].t, &again->array[i].t);
    }
    ot_dataset_free(again);
    ot_dataset_free(first);
}

void ot_fuzz(const uint8_t *p, size_t n)
{
    ot_error e = { 0 };
    bool packed = n > 1 && p[0] == 0x1f && p[1] == 0x8b;
    const char *path = fuzz_write(packed ? "x.csv.gz" : "x.csv", p, n);
    ot_dataset *d = fuzz_open(path, OT_SPLIT_TRAIN);
    char column[64];
    int k = 0;
    for (size_t i = 0; i < n && k < 63 && p[i] && !strchr(",\"\r\n", p[i]); i++) column[k++] = (char)p[i];
    column[k] = 0;
    if (d && k && !packed && p[0] != '"') fuzz_status("ot_dataset_target", ot_dataset_target(d, column, &e), &e);
    ot_dataset_free(d);
    if (!packed) recall(path);
}
