/* functions.c - functions of the file and subgraphs: names, attributes, tensors, and bombs. */
#include <stdio.h>
#include <string.h>

#include "bytes.h"

/* A function of domain "own"; in and out are names parted by spaces. */
static bytes function_begin(const char *name, const char *in, const char *out)
{
    bytes f = { 0 }, o = { 0 };
    bytes n = node_begin("unused", "", in, out); /* fields 1 and 2 there are 4 and 5 here */
    put_text(&f, 1, name);
    for (size_t at = 0; n.p[at] >> 3 <= 2;) {
        put_text(&f, (n.p[at] >> 3) + 3, (char[]){ (char)n.p[at + 2], 0 }); /* names of one letter */
        at += 2u + n.p[at + 1];
    }
    bytes_free(&n);
    put_text(&f, 10, "own");
    put_int(&o, 2, 17);
    put_message(&f, 9, &o);
    return f;
}

static void function_node(bytes *f, bytes node) { put_message(f, 7, &node); }

static bytes with_function(bytes *graph, bytes function)
{
    bytes m = model_of(graph, 8, 17);
    model_opset(&m, "own", 1);
    put_message(&m, 25, &function);
    return m;
}

static void inlined(void **unused)
{
    (void)unused;
    bytes g = small_graph(), f = function_begin("F", "a b", "c");
    bytes concat = node_begin("Concat", "join", "a b", "t");
    attr_int(&concat, "axis", 0);
    function_node(&f, concat);
    concat = node_begin("Concat", "join2", "a t", "c");
    attr_int(&concat, "axis", 1);
    function_node(&f, concat);
    graph_op(&g, "own.F", "call", "x y", "z");
    graph_op(&g, "own.F", "again", "z z", "zz");
    graph_output(&g, "zz");
    bytes m = with_function(&g, f);
    ot_imported *i = accepted(&m);
    assert_int_equal(i->graph->n_nodes, 5);
    assert_string_equal(node_of(i->graph, "Concat", 0)->name, "call/join");
    assert_string_equal(node_of(i->graph, "Concat", 0)->out[0]->name, "call/t");
    assert_string_equal(node_of(i->graph, "Concat", 1)->out[0]->name, "z");
    assert_string_equal(node_of(i->graph, "Concat", 3)->out[0]->name, "zz");
    assert_ptr_equal(node_of(i->graph, "Concat", 0)->in[1], node_of(i->graph, "Identity", 0)->out[0]);
    ot_import_free(i);
}

/* Axis of the Transpose that the function F makes of its attribute p, called with or without it. */
static void attributes(void **unused)
{
    (void)unused;
    for (int given = 0; given <= 1; given++) {
        bytes g = small_graph(), f = function_begin("F", "a", "c"), call = node_begin("own.F", "call", "x", "z");
        bytes n = node_begin("Concat", "", "a a", "c"), dflt = { 0 };
        attr_ref(&n, "axis", 2, "p");
        function_node(&f, n);
        put_text(&dflt, 1, "p");
        put_int(&dflt, 20, 2);
        put_int(&dflt, 3, 77);
        put_message(&f, 11, &dflt);
        if (given) attr_int(&call, "p", 1);
        graph_node(&g, call);
        bytes m = with_function(&g, f);
        ot_imported *i = accepted(&m);
        const ot_node *made = node_of(i->graph, "Concat", 0);
        int64_t axis;
        assert_string_equal(made->op->attrs[0].name, "axis");
        memcpy(&axis, (const char *)made->attrs + made->op->attrs[0].offset, sizeof axis);
        assert_int_equal(axis, given ? 1 : 77);
        ot_import_free(i);
    }
}

/* An input that the call omits is missing inside; an output that is an input gets its own name. */
static void optional(void **unused)
{
    (void)unused;
    bytes g = small_graph(), f = function_begin("F", "a b", "c a");
    function_node(&f, node_begin("Squeeze", "s", "a b", "c"));
    graph_op(&g, "own.F", "call", "x", "z same");
    graph_output(&g, "same");
    bytes m = with_function(&g, f);
    ot_imported *i = accepted(&m);
    const ot_node *squeeze = node_of(i->graph, "Squeeze", 0);
    assert_true(squeeze->n_in == 1 || !squeeze->in[1]);
    assert_string_equal(i->graph->outputs[1]->name, "same");
    ot_import_free(i);
}

