/* verify.c - the verifier detects operands of types that kernels do not support. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/op.h"
#include "tests/passes/build.h"

/* The type as which v is read: a product in float16 of an operand in float32 reads beyond its end, and the reverse. */
static void must_notice(ot_plan *p, const ot_node *n, ot_value *v)
{
    ot_error e = { 0 };
    v->dtype = OT_F16;
    if (ot_graph_verify(p->graph, true, &e) != OT_E_INTERNAL)
        fail_msg("%s: %s: '%s' in float16 is not noticed", n->name, n->op->name, v->name);
    assert_non_null(strstr(e.text, "float16"));
    v->dtype = OT_F32;
}

static void operands_have_the_types_of_their_kernels(void **state)
{
    model m;
    ot_feed f[2];
    ot_error e = { 0 };
    ot_plan *p;
    int noticed = 0;
    (void)state;
    model_cnn(&m, 2);
    ot_config c = cnn_config(OT_WANT_TRAIN, 8, f);
    assert_int_equal(ot_plan_new(m.g, &c, NULL, &p, &e), OT_OK);
    assert_int_equal(ot_graph_verify(p->graph, true, &e), OT_OK);
    for (ot_node *n = p->graph->first; n; n = n->next) {
        assert_non_null(n->op->types.in);
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i] && n->out[i]->dtype == OT_F32) must_notice(p, n, n->out[i]), noticed++;
        if (n->op == &ot_op_Map || n->op == &ot_op_Reduce || n->n_in < 2) continue; /* each operand by itself */
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && n->in[i]->dtype == OT_F32) must_notice(p, n, n->in[i]), noticed++;
    }
    assert_true(noticed > 40);
    ot_plan_free(p);
    model_free(&m);
}

/* MatMul, Gemm, Conv and ConvTranspose of a float32 input and a weight in float16: refused by node and types. */
static void products_of_two_types_are_refused(void **state)
{
    static const char *const ops[] = { "MatMul", "Gemm", "Conv", "ConvTranspose" };
    (void)state;
    for (int k = 0; k < OT_LEN(ops); k++) {
        model m;
        ot_error e = { 0 };
        ot_plan *p;
        ot_shape s = k < 2 ? SHAPE(4, 4) : SHAPE(4, 4, 3, 3);
        uint16_t zeros[144] = { 0 };
        model_new(&m);
        ot_value *x = model_input(&m, "input", OT_F32, s), *w = ot_graph_const(m.g, "w", OT_F16, &s, zeros);
        model_output(&m, model_node(&m, ops[k], OT_IN(x, w)), "output");
        ot_feed f = { .name = "input", .dtype = OT_F32, .shape = s };
        ot_config c = { .want = OT_WANT_RUN, .n_feeds = 1, .feeds = &f, .threads = 1, .accumulate = 1 };
        assert_int_equal(ot_plan_new(m.g, &c, NULL, &p, &e), OT_E_MODEL);
        if (!strstr(e.text, ops[k]) || !strstr(e.text, "float32") || !strstr(e.text, "float16") ||
            !strstr(e.text, "'w'"))
            fail_msg("'%s' does not name node, operand and types", e.text);
        model_free(&m);
    }
}

int verify_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_have_the_types_of_their_kernels),
        cmocka_unit_test(products_of_two_types_are_refused),
    };
    return cmocka_run_group_tests_name("verify", tests, NULL, NULL);
}
