/* tensor.c - decodes a TensorProto of any element type and encoding.
 *
 * The number of bytes must be exactly what shape and type require.  Fewer would let us read foreign memory; more
 * would hide an error in the file.
 *
 * Numerics  Bits are kept as they are.  Only bool is normalised to 0 and 1.
 * Spec      Types smaller than a byte pack low bits first; complex and 6-bit floats are not supported. */
#include <errno.h>
#include <stdlib.h>

#include "importer/internal.h"
#include "runtime/base/io.h"

typedef struct decode {
    ot_file *file; /* NULL: external data is refused */
    ot_arena *arena;
    const char *what;
    ot_error *found;
} decode;

#define FINDING(d, ...) ot_fail_more((d)->found, OT_E_MODEL, __VA_ARGS__)

static ot_status no_memory(const decode *d) { return ot_fail_more(d->found, OT_E_NOMEM, "%.200s: no memory", d->what); }

/* ---- type and shape ------------------------------------------------------------- */

static ot_status known_type(const decode *d, int32_t t)
{
    if (t == OT_STRING || (t > 0 && t <= OT_I2 && ot_dtype_bits((ot_dtype)t))) return OT_OK;
    const ProtobufCEnumValue *e = protobuf_c_enum_descriptor_get_value(&onnx__tensor_proto__data_type__descriptor, t);
    return e && t ? FINDING(d, "%.200s: element type %s is not supported", d->what, e->name)
                  : FINDING(d, "%.200s: invalid element type %d", d->what, t);
}

static ot_status read_shape(const decode *d, const int64_t *dims, size_t rank, ot_dtype t, ot_shape *s)
{
    if (rank > OT_MAX_RANK)
        return FINDING(d, "%.200s: %zu dimensions; at most %d are supported", d->what, rank, OT_MAX_RANK);
    s->rank = (int)rank;
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] < 0) return FINDING(d, "%.200s: invalid dimension %zu: %lld", d->what, i, (long long)dims[i]);
        s->dim[i] = dims[i];
    }
    if (!ot_shape_fits(s, t == OT_STRING ? OT_U64 : t))
        return FINDING(d, "%.200s: the shape %s is too large", d->what, ot_shape_text(s, (char[128]){ 0 }));
    return OT_OK;
}

/* ---- encodings -------------------------------------------------------------------- */

/* A bool that is neither 0 nor 1 would be undefined behaviour where it is read as one. */
static const void *normal_bools(const decode *d, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    size_t i = 0;
    while (i < n && p[i] <= 1) i++;
    if (i == n) return bytes;
    unsigned char *q = ot_arena_alloc(d->arena, n);
    for (i = 0; q && i < n; i++) q[i] = p[i] != 0;
    return q;
}

/* int32_data holds the bits of the smaller types; the sub-byte ones a byte of several each. */
static ot_status narrow(const decode *d, const Onnx__TensorProto *t, ot_blob *out, size_t bytes)
{
    unsigned char *p = ot_arena_alloc(d->arena, bytes ? bytes : 1);
    if (!p) return no_memory(d);
    bool wide = ot_dtype_bits(out->dtype) == 16;
    for (size_t i = 0; i < t->n_int32_data; i++) {
        uint32_t v = (uint32_t)t->int32_data[i];
        p[wide ? 2 * i : i] = (unsigned char)(out->dtype == OT_BOOL ? v != 0 : v & 0xFF);
        if (wide) p[2 * i + 1] = (unsigned char)(v >> 8 & 0xFF);
    }
    out->data = p;
    return OT_OK;
}

static ot_status narrow_u32(const decode *d, const Onnx__TensorProto *t, ot_blob *out)
{
    uint32_t *p = ot_arena_alloc(d->arena, t->n_uint64_data * sizeof *p + 1);
    if (!p) return no_memory(d);
    for (size_t i = 0; i < t->n_uint64_data; i++) p[i] = (uint32_t)t->uint64_data[i];
    out->data = p;
    return OT_OK;
}

