/* decoder.c - the text of a token: the decoder of tokenizer.json as a list of steps that each token goes through.
 *
 * Contract  A token has one text wherever it stands.  What tokenizer.json does to a whole text is what it does to its beginning:
 *           a blank that the text does not begin with (see ot_tokenizer_piece). */
#include <stdlib.h>
#include <string.h>

#include "runtime/text/internal.h"

enum { MOST_STEPS = 12, DEEPEST = 4 };

typedef enum step_kind { FROM_CHARACTERS, FROM_HEX, EXCHANGE, STRIP } step_kind;

typedef struct step {
    step_kind kind;
    ot_normalizer *exchange; /* of EXCHANGE: it replaces */
    const char *text;        /* of STRIP, and how often in front and behind */
    size_t n;
    json_int_t front, behind;
} step;

struct ot_decoder {
    ot_arena *a;
    const char *name;
    step step[MOST_STEPS];
    int n;
    bool fused; /* what follows is done to the whole text */
    bool apart, tidy, bare;
    const char *prefix;
    ot_buffer text[2];
    int at; /* of them, the one that was written last */
    char byte[256];
};

/* ---- reading ----------------------------------------------------------------------------------------- */

static ot_status add(ot_decoder *d, step s, ot_error *err)
{
    if (d->n == MOST_STEPS)
        return ot_fail(err, OT_E_DATA, "%s: its decoder has more than %d steps", d->name, MOST_STEPS);
    d->step[d->n++] = s;
    return OT_OK;
}

static ot_status add_replace(ot_decoder *d, const json_t *v, ot_error *err)
{
    const char *text = ot_config_text(json_object_get(v, "pattern"), "String");
    step s = { .kind = EXCHANGE };
    if (d->fused && (!text || !*text || ot_character(text, strlen(text)) != strlen(text)))
        return ot_text_unsupported(d->name, "part of its decoder:", "Replace of more than one character after Fuse",
                                   err);
    ot_status status = ot_normalizer_new(v, d->name, d->a, &s.exchange, err);
    if (!status) status = add(d, s, err);
    if (status) ot_normalizer_free(s.exchange);
    return status;
}

static ot_status add_exchange(ot_decoder *d, const char *from, const char *to, ot_error *err)
{
    json_t *v = json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", from, "content", to);
    if (!v) return ot_fail(err, OT_E_NOMEM, "%s: no memory for the tokenizer", d->name);
    ot_status s = add_replace(d, v, err);
    json_decref(v);
    return s;
}

static ot_status read_strip(ot_decoder *d, const json_t *v, ot_error *err)
{
    const char *text = ot_config_text(v, "content");
    step s = { .kind = STRIP,
               .text = text ? ot_arena_strdup(d->a, text) : NULL,
               .n = text ? strlen(text) : 0,
               .front = json_integer_value(json_object_get(v, "start")),
               .behind = json_integer_value(json_object_get(v, "stop")) };
    if (!s.n || s.front < 0 || s.behind < 0)
        return ot_fail(err, OT_E_DATA, "%s: a decoder Strip has no content, start or stop", d->name);
    if (!s.text) return ot_fail(err, OT_E_NOMEM, "%s: no memory for the tokenizer", d->name);
    if (!d->fused) return add(d, s, err);
    if (strcmp(text, " ") || s.front > 1 || s.behind)
        return ot_text_unsupported(d->name, "part of its decoder:", "Strip of more than one blank in front", err);
    d->bare = s.front;
    return OT_OK;
}

static ot_status read_metaspace(ot_decoder *d, const json_t *v, ot_error *err)
{
    const char *mark = ot_config_text(v, "replacement"), *how = ot_config_text(v, "prepend_scheme");
    d->bare = how ? strcmp(how, "never") != 0 : ot_config_flag(v, "add_prefix_space", true);
    return add_exchange(d, mark && *mark ? mark : "\xE2\x96\x81", " ", err);
}

static ot_status read_word_pieces(ot_decoder *d, const json_t *v, ot_error *err)
{
    const char *prefix = ot_config_text(v, "prefix");
    d->apart = true;
    d->tidy = ot_config_flag(v, "cleanup", true);
    d->prefix = ot_arena_strdup(d->a, prefix ? prefix : "##");
    return d->prefix ? OT_OK : ot_fail(err, OT_E_NOMEM, "%s: no memory for the tokenizer", d->name);
}

