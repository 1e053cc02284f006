/* generate.c - text from a language model, token by token: predict --prompt.
 *
 * One plan for one window of tokens runs for every token.  Where the text is longer than the window, the window has its end;
 * where it is shorter, what is behind the text is not seen by a model that predicts the next token from those before.
 *
 * Numerics  Probabilities in f64; draw i is number i of the counter-based generator, so that it follows from seed and scores. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/base/random.h"
#include "runtime/text/text.h"
#include "runtime/train/run/trainer.h"

enum { POINTS = 0x110000, BYTES = 256, USUAL_LENGTH = 1024 };

typedef enum token_unit { UNIT_BYTES, UNIT_CHARACTERS, UNIT_TOKENS } token_unit;

typedef struct candidate {
    double score;
    int32_t id;
} candidate;

typedef struct job {
    const ot_model *m;
    const ot_options *o;
    ot_arena *a;
    void (*write)(void *user, const char *text, size_t n);
    void *user;

    /* what tokens are */
    token_unit unit;
    ot_tokenizer *k;
    int32_t *number; /* of each code point, -1: none */
    uint32_t *point; /* of each token */
    int64_t kinds, length;

    /* the text */
    ot_ids text;
    char pending[4]; /* bytes of a character that is not complete */
    size_t n_pending;

    /* the model */
    ot_session x;
    ot_dataset *window;
    int64_t *token, size;
    ot_feeders fs;
    int slot, output;
    int64_t scores; /* for each token */
    ot_tail_kind tail;
    void *bytes; /* of the output */
    candidate *list;
} job;

static ot_status no_memory(ot_error *err) { return ot_fail(err, OT_E_NOMEM, "no memory to generate text"); }

/* ---- what tokens are ------------------------------------------------------------------------- */

static ot_status set_characters(job *j, const json_t *list, ot_error *err)
{
    j->number = ot_arena_alloc(j->a, POINTS * sizeof *j->number);
    j->point = ot_arena_alloc(j->a, (json_array_size(list) + 1) * sizeof *j->point);
    if (!j->number || !j->point) return no_memory(err);
    memset(j->number, -1, POINTS * sizeof *j->number);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t c = json_integer_value(v);
        if (!json_is_integer(v) || c < 0 || c >= POINTS || j->number[c] >= 0)
            return ot_fail(err, OT_E_MODEL, "onnxtrain.preprocess of the model: 'vocabulary' is invalid");
        j->point[i] = (uint32_t)c;
        j->number[c] = (int32_t)i;
    }
    j->kinds = (int64_t)json_array_size(list);
    return OT_OK;
}

static ot_status set_tokenizer(job *j, const char *path, const json_t *recorded, ot_error *err)
{
    json_t *config = json_incref((json_t *)(uintptr_t)recorded);
    if (path) OT_TRY(ot_tokenizer_load(path, &config, err));
    ot_status s = ot_tokenizer_new(config, path ? path : "the model's tokenizer", &j->k, err);
    json_decref(config);
    j->kinds = s ? 0 : ot_tokenizer_size(j->k);
    return s;
}

static ot_status set_unit(job *j, const json_t *root, ot_error *err)
{
    const char *text = ot_options_get(j->o, "text"), *path = ot_options_get(j->o, "tokenizer");
    const char *unit = json_string_value(json_object_get(root, "unit"));
    const json_t *length = json_object_get(root, "length"), *vocabulary = json_object_get(root, "vocabulary");
    json_int_t n = json_integer_value(length);
    j->length = n > 0 && n <= INT32_MAX / 8 ? n : USUAL_LENGTH;
    if (text && path) return ot_fail(err, OT_E_USAGE, "--text and --tokenizer: use one of them");
    bool chars = text ? !strcmp(text, "chars") : unit && !strcmp(unit, "characters");
    if (path || (!text && unit && !strcmp(unit, "tokens"))) {
        j->unit = UNIT_TOKENS;
        return set_tokenizer(j, path, json_object_get(root, "tokenizer"), err);
    }
    if (!text && !unit && json_object_get(root, "inputs"))
        return ot_fail(
            err, OT_E_USAGE,
            "--prompt: the model was trained on a table, not to continue a text: 'onnxtrain predict MODEL FILE' "
            "takes a table, or a .txt with a text in each line");
    if (!text && !unit)
        return ot_fail(err, OT_E_USAGE,
                       "--prompt: the model does not record what its tokens are; use --tokenizer FILE or --text bytes");
    j->unit = chars ? UNIT_CHARACTERS : UNIT_BYTES;
    j->kinds = BYTES;
    if (chars && !json_is_array(vocabulary))
        return ot_fail(err, OT_E_USAGE, "--text chars: the model does not record which characters it knows");
    return chars ? set_characters(j, vocabulary, err) : OT_OK;
}

