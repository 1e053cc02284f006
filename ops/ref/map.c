/* map.c - the reference of Map: element by element, every type, one function per row.
 *
 * Numerics  each register is computed in its class, by the C library's own functions. */

#include <string.h>

#include "ops/kernel.h"
#include "ops/kernels/map.h"

typedef float row_f32(float g, float a, float b, float c, float y, double p, double q);
typedef double row_f64(double g, double a, double b, double c, double y, double p, double q);
typedef int64_t row_i64(int64_t g, int64_t a, int64_t b, int64_t c, int64_t y, double p, double q);
typedef uint64_t row_u64(uint64_t g, uint64_t a, uint64_t b, uint64_t c, uint64_t y, double p, double q);

#define T float
#define CLS f32
#define ROW_FLOAT 1
#define ROW_TYPE row_f32
#define ROW_FORWARD(fn)
#define ROW_BACKWARD(fn)
#define ROW_ENTRY(fn) fn
#include "ops/kernels/functions.inc"

#define T double
#define CLS f64
#define ROW_FLOAT 1
#define ROW_TYPE row_f64
#define ROW_FORWARD(fn)
#define ROW_BACKWARD(fn)
#define ROW_ENTRY(fn) fn
#include "ops/kernels/functions.inc"

#define T int64_t
#define CLS i64
#define ROW_FLOAT 0
#define ROW_TYPE row_i64
#define ROW_FORWARD(fn)
#define ROW_BACKWARD(fn)
#define ROW_ENTRY(fn) fn
#include "ops/kernels/functions.inc"

#define T uint64_t
#define CLS u64
#define ROW_FLOAT 0
#define ROW_TYPE row_u64
#define ROW_FORWARD(fn)
#define ROW_BACKWARD(fn)
#define ROW_ENTRY(fn) fn
#include "ops/kernels/functions.inc"

/* A register. */
typedef union reg {
    float f32;
    double f64;
    int64_t i64;
    uint64_t u64;
} reg;

static void store(void *p, ot_dtype t, int64_t i, ot_class cls, reg r)
{
    switch (cls) {
    case OT_CLASS_F32: ot_set_f64(p, t, i, (double)r.f32); break;
    case OT_CLASS_F64: ot_set_f64(p, t, i, r.f64); break;
    case OT_CLASS_I64: ot_set_i64(p, t, i, r.i64); break;
    case OT_CLASS_U64:
        if (t == OT_F32) {
            float v = (float)r.u64;
            memcpy((char *)p + (size_t)i * sizeof v, &v, sizeof v);
        } else if (ot_is_float(t)) {
            ot_set_f64(p, t, i, (double)r.u64);
        } else {
            ot_set_i64(p, t, i, (int64_t)r.u64);
        }
        break;
    }
}

static void store_out(void *p, int how, int64_t i, ot_class cls, reg r)
{
    ot_dtype t = (ot_dtype)(how & ~OT_MAP_NO_SATURATE);
    if (!(how & OT_MAP_NO_SATURATE)) {
        store(p, t, i, cls, r);
        return;
    }
    uint64_t v; /* any class as a double, then without saturation */
    store(&v, OT_F64, 0, cls, r);
    ((uint8_t *)p)[i] = (uint8_t)ot_float_encode(ot_get_f64(&v, OT_F64, 0), t, false);
}

static reg load(const void *p, ot_dtype t, int64_t i, ot_class cls)
{
    reg r = { .u64 = 0 };
    switch (cls) {
    case OT_CLASS_F32:
        if (t == OT_U64) r.f32 = (float)(uint64_t)ot_get_i64(p, t, i);
        else if (ot_is_float(t)) r.f32 = (float)ot_get_f64(p, t, i);
        else r.f32 = (float)ot_get_i64(p, t, i);
        break;
    case OT_CLASS_F64: r.f64 = ot_get_f64(p, t, i); break;
    case OT_CLASS_I64: r.i64 = ot_get_i64(p, t, i); break;
    case OT_CLASS_U64:
        if (ot_is_float(t)) ot_set_f64(&r.u64, OT_U64, 0, ot_get_f64(p, t, i));
        else r.u64 = (uint64_t)ot_get_i64(p, t, i);
        break;
    }
    return r;
}

