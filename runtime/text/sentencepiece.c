/* sentencepiece.c - SentencePiece: its .model files, its normalisation, and its unigram and BPE models.
 *
 * Spec      google/sentencepiece: sentencepiece_model.proto (numbers of fields), normalizer.cc, unigram_model.cc (best path),
 *           bpe_model.cc. The rules of normalisation are in the file itself (charsmap.c).
 * Numerics  Scores are f32 and are added in f32, so that ties and rounding are those of SentencePiece. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/text/internal.h"

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };
enum { UNIGRAM = 1, BPE = 2 };

static const char space_symbol[] = "\xE2\x96\x81"; /* U+2581 replaces a blank */

/* ---- base64: bytes in JSON --------------------------------------------------------------------- */

static const char digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static json_t *to_base64(const uint8_t *p, size_t n)
{
    char *s = malloc((n + 2) / 3 * 4 + 1), *at = s;
    for (size_t i = 0; s && i < n; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (uint32_t)(i + 1 < n ? p[i + 1] : 0) << 8 | (i + 2 < n ? p[i + 2] : 0);
        for (int k = 0; k < 4; k++) *at++ = i + (size_t)k > n ? '=' : digits64[v >> (18 - 6 * k) & 63];
    }
    json_t *j = s ? json_stringn(s, (size_t)(at - s)) : NULL;
    free(s);
    return j;
}

/* ---- the file: protobuf's wire format ------------------------------------------------------------- */

typedef struct field {
    uint32_t number, wire;
    uint64_t value;
    const uint8_t *p; /* of a message or text */
    size_t n;
} field;

static bool varint(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; shift < 64 && *p < end; shift += 7) {
        uint8_t b = *(*p)++;
        *v |= (uint64_t)(b & 127) << shift;
        if (b < 128) return true;
    }
    return false;
}

static uint64_t little(const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    while (n--) v = v << 8 | p[n];
    return v;
}

/* The next field of a message; false: it is malformed. */
static bool next_field(const uint8_t **p, const uint8_t *end, field *f)
{
    uint64_t key;
    if (!varint(p, end, &key) || key >> 3 == 0 || key >> 3 >= 1 << 29) return false;
    *f = (field){ .number = (uint32_t)(key >> 3), .wire = (uint32_t)(key & 7) };
    size_t left = (size_t)(end - *p), fixed = f->wire == 1 ? 8 : f->wire == 5 ? 4 : 0;
    if (f->wire == 0) return varint(p, end, &f->value);
    if (fixed && fixed <= left) {
        f->value = little(*p, fixed);
        *p += fixed;
        return true;
    }
    if (f->wire != 2 || !varint(p, end, &f->value) || f->value > (uint64_t)(end - *p)) return false;
    f->p = *p;
    f->n = (size_t)f->value;
    *p += f->n;
    return true;
}

/* The readers of messages say OT_E_DATA where one is malformed, and OT_E_NOMEM. */
static ot_status read_piece(const field *of, json_t *pieces)
{
    const uint8_t *p = of->p, *end = p + of->n;
    field f;
    json_int_t bits = 0, type = NORMAL;
    const char *text = "";
    size_t n = 0;
    ot_status s = OT_OK;
    while (p < end) {
        if (!next_field(&p, end, &f)) return OT_E_DATA;
        if (f.number == 1 && f.wire == 2) text = (const char *)f.p, n = f.n;
        if (f.number == 2 && f.wire == 5) bits = (json_int_t)f.value;
        if (f.number == 3 && f.wire == 0) type = (json_int_t)(f.value & 127);
    }
    json_t *list = json_array(), *piece = NULL;
    if (memchr(text, 0, n)) s = OT_E_DATA;
    if (!s) s = ot_json_utf8(text, n, &piece);
    if (!s) ot_json_add(&list, piece);
    ot_json_add(&list, json_integer(bits));
    ot_json_add(&list, json_integer(type));
    if (!s) return list && !json_array_append_new(pieces, list) ? OT_OK : OT_E_NOMEM;
    json_decref(list);
    return s;
}

