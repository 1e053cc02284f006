/* tokenizer.c - the input is a tokenizer.json, or where it begins with no brace a vocab.txt, with a line end a .model: texts of every kind are encoded
 * with it, and every token that comes out is there. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/text/text.h"

const char *const fuzz_words[] = { "\"model\":",
                                   "\"vocab\":",
                                   "\"merges\":",
                                   "\"added_tokens\":",
                                   "\"content\":",
                                   "\"normalizer\":",
                                   "\"type\":",
                                   "\"Sequence\"",
                                   "\"NFKC\"",
                                   "\"NFD\"",
                                   "\"Lowercase\"",
                                   "\"StripAccents\"",
                                   "\"BertNormalizer\"",
                                   "\"ByteLevel\"",
                                   "\"Split\"",
                                   "\"Regex\"",
                                   "\"lstrip\":true",
                                   "\"rstrip\":true",
                                   "\"single_word\":true",
                                   "\"id\":",
                                   "null",
                                   "true",
                                   "16777215",
                                   "2147483648",
                                   "-1",
                                   "##",
                                   "[UNK]",
                                   "\\u0120",
                                   "\"BPE\"",
                                   "\"WordPiece\"",
                                   NULL };

static const char *const texts[] = {
    "",
    " ",
    "The quick  brown fox's 1234567 jumps.\n\n over\tit  ",
    "\xc3\x84pfel \xe4\xb8\xad\xe6\x96\x87\xe2\x80\xa6 \xf0\x9f\x98\x80\xf0\x9f\x8f\xbd e\xcc\x81\xcc\xa3\xef\xac\x81 \xe2\x80\xa8",
    "[CLS]<s><|endoftext|>[MASK] x[SEP]</s>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "cut \xe4\xb8"
};

static void use(ot_tokenizer *t)
{
    int64_t size = ot_tokenizer_size(t), pad = ot_tokenizer_pad(t);
    int front, behind;
    const int32_t *around = ot_tokenizer_around(t, &front, &behind);
    FUZZ_HOLD(pad < size, "pad is %lld of %lld", (long long)pad, (long long)size);
    for (int i = 0; i < front + behind; i++) FUZZ_HOLD(around[i] >= 0 && around[i] < size, "around %d", around[i]);
    for (int i = 0; i < OT_LEN(texts); i++) {
        ot_ids ids = { 0 };
        ot_error e = { 0 };
        ot_status s = ot_tokenizer_encode(t, texts[i], strlen(texts[i]), i % 2, &ids, &e);
        FUZZ_HOLD(s == OT_OK || i == OT_LEN(texts) - 1, "%s", e.text);
        for (int64_t k = 0; k < ids.n; k++) {
            size_t n;
            bool special;
            const char *p = ot_tokenizer_token(t, ids.id[k], &n, &special);
            FUZZ_HOLD(p, "token %d of %lld", ids.id[k], (long long)size);
            for (size_t c = 0; c < n; c++) (void)*(const volatile char *)(p + c);
        }
        free(ids.id);
    }
}

void ot_fuzz(const uint8_t *p, size_t n)
{
    json_t *config = NULL;
    ot_tokenizer *t = NULL;
    ot_error e = { 0 }, made = { 0 };
    const char *path = fuzz_write(n && *p == '{'    ? "tokenizer.json"
                                  : n && *p == '\n' ? "tokenizer.model"
                                                    : "vocab.txt",
                                  p, n);
    if (!fuzz_status("ot_tokenizer_load", ot_tokenizer_load(path, &config, &e), &e) &&
        !fuzz_status("ot_tokenizer_new", ot_tokenizer_new(config, path, &t, &made), &made))
        use(t);
    json_decref(config);
    ot_tokenizer_free(t);
}
