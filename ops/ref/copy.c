/* copy.c - Copy and CopyDx, one element after the other.
 *
 * Memory    CopyDx of half-precision values is summed in a workspace of floats.
 * Numerics  CopyDx adds piece after piece, each in row-major order of its box. */
#include "ops/kernels/copy.h"
#include "ops/kernel.h"

#include <string.h>

/* y[i] = x[j]; elements of less than a byte are packed from the low bits. */
static void move_element(void *y, int64_t i, const void *x, int64_t j, int bits)
{
    if (bits >= 8) {
        size_t n = (size_t)bits / 8;
        memcpy((char *)y + (size_t)i * n, (const char *)x + (size_t)j * n, n);
        return;
    }
    int per = 8 / bits, at = (int)(i % per) * bits, from = (int)(j % per) * bits;
    unsigned mask = (1u << bits) - 1;
    unsigned v = (unsigned)((const unsigned char *)x)[j / per] >> from & mask;
    unsigned char *byte = (unsigned char *)y + i / per;
    *byte = (unsigned char)((*byte & ~(mask << at)) | v << at);
}

/* The next coordinate of the box in row-major order; false: k was the last. */
static bool step(int64_t *k, const int64_t *extent, int rank)
{
    for (int d = rank - 1; d >= 0; d--) {
        if (++k[d] < extent[d]) return true;
        k[d] = 0;
    }
    return false;
}

static bool is_empty(const ot_piece *p, int rank)
{
    for (int d = 0; d < rank; d++)
        if (p->extent[d] == 0) return true;
    return false;
}

/* Coordinate k of the box, as element of the dense tensor and of the other one. */
static void locate(const ot_piece *p, const int64_t *k, const int64_t *dense, int rank, int64_t *d, int64_t *s)
{
    *d = 0;
    *s = p->src;
    for (int i = 0; i < rank; i++) {
        *d += (p->dst[i] + k[i]) * dense[i];
        *s += k[i] * p->stride[i];
    }
}

static ot_status copy_run(const ot_call *c)
{
    const ot_copy *a = c->node->attrs;
    const ot_value *y = c->node->out[0];
    int bits = ot_dtype_bits(y->dtype), rank = a->shape.rank;
    int64_t ys[OT_MAX_RANK], n = ot_numel(&a->shape), i, j;

    for (i = 0; i < n; i++) ot_set_f64(c->out[0], y->dtype, i, a->fill);
    ot_strides(&a->shape, ys);
    for (const ot_piece *p = a->piece; p < a->piece + a->n; p++) {
        int64_t k[OT_MAX_RANK] = { 0 };
        if (is_empty(p, rank)) continue;
        do {
            locate(p, k, ys, rank, &i, &j);
            move_element(c->out[0], i, c->in[p->in], j, bits);
        } while (step(k, p->extent, rank));
    }
    return OT_OK;
}

static ot_status copy_add_prepare(const ot_node *n, ot_prep *p)
{
    const ot_copy *a = n->attrs;
    ot_dtype t = n->in[0]->dtype;
    if (ot_is_float(t) && t != OT_F64) p->work = (size_t)ot_numel(&a->shape) * sizeof(double);
    return OT_OK;
}

static ot_status copy_add_run(const ot_call *c)
{
    const ot_copy *a = c->node->attrs;
    const ot_value *dy = c->node->in[0];
    ot_dtype t = dy->dtype;
    int rank = dy->shape.rank;
    int64_t ds[OT_MAX_RANK], n = ot_numel(&a->shape), i, j;
    double *sum = t == OT_F64 ? c->out[0] : c->work;

    if (!ot_is_float(t))
        for (j = 0; j < n; j++) ot_set_i64(c->out[0], t, j, 0);
    else
        for (j = 0; j < n; j++) sum[j] = 0;
    ot_strides(&dy->shape, ds);
    for (const ot_piece *p = a->piece; p < a->piece + a->n; p++) {
        int64_t k[OT_MAX_RANK] = { 0 };
        if (is_empty(p, rank)) continue;
        do {
            locate(p, k, ds, rank, &i, &j);
            if (ot_is_float(t)) sum[j] += ot_get_f64(c->in[0], t, i);
            else /* unsigned, so that an overflow wraps */
                ot_set_i64(c->out[0], t, j,
                           (int64_t)((uint64_t)ot_get_i64(c->out[0], t, j) + (uint64_t)ot_get_i64(c->in[0], t, i)));
        } while (step(k, p->extent, rank));
    }
    if (ot_is_float(t) && t != OT_F64)
        for (j = 0; j < n; j++) ot_set_f64(c->out[0], t, j, sum[j]);
    return OT_OK;
}

const ot_kernel ot_ref_Copy = { .name = "ref", .run = copy_run };
const ot_kernel ot_ref_CopyDx = { .name = "ref", .prepare = copy_add_prepare, .run = copy_add_run };
