/* dataset.c - data sets in memory: arrays, samples, fingerprint, checks. */
#include "runtime/data/internal.h"
#include "runtime/data/members.h"
#include "runtime/data/table.h"

#include <math.h>
#include <stdlib.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

ot_dataset *ot_dataset_new(const char *name)
{
    ot_arena *a = ot_arena_new();
    ot_dataset *d = a ? ot_arena_alloc(a, sizeof *d) : NULL;
    if (d) d->name = ot_arena_strdup(a, name);
    if (!d || !d->name) {
        ot_arena_free(a);
        return NULL;
    }
    d->arena = a;
    return d;
}

void ot_dataset_free(ot_dataset *d)
{
    if (!d) return;
    ot_members_free(d->members);
    ot_dataset_unmap(d);
    ot_arena_free(d->arena);
}

ot_array *ot_dataset_add(ot_dataset *d, const char *name)
{
    if ((d->n & (d->n - 1)) == 0 && d->n != 1) { /* 0, 2, 4, 8 …: full */
        int cap = d->n ? 2 * d->n : 2;
        ot_array *wide = ot_arena_alloc(d->arena, (size_t)cap * sizeof *wide);
        if (!wide) return NULL;
        if (d->n) memcpy(wide, d->array, (size_t)d->n * sizeof *wide);
        d->array = wide;
    }
    char *copy = ot_arena_strdup(d->arena, name);
    if (!copy) return NULL;
    ot_array *a = &d->array[d->n++];
    *a = (ot_array){ .t.name = copy };
    return a;
}

ot_status ot_dataset_tell(ot_dataset *d, ot_error *err, const char *fmt, ...)
{
    va_list ap;
    if (!d->notes) d->notes = "";
    va_start(ap, fmt);
    bool added = ot_arena_line(d->arena, &d->notes, fmt, ap);
    va_end(ap);
    return added ? OT_OK : ot_fail(err, OT_E_NOMEM, "%s: no memory", d->name);
}

struct ot_read_from {
    struct ot_read_from *next;
    ot_file_id id;
    const char *path;
};

ot_status ot_dataset_note(ot_dataset *d, const char *path, ot_error *err)
{
    ot_file_id id;
    if (!ot_file_of(AT_FDCWD, path, &id)) return OT_OK; /* then it cannot be opened either */
    struct ot_read_from *f = ot_arena_alloc(d->arena, sizeof *f);
    char *name = ot_arena_strdup(d->arena, path);
    if (!f || !name) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    *f = (struct ot_read_from){ d->from, id, name };
    d->from = f;
    return OT_OK;
}

bool ot_dataset_reads(const ot_dataset *d, ot_file_id id, const char **path)
{
    const struct ot_read_from *f = d->from;
    ot_file_id own;
    while (f && !ot_file_same(f->id, id)) f = f->next;
    if (f) *path = f->path;
    for (int64_t i = 0; !f && d->members && i < d->members->n; i++) {
        if (!ot_members_id(d->members, i, &own) || !ot_file_same(own, id)) continue;
        *path = d->members->list[i].name;
        return true;
    }
    return f != NULL;
}

int64_t ot_dataset_files(const ot_dataset *d, ot_file_id *ids, int64_t most)
{
    int64_t n = 0, members = d->members ? d->members->n : 0;
    for (const struct ot_read_from *f = d->from; f; f = f->next, n++)
        if (n < most) ids[n] = f->id;
    for (int64_t i = 0; i < members; i++) {
        if (n < most && !ot_members_id(d->members, i, &ids[n])) continue;
        n++;
    }
    return n;
}

const ot_array *ot_dataset_find(const ot_dataset *d, const char *name)
{
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->array[i].t.name, name)) return &d->array[i];
    return NULL;
}

int64_t ot_dataset_origin(const ot_dataset *d, int64_t sample)
{
    return d->origin && sample >= 0 && sample < d->samples ? d->origin[sample] : sample;
}

ot_shape ot_array_shape(const ot_array *a)
{
    ot_shape s = { .rank = a->t.rank };
    memcpy(s.dim, a->t.dim, sizeof s.dim);
    return s;
}

int64_t ot_array_elements(const ot_array *a)
{
    ot_shape s = ot_array_shape(a);
    return ot_numel(&s);
}

