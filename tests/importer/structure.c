/* structure.c - names, order, types of inputs: what check.c, sort.c and import.c report and allow. */
#include <stdio.h>
#include <string.h>

#include "bytes.h"

static bytes opset17(bytes *g) { return model_of(g, 8, 17); }

/* One fault, one message. */
#define FAULT(name, build, ...)                          \
    static void name(void **unused)                      \
    {                                                    \
        (void)unused;                                    \
        bytes g = small_graph();                         \
        build;                                           \
        bytes m = opset17(&g);                           \
        refused(&m, OT_E_MODEL, __VA_ARGS__, NULL);      \
    }

FAULT(result_twice, graph_op(&g, "Identity", "again", "x", "y"), "result 'y': duplicate name")
FAULT(result_is_input, graph_op(&g, "Identity", "again", "y", "x"), "result 'x': duplicate name")
FAULT(unknown_name, graph_op(&g, "Identity", "lost", "nowhere", "z"), "lost: Identity: unknown input 'nowhere'")
FAULT(no_op_type, graph_op(&g, "", "blank", "x", "z"), "node 1 'blank' has no op_type")
FAULT(no_outputs, graph_op(&g, "Identity", "mute", "x", ""), "node 1 'mute' (Identity) has no outputs")
FAULT(output_of_nobody, graph_output(&g, "ghost"), "output 'ghost' is produced by no node")
FAULT(weight_twice, graph_floats(&g, "w", 1, (float[]){ 1 });
      graph_floats(&g, "w", 1, (float[]){ 2 }), "initializer 'w': duplicate name")
FAULT(nameless_weight, graph_floats(&g, "", 1, (float[]){ 1 }), "initializer has no name")
FAULT(input_twice, graph_input(&g, "x", OT_F32, 0, NULL), "input 'x': duplicate name")
FAULT(strange_type, graph_input(&g, "u", 99, 0, NULL), "input 'u': element type 99 is not supported")
FAULT(complex_input, graph_input(&g, "u", 14, 0, NULL), "input 'u': element type 14 is not supported")
FAULT(rank_nine, graph_input(&g, "u", OT_F32, 9, (int64_t[9]){ 1, 1, 1, 1, 1, 1, 1, 1, 1 }),
      "input 'u': 9 dimensions; at most 8")
FAULT(huge_input, graph_input(&g, "u", OT_F32, 3, (int64_t[]){ 1ll << 31, 1ll << 31, 4 }),
      "input 'u': the shape is too large")
FAULT(cycle, graph_op(&g, "Identity", "a", "q", "p"); graph_op(&g, "Identity", "b", "p", "q"), "the nodes form a cycle")
FAULT(own_result, graph_op(&g, "Identity", "a", "p", "p"), "unknown input 'p'")
FAULT(too_many_inputs, graph_op(&g, "Identity", "a", "x x", "p"), "a: Identity: 2 inputs; at most 1")
FAULT(too_few_inputs, graph_op(&g, "MatMul", "a", "x", "p"), "a: MatMul: required input 1 is missing")
FAULT(too_many_outputs, graph_op(&g, "Identity", "a", "x", "p q"), "a: Identity: 2 outputs; at most 1")

FAULT(reference_outside, bytes n = node_begin("Transpose", "t", "x", "z"); attr_ref(&n, "perm", 7, "p");
      graph_node(&g, n), "node 't': attribute 'perm' refers to 'p', but is not in a function")
FAULT(attribute_twice, bytes n = node_begin("Concat", "c", "x x", "z"); attr_int(&n, "axis", 0);
      attr_int(&n, "axis", 1); graph_node(&g, n), "node 'c': attribute 'axis': duplicate name")
FAULT(attribute_type, bytes n = node_begin("Concat", "c", "x x", "z"); attr_float(&n, "axis", 0);
      graph_node(&g, n), "c: Concat: attribute 'axis' is FLOAT; expected INT")
FAULT(attribute_unknown, bytes n = node_begin("Concat", "c", "x x", "z"); attr_int(&n, "axes", 0);
      graph_node(&g, n), "c: Concat: unknown attribute 'axes'")
FAULT(attribute_word, bytes n = node_begin("MaxPool", "p", "x", "z"); attr_text(&n, "auto_pad", "SIDEWAYS");
      graph_node(&g, n), "p: MaxPool: auto_pad has the unknown value 'SIDEWAYS'")

static void no_graph(void **unused)
{
    (void)unused;
    bytes m = { 0 };
    put_int(&m, 1, 8);
    refused(&m, OT_E_MODEL, "has no graph", NULL);
}

