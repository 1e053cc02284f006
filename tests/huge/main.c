/* main.c - prepares kernels for tensors beyond 2^31 elements, without running them.
 *
 *    test_huge --compile sm_90a */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernels/map.h"
#include "runtime/passes/passes.h"
#include "tests/ops/harness.h"

/* An operator as in tests/ops/case.h; inputs with values are constants, others are weights. */
static const struct row {
    const ot_op *op;
    const char *attrs, *in;
    int n_out;
} rows[] = {
    { &ot_op_Relu, NULL, "f32[3,1000000001]", 1 },
    { &ot_op_Mul, NULL, "bf16[50000,70000] bf16[70000]", 1 },
    { &ot_op_Where, NULL, "bool[50000,1] f16[50000,70000] f16[70000]", 1 },
    { &ot_op_Cast, "to=1", "f16[50000,70000]", 1 },
    { &ot_op_Dropout, NULL, "f32[50000,70000] f32[]=0.5 bool[]=1", 1 },
    { &ot_op_Transpose, NULL, "f32[50000,70001]", 1 },
    { &ot_op_Transpose, "perm=[0,2,1]", "f16[40,10000,9000]", 1 },
    { &ot_op_Concat, "axis=1", "f32[50000,30001] f32[50000,40000]", 1 },
    { &ot_op_Slice, NULL, "f32[50000,70000] i64[2]=1,2 i64[2]=49999,69999 i64[2]=0,1 i64[2]=2,3", 1 },
    { &ot_op_Pad, "mode=reflect", "f32[50000,70000] i64[4]=1,2,3,4", 1 },
    { &ot_op_Expand, NULL, "f32[50000,1] i64[2]=50000,70000", 1 },
    { &ot_op_ReduceSum, NULL, "f32[50000,70000] i64[1]=1", 1 },
    { &ot_op_ReduceMean, NULL, "f16[50000,70000] i64[1]=0", 1 },
    { &ot_op_ReduceMax, NULL, "f32[3,1000000001]", 1 },
    { &ot_op_Gather, NULL, "f32[3000000,1000] i64[4,5]", 1 },
    { &ot_op_Gather, NULL, "f32[1000] i64[3000000000]", 1 },
    { &ot_op_GatherElements, "axis=1", "f32[50000,70000] i64[50000,70000]", 1 },
    { &ot_op_ScatterND, "reduction=add", "f32[3000000,1000] i64[7,1] f32[7,1000]", 1 },
    { &ot_op_TopK, "axis=0", "f32[3000000000] i64[1]=5", 2 },
    { &ot_op_ArgMax, "axis=1", "f32[2,3000000000]", 1 },
    { &ot_op_CumSum, NULL, "f32[2,3000000000] i64[]=1", 1 },
    { &ot_op_MatMul, NULL, "f32[50000,70000] f32[70000,16]", 1 },
    { &ot_op_MatMul, NULL, "bf16[50000,70000] bf16[70000,24]", 1 },
    { &ot_op_MatMul, NULL, "f32[50000,70000] f32[70000]", 1 },
    { &ot_op_Gemm, "transB=1", "f16[3000000,1000] f16[64,1000] f16[64]", 1 },
    { &ot_op_Conv, "pads=[1,1,1,1]", "f32[4096,64,128,128] f32[32,64,3,3] f32[32]", 1 },
    { &ot_op_Conv, "strides=[2,2]", "bf16[4096,64,129,129] bf16[64,64,3,3]", 1 },
    { &ot_op_Conv, "group=64 pads=[1,1,1,1]", "f32[4096,64,128,128] f32[64,1,3,3]", 1 },
    { &ot_op_ConvTranspose, "strides=[2,2]", "f16[4096,32,128,128] f16[32,16,2,2]", 1 },
    { &ot_op_MaxPool, "kernel_shape=[2,2] strides=[2,2]", "f32[4096,64,128,128]", 1 },
    { &ot_op_AveragePool, "kernel_shape=[3,3] pads=[1,1,1,1]", "f16[4096,64,128,128]", 1 },
    { &ot_op_Resize, "mode=linear", "f32[4096,16,128,128] - f32[4]=1,1,2,2", 1 },
    { &ot_op_BatchNormalization, "training_mode=1", "f32[4096,64,128,128] f32[64] f32[64] f32[64]=0 f32[64]=1", 1 },
    { &ot_op_BatchNormalization, "training_mode=1", "f16[900000000,3] f32[3] f32[3] f32[3]=0 f32[3]=1", 1 },
    { &ot_op_LayerNormalization, NULL, "f32[3000000,1000] f32[1000] f32[1000]", 1 },
    { &ot_op_LayerNormalization, NULL, "f32[2,3000000000] f32[3000000000] f32[3000000000]", 1 },
    { &ot_op_Softmax, NULL, "f32[3000000,1000]", 1 },
    { &ot_op_Softmax, NULL, "bf16[2,3000000000]", 1 },
    { &ot_op_Softmax, "axis=0", "f32[3000000000,2]", 1 },
    { &ot_op_SoftmaxCrossEntropyLoss, NULL, "f32[3000000,1000] i64[3000000]", 1 },
    { &ot_op_SoftmaxCrossEntropyLoss, NULL, "f16[2,3000000000] i64[2]", 2 },
};

