/* tensor.c - new payloads for tensors whose data is in the model file.
 *
 * Numerics  Elements are compared as numbers: 0 and -0 are equal, and a NaN that was there is equal to
 *           a NaN, so what training did not change keeps its bits.  Integers and types of less than a
 *           byte are compared by their bits.
 * Spec      raw_data little-endian; float_data and double_data of fixed width, packed or not;
 *           int32_data, int64_data and uint64_data as varints, whose new elements are written in
 *           their shortest form while unchanged ones stay as they were, overlong or not. */
#include "exporter/patch.h"

#include <math.h>
#include <string.h>

/* ---- what changes ---------------------------------------------------------------- */

/* Whether the float elements i of two arrays are the same number; *finite tells of b's. */
static bool same_number(const void *a, const void *b, ot_dtype t, int64_t i, bool *finite)
{
    double x = ot_get_f64(a, t, i), y = ot_get_f64(b, t, i);
    *finite = isfinite(y);
    return x == y || (isnan(x) && isnan(y));
}

/* Elements that are looked at together, since in a trained model nearly all are other finite numbers than before. */
enum { PART = 4096 };

/* Whether n floats of single precision have no number that is not finite or equal to what it was in other bits. */
static bool all_moved(const unsigned char *was, const unsigned char *is, int64_t n)
{
    unsigned odd = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t a, b;
        memcpy(&a, was + 4 * i, 4); /* the file's bytes are not aligned */
        memcpy(&b, is + 4 * i, 4);
        unsigned zeros = !((a | b) << 1), infinite = b << 1 >= 0xff000000U;
        odd |= (a != b) & (zeros | infinite);
    }
    return !odd;
}

/* Goes through the elements whose bits differ.  With `fixed` given, bits of equal ones are put
 * back there; without, *mixed tells whether there are such. */
static ot_status compare_floats(const ot_source *s, const void *bytes, unsigned char *fixed, bool *mixed, ot_error *err)
{
    size_t each = (size_t)ot_dtype_bits(s->dtype) / 8;
    const unsigned char *was = s->data, *is = bytes;
    int64_t n = ot_numel(&s->shape);
    for (int64_t i = 0; i < n; i++) {
        size_t at = (size_t)i * each;
        if (s->dtype == OT_F32 && i % PART == 0 && i + PART <= n && all_moved(was + at, is + at, PART)) {
            i += PART - 1;
            continue;
        }
        if (!memcmp(was + at, is + at, each)) continue;
        bool finite;
        if (!same_number(was, is, s->dtype, i, &finite)) {
            if (!finite)
                return ot_fail(err, OT_E_DIVERGED, "%s: element %lld is %g; nothing is written", s->name, (long long)i,
                               ot_get_f64(is, s->dtype, i));
            continue;
        }
        *mixed = true;
        if (fixed) memcpy(fixed + at, was + at, each);
    }
    return OT_OK;
}

ot_status ot_payload_merge(ot_arena *a, const ot_source *s, const void *bytes, const void **out, ot_error *err)
{
    *out = s->data;
    size_t n = ot_bytes(&s->shape, s->dtype);
    if (!n || !memcmp(s->data, bytes, n)) return OT_OK;
    *out = bytes;
    if (!ot_is_float(s->dtype) || ot_dtype_bits(s->dtype) < 8) return OT_OK;
    bool mixed = false;
    OT_TRY(compare_floats(s, bytes, NULL, &mixed, err));
    if (!mixed) return OT_OK;
    unsigned char *fixed = ot_arena_copy(a, bytes, n);
    if (!fixed) return ot_fail(err, OT_E_NOMEM, "%s: no memory to write it", s->name);
    OT_TRY(compare_floats(s, bytes, fixed, &mixed, err));
    *out = memcmp(s->data, fixed, n) ? fixed : s->data;
    return OT_OK;
}

/* ---- typed fields ------------------------------------------------------------------ */

typedef struct typed {
    ot_patch *patch;
    int span;
    uint32_t number;
    ot_dtype dtype;
    size_t each;                   /* bytes of one entry in memory */
    const unsigned char *was, *is; /* all entries */
    size_t n, k;                   /* entries there are, entries met */
} typed;

/* Entries k.. of a field of fixed width: the wire has them as memory has. */
static void edit_fixed(typed *t, const ot_field *f)
{
    size_t bytes = f->end - f->body, at = t->k * t->each;
    if (at + bytes > t->n * t->each) bytes = 0; /* more than the shape has: ot_payload_edit tells */
    if (bytes && memcmp(t->was + at, t->is + at, bytes))
        ot_patch_edit(t->patch, t->span, f->body, f->end, t->is + at, bytes);
    t->k += (f->end - f->body) / t->each;
}