static ot_status read_strings(const decode *d, const Onnx__TensorProto *t, ot_blob *out)
{
    const char **p = ot_arena_alloc(d->arena, t->n_string_data * sizeof *p + 1);
    if (!p) return no_memory(d);
    for (size_t i = 0; i < t->n_string_data; i++) {
        const ProtobufCBinaryData *s = &t->string_data[i];
        char *c = ot_arena_alloc(d->arena, s->len + 1);
        if (!c) return no_memory(d);
        if (s->len) memcpy(c, s->data, s->len);
        p[i] = c;
    }
    out->data = p;
    return OT_OK;
}

/* The typed field that belongs to a type: its name and how many entries it has. */
static size_t entries(const Onnx__TensorProto *t, ot_dtype type, const char **field)
{
    switch (type) {
    case OT_F32: {
        *field = "float_data";
        return t->n_float_data;
    }
    case OT_F64: {
        *field = "double_data";
        return t->n_double_data;
    }
    case OT_I64: {
        *field = "int64_data";
        return t->n_int64_data;
    }
    case OT_U32:
    case OT_U64: {
        *field = "uint64_data";
        return t->n_uint64_data;
    }
    case OT_STRING: {
        *field = "string_data";
        return t->n_string_data;
    }
    default: {
        *field = "int32_data";
        return t->n_int32_data;
    }
    }
}

static ot_status read_typed(const decode *d, const Onnx__TensorProto *t, ot_blob *out, size_t bytes)
{
    const char *field;
    size_t n = entries(t, out->dtype, &field);
    size_t want = (size_t)ot_numel(&out->shape);
    int bits = ot_dtype_bits(out->dtype);
    if (bits && bits < 8) want = bytes;
    if (n != want)
        return FINDING(d, "%.200s: %s has %zu entries, but %s of type %s needs %zu", d->what, field, n,
                       ot_shape_text(&out->shape, (char[128]){ 0 }), ot_dtype_name(out->dtype), want);
    switch (out->dtype) {
    case OT_F32: out->data = t->float_data; return OT_OK;
    case OT_F64: out->data = t->double_data; return OT_OK;
    case OT_I32: out->data = t->int32_data; return OT_OK;
    case OT_I64: out->data = t->int64_data; return OT_OK;
    case OT_U64: out->data = t->uint64_data; return OT_OK;
    case OT_U32: return narrow_u32(d, t, out);
    case OT_STRING: return read_strings(d, t, out);
    default: return narrow(d, t, out, bytes);
    }
}

static ot_status read_raw(const decode *d, const Onnx__TensorProto *t, ot_blob *out, size_t bytes)
{
    if (out->dtype == OT_STRING) return FINDING(d, "%.200s: strings cannot be in raw_data", d->what);
    if (t->raw_data.len != bytes)
        return FINDING(d, "%.200s: raw_data has %zu bytes, but %s of type %s needs %zu", d->what, t->raw_data.len,
                       ot_shape_text(&out->shape, (char[128]){ 0 }), ot_dtype_name(out->dtype), bytes);
    out->data = out->dtype == OT_BOOL ? normal_bools(d, t->raw_data.data, bytes) : t->raw_data.data;
    return out->data || !bytes ? OT_OK : no_memory(d);
}

/* ---- external data ------------------------------------------------------------------ */

/* A decimal number without sign that fits in int64_t. */
static bool read_size(const char *s, int64_t *out)
{
    char *end;
    if (*s < '0' || *s > '9') return false;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    *out = v;
    return !*end && !errno;
}

static ot_status read_entries(const decode *d, const Onnx__TensorProto *t, ot_external *e)
{
    unsigned seen = 0;
    *e = (ot_external){ NULL, 0, -1 };
    for (size_t i = 0; i < t->n_external_data; i++) {
        const char *key = ot_text(t->external_data[i]->key), *value = ot_text(t->external_data[i]->value);
        unsigned bit = !strcmp(key, "location") ? 1 : !strcmp(key, "offset") ? 2 : !strcmp(key, "length") ? 4 : 0;
        if (bit & seen) return FINDING(d, "%.200s: external data has duplicate entry '%s'", d->what, key);
        seen |= bit;
        if (bit == 1) e->location = value;
        if ((bit == 2 && !read_size(value, &e->offset)) || (bit == 4 && !read_size(value, &e->length)))
            return FINDING(d, "%.200s: external data: invalid %s '%.40s'", d->what, key, value);
    }
    if (!e->location) return FINDING(d, "%.200s: external data has no location", d->what);
    return OT_OK;
}

