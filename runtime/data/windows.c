/* windows.c - samples that are windows over one long sequence of tokens, for models that predict the next token.
 *
 * Sample i is tokens i*stride .. i*stride+length-1, its target the same one token later: both arrays are views of the
 * sequence, which may be pages of a file.  What models read beside tokens (masks, positions) is the same for all samples. */
#include "runtime/data/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { USUAL_LENGTH = 1024, SMALL = 32 << 20, PROBES = 64, PROBE = 4096 };

#define REASON(number) strerror_r((number), (char[128]){ 0 }, 128)

struct ot_windows {
    const void *token;
    ot_dtype type;
    int64_t n, first; /* tokens; the number of the first one in the file */
    int64_t length, stride;
    int64_t memory; /* bytes of tokens that are no pages of a file */
    int64_t gap;    /* where a part that was kept back begins; 0: it is at an end */
    const int64_t *row;
};

/* ---- files in memory -------------------------------------------------------------- */

struct ot_map {
    struct ot_map *next;
    const ot_dataset *owner; /* parts of a set share its files */
    const char *path;
    int fd;
    void *at;
    size_t n;
    struct timespec changed;
};

/* What tells one file from another: all bytes of a small one, else some of them, and when it was changed. */
static uint64_t fingerprint(const struct ot_map *m)
{
    const int64_t of[] = { (int64_t)m->n, m->changed.tv_sec, m->changed.tv_nsec };
    uint64_t h = ot_hash(0, of, m->n <= SMALL ? sizeof *of : sizeof of);
    if (m->n <= SMALL) return ot_hash(h, m->at, m->n);
    for (size_t i = 0; i < PROBES; i++) h = ot_hash(h, (const char *)m->at + m->n / PROBES * i, PROBE);
    return h;
}

static ot_status map_open(ot_dataset *d, struct ot_map *m, ot_error *err)
{
    struct stat st;
    if (fstat(m->fd, &st))
        return ot_fail(err, ot_failed_call(errno), "%s: cannot be examined: %s", m->path, REASON(errno));
    if (!S_ISREG(st.st_mode)) return ot_fail(err, OT_E_IO, "%s: is not a regular file", m->path);
    m->n = (size_t)st.st_size;
    m->changed = st.st_mtim;
    if (!m->n) return OT_OK;
    void *p = mmap(NULL, m->n, PROT_READ, MAP_SHARED, m->fd, 0);
    if (p == MAP_FAILED) return ot_fail(err, ot_failed_call(errno), "%s: cannot be mapped: %s", m->path, REASON(errno));
    m->at = p;
    d->mapped_hash ^= fingerprint(m);
    (void)madvise(p, m->n, MADV_RANDOM); /* samples come in random order: what follows one is not read with it */
    return OT_OK;
}

ot_status ot_dataset_map(ot_dataset *d, const char *path, const void **bytes, int64_t *n, ot_error *err)
{
    struct ot_map *m = ot_arena_alloc(d->arena, sizeof *m);
    char *name = ot_arena_strdup(d->arena, path);
    if (!m || !name) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    *m = (struct ot_map){ .owner = d, .path = name };
    m->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (m->fd < 0) return ot_fail(err, ot_failed_call(errno), "%s: cannot be opened: %s", path, REASON(errno));
    m->next = d->map;
    d->map = m;
    OT_TRY(map_open(d, m, err));
    *bytes = m->at;
    *n = (int64_t)m->n;
    return OT_OK;
}

void ot_dataset_unmap(ot_dataset *d)
{
    for (struct ot_map *m = d->map; m; m = m->next) {
        if (m->owner != d) continue;
        if (m->at) munmap(m->at, m->n);
        close(m->fd);
    }
    d->map = NULL;
}

ot_status ot_dataset_intact(const ot_dataset *d, ot_error *err)
{
    for (const struct ot_map *m = d->map; m; m = m->next) {
        struct stat st;
        if (fstat(m->fd, &st))
            return ot_fail(err, ot_failed_call(errno), "%s: cannot be examined: %s", m->path, REASON(errno));
        if ((size_t)st.st_size == m->n && st.st_mtim.tv_sec == m->changed.tv_sec &&
            st.st_mtim.tv_nsec == m->changed.tv_nsec)
            continue;
        return ot_fail(err, OT_E_IO, "%s: was changed while it was in use; start again with the new file", m->path);
    }
    return OT_OK;
}

int64_t ot_windows_length(const ot_windows *w) { return w->length; }

int64_t ot_windows_bytes(const ot_windows *w) { return w ? w->memory : 0; }

/* ---- inputs ------------------------------------------------------------------------- */