/* Weights, inputs of integers, and constants; no weight has memory. */
static int make_inputs(ot_graph *g, const char *s, operand *o, ot_value **in)
{
    int n = 0;
    for (; *s; n++) {
        if (!parse_operand(&s, o)) return -1;
        while (*s == ' ') s++;
        in[n] = NULL;
        if (o->source == LEFT_OUT) continue;
        ot_role role = o->source == CONSTANT ? OT_CONST : ot_is_float(o->dtype) ? OT_WEIGHT : OT_INPUT;
        in[n] = ot_graph_value(g, "x", role, o->dtype, &o->shape);
        if (role == OT_INPUT) ot_graph_input(g, in[n]);
        if (role != OT_CONST) continue;
        void *bytes = ot_graph_alloc(g, ot_bytes(&o->shape, o->dtype) + 1);
        for (int64_t i = 0; i < ot_numel(&o->shape); i++) ot_set_f64(bytes, o->dtype, i, o->v[o->n == 1 ? 0 : i]);
        in[n]->data = bytes;
    }
    return n;
}

/* The sum of all float outputs; NULL: there are none. */
static ot_value *make_loss(ot_graph *g, const ot_node *n)
{
    ot_build b = { .graph = g };
    ot_value *loss = NULL;
    for (int i = 0; i < n->n_out; i++) {
        ot_value *y = n->out[i];
        int64_t axes[OT_MAX_RANK];
        if (!ot_is_float(y->dtype)) continue;
        for (int d = 0; d < y->shape.rank; d++) axes[d] = d;
        y = ot_cast(&b, ot_sum(&b, ot_map1(&b, OT_FN_Square, 0, 0, y), axes, y->shape.rank, false), OT_F32);
        loss = loss ? ot_map2(&b, OT_FN_Add, 0, 0, loss, y) : y;
    }
    return loss;
}

/* The kernels that are prepared; -1: something fails. */
static int prepare(const struct row *r, const char *name, ot_graph *g, operand *o, ot_device *d)
{
    ot_value *in[MAX_IN];
    int n_in = make_inputs(g, r->in, o, in), prepared = 0;
    char *attrs = ot_graph_alloc(g, r->op->attr_size + 1);
    ot_attr_defaults(r->op, attrs);
    if (n_in < 0 || !parse_attrs(r->attrs, r->op, g, attrs)) return -1;
    ot_node *n = ot_graph_node(g, r->op, name, r->op->attr_size ? attrs : NULL, in, n_in, r->n_out);
    if (!n || ot_node_infer(n, g->err) != OT_OK) return -1;
    ot_config config = { .want = OT_WANT_GRAD, .accumulate = 1, .threads = 1 };
    ot_plan plan = { .graph = g, .threads = 1, .loss = make_loss(g, n) };
    for (int i = 0; i < r->n_out; i++) ot_graph_output(g, n->out[i]);
    if (ot_lower(g, NULL) != OT_OK || (plan.loss && ot_pass_autodiff(&plan, &config) != OT_OK)) return -1;
    for (const ot_node *k = g->first; k; k = k->next) {
        int some = kernels_prepare(name, k, d);
        if (some <= 0) return -1;
        prepared += some;
    }
    return prepared;
}

int main(int argc, char **argv)
{
    const char *arch = argc > 2 && !strcmp(argv[1], "--compile") ? argv[2] : "sm_90a";
    ot_device *d = NULL;
    operand *o = calloc(1, sizeof *o);
    int failed = 0, prepared = 0;
    char wide[32];
    int code = o ? device_open(arch, &d) : 1;
    if (code) return code;
    for (int i = 0; i < OT_LEN(rows); i++) {
        ot_error why = { 0 };
        ot_graph *g = ot_graph_new(&why);
        int some = g ? prepare(&rows[i], rows[i].op->name, g, o, d) : -1;
        if (some < 0) printf("FAIL %s %s: %s\n", rows[i].op->name, rows[i].in, why.text), failed++;
        else prepared += some;
        ot_graph_free(g);
    }
    snprintf(wide, sizeof wide, "%s-wide", arch); /* 64-bit indices may spill what others may not */
    failed += compiled_badly(d, wide);
    printf("%d rows, %d failed; %d kernels prepared\n", OT_LEN(rows), failed, prepared);
    d->backend->close(d);
    free(o);
    return failed != 0;
}
