/* cast.c - Cast and CastLike.
 *
 * Spec     ai.onnx Cast 24, CastLike 24.  A float out of the range of an integer type becomes the nearest
 *          int64, then its low bits; NaN becomes 0.  Strings are not cast.
 * Grad     between floats: the gradient, cast back. */

#include "ops/onnx/batching.h"
#include "ops/onnx/elementwise.h"

typedef struct cast_attrs {
    int64_t to, saturate, round_mode;
} cast_attrs;

static const char *const round_modes[] = { "up", "down", "nearest", NULL };
static const ot_attr cast_rows[] = {
    { "to", OT_INT, offsetof(cast_attrs, to), OT_REQUIRED, NULL },
    { "saturate", OT_INT, offsetof(cast_attrs, saturate), 1, NULL },
    { "round_mode", OT_ENUM, offsetof(cast_attrs, round_mode), 0, round_modes },
    { 0 },
};

static const ot_attr like_rows[] = {
    { "saturate", OT_INT, offsetof(cast_attrs, saturate), 1, NULL },
    { "round_mode", OT_ENUM, offsetof(cast_attrs, round_mode), 0, round_modes },
    { 0 },
};

static ot_status infer_to(ot_node *n, int64_t to, ot_error *err)
{
    const cast_attrs *a = n->attrs;
    ot_dtype from = n->in[0]->dtype;
    if (from == OT_STRING && to == OT_STRING) return ot_like(n->out[0], n->in[0]);
    if (to < 1 || to > OT_I2 || !ot_dtype_bits((ot_dtype)to))
        return ot_node_fail(n, err, "to %s is not supported",
                            ot_dtype_name(to < 0 || to > OT_I2 ? OT_UNDEFINED : (ot_dtype)to));
    if (!ot_dtype_bits(from)) return ot_node_fail(n, err, "from %s is not supported", ot_dtype_name(from));
    if (to == OT_F8E8M0 && a->round_mode) return ot_node_fail(n, err, "round_mode must be up");
    return ot_set(n->out[0], (ot_dtype)to, &n->in[0]->shape);
}

static ot_status cast_infer(ot_node *n, ot_error *err) { return infer_to(n, ((const cast_attrs *)n->attrs)->to, err); }
static ot_status castlike_infer(ot_node *n, ot_error *err) { return infer_to(n, n->in[1]->dtype, err); }

static void cast_lower(ot_build *b)
{
    const ot_node *n = b->node;
    const cast_attrs *a = n->attrs;
    ot_dtype from = n->in[0]->dtype, to = n->out[0]->dtype;
    bool small = ot_is_float(to) && ot_dtype_bits(to) == 8;
    if (a->saturate || !small || from == to) {
        ot_yield(b, 0, ot_cast(b, n->in[0], to));
        return;
    }
    ot_program m;
    ot_map_program(&m, OT_FN_Copy, 0, 0, 1, ot_class_of(from), to);
    m.out_dtype[0] |= OT_MAP_NO_SATURATE;
    ot_node *made = ot_map_emit_program(b, &m, n->in);
    if (made) ot_yield(b, 0, made->out[0]);
}

const ot_op ot_op_Cast = {
    .name = "Cast",
    .types = { "n" },
    .slots = ">",
    .since = 24,
    .in = { 1, 1 },
    .out = { 1, 1 },
    .rank = OT_RANK_KEPT,
    .attrs = cast_rows,
    .attr_size = sizeof(cast_attrs),
    .infer = cast_infer,
    .lower = cast_lower,
    .flags = OT_SAME,
    .gives = "=to",
    .batch = ot_batch_pointwise,
};

const ot_op ot_op_CastLike = {
    .name = "CastLike",
    .types = { "n" },
    .slots = ">-",
    .since = 24,
    .in = { 2, 2 },
    .out = { 1, 1 },
    .nondiff = 2,
    .like = 2,
    .attrs = like_rows,
    .attr_size = sizeof(cast_attrs),
    .infer = castlike_infer,
    .lower = cast_lower,
    .flags = OT_SAME,
    .batch = ot_batch_pointwise,
};
