/* safetensors.c - Hugging Face's file of named tensors: the length of a JSON header, the header, then the elements.
 *
 * Spec    {"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [begin, end]}, "__metadata__": {...}}; the tensors cover the
 *         bytes behind the header without gaps and do not overlap, which is checked before any of them is read.
 * Source  github.com/huggingface/safetensors, README.md ("Format"). */
#include "runtime/base/json.h"
#include "runtime/data/internal.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH = 8, LONGEST_HEADER = 4 << 20, SHORTEST_HEADER = 2 };

typedef struct entry {
    const char *name; /* of the header */
    ot_dtype dtype;
    ot_shape shape;
    int64_t begin, end;
} entry;

static ot_dtype type_of(const char *code)
{
    static const struct {
        const char *code;
        ot_dtype t;
    } row[] = {
        { "F32", OT_F32 }, { "F16", OT_F16 }, { "BF16", OT_BF16 }, { "F64", OT_F64 }, { "I64", OT_I64 },
        { "I32", OT_I32 }, { "I16", OT_I16 }, { "I8", OT_I8 },     { "U8", OT_U8 },   { "U16", OT_U16 },
        { "U32", OT_U32 }, { "U64", OT_U64 }, { "BOOL", OT_BOOL },
    };
    for (int i = 0; i < OT_LEN(row); i++)
        if (!strcmp(code, row[i].code)) return row[i].t;
    return OT_UNDEFINED;
}

static ot_status bad(const char *path, const char *name, const char *what, ot_error *err)
{
    return ot_fail(err, OT_E_DATA, "%s: tensor '%s': %s", path, name, what);
}

static ot_status read_shape(const char *path, const json_t *shape, entry *x, ot_error *err)
{
    if (!json_is_array(shape)) return bad(path, x->name, "its shape is not a list", err);
    if (json_array_size(shape) > OT_MAX_RANK)
        return ot_fail(err, OT_E_DATA, "%s: tensor '%s' has %zu dimensions; the limit is %d", path, x->name,
                       json_array_size(shape), OT_MAX_RANK);
    x->shape.rank = (int)json_array_size(shape);
    for (int i = 0; i < x->shape.rank; i++) {
        const json_t *n = json_array_get(shape, (size_t)i);
        if (!json_is_integer(n) || json_integer_value(n) < 0)
            return bad(path, x->name, "a dimension is not a whole number", err);
        x->shape.dim[i] = json_integer_value(n);
    }
    if (!ot_shape_fits(&x->shape, x->dtype)) return bad(path, x->name, "its shape is too large", err);
    return OT_OK;
}