ot_beside ot_beside_of(const char *name)
{
    /* What exporters call them. */
    static const struct {
        const char *name;
        ot_beside kind;
    } beside[] = {
        { "attention_mask", OT_ONES },  { "input_mask", OT_ONES },
        { "token_type_ids", OT_ZEROS }, { "segment_ids", OT_ZEROS },
        { "position_ids", OT_PLACES },  { "labels", OT_TOKENS }, /* which the model shifts */
        { "targets", OT_NEXT },
    };
    for (int i = 0; i < OT_LEN(beside); i++)
        if (!strcmp(beside[i].name, name)) return beside[i].kind;
    return OT_NOT_BESIDE;
}

const ot_data_input *ot_windows_input(const ot_data_options *o)
{
    const ot_data_input *first = NULL, *number = NULL;
    for (int i = 0; i < o->n_inputs; i++) {
        const ot_data_input *x = &o->input[i];
        if (ot_beside_of(x->name) || (x->shape.rank != 2 && x->shape.rank != -1)) continue;
        if (!strcmp(x->name, "input_ids")) return x;
        if (ot_is_int(x->dtype) && !first) first = x;
        if (ot_is_float(x->dtype) && o->n_inputs == 1) number = x;
    }
    return first ? first : number;
}

static ot_status no_input(const ot_dataset *d, const char *what, ot_error *err)
{
    char shape[128];
    ot_fail(err, OT_E_DATA,
            "%s: no input of the model takes %s: expected one of integers of shape [samples,length]; "
            "its inputs are:",
            d->name, what);
    for (int i = 0; i < d->options->n_inputs; i++) {
        const ot_data_input *x = &d->options->input[i];
        ot_fail_more(err, OT_E_DATA, "  %s: %s %s", x->name, ot_dtype_name(x->dtype), ot_shape_text(&x->shape, shape));
    }
    return OT_E_DATA;
}

static int64_t count(int64_t n, int64_t length, int64_t stride)
{
    return n <= length ? 0 : (n - 1 - length) / stride + 1;
}

static ot_status choose_length(const ot_dataset *d, const ot_data_input *x, ot_windows *w, const char *what,
                               ot_error *err)
{
    const ot_data_options *o = d->options;
    int64_t fixed = x && x->shape.rank == 2 && x->shape.dim[1] > 0 ? x->shape.dim[1] : 0;
    int64_t usual = w->n - 1 < USUAL_LENGTH ? w->n - 1 : USUAL_LENGTH;
    w->length = fixed ? fixed : o->length ? o->length : usual;
    w->stride = o->stride ? o->stride : w->length;
    if (fixed && o->length && o->length != fixed)
        return ot_fail(err, OT_E_USAGE, "--length %lld: input '%s' of the model has a fixed length of %lld",
                       (long long)o->length, x->name, (long long)fixed);
    if (w->length > 0 && count(w->n, w->length, w->stride) > 0) return OT_OK;
    return ot_fail(err, OT_E_DATA, "%s: contains %lld %s, but a sample of length %lld and its target need %lld%s",
                   d->name, (long long)w->n, what, (long long)w->length, (long long)w->length + 1,
                   fixed ? "" : "; use a smaller --length");
}

/* ---- arrays -------------------------------------------------------------------------- */

static ot_status set_shape(const ot_dataset *d, ot_array *a, ot_dtype type, ot_error *err)
{
    const ot_windows *w = d->windows;
    ot_shape s = { 2, { count(w->n, w->length, w->stride), w->length } };
    if (!ot_shape_fits(&s, OT_I64))
        return ot_fail(err, OT_E_DATA, "%s: too many windows; use a larger --stride", d->name);
    a->t.dtype = type;
    a->t.rank = 2;
    memcpy(a->t.dim, s.dim, sizeof s.dim);
    a->mapped = true;
    return OT_OK;
}

static void *token_at(const ot_windows *w, int64_t i)
{
    return (char *)(uintptr_t)w->token + (size_t)i * (size_t)ot_dtype_bits(w->type) / 8;
}

static ot_status add_tokens(ot_dataset *d, const char *name, ot_array_role role, ot_beside k, ot_error *err)
{
    ot_array *a = ot_dataset_add(d, name);
    if (!a) return ot_fail(err, OT_E_NOMEM, "%s: no memory", d->name);
    OT_TRY(set_shape(d, a, d->windows->type, err));
    a->role = role;
    a->stride = d->windows->stride;
    a->t.data = token_at(d->windows, k == OT_NEXT && !(d->masking.p > 0));
    return OT_OK;
}

static ot_status add_same(ot_dataset *d, const char *name, ot_beside k, ot_error *err)
{
    ot_array *a = ot_dataset_add(d, name);
    int64_t n = d->windows->length, *v = ot_arena_alloc(d->arena, (size_t)n * sizeof *v);
    if (!a || !v) return ot_fail(err, OT_E_NOMEM, "%s: no memory", d->name);
    OT_TRY(set_shape(d, a, OT_I64, err));
    a->same = true;
    a->t.data = v;
    for (int64_t i = 0; i < n; i++) v[i] = k == OT_PLACES ? i : k == OT_ONES;
    return OT_OK;
}