/* Numbers and booleans of a message that are named. */
static ot_status read_numbers(const field *of, json_t *o, int n, const uint32_t *number, const char *const *name)
{
    const uint8_t *p = of->p, *end = p + of->n;
    field f;
    while (p < end) {
        if (!next_field(&p, end, &f)) return OT_E_DATA;
        for (int i = 0; i < n; i++)
            if (f.number == number[i] && f.wire == 0 && json_object_set_new(o, name[i], json_integer((int32_t)f.value)))
                return OT_E_NOMEM;
    }
    return OT_OK;
}

static ot_status read_normalizer(const field *of, json_t *o)
{
    static const uint32_t number[] = { 3, 4, 5 };
    static const char *const name[] = { "add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces" };
    const uint8_t *p = of->p, *end = p + of->n;
    field f;
    while (p < end) {
        if (!next_field(&p, end, &f)) return OT_E_DATA;
        if (f.number == 2 && f.wire == 2 && f.n && json_object_set_new(o, "charsmap", to_base64(f.p, f.n)))
            return OT_E_NOMEM;
    }
    return read_numbers(of, o, OT_LEN(number), number, name);
}

static ot_status read_model(const uint8_t *p, size_t n, json_t *model, json_t *pieces)
{
    static const uint32_t number[] = { 3, 24, 35, 40 };
    static const char *const name[] = { "algorithm", "treat_whitespace_as_suffix", "byte_fallback", "unk_id" };
    const uint8_t *end = p + n;
    ot_status s = OT_OK;
    field f;
    while (p < end) {
        if (!next_field(&p, end, &f)) return OT_E_DATA;
        if (f.wire != 2) continue;
        if (f.number == 1) s = read_piece(&f, pieces);
        if (f.number == 2) s = read_numbers(&f, model, OT_LEN(number), number, name);
        if (f.number == 3) s = read_normalizer(&f, model);
        if (s) return s;
    }
    return OT_OK;
}

ot_status ot_sentencepiece_load(const char *path, const void *bytes, size_t n, json_t **out, ot_error *err)
{
    json_t *model = json_object(), *pieces = json_array();
    ot_status s = model && pieces ? read_model(bytes, n, model, pieces) : OT_E_NOMEM;
    if (!s && !json_array_size(pieces)) s = OT_E_DATA;
    if (!s) {
        ot_json_set(&model, "type", json_string("SentencePiece"));
        ot_json_set(&model, "pieces", json_incref(pieces));
        *out = json_object();
        ot_json_set(out, "model", json_incref(model));
    }
    json_decref(model);
    json_decref(pieces);
    if (!s && *out) return OT_OK;
    if (s != OT_E_DATA) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    return ot_fail(err, s, "%s: is not a model of SentencePiece: its bytes are not a message with pieces", path);
}

/* ---- a model from JSON --------------------------------------------------------------------------------- */

typedef struct piece {
    const char *p;
    uint32_t n;
    float score;
    int type;
} piece;

typedef struct symbol {
    int64_t at, n; /* bytes of the text; n 0: it is part of another */
    int64_t before, next;
    bool frozen;
} symbol;

typedef struct pair {
    int64_t left, right, n;
    float score;
} pair;

struct ot_sentencepiece {
    piece *piece;
    int32_t n, unknown, byte[256];
    ot_pieces sorted;                                             /* normal, user-defined and unused pieces */
    ot_unigram unigram;                                           /* of them */
    ot_string_table reserved;                                     /* the others */
    bool bpe, fallback, prefix, squeeze, escape, suffix, defined; /* defined: some piece is USER_DEFINED */
    float least, most;
    ot_charsmap map;
    ot_buffer text;
    symbol *symbol;
    pair *heap;
    size_t room, heap_room, n_heap;
};

