/* labelled.c - the input as a text for a language model (bytes, characters), as tokens of 16 bits, and as texts with labels (JSON lines,
 * CoNLL, CSV); what is recorded of a set gives the same one again. */
#include "tests/fuzz/arrays.h"

const char *const fuzz_words[] = { "{\"tokens\":[\"a\",\"b\"],\"tags\":[\"O\",1]}\n",
                                   "{\"text\":\"",
                                   "\",\"label\":\"",
                                   "\"}\n",
                                   "{\"label\":1,\"text\":\"\\u00e9\"}\n",
                                   "text,label\n",
                                   "\"\"",
                                   "\r\n",
                                   "null",
                                   "-DOCSTART-\n\n",
                                   "a\tB-X\n",
                                   "\n\nb c O\n",
                                   "\xC3\xA9",
                                   "\xEF\xBF\xBD",
                                   "\xF0\x9F\x98",
                                   NULL };

static void open_text(const char *path, ot_data_options o)
{
    static const ot_data_input in[] = { { "ids", OT_I64, { 2, { -1, -1 } }, 0, false, false },
                                        { "attention_mask", OT_I64, { 2, { -1, -1 } }, 0, false, false } };
    ot_dataset *d = NULL, *again = NULL;
    ot_error e = { 0 }, e1 = { 0 };
    o.input = in;
    o.n_inputs = 2;
    fuzz_status("ot_dataset_open", ot_dataset_open(path, OT_SPLIT_TRAIN, &o, &d, &e), &e);
    if (d && d->preprocess) {
        o.preprocess = d->preprocess;
        o.text = NULL;
        FUZZ_HOLD(!ot_dataset_open(path, OT_SPLIT_TRAIN, &o, &again, &e1), "what was recorded is refused: %s", e1.text);
        FUZZ_HOLD(again->hash == d->hash, "what was recorded gives another set");
    }
    ot_dataset_free(again);
    ot_dataset_free(d);
}

void ot_fuzz(const uint8_t *p, size_t n)
{
    open_text(fuzz_write("x.txt", p, n), (ot_data_options){ .length = 3 });
    open_text(fuzz_write("y.txt", p, n), (ot_data_options){ .length = 3, .text = "chars" });
    open_text(fuzz_write("x.bin", p, n), (ot_data_options){ .length = 3 });
    open_text(fuzz_write("x.jsonl", p, n), (ot_data_options){ .text = "chars" });
    open_text(fuzz_write("x.conll", p, n), (ot_data_options){ .text = "chars" });
    open_text(fuzz_write("x.csv", p, n), (ot_data_options){ .text = "bytes" });
}