/* Entry k as the varint of its field: signed types extend their sign, bits of others are as they are. */
static uint64_t varint_value(const typed *t, size_t k)
{
    const unsigned char *p = t->is + k * t->each;
    uint64_t v = 0;
    for (size_t i = 0; i < t->each; i++) v |= (uint64_t)p[i] << (8 * i);
    unsigned bits = 8 * (unsigned)t->each;
    bool is_signed = ot_is_int(t->dtype) && ot_is_signed(t->dtype) && ot_dtype_bits(t->dtype) >= 8;
    if (is_signed && bits < 64 && v >> (bits - 1)) v |= ~(uint64_t)0 << bits;
    return v;
}

/* Writes the varints of [body, end) with the changed ones replaced.  out NULL: only counts.  Returns the bytes. */
static size_t encode_varints(const typed *t, size_t body, size_t end, uint8_t *out, size_t *entries)
{
    size_t n = 0, k = t->k;
    for (size_t at = body; at < end; k++) {
        size_t from = at;
        ot_varint_read(t->patch->p, &at, end);
        bool changed = k < t->n && memcmp(t->was + k * t->each, t->is + k * t->each, t->each);
        if (changed) {
            n += ot_varint_write(out ? out + n : NULL, varint_value(t, k));
        } else {
            if (out) memcpy(out + n, t->patch->p + from, at - from);
            n += at - from;
        }
    }
    *entries = k - t->k;
    return n;
}

static void edit_varints(typed *t, const ot_field *f)
{
    size_t entries, n = encode_varints(t, f->body, f->end, NULL, &entries);
    size_t last = t->k + entries < t->n ? t->k + entries : t->n;
    size_t at = t->k * t->each, bytes = t->k < last ? (last - t->k) * t->each : 0;
    if (bytes && memcmp(t->was + at, t->is + at, bytes)) {
        uint8_t *out = ot_arena_alloc(t->patch->arena, n);
        int span = t->span;
        if (f->wire == 2) span = ot_patch_span(t->patch, t->span, f);
        if (!out || (f->wire == 2 && !span)) {
            t->patch->no_memory = true;
            return;
        }
        encode_varints(t, f->body, f->end, out, &entries);
        ot_patch_edit(t->patch, span, f->body, f->end, out, n);
    }
    t->k += entries;
}

static void typed_field(typed *t)
{
    switch (t->dtype) {
    case OT_F32: t->number = OT_TENSOR_FLOATS; break;
    case OT_F64: t->number = OT_TENSOR_DOUBLES; break;
    case OT_I64: t->number = OT_TENSOR_INT64S; break;
    case OT_U32:
    case OT_U64: t->number = OT_TENSOR_UINT64S; break;
    default: t->number = OT_TENSOR_INT32S; break;
    }
}

ot_status ot_payload_edit(ot_patch *p, int span, const ot_source *s, const void *payload, ot_error *err)
{
    ot_field f;
    size_t bytes = ot_bytes(&s->shape, s->dtype);
    bool list = p->span[span].floats;
    if (!list && ot_field_last(p, span, OT_TENSOR_RAW, &f) && f.end > f.body) {
        if (f.end - f.body != bytes)
            return ot_fail(err, OT_E_INTERNAL, "%s: internal error: raw_data is not at its offset", s->name);
        ot_patch_edit(p, span, f.body, f.end, payload, bytes);
        return OT_OK;
    }
    if (list && s->shape.rank == 0 && ot_field_last(p, span, OT_ATTRIBUTE_F, &f)) {
        ot_patch_edit(p, span, f.body, f.end, payload, bytes);
        return OT_OK;
    }
    int bits = ot_dtype_bits(s->dtype);
    typed t = { .patch = p,
                .span = span,
                .dtype = s->dtype,
                .each = bits < 8 ? 1 : (size_t)bits / 8,
                .was = s->data,
                .is = payload };
    t.n = bytes / t.each;
    typed_field(&t);
    if (list) t.number = OT_ATTRIBUTE_FLOATS;
    bool fixed = list || t.number == OT_TENSOR_FLOATS || t.number == OT_TENSOR_DOUBLES;
    for (size_t at = p->span[span].body, end = p->span[span].end; ot_field_next(p->p, &at, end, &f);) {
        if (f.number != t.number) continue;
        if (fixed) edit_fixed(&t, &f);
        else edit_varints(&t, &f);
    }
    if (t.k != t.n && !p->no_memory)
        return ot_fail(err, OT_E_INTERNAL, "%s: internal error: %zu entries, but %zu were read", s->name, t.k, t.n);
    return OT_OK;
}