static ot_status add_arrays(ot_dataset *d, const ot_data_input *tokens, ot_error *err)
{
    const ot_data_options *o = d->options;
    bool target = true;
    OT_TRY(add_tokens(d, tokens ? tokens->name : "", OT_ARRAY_INPUT, OT_TOKENS, err));
    for (int i = 0; i < o->n_inputs; i++) {
        const ot_data_input *x = &o->input[i];
        ot_beside k = ot_beside_of(x->name);
        if (x == tokens || !k || (x->shape.rank != 2 && x->shape.rank != -1)) continue;
        target &= k > OT_NEXT;
        OT_TRY(k <= OT_NEXT ? add_tokens(d, x->name, OT_ARRAY_INPUT, k, err) : add_same(d, x->name, k, err));
    }
    return target ? add_tokens(d, "target", OT_ARRAY_TARGET, OT_NEXT, err) : OT_OK;
}

/* The mask token is one of the model's. */
static ot_status check_mask(ot_dataset *d, const ot_data_input *x, ot_error *err)
{
    ot_masking *m = &d->masking;
    if (!(m->p > 0)) return OT_OK;
    if (m->token < 0)
        return ot_fail(err, OT_E_USAGE, "--augment mask: nothing says which token is the mask; use mask:token=N");
    if (x && x->rows && m->token >= x->rows)
        return ot_fail(err, OT_E_DATA,
                       "--augment mask: the mask token is number %lld, but input '%s' of the model is looked up in a "
                       "table of %lld rows",
                       (long long)m->token, x->name, (long long)x->rows);
    if (!m->kinds) m->kinds = x && x->rows ? x->rows : m->token + 1;
    return OT_OK;
}

ot_status ot_windows_set(ot_dataset *d, const void *token, ot_dtype type, int64_t n, const char *what, ot_error *err)
{
    const ot_data_input *x = ot_windows_input(d->options);
    ot_windows *w = ot_arena_alloc(d->arena, sizeof *w);
    if (!w) return ot_fail(err, OT_E_NOMEM, "%s: no memory", d->name);
    if (!x && d->options->n_inputs) return no_input(d, what, err);
    *w = (ot_windows){ .token = token, .type = type, .n = n };
    w->memory = d->map ? 0 : n * ot_dtype_bits(type) / 8;
    OT_TRY(choose_length(d, x, w, what, err));
    d->windows = w;
    OT_TRY(check_mask(d, x, err));
    OT_TRY(add_arrays(d, x, err));
    return ot_dataset_tell(d, err,
                           "%s: %lld %s; samples are windows of %lld, one every %lld (--stride), and the target is %s",
                           d->name, (long long)n, what, (long long)w->length, (long long)w->stride,
                           d->masking.p > 0 ? "those that are masked" : "the next of each");
}

static ot_status one_window(ot_dataset *d, const ot_data_options *o, int64_t usual, int64_t **token, int64_t *length,
                            ot_error *err)
{
    const ot_data_input *x = ot_windows_input(o);
    int64_t fixed = x && x->shape.rank == 2 && x->shape.dim[1] > 0 ? x->shape.dim[1] : 0;
    int64_t n = fixed ? fixed : o->length ? o->length : usual;
    *token = n < INT32_MAX ? ot_arena_alloc(d->arena, (size_t)(n + 1) * sizeof **token) : NULL;
    if (!*token) return ot_fail(err, OT_E_NOMEM, "no memory for %lld tokens", (long long)n);
    OT_TRY(ot_windows_set(d, *token, OT_I64, n + 1, "tokens", err));
    *length = d->windows->length;
    ot_dataset_arrange(d);
    return OT_OK;
}

ot_status ot_dataset_window(const ot_data_options *o, int64_t usual, ot_dataset **out, int64_t **token, int64_t *length,
                            ot_error *err)
{
    ot_dataset *d = ot_dataset_new("the prompt");
    *out = NULL;
    if (!d) return ot_fail(err, OT_E_NOMEM, "no memory for the prompt");
    ot_data_options own = *o;
    own.stride = 0;
    d->options = &own;
    ot_status s = one_window(d, &own, usual, token, length, err);
    d->options = NULL;
    if (s) ot_dataset_free(d);
    else *out = d;
    return s;
}

int64_t ot_dataset_slack(const ot_dataset *d, int64_t i)
{
    const ot_windows *w = d->windows;
    int64_t at = (w->row ? w->row[i] : i) * w->stride, end = at < w->gap ? w->gap : w->n,
            room = end - 1 - at - w->length;
    return room < 0 ? 0 : room < w->stride - 1 ? room : w->stride - 1;
}

