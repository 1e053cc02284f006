/* deploy_half.c - converts weights and safe operators to float16; inputs and outputs of the file keep their types.
 *
 * Matrix products, convolutions and lookups in a constant compute in float16.  Operators that only move elements or
 * keep their range have the type of their input.  All others stay in float32: sums, exponentials, norms, control
 * flow, functions, unknown operators, and readers of a constant that float16 cannot hold.  Casts are inserted where
 * the type changes, one per value.
 *
 * Numerics  Rounded to nearest even; the largest float16 is 65504. */
#include "exporter/body.h"

#include <math.h>
#include <stdio.h>

#define LARGEST 65504.0

typedef struct half {
    ot_body *b;
    int tensors, items;
} half;

static const ot_op *op_of(const ot_item *i)
{
    return i->dead ? NULL : ot_find_op(ot_domain(i->n->domain), ot_text(i->n->op_type));
}

static ot_dtype type_of(const half *h, const ot_name *v)
{
    const Onnx__TensorProto *t = ot_body_constant(h->b, v, NULL);
    if (t) return (ot_dtype)t->data_type;
    const ot_value *known = ot_body_value(h->b, v);
    return known ? known->dtype : OT_UNDEFINED;
}

/* ---- who computes in float16 --------------------------------------------------------------- */

/* Whether every finite element of a constant can be held. */
static ot_status fits_half(const ot_body *b, const Onnx__TensorProto *t, bool *fits)
{
    ot_blob v;
    *fits = true;
    if (t->data_type != OT_F32) return OT_OK;
    OT_TRY(ot_body_decode(b, t, &v));
    for (int64_t i = 0, n = ot_numel(&v.shape); i < n && *fits; i++) {
        double x = ot_get_f64(v.data, v.dtype, i);
        *fits = !isfinite(x) || fabs(x) <= LARGEST;
    }
    return OT_OK;
}

static ot_status decide(half *h, ot_item *i)
{
    const ot_op *op = op_of(i);
    ot_half how = op ? op->half : OT_HALF_NEVER;
    bool product = how == OT_HALF_PRODUCT || how == OT_HALF_NORM, float_in = false;
    bool table = ot_item_is(i, "Gather") && ot_body_constant(h->b, ot_item_in(h->b, i, 0), NULL);
    if (!product && how != OT_HALF_FOLLOWS) return OT_OK;
    const ot_name *y = ot_item_out(h->b, i, 0);
    if (!y || y->makers != 1 || type_of(h, y) != OT_F32) return OT_OK;
    if (ot_item_is(i, "Div") && !ot_body_constant(h->b, ot_item_in(h->b, i, 1), NULL)) return OT_OK;
    for (size_t k = 0; k < i->n->n_input; k++) {
        const ot_name *v = ot_item_in(h->b, i, k);
        if (!v) continue;
        const Onnx__TensorProto *t = ot_body_constant(h->b, v, NULL);
        ot_dtype type = type_of(h, v);
        bool fits = type != OT_UNDEFINED && v->makers == 1;
        if (t && fits) OT_TRY(fits_half(h->b, t, &fits));
        if (!t && type == OT_F32) float_in = true, fits = fits && (product || (v->maker && v->maker->half));
        if (!fits) return OT_OK;
    }
    i->half = float_in || table;
    return OT_OK;
}

/* ---- values ----------------------------------------------------------------------------------- */

static bool wants_float(const ot_use *u)
{
    const ot_op *op = u->item ? op_of(u->item) : NULL;
    return !u->item || (!u->item->half && !(op && op->flags & OT_FROM_SHAPES)); /* which takes any type */
}

static void cast(half *h, ot_item *by, bool before, ot_name *in, ot_name *out, ot_dtype to)
{
    ot_item *i = in && out ? ot_body_unary(h->b, by, before, "Cast", in, out) : NULL;
    if (i) ot_attr_set_int(h->b, i->n, "to", to);
}

static ot_name *other_name(half *h, const ot_name *v, const char *suffix)
{
    const char *stem = ot_arena_printf(h->b->arena, "%s%s", v->text, suffix);
    if (!stem) h->b->no_memory = true;
    return stem ? ot_body_new(h->b, stem) : NULL;
}

/* Uses that want float32 (or do not) get `to`. */
static void uses_move(half *h, ot_name *from, ot_name *to, bool floats)
{
    ot_use *next;
    for (ot_use *u = from->use; u; u = next) {
        next = u->next;
        if (wants_float(u) == floats) ot_use_set(h->b, from, u, to);
    }
}

/* What a float16 node makes: a cast for those who read it as float32. */
static void made(half *h, ot_item *i, size_t at)
{
    ot_name *v = ot_item_out(h->b, i, at);
    bool floats = false;
    if (!v || type_of(h, v) != OT_F32) return;
    for (const ot_use *u = v->use; u; u = u->next) floats |= wants_float(u);
    v->half = true;
    if (!floats && !v->output) return;
    ot_name *other = other_name(h, v, v->output ? "_fp16" : "_fp32");
    if (!other) return;
    if (v->output) { /* its name is the file's: it stays float32 */
        uses_move(h, v, other, false);
        ot_item_set_out(h->b, i, at, other);
        other->half = true;
        v->half = false;
        v->twin = other;
        cast(h, i, false, other, v, OT_F32);
    } else {
        uses_move(h, v, other, true);
        cast(h, i, false, v, other, OT_F32);
    }
}