/* F: c = Concat(a, k) with a tensor k of its own. */
static bytes function_with_tensor(void)
{
    bytes f = function_begin("F", "a", "c"), n = node_begin("Constant", "", "", "k"),
          t = tensor_begin("", OT_F32, 1, (int64_t[]){ 1 });
    put_data(&t, 9, (float[]){ 4 }, 4);
    attr_tensor(&n, "value", &t);
    function_node(&f, n);
    n = node_begin("Concat", "", "a k", "c");
    attr_int(&n, "axis", 0);
    function_node(&f, n);
    return f;
}

/* A tensor inside a function is one tensor, however often it is called. */
static void shared_tensor(void **unused)
{
    (void)unused;
    bytes g = small_graph(), f = function_with_tensor();
    graph_op(&g, "own.F", "one", "x", "z");
    graph_op(&g, "own.F", "two", "z", "zz");
    graph_floats(&g, "w", 1, (float[]){ 1 });
    bytes m = with_function(&g, f);
    ot_imported *i = accepted(&m);
    assert_int_equal(i->n_sources, 2);
    assert_int_equal(i->sources[0].order, 0);
    assert_int_equal(i->sources[1].order, 1);
    assert_ptr_equal(node_of(i->graph, "Concat", 0)->in[1], node_of(i->graph, "Concat", 1)->in[1]);
    ot_import_free(i);
}

/* A function that hands its input through: the caller's value keeps the caller's name, also one that looks like a name of
 * the call's own. */
static void handed_through(void **unused)
{
    (void)unused;
    bytes g = small_graph(), f = function_begin("F", "a", "a");
    graph_op(&g, "Relu", "r", "x", "call/a");
    graph_op(&g, "own.F", "call", "call/a", "z");
    graph_output(&g, "call/a");
    graph_output(&g, "z");
    bytes m = with_function(&g, f);
    ot_imported *i = accepted(&m);
    assert_string_equal(i->graph->outputs[1]->name, "call/a");
    assert_string_equal(i->graph->outputs[2]->name, "z");
    ot_import_free(i);
}

/* Tensors with equal names are distinguished: the later one is numbered, and used numbers are skipped. */
static void names_that_meet(void **unused)
{
    (void)unused;
    bytes g = small_graph(), f = function_with_tensor();
    graph_floats(&g, "one/k", 1, (float[]){ 1 });
    graph_floats(&g, "one/k#2", 1, (float[]){ 1 });
    graph_op(&g, "own.F", "one", "x", "z");
    graph_op(&g, "own.F", "two", "z", "zz");
    graph_output(&g, "zz");
    bytes m = with_function(&g, f);
    ot_imported *i = accepted(&m);
    static const char *const want[] = { "one/k", "one/k#2", "one/k#3" };
    assert_int_equal(i->n_sources, OT_LEN(want));
    for (int k = 0; k < OT_LEN(want); k++) assert_string_equal(i->sources[k].name, want[k]);
    assert_string_equal(node_of(i->graph, "Concat", 1)->in[1]->name, "one/k#3"); /* patterns match these */
    ot_import_free(i);
}