void ot_sentencepiece_free(ot_sentencepiece *s)
{
    if (!s) return;
    free(s->reserved.slot);
    free(s->text.p);
    free(s->unigram.best);
    free(s->symbol);
    free(s->heap);
}

static int32_t number(const json_t *m, const char *key, int32_t dflt)
{
    const json_t *v = json_object_get(m, key);
    return json_is_integer(v) ? (int32_t)json_integer_value(v) : dflt;
}

static bool in_trie(const piece *q) { return q->type == NORMAL || q->type == USER_DEFINED || q->type == UNUSED; }

static ot_status no_memory(const char *name, ot_error *err)
{
    return ot_fail(err, OT_E_NOMEM, "%s: no memory for the tokenizer", name);
}

static ot_status read_pieces(ot_sentencepiece *s, const json_t *list, const char *name, ot_arena *a, ot_error *err)
{
    size_t n = json_array_size(list);
    bool any = false;
    if (!n || n > 1 << 24) return ot_fail(err, OT_E_DATA, "%s: its model has no pieces", name);
    s->piece = ot_arena_struct(a, n * sizeof *s->piece);
    if (!s->piece) return no_memory(name, err);
    s->n = (int32_t)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i), *text = json_array_get(v, 0);
        uint32_t bits = (uint32_t)json_integer_value(json_array_get(v, 1));
        piece *q = &s->piece[i];
        *q = (piece){ .type = (int)json_integer_value(json_array_get(v, 2)), .n = (uint32_t)json_string_length(text) };
        memcpy(&q->score, &bits, sizeof bits);
        if (!json_is_string(text) || !q->n || q->type < NORMAL || q->type > BYTE || q->score - q->score != 0)
            return ot_fail(err, OT_E_DATA, "%s: piece %zu is malformed", name, i);
        if (!(q->p = ot_arena_strdup(a, json_string_value(text)))) return no_memory(name, err);
        if (q->type == UNKNOWN) s->unknown = (int32_t)i;
        s->defined |= q->type == USER_DEFINED;
        if (q->type != NORMAL) continue;
        if (!any || q->score < s->least) s->least = q->score;
        if (q->score > s->most) s->most = q->score; /* not below 0, as SentencePiece has it */
        any = true;
    }
    return OT_OK;
}