static ot_status read_external(const decode *d, const Onnx__TensorProto *t, ot_blob *out, size_t bytes,
                               const ot_external **external)
{
    if (!d->file) return FINDING(d, "%.200s: external data is not allowed here", d->what);
    if (out->dtype == OT_STRING) return FINDING(d, "%.200s: strings cannot be external data", d->what);
    ot_external *e = ot_arena_alloc(d->arena, sizeof *e);
    if (!e) return no_memory(d);
    OT_TRY(read_entries(d, t, e));
    if (e->length >= 0 && (uint64_t)e->length != bytes)
        return FINDING(d, "%.200s: external data has length %lld, but %s of type %s needs %zu", d->what,
                       (long long)e->length, ot_shape_text(&out->shape, (char[128]){ 0 }), ot_dtype_name(out->dtype),
                       bytes);
    const void *p;
    size_t element = ((size_t)ot_dtype_bits(out->dtype) + 7) / 8;
    OT_TRY(ot_file_external(d->file, e, bytes, element, ot_text(t->name), &p, d->found));
    if (external) *external = e;
    out->data = out->dtype == OT_BOOL ? normal_bools(d, p, bytes) : p;
    return out->data ? OT_OK : no_memory(d);
}

/* ---- all of it ------------------------------------------------------------------------ */

static int encodings(const Onnx__TensorProto *t)
{
    return (t->n_float_data > 0) + (t->n_int32_data > 0) + (t->n_int64_data > 0) + (t->n_double_data > 0) +
           (t->n_uint64_data > 0) + (t->n_string_data > 0) + (t->raw_data.len > 0);
}

ot_status ot_tensor_decode(ot_file *f, ot_arena *a, const Onnx__TensorProto *t, const char *what, ot_blob *out,
                           const ot_external **external, ot_error *found)
{
    decode d = { f, a, what, found };
    *out = (ot_blob){ .source = -1 };
    if (external) *external = NULL;
    OT_TRY(known_type(&d, t->data_type));
    out->dtype = (ot_dtype)t->data_type;
    OT_TRY(read_shape(&d, t->dims, t->n_dims, out->dtype, &out->shape));
    if (t->segment) return FINDING(&d, "%.200s: tensors in segments are not supported", what);
    size_t bytes = out->dtype == OT_STRING ? 0 : ot_bytes(&out->shape, out->dtype);
    int n = encodings(t);
    if (t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) {
        if (n) return FINDING(&d, "%.200s: has both external data and its own data", what);
        OT_TRY(read_external(&d, t, out, bytes, external));
    } else if (n > 1) {
        return FINDING(&d, "%.200s: has data in %d fields, expected one", what, n);
    } else {
        OT_TRY(t->raw_data.len ? read_raw(&d, t, out, bytes) : read_typed(&d, t, out, bytes));
    }
    /* An empty tensor has data too: a pointer that is never read. */
    if (!out->data) out->data = ot_arena_alloc(a, 1);
    return out->data ? OT_OK : no_memory(&d);
}

/* Position in row-major order of entry i; false: out of range. */
static bool sparse_position(const ot_blob *index, const ot_shape *s, int64_t i, int64_t total, int64_t *out)
{
    const int64_t *p = index->data;
    if (index->shape.rank == 1) {
        *out = p[i];
        return p[i] >= 0 && p[i] < total;
    }
    int64_t at = 0;
    for (int d = 0; d < s->rank; d++) {
        int64_t k = p[i * s->rank + d];
        if (k < 0 || k >= s->dim[d]) return false;
        at = at * s->dim[d] + k;
    }
    *out = at;
    return true;
}