int64_t ot_array_at(const ot_array *a, int64_t i)
{
    if (!a->stride && !a->row && !a->same) return i;
    int64_t each = 1;
    for (int k = 1; k < a->t.rank; k++) each *= a->t.dim[k];
    int64_t sample = i / each, row = a->same ? 0 : a->row ? a->row[sample] : sample;
    return row * (a->stride ? a->stride : each) + i % each;
}

ot_status ot_array_alloc(ot_dataset *d, ot_array *a, ot_dtype t, const ot_shape *shape, int64_t most, const char *where,
                         ot_error *err)
{
    char text[128];
    if (!ot_shape_known(shape) || !ot_shape_fits(shape, t))
        return ot_fail(err, OT_E_DATA, "%s: the shape %s is too large", where, ot_shape_text(shape, text));
    size_t n = ot_bytes(shape, t);
    if (most >= 0 && n > (uint64_t)most)
        return ot_fail(err, OT_E_DATA, "%s: %s %s needs %zu bytes; the limit is %lld", where, ot_dtype_name(t),
                       ot_shape_text(shape, text), n, (long long)most);
    a->t.dtype = t;
    a->t.rank = shape->rank;
    memcpy(a->t.dim, shape->dim, sizeof a->t.dim);
    a->t.data = ot_arena_alloc(d->arena, n);
    if (!a->t.data) return ot_fail(err, OT_E_NOMEM, "%s: no memory for its %zu bytes", where, n);
    ot_memory_ask_large_pages(a->t.data, n); /* samples are read in random order: small pages miss the TLB */
    return OT_OK;
}

void ot_swap_bytes(void *p, int64_t n, int size)
{
    unsigned char *b = p;
    if (size == 2 || size == 4 || size == 8) {
        for (int64_t i = 0; i < n; i++, b += size) {
            for (int k = 0; k < size / 2; k++) {
                unsigned char x = b[k];
                b[k] = b[size - 1 - k];
                b[size - 1 - k] = x;
            }
        }
    }
}

/* ---- samples --------------------------------------------------------------- */

static bool is_target_name(const char *s) { return !strcmp(s, "target") || !strncmp(s, "target_", 7); }

/* The first dimension of most inputs; the first of equals.  -1: no input has one. */
static int64_t common_dimension(const ot_dataset *d)
{
    int64_t best = -1;
    int votes = 0, n = d->n < 1024 ? d->n : 1024; /* enough inputs to decide */
    for (int i = 0; i < n; i++) {
        int k = 0;
        if (d->array[i].t.rank == 0) continue;
        for (int j = 0; j < n; j++) k += d->array[j].t.rank > 0 && d->array[j].t.dim[0] == d->array[i].t.dim[0];
        if (k > votes) {
            votes = k;
            best = d->array[i].t.dim[0];
        }
    }
    return best;
}

static void count_samples(ot_dataset *d)
{
    const ot_array *first = NULL;
    for (int i = 0; i < d->n; i++) {
        const ot_array *a = &d->array[i];
        if (a->role != OT_ARRAY_TARGET || a->t.rank == 0) continue;
        if (!first || !strcmp(a->t.name, "target")) first = a;
    }
    int64_t n = first ? first->t.dim[0] : common_dimension(d);
    d->samples = n < 0 ? 0 : n;
    for (int i = 0; i < d->n; i++) {
        ot_array *a = &d->array[i];
        a->whole = a->t.rank == 0 || a->t.dim[0] != n;
    }
}

void ot_dataset_arrange(ot_dataset *d)
{
    for (int i = 0; i < d->n; i++)
        if (is_target_name(d->array[i].t.name)) d->array[i].role = OT_ARRAY_TARGET;
    count_samples(d);
}

ot_status ot_dataset_target(ot_dataset *d, const char *name, ot_error *err)
{
    if (d->table) return ot_table_target(d, name, err);
    if (d->column && !strcmp(d->column, name)) return OT_OK; /* labels in files, which were read for it */
    const ot_array *found = ot_dataset_find(d, name);
    if (!found) {
        ot_fail(err, OT_E_DATA, "%s: no array '%s' for the target; its arrays are:", d->name, name);
        for (int i = 0; i < d->n; i++)
            ot_fail_more(err, OT_E_DATA, "  %s",
                         *d->array[i].t.name ? d->array[i].t.name : "(an unnamed one, such as images)");
        return OT_E_DATA;
    }
    for (int i = 0; i < d->n; i++) d->array[i].role = &d->array[i] == found ? OT_ARRAY_TARGET : OT_ARRAY_INPUT;
    count_samples(d);
    return OT_OK;
}