int64_t ot_dataset_token(const ot_dataset *d, const ot_array *a, int64_t i)
{
    const ot_windows *w = d->windows;
    if (!w || a->same) return -1;
    int64_t size = ot_dtype_bits(w->type) / 8, at = ((const char *)a->t.data - (const char *)w->token) / size;
    return w->first + at + ot_array_at(a, i);
}

/* ---- parts ----------------------------------------------------------------------------- */

/* The windows over tokens begin .. end of `from`, a part of which w is. */
static ot_status narrow(ot_dataset *d, const ot_windows *from, int64_t begin, int64_t end, ot_error *err)
{
    ot_windows *w = ot_arena_alloc(d->arena, sizeof *w);
    if (!w) return ot_fail(err, OT_E_NOMEM, "%s: no memory", d->name);
    *w = *from;
    w->token = token_at(from, begin);
    w->first = from->first + begin;
    w->n = end - begin;
    w->memory = 0; /* they are those of the whole */
    d->windows = w;
    d->samples = count(w->n, w->length, w->stride);
    int64_t size = ot_dtype_bits(w->type) / 8;
    for (int i = 0; i < d->n; i++) {
        ot_array *a = &d->array[i];
        a->t.dim[0] = d->samples;
        if (!a->same) a->t.data = (char *)a->t.data + begin * size;
    }
    return OT_OK;
}

/* The windows in front of token `begin` and behind token `end`. */
static ot_status leave_gap(ot_dataset *d, int64_t begin, int64_t end, ot_error *err)
{
    ot_windows *w = d->windows;
    int64_t front = count(begin, w->length, w->stride), behind = (end + w->stride - 1) / w->stride;
    int64_t all = d->samples, n = front + (all > behind ? all - behind : 0), at = 0;
    int64_t *row = ot_arena_alloc(d->arena, (size_t)(n + 1) * sizeof *row);
    if (!row) return ot_fail(err, OT_E_NOMEM, "%s: no memory for a list of %lld windows", d->name, (long long)n);
    for (int64_t i = 0; i < all; i++)
        if (i < front || i >= behind) row[at++] = i;
    for (int i = 0; i < d->n; i++) {
        d->array[i].t.dim[0] = n;
        if (!d->array[i].same) d->array[i].row = row;
    }
    d->samples = n;
    d->windows->row = row;
    d->windows->gap = begin;
    return OT_OK;
}

static ot_status part_of(ot_dataset *d, ot_dataset **out, ot_error *err)
{
    ot_dataset *v = ot_dataset_new(d->name);
    if (!v) return ot_fail(err, OT_E_NOMEM, "%s: no memory", d->name);
    ot_arena *a = v->arena;
    const char *name = ot_arena_printf(a, "%s (kept back)", d->name);
    ot_array *arrays = ot_arena_copy(a, d->array, (size_t)d->n * sizeof *arrays);
    if (!name || !arrays) {
        ot_dataset_free(v);
        return ot_fail(err, OT_E_NOMEM, "%s: no memory", d->name);
    }
    *v = *d;
    v->arena = a;
    v->name = name;
    v->array = arrays;
    v->notes = NULL;
    *out = v;
    return OT_OK;
}

static ot_status keep(ot_dataset *d, ot_dataset *v, int64_t begin, int64_t end, ot_error *err)
{
    const int64_t part[] = { begin, end };
    const ot_windows *w = d->windows;
    int64_t n = w->n;
    v->hash = v->split = ot_hash(d->hash, part, sizeof part);
    OT_TRY(narrow(v, w, begin, end, err));
    OT_TRY(begin && end < n ? leave_gap(d, begin, end, err) : narrow(d, w, begin ? 0 : end, begin ? begin : n, err));
    d->windows->memory = w->memory;
    if (d->samples < 1 || v->samples < 1)
        return ot_fail(
            err, OT_E_DATA,
            "%s: %lld tokens cannot be divided into training and validation: each part needs a window of %lld", d->name,
            (long long)n, (long long)w->length + 1);
    return ot_dataset_tell(v, err, "%s: tokens %lld to %lld, which no window of the training reads", v->name,
                           (long long)begin, (long long)end - 1);
}

ot_status ot_windows_keep(ot_dataset *d, double fraction, int fold, int folds, ot_dataset **out, ot_error *err)
{
    int64_t n = d->windows->n, begin, end = n;
    if (folds) {
        begin = n / folds * (fold - 1);
        end = fold < folds ? n / folds * fold : n;
    } else {
        begin = n - (int64_t)(fraction * (double)n);
    }
    OT_TRY(part_of(d, out, err));
    ot_status s = keep(d, *out, begin, end, err);
    if (!s) return OT_OK;
    ot_dataset_free(*out);
    *out = NULL;
    return s;
}