static int hex(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

int ot_sentencepiece_byte(const char *p, size_t n)
{
    bool is = n == 6 && !memcmp(p, "<0x", 3) && p[5] == '>' && hex(p[3]) >= 0 && hex(p[4]) >= 0;
    return is ? hex(p[3]) * 16 + hex(p[4]) : -1;
}

static ot_status sort_pieces(ot_sentencepiece *s, const char *name, ot_arena *a, ot_error *err)
{
    ot_text_piece *list = s->sorted.list = ot_arena_struct(a, (size_t)s->n * sizeof *list);
    bool good = list != NULL;
    memset(s->byte, -1, sizeof s->byte);
    for (int32_t i = 0; good && i < s->n; i++) {
        const piece *q = &s->piece[i];
        int b = q->type == BYTE ? ot_sentencepiece_byte(q->p, q->n) : -1;
        if (b >= 0) s->byte[b] = i;
        if (in_trie(q)) list[s->sorted.n++] = (ot_text_piece){ q->p, q->n, i };
        else good = ot_string_table_put(&s->reserved, q->p, q->n, i);
    }
    if (!good) return no_memory(name, err);
    qsort(list, (size_t)s->sorted.n, sizeof *list, ot_piece_order);
    for (int32_t i = 1; i < s->sorted.n; i++)
        if (!ot_piece_order(&list[i - 1], &list[i]))
            return ot_fail(err, OT_E_DATA, "%s: piece '%.60s' is there twice", name, list[i].p);
    for (int b = 0; b < 256 && s->fallback; b++)
        if (s->byte[b] < 0)
            return ot_fail(err, OT_E_DATA, "%s: has byte_fallback, but no piece <0x%02X>", name, (unsigned)b);
    return OT_OK;
}

/* User-defined pieces are better than any way over others. */
static ot_status set_scores(ot_sentencepiece *s, const char *name, ot_arena *a, ot_error *err)
{
    double *score = ot_arena_alloc(a, (size_t)s->n * sizeof *score);
    if (!score) return no_memory(name, err);
    for (int32_t i = 0; i < s->n; i++) {
        const piece *q = &s->piece[i];
        score[i] = q->type == UNUSED         ? (double)-INFINITY
                   : q->type == USER_DEFINED ? (double)((float)q->n * s->most) - 0.1
                                             : (double)q->score;
    }
    s->unigram = (ot_unigram){ .pieces = s->sorted,
                               .score = score,
                               .unknown = s->unknown,
                               .unknown_score = (double)(s->least - 10),
                               .single = true };
    return OT_OK;
}

ot_status ot_sentencepiece_new(const json_t *m, const char *name, ot_arena *a, ot_sentencepiece **out, ot_error *err)
{
    ot_sentencepiece *s = ot_arena_struct(a, sizeof *s);
    int32_t algorithm = number(m, "algorithm", UNIGRAM);
    if (!s) return no_memory(name, err);
    *s = (ot_sentencepiece){ .bpe = algorithm == BPE,
                             .fallback = number(m, "byte_fallback", 0),
                             .prefix = number(m, "add_dummy_prefix", 1),
                             .squeeze = number(m, "remove_extra_whitespaces", 1),
                             .escape = number(m, "escape_whitespaces", 1),
                             .suffix = number(m, "treat_whitespace_as_suffix", 0) };
    *out = s;
    if (algorithm != UNIGRAM && algorithm != BPE)
        return ot_fail(err, OT_E_DATA, "%s: unsupported kind of SentencePiece: %s; supported: unigram, bpe", name,
                       algorithm == 3 ? "word" : "char");
    s->unknown = -1;
    OT_TRY(read_pieces(s, json_object_get(m, "pieces"), name, a, err));
    if (s->unknown < 0) return ot_fail(err, OT_E_DATA, "%s: has no piece for unknown characters", name);
    OT_TRY(sort_pieces(s, name, a, err));
    for (int32_t i = 0; s->bpe && i < s->n; i++)
        if (s->piece[i].type == UNUSED)
            return ot_fail(err, OT_E_DATA, "%s: unsupported: piece '%.60s' of BPE is unused", name, s->piece[i].p);
    OT_TRY(set_scores(s, name, a, err));
    const char *map = ot_config_text(m, "charsmap");
    return map && *map ? ot_charsmap_read(map, name, a, &s->map, err) : OT_OK;
}

int32_t ot_sentencepiece_size(const ot_sentencepiece *s) { return s->n; }

const char *ot_sentencepiece_piece(const ot_sentencepiece *s, int32_t i, size_t *n, bool *special)
{
    *n = s->piece[i].n;
    *special = s->piece[i].type == UNKNOWN || s->piece[i].type == CONTROL;
    return s->piece[i].p;
}

/* ---- normalisation --------------------------------------------------------------------------------------- */

/* Bytes of the longest user-defined piece at p; 0: none. */
static size_t user_defined(const ot_sentencepiece *s, const char *p, const char *end)
{
    size_t best = 0;
    ot_piece_range r = { 0, s->sorted.n };
    for (size_t n = 0; s->defined && p + n < end && r.low < r.high;) {
        r = ot_pieces_narrow(&s->sorted, r, (uint32_t)n, (unsigned char)p[n]);
        n++;
        int32_t id = ot_pieces_exact(&s->sorted, r, n);
        if (id >= 0 && s->piece[id].type == USER_DEFINED) best = n;
    }
    return best;
}

/* What the text at p becomes, and how many bytes of it that is. */
static size_t normal_prefix(const ot_sentencepiece *s, const char *p, const char *end, const char **to, size_t *n)
{
    uint32_t c;
    size_t k = user_defined(s, p, end);
    *to = p;
    if (!k && (k = ot_charsmap_find(&s->map, p, end, true, to))) {
        *n = strlen(*to);
        return k;
    }
    if (!k) k = (size_t)ot_utf8(p, (size_t)(end - p), &c);
    *n = k;
    if (k) return k;
    *to = "\xEF\xBF\xBD"; /* behind a rule for a part of a character */
    *n = 3;
    return 1;
}

static bool add_blank(ot_sentencepiece *s)
{
    return s->escape ? ot_buffer_add(&s->text, space_symbol, 3) : ot_buffer_add(&s->text, " ", 1);
}

static bool add_normal(ot_sentencepiece *s, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(p[i] == ' ' ? add_blank(s) : ot_buffer_add(&s->text, p + i, 1))) return false;
    return true;
}