static ot_status read_entry(const char *path, const json_t *o, entry *x, ot_error *err)
{
    const char *type = json_string_value(json_object_get(o, "dtype"));
    const json_t *at = json_object_get(o, "data_offsets"), *begin = json_array_get(at, 0), *end = json_array_get(at, 1);
    if (!type) return bad(path, x->name, "has no dtype", err);
    if (!(x->dtype = type_of(type)))
        return ot_fail(err, OT_E_DATA,
                       "%s: tensor '%s' has the unsupported element type %s; expected F16, BF16, F32, F64, BOOL or "
                       "integers of 8 to 64 bits",
                       path, x->name, type);
    OT_TRY(read_shape(path, json_object_get(o, "shape"), x, err));
    if (json_array_size(at) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return bad(path, x->name, "its data_offsets are not two whole numbers", err);
    x->begin = json_integer_value(begin);
    x->end = json_integer_value(end);
    int64_t need = (int64_t)ot_bytes(&x->shape, x->dtype), sum;
    if (x->begin < 0 || !ot_add(x->begin, need, &sum) || sum != x->end)
        return bad(path, x->name, "its data_offsets are not those of its shape", err);
    return OT_OK;
}

static int by_place(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* The tensors in the order of their bytes, of which there are `bytes` (-1: unknown). */
static ot_status read_entries(const char *path, json_t *root, int64_t bytes, entry *list, int *n, ot_error *err)
{
    const char *key;
    json_t *o;
    json_object_foreach(root, key, o)
    {
        if (!strcmp(key, "__metadata__")) continue;
        list[*n] = (entry){ .name = key };
        OT_TRY(read_entry(path, o, &list[*n], err));
        ++*n;
    }
    qsort(list, (size_t)*n, sizeof *list, by_place);
    int64_t at = 0;
    for (int i = 0; i < *n; i++) {
        if (list[i].begin != at) return bad(path, list[i].name, "overlaps another one, or leaves a gap before it", err);
        at = list[i].end;
    }
    if (bytes >= 0 && at != bytes)
        return ot_fail(err, OT_E_DATA, "%s: its header says %lld bytes of elements, but it contains %lld", path,
                       (long long)at, (long long)bytes);
    return OT_OK;
}

static ot_array *add(ot_dataset *d, const entry *x)
{
    ot_array *a = ot_dataset_add(d, x->name);
    if (!a) return NULL;
    a->t.dtype = x->dtype;
    a->t.rank = x->shape.rank;
    memcpy(a->t.dim, x->shape.dim, sizeof a->t.dim);
    return a;
}

static void make_bools(void *p, int64_t n)
{
    unsigned char *b = p;
    for (int64_t i = 0; i < n; i++) b[i] = b[i] != 0;
}

/* From the stream, which is behind the header. */
static ot_status read_tensors(ot_stream *s, ot_dataset *d, const entry *list, int n, int64_t most, ot_error *err)
{
    for (int i = 0; i < n; i++) {
        const entry *x = &list[i];
        ot_array *a = add(d, x);
        if (!a) return ot_fail(err, OT_E_NOMEM, "%s: no memory", s->name);
        OT_TRY(ot_array_alloc(d, a, x->dtype, &x->shape, most < 0 ? -1 : most - x->begin, s->name, err));
        OT_TRY(ot_stream_read(s, a->t.data, x->end - x->begin, "the elements", err));
        if (x->dtype == OT_BOOL) make_bools(a->t.data, x->end);
    }
    return ot_stream_end(s, err);
}

/* As pages of the file, whose elements begin at `at`; a tensor at an odd place is copied. */
static ot_status map_tensors(const char *path, ot_dataset *d, const entry *list, int n, int64_t at, ot_error *err)
{
    const void *bytes;
    int64_t size, mapped = 0;
    OT_TRY(ot_dataset_map(d, path, &bytes, &size, err));
    if (n && at + list[n - 1].end != size) return ot_fail(err, OT_E_IO, "%s: was changed while it was read", path);
    for (int i = 0; i < n; i++) {
        const entry *x = &list[i];
        const char *p = (const char *)bytes + at + x->begin;
        ot_array *a = add(d, x);
        if (!a) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
        a->mapped = x->dtype != OT_BOOL && (at + x->begin) % (ot_dtype_bits(x->dtype) / 8) == 0;
        a->t.data = (void *)(uintptr_t)p;
        mapped += a->mapped;
        if (a->mapped) continue;
        OT_TRY(ot_array_alloc(d, a, x->dtype, &x->shape, -1, path, err));
        memcpy(a->t.data, p, (size_t)(x->end - x->begin));
        if (x->dtype == OT_BOOL) make_bools(a->t.data, x->end - x->begin);
    }
    if (!mapped) return OT_OK;
    return ot_dataset_tell(d, err, "%s: is mapped, not read into memory; each batch is checked when it is made", path);
}

static ot_status read_all(ot_stream *s, ot_dataset *d, const char *text, int64_t n, ot_error *err)
{
    json_t *root = NULL;
    int64_t left = s->most - LENGTH - n, from = d->options->map_from ? d->options->map_from : OT_MAP_FROM;
    int count = 0;
    OT_TRY(ot_json_parse(text, (size_t)n, &root));
    if (!json_is_object(root)) {
        json_decref(root);
        return ot_fail(err, OT_E_DATA, "%s: its header is not a JSON object", s->name);
    }
    entry *list = malloc((json_object_size(root) + 1) * sizeof *list);
    ot_status status = list ? OT_OK : ot_fail(err, OT_E_NOMEM, "%s: no memory", s->name);
    if (!status) status = read_entries(s->name, root, s->packed > 0 ? -1 : left, list, &count, err);
    if (!status)
        status = s->packed > 0 || s->most < from ? read_tensors(s, d, list, count, left, err)
                                                 : map_tensors(s->name, d, list, count, LENGTH + n, err);
    free(list);
    json_decref(root);
    return status;
}

ot_status ot_safetensors_open(const char *path, ot_dataset *d, ot_error *err)
{
    ot_stream s;
    unsigned char head[LENGTH];
    uint64_t n = 0;
    OT_TRY(ot_stream_open(&s, path, err));
    ot_status status = ot_stream_read(&s, head, LENGTH, "the length of the header", err);
    for (int i = 0; i < LENGTH && !status; i++) n |= (uint64_t)head[i] << 8 * i;
    if (!status && (n < SHORTEST_HEADER || n > LONGEST_HEADER || (int64_t)n > s.most - LENGTH))
        status = ot_fail(err, OT_E_DATA, "%s: says that its header has %llu bytes; the file has %lld, the limit is %d",
                         path, (unsigned long long)n, (long long)s.most, LONGEST_HEADER);
    char *text = status ? NULL : malloc((size_t)n + 1);
    if (!status && !text) status = ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    if (!status) status = ot_stream_read(&s, text, (int64_t)n, "the header", err);
    if (!status) status = read_all(&s, d, text, (int64_t)n, err);
    if (status == OT_E_NOMEM) ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    free(text);
    ot_stream_close(&s);
    return status;
}
