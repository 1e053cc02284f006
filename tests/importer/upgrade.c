/* upgrade.c - older forms: what the node is afterwards.  That the results are right, tests/onnx shows with the
 * cases of older releases; here stand the forms that those cases do not have. */
#include <stdio.h>
#include <string.h>

#include "bytes.h"

/* A graph x [2,3] -> node -> y with an initializer w [3], in an old opset. */
static ot_imported *upgraded(bytes node, int64_t opset)
{
    bytes g = { 0 };
    graph_node(&g, node);
    graph_floats(&g, "w", 3, (float[]){ 1, 2, 3 });
    graph_input(&g, "x", OT_F32, 2, (int64_t[]){ 2, 3 });
    graph_output(&g, "y");
    bytes m = model_of(&g, 3, opset);
    ot_imported *i = accepted(&m);
    assert_string_equal(i->graph->outputs[0]->name, "y");
    return i;
}

static void reads_ints(const ot_node *n, int input, int count, const int64_t *want)
{
    assert_true(input < n->n_in);
    const ot_value *v = n->in[input];
    assert_non_null(v);
    assert_int_equal(v->role, OT_CONST);
    assert_int_equal(v->dtype, OT_I64);
    assert_int_equal(v->shape.rank, 1);
    assert_int_equal(v->shape.dim[0], count);
    assert_memory_equal(v->data, want, (size_t)count * 8);
}

static int64_t int_of(const ot_node *n, const char *name)
{
    int64_t v;
    const ot_attr *a = n->op->attrs;
    while (strcmp(a->name, name)) a++;
    memcpy(&v, (const char *)n->attrs + a->offset, sizeof v);
    return v;
}

static void axes_to_inputs(void **unused)
{
    (void)unused;
    static const struct {
        const char *op;
        int64_t opset;
    } row[] = {
        { "Squeeze", 12 }, { "Unsqueeze", 1 }, { "ReduceSum", 11 }, { "ReduceMean", 17 }, { "ReduceMax", 1 },
    };
    for (int k = 0; k < OT_LEN(row); k++) {
        bytes n = node_begin(row[k].op, "n", "x", "y");
        attr_ints(&n, "axes", 2, (int64_t[]){ 0, 1 });
        ot_imported *i = upgraded(n, row[k].opset);
        reads_ints(node_of(i->graph, row[k].op, 0), 1, 2, (int64_t[]){ 0, 1 });
        ot_import_free(i);
    }
}

static void slice_and_reshape(void **unused)
{
    (void)unused;
    bytes n = node_begin("Slice", "n", "x", "y");
    attr_ints(&n, "starts", 1, (int64_t[]){ 1 });
    attr_ints(&n, "ends", 1, (int64_t[]){ -1 });
    ot_imported *i = upgraded(n, 9);
    reads_ints(i->graph->last, 1, 1, (int64_t[]){ 1 });
    reads_ints(i->graph->last, 2, 1, (int64_t[]){ -1 });
    assert_int_equal(i->graph->last->n_in, 3);
    ot_import_free(i);
    n = node_begin("Reshape", "n", "x", "y");
    attr_ints(&n, "shape", 2, (int64_t[]){ 0, -1 });
    attr_ints(&n, "consumed_inputs", 1, (int64_t[]){ 0 });
    i = upgraded(n, 1);
    reads_ints(i->graph->last, 1, 2, (int64_t[]){ 0, -1 });
    ot_import_free(i);
}

static void split(void **unused)
{
    (void)unused;
    ot_imported *i = upgraded(node_begin("Split", "n", "x", "y - -"), 2);
    assert_int_equal(int_of(i->graph->last, "num_outputs"), 3);
    ot_import_free(i);
    bytes n = node_begin("Split", "n", "x", "y z");
    attr_ints(&n, "split", 2, (int64_t[]){ 1, 1 });
    i = upgraded(n, 11);
    reads_ints(i->graph->last, 1, 2, (int64_t[]){ 1, 1 });
    ot_import_free(i);
}

static void pad(void **unused)
{
    (void)unused;
    bytes n = node_begin("Pad", "n", "x", "y");
    attr_ints(&n, "paddings", 4, (int64_t[]){ 0, 1, 0, 1 });
    attr_float(&n, "value", 2.5f);
    ot_imported *i = upgraded(n, 1);
    reads_ints(i->graph->last, 1, 4, (int64_t[]){ 0, 1, 0, 1 });
    assert_int_equal(i->graph->last->in[2]->dtype, OT_F32);
    assert_true(*(const float *)i->graph->last->in[2]->data == 2.5f);
    ot_import_free(i);
}

/* Bounds that the file does not give stay missing. */
static void clip(void **unused)
{
    (void)unused;
    bytes n = node_begin("Clip", "n", "x", "y");
    attr_float(&n, "max", 6);
    ot_imported *i = upgraded(n, 6);
    assert_int_equal(i->graph->last->n_in, 3);
    assert_null(i->graph->last->in[1]);
    assert_true(*(const float *)i->graph->last->in[2]->data == 6);
    ot_import_free(i);
}

static void cast(void **unused)
{
    (void)unused;
    bytes n = node_begin("Cast", "n", "x", "y");
    attr_text(&n, "to", "INT64");
    ot_imported *i = upgraded(n, 5);
    assert_int_equal(int_of(i->graph->last, "to"), OT_I64);
    ot_import_free(i);
    bytes g = { 0 };
    n = node_begin("Cast", "n", "x", "y");
    attr_text(&n, "to", "INT65");
    graph_node(&g, n);
    graph_input(&g, "x", OT_F32, 0, NULL);
    graph_output(&g, "y");
    bytes m = model_of(&g, 3, 5);
    refused(&m, OT_E_MODEL, "to is not a valid element type", NULL);
}