static void refusals(void **unused)
{
    (void)unused;
    bytes g = small_graph(), f = function_begin("F", "a", "c");
    function_node(&f, node_begin("own.F", "", "a", "c"));
    graph_op(&g, "own.F", "call", "x", "z");
    bytes m = with_function(&g, f);
    refused(&m, OT_E_MODEL, "function 'F' calls itself", NULL);

    g = small_graph();
    graph_op(&g, "own.F", "call", "x", "z");
    f = function_begin("F", "a", "c");
    function_node(&f, node_begin("own.G", "", "a", "c"));
    m = with_function(&g, f);
    f = function_begin("G", "a", "c");
    function_node(&f, node_begin("own.F", "", "a", "c"));
    put_message(&m, 25, &f);
    refused(&m, OT_E_MODEL, "function 'F' calls itself", NULL);

    g = small_graph();
    graph_op(&g, "own.F", "call", "x x", "z");
    f = function_begin("F", "a", "c");
    function_node(&f, node_begin("Identity", "", "a", "c"));
    m = with_function(&g, f);
    refused(&m, OT_E_MODEL, "2 inputs and 1 outputs, but the function has 1 and 1", NULL);

    g = small_graph();
    f = function_begin("F", "a", "c");
    function_node(&f, node_begin("Identity", "", "x", "b"));
    graph_op(&g, "own.F", "call", "x", "z");
    m = with_function(&g, f);
    refused(&m, OT_E_MODEL, "function 'F': output 'c' is produced by no node", NULL);

    g = small_graph();
    f = function_begin("F", "a", "c");
    function_node(&f, node_begin("Identity", "", "y", "c")); /* a name of the graph is none of the function's */
    graph_op(&g, "own.F", "call", "x", "z");
    m = with_function(&g, f);
    refused(&m, OT_E_MODEL, "unknown input 'y'", NULL);

    g = small_graph();
    f = function_begin("F", "a", "c");
    function_node(&f, node_begin("Identity", "", "a", "c"));
    m = with_function(&g, f);
    f = function_begin("F", "a", "c");
    function_node(&f, node_begin("Identity", "", "a", "c"));
    put_message(&m, 25, &f);
    refused(&m, OT_E_MODEL, "function 'F' is defined twice", NULL);
}

/* Each function calls the next one twice: 2^30 nodes from thirty functions. */
static void laughs(void **unused)
{
    (void)unused;
    bytes g = small_graph();
    graph_op(&g, "own.A", "call", "x", "z");
    bytes m = model_of(&g, 8, 17);
    model_opset(&m, "own", 1);
    for (int i = 0; i < 30; i++) {
        bytes f = function_begin((char[]){ (char)('A' + i), 0 }, "a", "c");
        char next[] = "own.A";
        next[4] = (char)('A' + i + 1);
        if (i == 29) strcpy(next, "Relu"); /* never reached */
        function_node(&f, node_begin(next, "", "a", "b"));
        function_node(&f, node_begin(next, "", "b", "c"));
        put_message(&m, 25, &f);
    }
    refused(&m, OT_E_MODEL, "the model has more than 200", NULL);
}

static void long_chain(void **unused)
{
    (void)unused;
    char name[16];
    bytes g = small_graph();
    graph_op(&g, "own.F0", "call", "x", "z");
    bytes m = model_of(&g, 8, 17);
    model_opset(&m, "own", 1);
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "F%d", i);
        bytes f = function_begin(name, "a", "c");
        snprintf(name, sizeof name, "own.F%d", i + 1);
        function_node(&f, node_begin(i == 4999 ? "Identity" : name, "", "a", "c"));
        put_message(&m, 25, &f);
    }
    refused(&m, OT_E_MODEL, "calls are nested deeper than 64", NULL);
}

/* ---- subgraphs ------------------------------------------------------------------------- */

/* Subgraphs of unknown operators are checked too. */
static void inside_unknown(void **unused)
{
    (void)unused;
    bytes g = small_graph(), inner = { 0 }, n = node_begin("own.Branch", "branch", "x", "z");
    graph_op(&inner, "own.Inner", "in", "x", "i"); /* reads the graph around it */
    graph_op(&inner, "Identity", "lost", "nowhere", "j");
    graph_output(&inner, "i");
    attr_graph(&n, "body", &inner);
    graph_node(&g, n);
    bytes m = model_of(&g, 8, 17);
    refused(&m, OT_E_MODEL, "2 operators are not supported: own.Inner (1 node, first 'in'), own.Branch (1 node",
            "lost: Identity: unknown input 'nowhere'", NULL);
}

static void faults_inside(void **unused)
{
    (void)unused;
    bytes g = small_graph(), inner = { 0 }, n = node_begin("own.Branch", "branch", "x", "z");
    graph_op(&inner, "Identity", "", "x", "i");
    graph_op(&inner, "Identity", "", "x", "i");
    attr_graph(&n, "body", &inner);
    graph_node(&g, n);
    bytes m = model_of(&g, 8, 17);
    refused(&m, OT_E_MODEL, "subgraph 'body' of 'branch': result 'i': duplicate name", NULL);
}