/* ---- checks ---------------------------------------------------------------- */

/* The index of the first NaN or infinity among n elements; n: there is none.  The inner loops have no exit and
 * vectorise. */
#define FIND_BAD(name, T, is_bad)                                                                  \
    static int64_t name(const T *x, int64_t n)                                                     \
    {                                                                                              \
        for (int64_t i = 0; i < n;) {                                                              \
            int64_t end = n - i < 1024 ? n : i + 1024;                                             \
            int any = 0;                                                                           \
            for (int64_t k = i; k < end; k++) any |= is_bad(x[k]);                                 \
            if (any)                                                                               \
                for (; i < end; i++)                                                               \
                    if (is_bad(x[i])) return i;                                                    \
            i = end;                                                                               \
        }                                                                                          \
        return n;                                                                                  \
    }
#define IS_BAD(v)    ((v) - (v) != 0)
#define HALF_BAD(v)  (((v) & 0x7C00) == 0x7C00)
#define BRAIN_BAD(v) (((v) & 0x7F80) == 0x7F80)
FIND_BAD(bad_f32, float, IS_BAD)
FIND_BAD(bad_f64, double, IS_BAD)
FIND_BAD(bad_f16, uint16_t, HALF_BAD)
FIND_BAD(bad_bf16, uint16_t, BRAIN_BAD)

static int64_t find_bad(const ot_tensor *t, int64_t n)
{
    switch (t->dtype) {
    case OT_F32: return bad_f32(t->data, n);
    case OT_F64: return bad_f64(t->data, n);
    case OT_F16: return bad_f16(t->data, n);
    case OT_BF16: return bad_bf16(t->data, n);
    default: return n;
    }
}

static double value_at(const ot_array *a, int64_t i) { return ot_get_f64(a->t.data, a->t.dtype, ot_array_at(a, i)); }

static int64_t first_bad(const ot_array *a, int64_t n)
{
    if (!a->stride && !a->row) return find_bad(&a->t, n);
    if (!ot_is_float(a->t.dtype)) return n;
    int64_t i = 0;
    while (i < n && isfinite(value_at(a, i))) i++;
    return i;
}

/* Is it an additive mask?  Hidden positions are negative infinity, visible ones zero. */
static bool is_mask(const ot_array *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double v = value_at(a, i);
        if (v != 0 && v != -(double)INFINITY) return false;
    }
    return true;
}

/* first: the number of the first sample.  d: the set that it is of, or NULL: tables have lines and columns. */
static ot_status check_values(const ot_dataset *d, const ot_array *a, int64_t first, ot_error *err)
{
    int64_t n = ot_array_elements(a), at = n && !a->mapped ? first_bad(a, n) : n;
    while (a->gaps && at < n && !isinf(value_at(a, at))) at++;
    if (at == n || (a->role == OT_ARRAY_INPUT && is_mask(a, n))) return OT_OK;
    double v = value_at(a, at);
    const char *name = *a->t.name ? a->t.name : "the array";
    const char *what = isnan(v) ? "NaN" : v > 0 ? "infinity" : "negative infinity";
    const char *why = isnan(v) || a->role == OT_ARRAY_TARGET
                          ? ""
                          : "; inputs must be finite, except masks of 0 and negative infinity";
    if (a->whole) return ot_fail(err, OT_E_DATA, "%s: element %lld is %s%s", name, (long long)at, what, why);
    int64_t each = n / a->t.dim[0];
    const ot_column *q = d ? ot_table_column_of(d, a, at % each) : NULL;
    int64_t line = q ? ot_dataset_line_of(d, a, at) : 0;
    const char *beyond = isinf(v) && a->t.dtype == OT_F32 ? " or a number that is too large for float32 (3.4e38)" : "";
    if (line)
        return ot_fail(err, OT_E_DATA, "line %lld, column '%s': contains %s%s%s", (long long)line, q->name, what,
                       beyond, why);
    return ot_fail(err, OT_E_DATA, "%s: sample %lld contains %s%s", name, (long long)(first + at / each), what, why);
}

ot_status ot_array_check(const ot_array *a, ot_error *err) { return check_values(NULL, a, 0, err); }