static bool normalize(ot_sentencepiece *s, const char *p, const char *end)
{
    const char *to, *blank = s->escape ? space_symbol : " ";
    size_t n, k, size = strlen(blank);
    bool after_blank = s->squeeze;
    s->text.n = 0;
    while (s->squeeze && p < end) {
        k = normal_prefix(s, p, end, &to, &n);
        if (n != 1 || *to != ' ') break;
        p += k;
    }
    if (p == end) return true;
    if (s->prefix && !s->suffix && !add_blank(s)) return false;
    for (; p < end; p += k) {
        k = normal_prefix(s, p, end, &to, &n);
        while (after_blank && n && *to == ' ') to++, n--;
        if (!add_normal(s, to, n)) return false;
        if (n) after_blank = s->squeeze && to[n - 1] == ' ';
    }
    while (s->squeeze && s->text.n >= size && !memcmp(s->text.p + s->text.n - size, blank, size)) s->text.n -= size;
    return !s->prefix || !s->suffix || add_blank(s);
}

/* ---- pieces ------------------------------------------------------------------------------------------------- */

static bool reserve(void **p, size_t *room, size_t n, size_t size)
{
    if (n <= *room) return true;
    void *wide = realloc(*p, 2 * n * size);
    if (!wide) return false;
    *p = wide;
    *room = 2 * n;
    return true;
}

/* An id of a piece, or the bytes of an unknown one. */
static bool put_piece(const ot_sentencepiece *s, int32_t id, const char *p, size_t n, bool *unknown, ot_ids *out)
{
    bool is = id == s->unknown, good = true;
    if (is && s->fallback)
        for (size_t i = 0; i < n && good; i++) good = ot_ids_add(out, s->byte[(unsigned char)p[i]]);
    else if (!is || !*unknown) good = ot_ids_add(out, id); /* a run of unknown ones is one */
    *unknown = is;
    return good;
}

typedef struct taking {
    const ot_sentencepiece *s;
    ot_ids *out;
    bool unknown;
} taking;

static bool take_piece(void *user, int32_t id, const char *p, size_t n)
{
    taking *t = user;
    return put_piece(t->s, id, p, n, &t->unknown, t->out);
}

static bool encode_unigram(ot_sentencepiece *s, ot_ids *out)
{
    return ot_unigram_run(&s->unigram, s->text.p, s->text.n, take_piece, &(taking){ s, out, false });
}

/* ---- BPE ----------------------------------------------------------------------------------------------------- */

static int32_t find_piece(const ot_sentencepiece *s, const char *p, size_t n)
{
    ot_piece_range r = { 0, s->sorted.n };
    for (size_t i = 0; i < n && r.low < r.high; i++)
        r = ot_pieces_narrow(&s->sorted, r, (uint32_t)i, (unsigned char)p[i]);
    return ot_pieces_exact(&s->sorted, r, n);
}