static bytes constant(const char *name, float v)
{
    bytes n = node_begin("Constant", "", "", name), t = tensor_begin("", OT_F32, 1, (int64_t[]){ 1 });
    put_data(&t, 9, &v, 4);
    attr_tensor(&n, "value", &t);
    return n;
}

/* Branches read the graph around them; their tensors go by plain names where those are unique. */
static void branches(void **unused)
{
    (void)unused;
    bytes g = small_graph(), n = node_begin("If", "choose", "c", "z");
    static const char *const side[] = { "then_branch", "else_branch" };
    for (int i = 0; i < 2; i++) {
        bytes inner = { 0 };
        graph_node(&inner, constant("same", 1));
        graph_node(&inner, constant(i ? "right" : "left", 2));
        graph_floats(&inner, "same_weight", 1, (float[]){ 3 });
        graph_op(&inner, "Add", "", "y same", "s");
        graph_op(&inner, "Add", "", i ? "s right" : "s left", "t");
        graph_op(&inner, "Add", "", "t same_weight", "u");
        graph_output(&inner, "u");
        attr_graph(&n, side[i], &inner);
    }
    graph_node(&g, n);
    graph_floats(&g, "choose/then_branch/same", 1, (float[]){ 1 });
    graph_input(&g, "c", OT_BOOL, 0, NULL);
    graph_output(&g, "z");
    bytes m = model_of(&g, 8, 17);
    ot_imported *i = accepted(&m);
    static const struct {
        const char *name;
        int order;
    } want[] = {
        { "choose/then_branch/same", 0 },
        { "choose/then_branch/same_weight", 1 },
        { "choose/then_branch/same#2", 2 },
        { "left", 3 },
        { "choose/else_branch/same_weight", 4 },
        { "choose/else_branch/same", 5 },
        { "right", 6 },
    };
    assert_int_equal(i->n_sources, OT_LEN(want));
    for (int k = 0; k < OT_LEN(want); k++) {
        assert_string_equal(i->sources[k].name, want[k].name);
        assert_int_equal(i->sources[k].order, want[k].order);
    }
    const ot_node *branch = node_of(i->graph, "If", 0);
    const ot_attr *row = branch->op->attrs;
    while (strcmp(row->name, "else_branch")) row++;
    const ot_graph *inner;
    memcpy(&inner, (const char *)branch->attrs + row->offset, sizeof inner);
    assert_ptr_equal(inner->parent, i->graph);
    assert_ptr_equal(inner->first->in[0], i->graph->outputs[0]); /* y of the graph around it */
    ot_import_free(i);
}

/* Nodes in the wrong order, where a branch is what needs the later one. */
static void branch_before_its_input(void **unused)
{
    (void)unused;
    bytes g = small_graph(), inner = { 0 }, other = { 0 }, n = node_begin("If", "choose", "c", "z");
    graph_op(&inner, "Identity", "", "late", "s");
    graph_output(&inner, "s");
    graph_op(&other, "Identity", "", "x", "s2");
    graph_output(&other, "s2");
    attr_graph(&n, "then_branch", &inner);
    attr_graph(&n, "else_branch", &other);
    graph_node(&g, n);
    graph_op(&g, "Identity", "later", "y", "late");
    graph_input(&g, "c", OT_BOOL, 0, NULL);
    graph_output(&g, "z");
    bytes m = model_of(&g, 8, 17);
    ot_imported *i = accepted(&m);
    assert_string_equal(i->graph->last->name, "choose");
    ot_import_free(i);
}

int test_functions(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inlined),
        cmocka_unit_test(attributes),
        cmocka_unit_test(optional),
        cmocka_unit_test(shared_tensor),
        cmocka_unit_test(handed_through),
        cmocka_unit_test(names_that_meet),
        cmocka_unit_test(refusals),
        cmocka_unit_test(laughs),
        cmocka_unit_test(long_chain),
        cmocka_unit_test(inside_unknown),
        cmocka_unit_test(faults_inside),
        cmocka_unit_test(branches),
        cmocka_unit_test(branch_before_its_input),
    };
    return cmocka_run_group_tests_name("importer.functions", tests, NULL, NULL);
}