static ot_status read_record(job *j, ot_error *err)
{
    const char *text = ot_import_metadata(j->m->file, OT_PREPROCESS_KEY);
    json_t *root = NULL;
    if (text && ot_json_parse(text, strlen(text), &root)) return no_memory(err);
    ot_status s = set_unit(j, root, err);
    json_decref(root);
    return s;
}

/* ---- text to tokens, and back ------------------------------------------------------------------- */

static ot_status add(job *j, int32_t id, ot_error *err)
{
    ot_ids *t = &j->text;
    if (t->n == t->room) {
        int64_t room = 2 * t->room + 256;
        int32_t *wide = realloc(t->id, (size_t)room * sizeof *wide);
        if (!wide) return no_memory(err);
        t->id = wide;
        t->room = room;
    }
    t->id[t->n++] = id;
    return OT_OK;
}

static ot_status encode(job *j, const char *text, ot_error *err)
{
    size_t n = strlen(text), k = 1;
    uint32_t c;
    ot_error why = { 0 };
    if (j->k && ot_tokenizer_encode(j->k, text, n, false, &j->text, &why))
        return ot_fail(err, why.status == OT_E_DATA ? OT_E_USAGE : why.status, "--prompt: %s", why.text);
    for (size_t i = 0; i < n && !j->k; i += k) {
        if (j->number && !(k = (size_t)ot_utf8(text + i, n - i, &c)))
            return ot_fail(err, OT_E_USAGE, "--prompt: byte %zu is not UTF-8", i);
        if (j->number && j->number[c] < 0)
            return ot_fail(err, OT_E_DATA,
                           "--prompt: '%.*s' (U+%04X) is not among the %lld characters of the model's training text",
                           (int)k, text + i, c, (long long)j->kinds);
        OT_TRY(add(j, j->number ? j->number[c] : (unsigned char)text[i], err));
    }
    return j->text.n ? OT_OK : ot_fail(err, OT_E_USAGE, "--prompt: expected a text of at least one token");
}

/* Length of a UTF-8 character that begins with c; 0: c is not a first byte. */
static size_t takes(unsigned char c)
{
    return c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
}

/* Passes complete characters to the caller; invalid bytes become the replacement character.  last: no more bytes follow. */
static void flush(job *j, bool last)
{
    while (j->n_pending) {
        uint32_t c;
        int k = ot_utf8(j->pending, j->n_pending, &c);
        if (!k && !last && takes((unsigned char)*j->pending) > j->n_pending) return;
        if (k) j->write(j->user, j->pending, (size_t)k);
        else j->write(j->user, "\xEF\xBF\xBD", 3), k = 1;
        j->n_pending -= (size_t)k;
        memmove(j->pending, j->pending + k, j->n_pending);
    }
}

static void put(job *j, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        j->pending[j->n_pending++] = p[i];
        flush(j, false);
    }
}

static void put_token(job *j, int32_t id)
{
    size_t n = 1;
    bool blank = false, special = false;
    if (j->unit == UNIT_BYTES) {
        put(j, (char[]){ (char)id }, 1);
    } else if (j->unit == UNIT_CHARACTERS) {
        char s[4];
        put(j, s, (size_t)ot_utf8_put(j->point[id], s));
    } else {
        const char *p = ot_tokenizer_piece(j->k, id, &n, &blank, &special);
        if (p && blank) put(j, " ", 1);
        if (p) put(j, p, n);
    }
}