static void opsets(void **unused)
{
    (void)unused;
    bytes g = small_graph(), m = model_of(&g, 8, 17);
    model_opset(&m, "ai.onnx", 11);
    refused(&m, OT_E_MODEL, "the opset of domain '' is given twice: 17 and 11", NULL);
    g = small_graph();
    m = model_of(&g, 8, 17);
    model_opset(&m, "", 17);
    ot_import_free(accepted(&m));
    g = small_graph();
    m = model_of(&g, 8, -1);
    refused(&m, OT_E_MODEL, "opset -1", NULL);
    g = small_graph();
    m = model_of(&g, 4, 0);
    ot_imported *i = accepted(&m);
    assert_int_equal(i->opset, 9);
    assert_non_null(strstr(i->notes, "has no opset_import"));
    ot_import_free(i);
    g = small_graph();
    m = model_of(&g, 8, 17);
    model_opset(&m, "never.used", 3);
    ot_import_free(accepted(&m));
}

static void all_at_once(void **unused)
{
    (void)unused;
    bytes g = small_graph();
    graph_op(&g, "Identity", "again", "x", "y");
    graph_op(&g, "", "blank", "x", "z");
    graph_output(&g, "ghost");
    graph_input(&g, "u", 99, 0, NULL);
    bytes m = opset17(&g);
    refused(&m, OT_E_MODEL, "'y'", "'blank'", "'ghost'", "'u'", NULL);
}

static void unsupported(void **unused)
{
    (void)unused;
    bytes g = small_graph();
    graph_op(&g, "Foo", "f1", "x", "a");
    graph_op(&g, "my.own.Bar", "", "a", "b");
    graph_op(&g, "Foo", "f2", "b", "c");
    bytes n = node_begin("Concat", "c", "x x", "z");
    attr_int(&n, "axes", 0);
    graph_node(&g, n);
    bytes m = opset17(&g);
    refused(&m, OT_E_MODEL, "2 operators are not supported: Foo (2 nodes, first 'f1'), my.own.Bar (1 node, first 'b')",
            "; ONNX has no operator Foo: the exporter left", "Concat: unknown attribute 'axes'", NULL);
    bytes own = small_graph(); /* a domain of its own: not the standard's matter */
    graph_op(&own, "my.own.Bar", "", "x", "z");
    graph_op(&own, "Concat", "c", "z z", "w");
    bytes alone = opset17(&own);
    ot_imported *none;
    ot_error err = { 0 };
    assert_int_equal(import_model(&alone, &none, &err), OT_E_MODEL);
    assert_non_null(strstr(err.text, "1 operator is not supported: my.own.Bar"));
    assert_null(strstr(err.text, "ONNX has no operator"));
    bytes_free(&alone);
}

/* A thousand findings: the first are reported, the text ends in an ellipsis, the list of operators is not lost. */
static void endless(void **unused)
{
    (void)unused;
    bytes g = small_graph();
    char name[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "result%d", i);
        bytes n = node_begin("Transpose", name, "x", name);
        attr_int(&n, "no_such_attribute", i);
        graph_node(&g, n);
    }
    graph_op(&g, "Foo", "late", "x", "a");
    bytes m = opset17(&g);
    refused(&m, OT_E_MODEL, "1 operator is not supported: Foo", "result0", "result9", "\xE2\x80\xA6", NULL);
}

static void long_names(void **unused)
{
    (void)unused;
    static char name[1 << 16];
    memset(name, 'n', sizeof name - 1);
    bytes g = small_graph();
    graph_op(&g, "Identity", name, name, "z");
    bytes m = opset17(&g);
    refused(&m, OT_E_MODEL, "nnnnnnnn", NULL);
    g = small_graph();
    graph_op(&g, "Identity", name, "x", name);
    graph_output(&g, name);
    m = opset17(&g);
    ot_import_free(accepted(&m));
}

static void any_order(void **unused)
{
    (void)unused;
    bytes g = { 0 };
    graph_op(&g, "Identity", "last", "b", "y");
    graph_op(&g, "Identity", "first", "x", "a");
    graph_op(&g, "Identity", "middle", "a", "b");
    graph_input(&g, "x", OT_F32, 1, (int64_t[]){ -1 });
    graph_output(&g, "y");
    bytes m = opset17(&g);
    ot_imported *i = accepted(&m);
    assert_string_equal(i->graph->first->name, "first");
    assert_string_equal(i->graph->last->name, "last");
    assert_string_equal(i->graph->outputs[0]->name, "y");
    assert_int_equal(i->graph->inputs[0]->shape.dim[0], -1);
    assert_string_equal(i->graph->inputs[0]->dim_names[0], "batch");
    ot_import_free(i);
}