ot_status ot_tensor_densify(ot_file *f, ot_arena *a, const Onnx__SparseTensorProto *t, const char *what, ot_blob *out,
                            ot_error *found)
{
    decode d = { f, a, what, found };
    ot_blob values, index;
    *out = (ot_blob){ .source = -1 };
    if (!t->values || !t->indices) return FINDING(&d, "%.200s: the sparse tensor has no values or no indices", what);
    OT_TRY(ot_tensor_decode(f, a, t->values, what, &values, NULL, found));
    OT_TRY(ot_tensor_decode(f, a, t->indices, what, &index, NULL, found));
    out->dtype = values.dtype;
    OT_TRY(read_shape(&d, t->dims, t->n_dims, values.dtype, &out->shape));
    int bits = ot_dtype_bits(values.dtype);
    if (bits < 8)
        return FINDING(&d, "%.200s: sparse tensors of type %s are not supported", what, ot_dtype_name(values.dtype));
    int64_t n = values.shape.rank == 1 ? values.shape.dim[0] : -1, total = ot_numel(&out->shape);
    bool rows = index.shape.rank == 2 && index.shape.dim[1] == out->shape.rank;
    if (n < 0 || index.dtype != OT_I64 || !(index.shape.rank == 1 || rows) || index.shape.dim[0] != n)
        return FINDING(&d,
                       "%.200s: the values of a sparse tensor have shape %s and its indices %s; expected indices "
                       "[N] or [N,rank] for N values",
                       what, ot_shape_text(&values.shape, (char[128]){ 0 }),
                       ot_shape_text(&index.shape, (char[128]){ 0 }));
    size_t bytes = ot_bytes(&out->shape, out->dtype), each = (size_t)bits / 8;
    /* What a few entries stand for is the file's claim alone: all of them together may be as large as a file. */
    if (bytes > OT_LARGEST_FILE - f->densified)
        return FINDING(&d,
                       "%.200s: the sparse tensor needs %zu bytes as a dense tensor; the limit for all in a file "
                       "is %zu",
                       what, bytes, OT_LARGEST_FILE);
    f->densified += bytes;
    unsigned char *p = ot_arena_alloc(a, bytes ? bytes : 1);
    if (!p) return no_memory(&d);
    for (int64_t i = 0, at, last = -1; i < n; i++, last = at) {
        if (!sparse_position(&index, &out->shape, i, total, &at))
            return FINDING(&d, "%.200s: index of entry %lld of a sparse tensor is out of range", what, (long long)i);
        if (at <= last)
            return FINDING(&d, "%.200s: the indices of a sparse tensor must be sorted and unique; entry %lld is not",
                           what, (long long)i);
        memcpy(p + (size_t)at * each, (const unsigned char *)values.data + (size_t)i * each, each);
    }
    out->data = p;
    return OT_OK;
}

static ot_status import_bytes(const char *path, const uint8_t *bytes, size_t n, ot_arena *a, ot_tensor *out,
                              ot_error *err)
{
    ot_budget budget;
    ProtobufCMessage *m;
    OT_TRY(ot_guard_unpack(&onnx__tensor_proto__descriptor, bytes, n, path, NULL, &budget, &m, err));
    const Onnx__TensorProto *t = (const Onnx__TensorProto *)m;
    ot_blob b;
    ot_status s = ot_tensor_decode(NULL, a, t, path, &b, NULL, err);
    if (s == OT_OK) {
        size_t size = b.dtype == OT_STRING ? (size_t)ot_numel(&b.shape) * sizeof(char *) : ot_bytes(&b.shape, b.dtype);
        *out = (ot_tensor){ .name = ot_arena_strdup(a, ot_text(t->name)),
                            .dtype = b.dtype,
                            .rank = b.shape.rank,
                            .data = ot_arena_copy(a, b.data, size ? size : 1) };
        for (int i = 0; i < b.shape.rank; i++) out->dim[i] = b.shape.dim[i];
        if (!out->name || !out->data) s = ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    }
    ot_guard_free(m, &budget);
    return s;
}

ot_status ot_import_tensor(const char *path, ot_arena *a, ot_tensor *out, ot_error *err)
{
    void *bytes;
    size_t n;
    *out = (ot_tensor){ 0 };
    OT_TRY(ot_read_file(path, OT_LARGEST_FILE, &bytes, &n, err));
    ot_status s = import_bytes(path, bytes, n, a, out, err);
    free(bytes);
    return s;
}