/* Whether a text ends with this token. */
static bool is_end(const job *j, int32_t id)
{
    static const char *const names[] = { "<|endoftext|>", "</s>", "<|end_of_text|>", "<|eot_id|>", "<|im_end|>",
                                         "[SEP]",         "<eos>" };
    size_t n;
    bool special;
    const char *p = j->k ? ot_tokenizer_token(j->k, id, &n, &special) : NULL;
    for (int i = 0; p && special && i < OT_LEN(names); i++)
        if (strlen(names[i]) == n && !memcmp(names[i], p, n)) return true;
    return false;
}

/* ---- the model ------------------------------------------------------------------------------------ */

static ot_status find_output(job *j, ot_error *err)
{
    const ot_graph *g = j->x.slot[j->slot].plan->graph;
    for (int i = 0; i < g->n_outputs; i++) {
        const ot_value *v = g->outputs[i];
        int64_t last = v->left_out || v->shape.rank < 2 ? 0 : v->shape.dim[v->shape.rank - 1];
        if (last < 1 || !ot_is_float(v->dtype) || ot_numel(&v->shape) != last * j->size) continue;
        j->output = i;
        j->scores = last;
        j->tail = j->x.slot[j->slot].plan->tails[i];
        j->bytes = ot_arena_alloc(j->a, ot_bytes(&v->shape, v->dtype) + 1);
        j->list = ot_arena_alloc(j->a, (size_t)last * sizeof *j->list);
        return j->bytes && j->list ? OT_OK : no_memory(err);
    }
    return ot_fail(err, OT_E_MODEL,
                   "--prompt: no output of the model has scores for each token: expected a shape of "
                   "[samples,length,tokens], such as [1,%lld,%lld]",
                   (long long)j->size, (long long)j->kinds);
}

static ot_status open_model(job *j, const ot_settings *s, ot_error *err)
{
    ot_normalize z;
    ot_data_options o = { .length = s->length };
    int64_t most = j->text.n + ot_options_int(j->o, "tokens");
    ot_adapt_env e = { .graph = j->m->file->graph, .s = s, .normalize = &z, .a = j->a };
    OT_TRY(ot_normalize_parse(NULL, &z, err));
    OT_TRY(ot_adapt_wanted(j->m->file->graph, j->a, &o, err));
    OT_TRY(ot_dataset_window(&o, most < j->length ? most : j->length, &j->window, &j->token, &j->size, err));
    OT_TRY(ot_adapt_inputs(&e, j->window, &j->fs, err));
    j->x.sets_limit = 0; /* the tokens are others at every run */
    OT_TRY(ot_session_plan(&j->x, OT_WANT_RUN, &j->fs, 1, 1, &j->slot, err));
    OT_TRY(find_output(j, err));
    return ot_session_allocate(&j->x, err);
}

/* Computes the scores of the next token. */
static ot_status run(job *j, ot_error *err)
{
    int64_t index = 0, n = j->text.n < j->size ? j->text.n : j->size;
    const ot_slot *q = &j->x.slot[j->slot];
    const ot_value *v = q->plan->graph->outputs[j->output];
    ot_numbers ignored;
    memset(j->token, 0, (size_t)j->size * sizeof *j->token);
    for (int64_t i = 0; i < n; i++) j->token[i] = j->text.id[j->text.n - n + i];
    OT_TRY(ot_session_batch(&j->x, j->slot, &index, &ignored, err));
    OT_TRY(ot_exec_read(q->exec, v, j->bytes, err));
    for (int64_t i = 0; i < j->scores; i++) {
        double x = ot_get_f64(j->bytes, v->dtype, (n - 1) * j->scores + i);
        j->list[i] = (candidate){ j->tail == OT_TAIL_SOFTMAX ? log(x) : x, (int32_t)i };
        if (isnan(x))
            return ot_fail(err, OT_E_MODEL, "the model's scores are NaN after %lld tokens", (long long)j->text.n);
    }
    return OT_OK;
}