/* Forms of old exporters: initializers among the inputs, no names, IR version 1 attributes without a type. */
static void old_writers(void **unused)
{
    (void)unused;
    bytes g = small_graph();
    graph_input(&g, "w", OT_F32, 1, (int64_t[]){ 3 });
    graph_floats(&g, "w", 3, (float[]){ 1, 2, 3 });
    bytes n = node_begin("Transpose", "", "x", "z"), a = { 0 };
    put_text(&a, 1, "perm");
    put_int(&a, 8, 1);
    put_int(&a, 8, 0);
    put_message(&n, 5, &a);
    graph_node(&g, n);
    graph_output(&g, "w");
    bytes m = model_of(&g, 1, 0);
    ot_imported *i = accepted(&m);
    assert_int_equal(i->graph->n_inputs, 1);
    assert_int_equal(i->n_sources, 1);
    assert_string_equal(i->sources[0].name, "w");
    assert_int_equal(i->graph->outputs[1]->role, OT_CONST);
    assert_int_equal(i->graph->outputs[1]->source, 0);
    assert_string_equal(node_of(i->graph, "Transpose", 0)->name, "z");
    ot_import_free(i);
}

/* Dimensions of zero and below, and none at all, are unknown. */
static void loose_dims(void **unused)
{
    (void)unused;
    bytes g = small_graph(), d = { 0 }, shape = { 0 }, tensor = { 0 }, type = { 0 }, info = { 0 };
    put_int(&d, 1, -1);
    put_message(&shape, 1, &d);
    put_message(&shape, 1, &(bytes){ 0 });
    put_int(&tensor, 1, OT_F32);
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_text(&info, 1, "u");
    put_message(&info, 2, &type);
    put_message(&g, 11, &info);
    graph_input(&g, "v", OT_F32, 1, (int64_t[]){ 0 });
    bytes m = opset17(&g);
    ot_imported *i = accepted(&m);
    assert_int_equal(i->graph->inputs[1]->shape.rank, 2);
    assert_int_equal(i->graph->inputs[1]->shape.dim[0], -1);
    assert_int_equal(i->graph->inputs[1]->shape.dim[1], -1);
    assert_int_equal(i->graph->inputs[2]->shape.dim[0], -1);
    ot_import_free(i);
}

static void sequence_input(void **unused)
{
    (void)unused;
    bytes g = small_graph(), type = { 0 }, info = { 0 };
    put_message(&type, 4, &(bytes){ 0 });
    put_text(&info, 1, "s");
    put_message(&info, 2, &type);
    put_message(&g, 11, &info);
    bytes m = opset17(&g);
    refused(
        &m, OT_E_MODEL,
        "input 's' is a sequence of another type than tensor; supported are tensors, sequences of tensors, and optionals of these",
        NULL);
}

int test_structure(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(result_twice),
        cmocka_unit_test(result_is_input),
        cmocka_unit_test(unknown_name),
        cmocka_unit_test(no_op_type),
        cmocka_unit_test(no_outputs),
        cmocka_unit_test(output_of_nobody),
        cmocka_unit_test(weight_twice),
        cmocka_unit_test(nameless_weight),
        cmocka_unit_test(input_twice),
        cmocka_unit_test(strange_type),
        cmocka_unit_test(complex_input),
        cmocka_unit_test(rank_nine),
        cmocka_unit_test(huge_input),
        cmocka_unit_test(cycle),
        cmocka_unit_test(own_result),
        cmocka_unit_test(too_many_inputs),
        cmocka_unit_test(too_few_inputs),
        cmocka_unit_test(too_many_outputs),
        cmocka_unit_test(reference_outside),
        cmocka_unit_test(attribute_twice),
        cmocka_unit_test(attribute_type),
        cmocka_unit_test(attribute_unknown),
        cmocka_unit_test(attribute_word),
        cmocka_unit_test(no_graph),
        cmocka_unit_test(opsets),
        cmocka_unit_test(all_at_once),
        cmocka_unit_test(unsupported),
        cmocka_unit_test(endless),
        cmocka_unit_test(long_names),
        cmocka_unit_test(any_order),
        cmocka_unit_test(old_writers),
        cmocka_unit_test(loose_dims),
        cmocka_unit_test(sequence_input),
    };
    return cmocka_run_group_tests_name("importer.structure", tests, NULL, NULL);
}