static ot_status read(ot_decoder *d, const json_t *v, int depth, ot_error *err)
{
    const char *type = ot_config_text(v, "type"), *suffix = ot_config_text(v, "suffix");
    if (!type) return ot_text_unsupported(d->name, "decoder", type, err);
    if (!strcmp(type, "Sequence") && depth < DEEPEST) {
        const json_t *list = json_object_get(v, "decoders");
        for (size_t i = 0; i < json_array_size(list); i++) OT_TRY(read(d, json_array_get(list, i), depth + 1, err));
        return OT_OK;
    }
    if (!strcmp(type, "Replace")) return add_replace(d, v, err);
    if (!strcmp(type, "Strip")) return read_strip(d, v, err);
    if (!strcmp(type, "Metaspace")) return read_metaspace(d, v, err);
    if (!strcmp(type, "WordPiece") && !d->fused) return read_word_pieces(d, v, err);
    if (!strcmp(type, "BPEDecoder")) return add_exchange(d, suffix && *suffix ? suffix : "</w>", " ", err);
    if (!strcmp(type, "ByteLevel")) return add(d, (step){ .kind = FROM_CHARACTERS }, err);
    if (!strcmp(type, "ByteFallback")) return add(d, (step){ .kind = FROM_HEX }, err);
    if (strcmp(type, "Fuse")) return ot_text_unsupported(d->name, "decoder", type, err);
    d->fused = true;
    return OT_OK;
}

ot_status ot_decoder_new(const json_t *v, const char *suffix, bool bytes, const char *name, ot_arena *a,
                         ot_decoder **out, ot_error *err)
{
    ot_decoder *d = ot_arena_struct(a, sizeof *d);
    if (!d) return ot_fail(err, OT_E_NOMEM, "%s: no memory for the tokenizer", name);
    *d = (ot_decoder){ .a = a, .name = name, .prefix = "" };
    *out = d;
    for (int i = 0; i < 256; i++) d->byte[i] = (char)i;
    if (v && !json_is_null(v)) OT_TRY(read(d, v, 0, err));
    else if (bytes) OT_TRY(add(d, (step){ .kind = FROM_CHARACTERS }, err));
    else if (!suffix) d->apart = true;
    return suffix ? add_exchange(d, suffix, " ", err) : OT_OK;
}

void ot_decoder_free(ot_decoder *d)
{
    if (!d) return;
    for (int i = 0; i < d->n; i++) ot_normalizer_free(d->step[i].exchange);
    free(d->text[0].p);
    free(d->text[1].p);
}

/* ---- running ------------------------------------------------------------------------------------------- */

/* GPT-2's characters for bytes: printable ones stand for themselves, the others for those from U+0100 on. */
static int byte_of(uint32_t c)
{
    if ((c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255)) return (int)c;
    if (c < 256 || c > 323) return -1;
    int k = (int)c - 256;
    return k < 33 ? k : k < 67 ? k - 33 + 127 : 173;
}

bool ot_bytes_of(const char *key, size_t n, char *to, size_t *size)
{
    uint32_t c;
    *size = 0;
    for (size_t i = 0; i < n; *size += 1) {
        int k = ot_utf8(key + i, n - i, &c), b = k ? byte_of(c) : -1;
        if (b < 0) return false;
        to[*size] = (char)b;
        i += (size_t)k;
    }
    return true;
}

static void strip(const step *s, const char **p, size_t *n)
{
    for (json_int_t i = 0; i < s->front && *n >= s->n && !memcmp(*p, s->text, s->n); i++) *p += s->n, *n -= s->n;
    for (json_int_t i = 0; i < s->behind && *n >= s->n && !memcmp(*p + *n - s->n, s->text, s->n); i++) *n -= s->n;
}

bool ot_decoder_run(ot_decoder *d, const char **p, size_t *n)
{
    for (int i = 0; i < d->n; i++) {
        const step *s = &d->step[i];
        size_t size = 0;
        int b = s->kind == FROM_HEX ? ot_sentencepiece_byte(*p, *n) : -1;
        if (s->kind == EXCHANGE && !ot_normalizer_run(s->exchange, p, n)) return false;
        if (s->kind == STRIP) strip(s, p, n);
        if (s->kind == FROM_CHARACTERS && *n) {
            ot_buffer *to = &d->text[d->at ^= 1];
            to->n = 0;
            if (!ot_buffer_add(to, *p, *n)) return false;
            if (ot_bytes_of(*p, *n, to->p, &size)) *p = to->p, *n = size;
        }
        if (b < 0) continue;
        *p = &d->byte[b];
        *n = 1;
    }
    return true;
}

/* What a tidy text has no blank in front of. */
static bool hangs_on(const char *p, size_t n)
{
    static const char *const what[] = { ".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re" };
    for (int i = 0; i < OT_LEN(what); i++)
        if (n >= strlen(what[i]) && !memcmp(p, what[i], strlen(what[i]))) return true;
    return false;
}

const char *ot_decoder_piece(const ot_decoder *d, const char *p, size_t *n, bool *blank)
{
    size_t k = strlen(d->prefix);
    *blank = d->bare && *n && *p == ' ';
    if (*blank) k = 1;
    else if (!d->apart || !k || *n < k || memcmp(p, d->prefix, k)) k = 0;
    if (d->apart && !*blank) *blank = !k && !(d->tidy && hangs_on(p, *n));
    *n -= k;
    return p + k;
}