ot_status ot_dataset_check(const ot_dataset *d, ot_error *err)
{
    for (int i = 0; i < d->n; i++) {
        ot_error e = { 0 };
        if (d->array[i].t.dtype == OT_STRING && d->array[i].role == OT_ARRAY_TARGET)
            return ot_fail(err, OT_E_DATA,
                           "%s: '%s' contains strings; targets of arrays must be numbers (classes: 0, 1, ..., such as "
                           "np.unique(target, return_inverse=True)[1]); a .csv may contain strings",
                           d->name, d->array[i].t.name);
        if (check_values(d, &d->array[i], 0, &e)) return ot_fail(err, e.status, "%s: %-s", d->name, e.text);
    }
    return OT_OK;
}

static ot_status no_room(const ot_array *a, int64_t first, int64_t i, ot_dtype t, ot_error *err)
{
    bool cut = !a->whole && a->t.rank > 0 && a->t.dim[0] > 0;
    int64_t each = cut ? ot_array_elements(a) / a->t.dim[0] : 1;
    return ot_fail(err, OT_E_DATA, "%s: %s %lld has value %.9g, which does not fit into %s",
                   *a->t.name ? a->t.name : "the array", cut ? "sample" : "element", (long long)(first + i / each),
                   value_at(a, i), ot_dtype_name(t));
}

/* Finite values that would become infinite: more than half a step above the largest of the type. */
static ot_status float_fits(const ot_array *a, int64_t first, ot_dtype t, ot_error *err)
{
    double most = t == OT_F16 ? 65520 : t == OT_F32 ? 0x1.ffffffp127 : (double)INFINITY;
    bool small = ot_dtype_bits(a->t.dtype) <= 8 || a->t.dtype == OT_F16 || a->t.dtype == OT_STRING;
    if (small || most == (double)INFINITY || (t == OT_F32 && a->t.dtype != OT_F64)) return OT_OK;
    for (int64_t i = 0, n = ot_array_elements(a); i < n; i++) {
        double v = fabs(value_at(a, i));
        if (v >= most && isfinite(v)) return no_room(a, first, i, t, err);
    }
    return OT_OK;
}

static ot_status values_fit(const ot_array *a, int64_t first, ot_dtype t, ot_error *err)
{
    if (a->mapped) return OT_OK;
    if (ot_is_float(t)) return float_fits(a, first, t, err);
    if (!ot_is_int(t) && t != OT_BOOL) return OT_OK;
    if (a->t.dtype == t || a->t.dtype == OT_BOOL) return OT_OK;
    int bits = t == OT_BOOL ? 1 : ot_dtype_bits(t);
    bool sign = ot_is_signed(t), wide = a->t.dtype == OT_U64;
    if (ot_is_int(a->t.dtype) && bits - sign >= ot_dtype_bits(a->t.dtype) - ot_is_signed(a->t.dtype) &&
        sign >= ot_is_signed(a->t.dtype))
        return OT_OK; /* every value of one type is representable in the other */
    int64_t least = sign ? INT64_MIN >> (64 - bits) : 0, n = ot_array_elements(a);
    uint64_t most = UINT64_MAX >> (64 - bits + sign);
    for (int64_t i = 0; i < n; i++) {
        bool fits;
        if (ot_is_float(a->t.dtype)) {
            double v = value_at(a, i);
            fits = v == floor(v) && v >= (double)least && v < ldexp(1, bits - sign);
        } else {
            int64_t v = ot_get_i64(a->t.data, a->t.dtype, ot_array_at(a, i));
            fits = wide ? (uint64_t)v <= most : v >= least && (v < 0 || (uint64_t)v <= most);
        }
        if (!fits) return no_room(a, first, i, t, err);
    }
    return OT_OK;
}

ot_status ot_array_fits(const ot_array *a, ot_dtype t, ot_error *err) { return values_fit(a, 0, t, err); }

void ot_array_fetch(const ot_array *a, const int64_t *index, int64_t n)
{
    const uintptr_t mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    int64_t each = 1, size = ot_dtype_bits(a->t.dtype) / 8;
    for (int k = 1; k < a->t.rank; k++) each *= a->t.dim[k];
    for (int64_t i = 0; i < n; i++) {
        uintptr_t begin = (uintptr_t)a->t.data + (uintptr_t)(ot_array_at(a, index[i] * each) * size);
        uintptr_t from = begin & ~mask;
        (void)madvise((void *)from, (size_t)(begin - from) + (size_t)(each * size), MADV_WILLNEED);
    }
}