/* x [2,3] over a second operand that begins at axis 0: [2] becomes [2,1]. */
static void broadcast(void **unused)
{
    (void)unused;
    for (int legacy = 0; legacy <= 1; legacy++) {
        bytes n = node_begin("Add", "n", "x w", "y");
        attr_int(&n, "broadcast", 1);
        if (legacy) attr_int(&n, "axis", 0);
        ot_imported *i = upgraded(n, 6);
        const ot_node *add = node_of(i->graph, "Add", 0);
        assert_string_equal(add->in[1]->name, legacy ? "n/Reshape" : "w");
        if (legacy) assert_string_equal(add->in[1]->producer->in[0]->name, "w");
        ot_import_free(i);
    }
}

static void batch_norm(void **unused)
{
    (void)unused;
    static const struct {
        int64_t opset;
        int is_test;
        const char *out;
        int training;
    } mode[] = {
        { 6, 1, "y", 0 },  { 6, 1, "y a b c d", 0 },  { 6, 0, "y a b c d", 1 }, { 6, 0, "y", 0 },
        { 7, -1, "y", 0 }, { 9, -1, "y a b c d", 1 }, { 13, -1, "y a b", 1 },
    };
    for (int k = 0; k < OT_LEN(mode); k++) {
        bytes n = node_begin("BatchNormalization", "n", "x w w w w", mode[k].out);
        if (mode[k].is_test >= 0) attr_int(&n, "is_test", mode[k].is_test);
        if (mode[k].opset < 9) attr_int(&n, "spatial", 1);
        ot_imported *i = upgraded(n, mode[k].opset);
        assert_int_equal(int_of(i->graph->last, "training_mode"), mode[k].training);
        assert_int_equal(i->graph->last->n_out, mode[k].training ? 3 : 1);
        ot_import_free(i);
    }
}

/* Below 13 the axes from `axis` on are one row; where that is the last axis alone nothing is said. */
static void softmax(void **unused)
{
    (void)unused;
    ot_imported *i = upgraded(node_begin("Softmax", "n", "x", "y"), 11);
    assert_int_equal(int_of(i->graph->last, "axis"), 1);
    assert_int_equal(int_of(i->graph->last, "flatten"), 0);
    ot_import_free(i);
    bytes n = node_begin("LogSoftmax", "n", "x", "y");
    attr_int(&n, "axis", 0);
    i = upgraded(n, 11);
    assert_int_equal(int_of(i->graph->last, "flatten"), 1);
    ot_import_free(i);
    i = upgraded(node_begin("Softmax", "n", "x", "y"), 13);
    assert_int_equal(int_of(i->graph->last, "axis"), -1);
    ot_import_free(i);
}

static void dropout(void **unused)
{
    (void)unused;
    bytes n = node_begin("Dropout", "n", "x", "y");
    attr_float(&n, "ratio", 0.25f);
    ot_imported *i = upgraded(n, 7);
    assert_int_equal(i->graph->last->n_in, 2);
    assert_true(*(const float *)i->graph->last->in[1]->data == 0.25f);
    ot_import_free(i);
    n = node_begin("Dropout", "n", "x", "y");
    attr_int(&n, "is_test", 0);
    i = upgraded(n, 6);
    assert_int_equal(*(const uint8_t *)i->graph->last->in[2]->data, 1);
    ot_import_free(i);
}

static void retired(void **unused)
{
    (void)unused;
    bytes n = node_begin("Affine", "n", "x", "y");
    attr_float(&n, "alpha", 2);
    attr_float(&n, "beta", 3);
    ot_imported *i = upgraded(n, 5);
    assert_string_equal(i->graph->last->op->name, "Add");
    assert_true(*(const float *)i->graph->last->in[1]->data == 3);
    ot_import_free(i);
    n = node_begin("Crop", "n", "x", "y");
    attr_ints(&n, "border", 4, (int64_t[]){ 1, 2, 3, 0 });
    i = upgraded(n, 5);
    reads_ints(i->graph->last, 1, 2, (int64_t[]){ 2, 1 });
    reads_ints(i->graph->last, 2, 2, (int64_t[]){ INT64_MAX, -3 });
    ot_import_free(i);
}

/* What the opset says holds: a newer form in an older opset is wrong, and the other way round. */
static void wrong_form(void **unused)
{
    (void)unused;
    bytes g = { 0 }, n = node_begin("Unsqueeze", "n", "x", "y");
    attr_ints(&n, "axes", 1, (int64_t[]){ 0 });
    graph_node(&g, n);
    graph_input(&g, "x", OT_F32, 0, NULL);
    graph_output(&g, "y");
    bytes m = model_of(&g, 8, 13);
    refused(&m, OT_E_MODEL, "n: Unsqueeze", "input 1 is missing", NULL);
}

int test_upgrade(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_to_inputs), cmocka_unit_test(slice_and_reshape),
        cmocka_unit_test(split),          cmocka_unit_test(pad),
        cmocka_unit_test(clip),           cmocka_unit_test(cast),
        cmocka_unit_test(broadcast),      cmocka_unit_test(batch_norm),
        cmocka_unit_test(softmax),        cmocka_unit_test(dropout),
        cmocka_unit_test(retired),        cmocka_unit_test(wrong_form),
    };
    return cmocka_run_group_tests_name("importer.upgrade", tests, NULL, NULL);
}
