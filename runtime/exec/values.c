/* values.c - copies values between their layout in memory and row-major bytes of the host. */
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "runtime/exec/memory.h"

/* Elements between row-major order and v's layout; to_layout: `from` is row-major. */
static void reorder(const ot_value *v, const char *from, char *to, bool to_layout)
{
    int64_t stride[OT_MAX_RANK], at[OT_MAX_RANK] = { 0 };
    size_t one = (size_t)ot_dtype_bits(v->dtype) / 8;
    ot_value_strides(v, stride);
    for (int64_t i = 0, n = ot_numel(&v->shape); i < n; i++) {
        int64_t there = 0;
        for (int d = 0; d < v->shape.rank; d++) there += at[d] * stride[d];
        if (to_layout) memcpy(to + (size_t)there * one, from + (size_t)i * one, one);
        else memcpy(to + (size_t)i * one, from + (size_t)there * one, one);
        for (int d = v->shape.rank - 1; d >= 0 && ++at[d] == v->shape.dim[d]; d--) at[d] = 0;
    }
}

/* Does v need reordering?  Elements smaller than a byte have one layout only. */
static bool is_plain(const ot_value *v) { return v->layout == OT_PLAIN || ot_dtype_bits(v->dtype) < 8; }

ot_status ot_value_put(ot_device *d, const ot_value *v, void *at, const void *from, ot_error *err)
{
    size_t n = ot_bytes(&v->shape, v->dtype);
    if (!n) return OT_OK;
    char *ordered = is_plain(v) ? NULL : malloc(n);
    if (!is_plain(v)) {
        if (!ordered) return ot_fail(err, OT_E_NOMEM, "no memory for '%s'", v->name);
        reorder(v, from, ordered, true);
        from = ordered;
    }
    ot_status s = OT_OK;
    if (d) s = d->backend->upload(d, at, from, (int64_t)n, err);
    else memcpy(at, from, n);
    free(ordered);
    return s;
}

ot_status ot_value_get(ot_device *d, const ot_value *v, const void *at, void *to, ot_error *err)
{
    size_t n = ot_bytes(&v->shape, v->dtype);
    if (!n) return OT_OK;
    char *raw = d && !is_plain(v) ? malloc(n) : NULL;
    if (d && !is_plain(v) && !raw) return ot_fail(err, OT_E_NOMEM, "no memory for '%s'", v->name);
    ot_status s = OT_OK;
    if (d) s = d->backend->download(d, raw ? raw : to, at, (int64_t)n, err);
    if (d && s == OT_OK) s = d->backend->wait(d, err);
    if (s == OT_OK && !is_plain(v)) reorder(v, raw ? raw : at, to, false);
    else if (s == OT_OK && !d) memcpy(to, at, n);
    free(raw);
    return s;
}