ot_status ot_array_check_sample(const ot_array *a, int64_t i, int64_t number, ot_dtype t, ot_error *err)
{
    ot_array one = *a;
    int64_t each = 1;
    for (int k = 1; k < a->t.rank; k++) each *= a->t.dim[k];
    one.t.data = (char *)a->t.data + ot_array_at(a, i * each) * (ot_dtype_bits(a->t.dtype) / 8);
    one.t.dim[0] = 1;
    one.mapped = one.same = false;
    one.stride = 0;
    one.row = NULL;
    OT_TRY(check_values(NULL, &one, number, err));
    return values_fit(&one, number, t, err);
}

int64_t ot_dataset_bytes(const ot_dataset *d)
{
    int64_t bytes = 0;
    for (int i = 0; i < d->n; i++) {
        ot_shape s = ot_array_shape(&d->array[i]);
        if (!d->array[i].mapped) bytes += (int64_t)ot_bytes(&s, d->array[i].t.dtype);
    }
    return bytes + ot_windows_bytes(d->windows);
}

/* ---- fingerprint ----------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t w)
{
    h = (h ^ w) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

/* Four independent chains of multiplications. */
uint64_t ot_hash(uint64_t seed, const void *p, size_t n)
{
    const unsigned char *b = p;
    uint64_t h[4] = { seed, seed + 1, seed + 2, seed + 3 }, w[4];
    size_t i = 0;
    for (; i + sizeof w <= n; i += sizeof w) {
        memcpy(w, b + i, sizeof w);
        for (int k = 0; k < 4; k++) h[k] = mix(h[k], w[k]);
    }
    memset(w, 0, sizeof w);
    if (n > i) memcpy(w, b + i, n - i);
    for (int k = 0; k < 4; k++) h[k] = mix(h[k], w[k]);
    return mix(mix(mix(mix(h[0], h[1]), h[2]), h[3]), n);
}

static uint64_t array_hash(uint64_t h, const ot_array *a, const ot_shape *s)
{
    int64_t n = ot_numel(s), each = n && (a->stride || a->row) ? n / s->dim[0] : n;
    for (int64_t k = 0; k < n && a->t.dtype == OT_STRING; k++) {
        const char *text = ((char **)a->t.data)[ot_array_at(a, k)];
        h = ot_hash(h, text, strlen(text));
    }
    if (a->t.dtype == OT_STRING) return h;
    if (a->same) return ot_hash(h, a->t.data, s->dim[0] ? ot_bytes(s, a->t.dtype) / (size_t)s->dim[0] : 0);
    if (each == n) return ot_hash(h, a->t.data, ot_bytes(s, a->t.dtype));
    size_t size = (size_t)ot_dtype_bits(a->t.dtype) / 8;
    for (int64_t k = 0; k < n; k += each)
        h = ot_hash(h, (const char *)a->t.data + (size_t)ot_array_at(a, k) * size, (size_t)each * size);
    return h;
}

/* encoded: also of inputs that a table makes of its cells, which have a fingerprint of their own. */
static uint64_t fingerprint(const ot_dataset *d, bool encoded)
{
    uint64_t h = mix(1, (uint64_t)d->n) + d->mapped_hash;
    for (int i = 0; i < d->n; i++) {
        const ot_array *a = &d->array[i];
        ot_shape s = ot_array_shape(a);
        h = ot_hash(h, a->t.name, strlen(a->t.name));
        h = mix(mix(h, a->t.dtype), (uint64_t)s.rank);
        for (int k = 0; k < s.rank; k++) h = mix(h, (uint64_t)s.dim[k]);
        bool own = d->cells && a->role == OT_ARRAY_INPUT && a->t.dtype == OT_F32;
        if (!a->mapped && (encoded || !own)) h = array_hash(h, a, &s);
    }
    return h;
}

uint64_t ot_dataset_content(const ot_dataset *d) { return d->cells ? mix(fingerprint(d, false), d->cells) : d->hash; }

ot_status ot_dataset_finish(ot_dataset *d, ot_error *err)
{
    for (int i = 0; i < d->n && d->n_classes > 0; i++) {
        const ot_array *a = &d->array[i];
        if (a->role != OT_ARRAY_TARGET || a->t.dtype != OT_U8 || a->stride || a->row || a->mapped) continue;
        const unsigned char *y = a->t.data;
        for (int64_t k = 0, n = ot_array_elements(a); k < n; k++)
            if (y[k] >= d->n_classes)
                return ot_fail(err, OT_E_DATA, "%s: sample %lld has label %d; labels must be 0 to %d", d->name,
                               (long long)k, y[k], d->n_classes - 1);
    }
    d->hash = fingerprint(d, true);
    return OT_OK;
}