/* Declares the value float16, where a tensor is declared. */
static void declare_half(Onnx__TypeProto *t)
{
    if (t && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && t->tensor_type) t->tensor_type->elem_type = OT_F16;
}

static ot_status constant_read(half *h, ot_name *v, Onnx__TensorProto *t)
{
    ot_body *b = h->b;
    ot_blob was;
    OT_TRY(ot_body_decode(b, t, &was));
    int64_t n = ot_numel(&was.shape);
    void *p = ot_body_alloc(b, (size_t)n * 2);
    for (int64_t i = 0; p && i < n; i++) ot_set_f64(p, OT_F16, i, ot_get_f64(was.data, was.dtype, i));
    bool all = v->tensor == t || ot_item_is(v->maker, "Constant"); /* not through Identity */
    for (const ot_use *u = v->use; u; u = u->next) all &= u->item && u->item->half;
    h->tensors++;
    if (all && p) {
        ot_body_payload(b, t, OT_F16, &was.shape, p);
        v->half = true;
        if (v->input) declare_half(v->input->type); /* up to IR version 3 */
        return OT_OK;
    }
    const char *stem = ot_arena_printf(b->arena, "%s_fp16", v->text);
    v->twin = p && stem ? ot_body_initializer(b, stem, OT_F16, &was.shape, p) : NULL;
    if (v->twin) v->twin->half = true;
    return v->twin ? OT_OK : ot_fail(b->err, OT_E_NOMEM, "export: no memory");
}

/* Input `at` of a float16 node. */
static ot_status read_half(half *h, ot_item *i, size_t at)
{
    ot_body *b = h->b;
    ot_name *v = ot_item_in(b, i, at);
    if (!v || v->half || type_of(h, v) != OT_F32) return OT_OK;
    Onnx__TensorProto *t = ot_body_constant(b, v, NULL);
    if (t && !v->twin) OT_TRY(constant_read(h, v, t));
    if (!t && !v->twin) {
        v->twin = other_name(h, v, "_fp16");
        if (v->twin) v->twin->half = true;
        if (v->maker) cast(h, v->maker, false, v, v->twin, OT_F16);
        else cast(h, b->frames->first, true, v, v->twin, OT_F16);
    }
    if (!v->half && v->twin) ot_item_set_in(b, i, at, v->twin);
    return OT_OK;
}

/* ---- all of it --------------------------------------------------------------------------------- */

static void types_tell(half *h)
{
    const Onnx__GraphProto *g = h->b->model->graph;
    for (size_t k = 0; k < g->n_value_info; k++) {
        const ot_name *v = ot_body_name(h->b, g->value_info[k]->name);
        if (v && v->half) declare_half(g->value_info[k]->type);
    }
}

/* The operators that stay, each with its number. */
static void say(half *h)
{
    struct {
        const char *op;
        int n;
    } kind[64] = { { 0 } };
    char text[600] = "";
    int kinds = 0;
    size_t at = 0;
    for (ot_item *i = h->b->frames->first; i; i = i->next) {
        const ot_name *y = ot_item_out(h->b, i, 0);
        if (i->dead || i->half || !y || !(y->n_use || y->output) || ot_item_is(i, "Cast") ||
            ot_item_is(i, "Constant") || type_of(h, y) != OT_F32)
            continue;
        int k = 0;
        while (k < kinds && strcmp(kind[k].op, i->n->op_type) != 0) k++;
        if (k == OT_LEN(kind)) continue;
        kinds += k == kinds;
        kind[k].op = i->n->op_type;
        kind[k].n++;
    }
    for (int k = 0; k < kinds && at < sizeof text - 80; k++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%.60s %d", k ? ", " : "; still float32: ", kind[k].op,
                               kind[k].n);
    ot_body_say(h->b, "float16: %d tensors, %d operators%s", h->tensors, h->items, text);
}

ot_status ot_deploy_half(ot_body *b)
{
    half h = { .b = b };
    ot_item *next;
    for (ot_item *i = b->frames->first; i; i = i->next) OT_TRY(decide(&h, i));
    for (ot_item *i = b->frames->first; i; i = next) {
        next = i->next;
        h.items += i->half;
        for (size_t k = 0; i->half && k < i->n->n_output; k++) made(&h, i, k);
    }
    for (ot_item *i = b->frames->first; i && !b->no_memory; i = next) {
        next = i->next;
        for (size_t k = 0; i->half && k < i->n->n_input; k++) OT_TRY(read_half(&h, i, k));
    }
    types_tell(&h);
    say(&h);
    return b->no_memory ? ot_fail(b->err, OT_E_NOMEM, "export: no memory") : OT_OK;
}