/* ---- drawing ----------------------------------------------------------------------------------------- */

static int by_score(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int32_t best(const candidate *c, int64_t n)
{
    int64_t at = 0;
    for (int64_t i = 1; i < n; i++)
        if (c[i].score > c[at].score) at = i;
    return c[at].id;
}

static double uniform(uint64_t seed, int64_t draw)
{
    uint32_t bits[4];
    ot_philox(seed, (uint64_t)draw, 0x74657874 /* "text" */, bits);
    return ((double)(bits[0] >> 5) * 67108864 + (double)(bits[1] >> 6)) / 9007199254740992.;
}

/* The token for draw number `draw` among list[0..n), which is changed. */
static int32_t choose(const job *j, int64_t n, int64_t draw)
{
    double heat = ot_options_num(j->o, "temperature"), p = ot_options_num(j->o, "top-p"), sum = 0, part = 0;
    const char *k = ot_options_get(j->o, "top-k");
    candidate *c = j->list;
    if (heat <= 0) return best(c, n);
    if (k || p < 1) qsort(c, (size_t)n, sizeof *c, by_score);
    if (k && ot_options_int(j->o, "top-k") < n) n = ot_options_int(j->o, "top-k");
    double most = -INFINITY;
    for (int64_t i = 0; i < n; i++) most = fmax(most, c[i].score);
    for (int64_t i = 0; i < n; i++) sum += c[i].score = exp((c[i].score - most) / heat);
    for (int64_t i = 0; i < n && p < 1; i++) {
        part += c[i].score;
        if (part < p * sum) continue;
        n = i + 1;
        sum = part;
    }
    double at = uniform((uint64_t)ot_options_int(j->o, "seed"), draw) * sum;
    for (int64_t i = 0; i < n; i++)
        if ((at -= c[i].score) < 0) return c[i].id;
    return best(c, n);
}

static ot_status generate(job *j, ot_error *err)
{
    int64_t most = ot_options_int(j->o, "tokens");
    const char *prompt = ot_options_get(j->o, "prompt");
    j->write(j->user, prompt, strlen(prompt));
    for (int64_t i = 0; i < most; i++) {
        OT_TRY(run(j, err));
        int32_t id = choose(j, j->scores < j->kinds ? j->scores : j->kinds, i);
        if (is_end(j, id)) break;
        OT_TRY(add(j, id, err));
        put_token(j, id);
    }
    flush(j, true);
    return OT_OK;
}

ot_status ot_generate(const ot_model *m, const ot_options *o, const ot_callbacks *cb,
                      void (*write)(void *user, const char *text, size_t n), void *user, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(m);
    OT_GIVEN(o);
    OT_GIVEN(write);
    ot_settings s;
    ot_error first = { 0 };
    job j = { .m = m, .o = o, .write = write, .user = user, .a = ot_arena_new() };
    (void)cb;
    ot_status r = j.a ? OT_OK : no_memory(&first);
    if (!r && !ot_options_get(o, "prompt")) r = ot_fail(&first, OT_E_USAGE, "--prompt is missing");
    if (!r) r = ot_settings_read(o, m->outputs, j.a, &s, &first);
    s.options.eval_mode = true;
    if (!r) r = read_record(&j, &first);
    if (!r) r = encode(&j, ot_options_get(o, "prompt"), &first);
    if (!r) r = ot_session_open(&j.x, m, &s, NULL, &first);
    if (!r) r = open_model(&j, &s, &first);
    if (!r) r = generate(&j, &first);
    ot_session_close(&j.x);
    ot_dataset_free(j.window);
    ot_tokenizer_free(j.k);
    free(j.text.id);
    if (j.a) ot_arena_free(j.a);
    return r ? ot_fail(err, r, "%s", first.text) : OT_OK;
}