static bool before(const pair *a, const pair *b)
{
    return a->score > b->score || (a->score == b->score && a->left < b->left);
}

static bool push(ot_sentencepiece *s, pair v)
{
    void *heap = s->heap;
    bool good = reserve(&heap, &s->heap_room, s->n_heap + 1, sizeof v);
    s->heap = heap;
    if (!good) return false;
    size_t i = s->n_heap++;
    for (; i && before(&v, &s->heap[(i - 1) / 2]); i = (i - 1) / 2) s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = v;
    return true;
}

static pair pop(ot_sentencepiece *s)
{
    pair top = s->heap[0], v = s->heap[--s->n_heap];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < s->n_heap; i = k) {
        if (k + 1 < s->n_heap && before(&s->heap[k + 1], &s->heap[k])) k++;
        if (!before(&s->heap[k], &v)) break;
        s->heap[i] = s->heap[k];
    }
    s->heap[i] = v;
    return top;
}

static bool offer(ot_sentencepiece *s, int64_t left, int64_t right)
{
    if (left < 0 || right < 0 || s->symbol[left].frozen || s->symbol[right].frozen) return true;
    int64_t n = s->symbol[left].n + s->symbol[right].n;
    int32_t id = find_piece(s, s->text.p + s->symbol[left].at, (size_t)n);
    return id < 0 || push(s, (pair){ left, right, n, s->piece[id].score });
}

static int64_t cut(ot_sentencepiece *s)
{
    if (!s->text.n) return 0; /* text.p may be NULL */
    const char *end = s->text.p + s->text.n;
    int64_t n = 0;
    for (size_t at = 0, k; at < s->text.n; at += k, n++) {
        k = user_defined(s, s->text.p + at, end);
        bool frozen = k > 0;
        if (!k) k = ot_character(s->text.p + at, s->text.n - at);
        s->symbol[n] = (symbol){ (int64_t)at, (int64_t)k, n - 1, n + 1, frozen };
    }
    if (n) s->symbol[n - 1].next = -1;
    return n;
}

static bool merge(ot_sentencepiece *s)
{
    while (s->n_heap) {
        pair top = pop(s);
        symbol *a = &s->symbol[top.left], *b = &s->symbol[top.right];
        if (!a->n || !b->n || a->n + b->n != top.n) continue;
        a->n = top.n;
        a->next = b->next;
        if (b->next >= 0) s->symbol[b->next].before = top.left;
        b->n = 0;
        if (!offer(s, a->before, top.left) || !offer(s, top.left, a->next)) return false;
    }
    return true;
}

static bool encode_bpe(ot_sentencepiece *s, ot_ids *out)
{
    void *list = s->symbol;
    bool unknown = false, good = reserve(&list, &s->room, s->text.n + 1, sizeof *s->symbol);
    s->symbol = list;
    if (!good) return false;
    int64_t n = cut(s);
    s->n_heap = 0;
    for (int64_t i = 1; i < n; i++)
        if (!offer(s, i - 1, i)) return false;
    if (!merge(s)) return false;
    for (int64_t i = n ? 0 : -1; i >= 0; i = s->symbol[i].next) {
        const char *p = s->text.p + s->symbol[i].at;
        int32_t id = ot_string_table_get(&s->reserved, p, (size_t)s->symbol[i].n);
        if (id < 0) id = find_piece(s, p, (size_t)s->symbol[i].n);
        if (!put_piece(s, id < 0 ? s->unknown : id, p, (size_t)s->symbol[i].n, &unknown, out)) return false;
    }
    return true;
}

bool ot_sentencepiece_encode(ot_sentencepiece *s, const char *p, size_t n, ot_ids *out)
{
    if (!normalize(s, p, p + n)) return false;
    return s->bpe ? encode_bpe(s, out) : encode_unigram(s, out);
}
