/* crossentropy.c - CrossEntropy: log-softmax, selection of the class, weights, smoothing and the mean in one.
 *
 * Shapes    crossentropy.h
 * Grad      with a = the weight of class c in the sample's loss and A = sum_c a:
 *           dx[c] = (A p[c] - a[c]) dloss / denominator; log_input: -a[c] dloss / denominator.
 *           Reads x again instead of storing p: one exp per logit is cheaper than its memory.  Where nothing between
 *           them reads the loss, the gradient's node computes it too (pass simplify).
 * Numerics  losses are summed in f64 */
#include "ops/kernels/crossentropy.h"
#include "ops/kernels/map.h"
#include "ops/kernels/softmax.h"

static ot_status check(const ot_node *n, const ot_value *x, const ot_value *t, const ot_value *w, ot_error *err)
{
    const ot_cross_entropy *a = n->attrs;
    char st[128], sx[128];
    if (a->axis >= x->shape.rank)
        return ot_node_fail(n, err, "the class axis is %lld; x has rank %d", (long long)a->axis, x->shape.rank);
    ot_shape want = x->shape;
    if (!a->probs) {
        want.rank--;
        for (int d = (int)a->axis; d < want.rank; d++) want.dim[d] = want.dim[d + 1];
    }
    if (!ot_shape_eq(&t->shape, &want))
        return ot_node_fail(n, err, "the target is %s; expected %s", ot_shape_text(&t->shape, st),
                            ot_shape_text(&want, sx));
    if (a->probs ? !ot_is_float(t->dtype) : !ot_is_int(t->dtype))
        return ot_node_fail(n, err, "the target is %s; expected %s", ot_dtype_name(t->dtype),
                            a->probs ? "floats" : "integers");
    if (a->classes && (a->axis != x->shape.rank - 1 || a->probs || a->classes > x->shape.dim[a->axis]))
        return ot_node_fail(n, err, "rows of %s cannot be padded from %lld classes", ot_shape_text(&x->shape, sx),
                            (long long)a->classes);
    int64_t C = ot_classes(a, x);
    if (w && (w->shape.rank != 1 || w->shape.dim[0] != C))
        return ot_node_fail(n, err, "the class weights are %s; expected [%lld]", ot_shape_text(&w->shape, st),
                            (long long)C);
    return OT_OK;
}

/* The loss of logits x, without the class axis if it is not reduced. */
static ot_status set_loss(const ot_node *n, const ot_value *x, ot_value *loss)
{
    const ot_cross_entropy *a = n->attrs;
    ot_shape y = OT_SCALAR;
    if (a->reduction == OT_REDUCTION_NONE)
        for (int d = 0; d < x->shape.rank; d++)
            if (d != a->axis) y.dim[y.rank++] = x->shape.dim[d];
    return ot_set(loss, ot_dtype_bits(x->dtype) < 32 ? OT_F32 : x->dtype, &y);
}

static ot_status loss_infer(ot_node *n, ot_error *err)
{
    OT_TRY(check(n, n->in[0], n->in[1], ot_node_in(n, 2), err));
    if (n->n_out > 1) ot_like(n->out[1], n->in[0]);
    return set_loss(n, n->in[0], n->out[0]);
}

static ot_status dx_infer(ot_node *n, ot_error *err)
{
    OT_TRY(check(n, n->in[1], n->in[2], ot_node_in(n, 3), err));
    if (n->n_out > 1) OT_TRY(set_loss(n, n->in[1], n->out[1]));
    return ot_like(n->out[0], n->in[1]);
}

static void loss_grad(ot_build *b)
{
    const ot_node *n = b->node;
    const ot_cross_entropy *a = n->attrs;
    ot_value *dloss = ot_dout(b, 0), *dlogp = ot_dout(b, 1), *dx = NULL;
    if (!ot_wants(b, 0)) return;
    if (dloss)
        dx = n->n_in > 2 ? ot_emit(b, &ot_op_CrossEntropyDx, a, OT_IN(dloss, n->in[0], n->in[1], n->in[2]))
                         : ot_emit(b, &ot_op_CrossEntropyDx, a, OT_IN(dloss, n->in[0], n->in[1]));
    if (dlogp) {
        ot_softmax_axis r = { .axis = a->axis, .log = 1 };
        ot_value *d = ot_emit(b, &ot_op_SoftmaxAxisDx, &r, OT_IN(dlogp, n->out[1]));
        dx = dx ? ot_map2(b, OT_FN_Add, 0, 0, dx, d) : d;
    }
    ot_set_din(b, 0, dx);
}

static ot_status bad_label(const ot_node *n, const ot_value *logits, int64_t value, ot_error *err)
{
    const ot_cross_entropy *a = n->attrs;
    return ot_fail(err, OT_E_DATA, "%s: label %lld is outside 0..%lld", n->name, (long long)value,
                   (long long)(ot_classes(a, logits) - 1));
}

static ot_status fault(const ot_node *n, int64_t value, ot_error *err) { return bad_label(n, n->in[0], value, err); }
static ot_status dx_fault(const ot_node *n, int64_t value, ot_error *err) { return bad_label(n, n->in[1], value, err); }

const ot_op ot_op_CrossEntropy = {
    .name = "CrossEntropy",
    .types = { "Tnr", .T = OT_SET_FLOAT },
    .in = { 2, 3 },
    .out = { 1, 2 },
    .flops_each = 5,
    .flags = OT_INTERNAL,
    .nondiff = 1u << 1 | 1u << 2,
    .attr_size = sizeof(ot_cross_entropy),
    .infer = loss_infer,
    .grad = loss_grad,
    .half = OT_HALF_LOSS,
    .fault = fault,
};

const ot_op ot_op_CrossEntropyDx = {
    .name = "CrossEntropyDx",
    .types = { "WTnr", .T = OT_SET_FLOAT },
    .in = { 3, 4 },
    .out = { 1, 2 },
    .flops_each = 5,
    .flags = OT_INTERNAL,
    .nondiff = 1u << 2 | 1u << 3,
    .attr_size = sizeof(ot_cross_entropy),
    .infer = dx_infer,
    .fault = dx_fault,
};