/* Special rows; k is the logical position of the element in a tensor of shape s. */
static reg special(const ot_program *p, const ot_inst *inst, const reg *r, int64_t k, const ot_shape *s)
{
    ot_class cls = (ot_class)inst->cls;
    uint64_t bytes = 0;
    if (inst->row == OT_FN_Convert) {
        ot_dtype by = inst->p != 0 ? (ot_dtype)inst->p : ot_class_dtype(cls);
        store(&bytes, by, 0, ot_map_class(p, inst->arg[0]), r[inst->arg[0]]);
        return load(&bytes, by, 0, cls);
    }
    if (inst->row == OT_FN_Index) {
        int64_t stride[OT_MAX_RANK];
        int axis = (int)inst->p;
        ot_strides(s, stride);
        int64_t at = axis < s->rank ? k / stride[axis] % s->dim[axis] : 0;
        return load(&at, OT_I64, 0, cls);
    }
    float u = ot_map_random(r[inst->arg[0]].u64, r[inst->arg[1]].u64, inst->p, k);
    return load(&u, OT_F32, 0, cls);
}

static reg step(const ot_program *p, const ot_inst *inst, const reg *r, int64_t k, const ot_shape *s)
{
    static const reg none;
    const reg *v[OT_MAP_ARGS + 1]; /* g a b c y */
    int row = inst->row, first = row % 4 == 0 ? 1 : 0;
    if (row >= OT_FN_Convert) return special(p, inst, r, k, s);
    v[0] = &none;
    for (int i = 0; i < OT_MAP_ARGS; i++) v[i + first] = inst->arg[i] < 0 ? &none : &r[inst->arg[i]];
    reg y = { .u64 = 0 };
#define CALL(cls) \
    y.cls = row_table_##cls[row](v[0]->cls, v[1]->cls, v[2]->cls, v[3]->cls, v[4]->cls, inst->p, inst->q)
    switch ((ot_class)inst->cls) {
    case OT_CLASS_F32: CALL(f32); break;
    case OT_CLASS_F64: CALL(f64); break;
    case OT_CLASS_I64: CALL(i64); break;
    case OT_CLASS_U64: CALL(u64); break;
    }
#undef CALL
    return y;
}

/* Steps of a broadcast input along the axes of the result. */
static void strides_in(const ot_shape *x, const ot_shape *y, int64_t stride[OT_MAX_RANK])
{
    int64_t own[OT_MAX_RANK];
    int gap = y->rank - x->rank;
    ot_strides(x, own);
    for (int d = 0; d < y->rank; d++) stride[d] = d < gap || x->dim[d - gap] == 1 ? 0 : own[d - gap];
}

static ot_status map_run(const ot_call *c)
{
    const ot_node *n = c->node;
    const ot_program *p = n->attrs;
    ot_shape s = OT_SCALAR;
    int64_t stride[OT_MAP_IN][OT_MAX_RANK], at[OT_MAP_IN] = { 0 }, coord[OT_MAX_RANK] = { 0 };
    reg r[OT_MAP_IN + OT_MAP_INST];

    for (int i = 0; i < p->n_in; i++) ot_broadcast(&s, &n->in[i]->shape, &s);
    for (int i = 0; i < p->n_in; i++) strides_in(&n->in[i]->shape, &s, stride[i]);
    for (int64_t k = 0, len = ot_numel(&s); k < len; k++) {
        for (int i = 0; i < p->n_in; i++) r[i] = load(c->in[i], n->in[i]->dtype, at[i], (ot_class)p->in_class[i]);
        for (int i = 0; i < p->n_inst; i++) r[p->n_in + i] = step(p, &p->inst[i], r, k, &s);
        for (int o = 0; o < p->n_out; o++)
            if (c->out[o]) store_out(c->out[o], p->out_dtype[o], k, ot_map_class(p, p->out[o]), r[p->out[o]]);
        for (int d = s.rank - 1; d >= 0; d--) { /* the next coordinate */
            for (int i = 0; i < p->n_in; i++) at[i] += stride[i][d];
            if (++coord[d] < s.dim[d]) break;
            for (int i = 0; i < p->n_in; i++) at[i] -= stride[i][d] * s.dim[d];
            coord[d] = 0;
        }
    }
    return OT_OK;
}

const ot_kernel ot_ref_Map = { .name = "ref", .run = map_run };
