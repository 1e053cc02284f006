/* types.c - every element type into every other on the device, as Map loads, converts and stores them; and sums of
 * elements smaller than a byte.  Compared with the reference, bit by bit. */
#include <math.h>
#include <stdio.h>

#include "ops/kernels/map.h"
#include "ops/kernels/reduce.h"
#include "tests/map/map_tests.h"
#include "tests/ops/harness.h"

enum { N = 45 }; /* some vectors and a rest */

static const double edges[] = { 0,
                                -0.0,
                                1,
                                -1,
                                0.5,
                                1.5,
                                2.5,
                                -2.5,
                                3,
                                7,
                                8,
                                -8,
                                -9,
                                100,
                                200,
                                255,
                                256,
                                300,
                                -300,
                                447,
                                448,
                                449,
                                464,
                                465,
                                57344,
                                61440,
                                65504,
                                65519,
                                65520,
                                1e-3,
                                1e-8,
                                0x1p-9,
                                0x1.8p-10,
                                0x1p-127,
                                0x1.8p-127,
                                1e10,
                                -1e10,
                                0x1p63,
                                -0x1p63,
                                0x1p64,
                                1e30,
                                1e300,
                                (double)INFINITY,
                                -(double)INFINITY,
                                (double)NAN };

static bool is_type(int t) { return ot_dtype_bits((ot_dtype)t) > 0; }

/* Maps of x that store its own class as every type, eight at a time; the 8-bit floats also without saturation. */
static void store_as_all(ot_build *b, ot_value *x)
{
    ot_program m = { .n_in = 1, .in_class = { (uint8_t)ot_class_of(x->dtype) } };
    for (int t = 1; t <= OT_I2; t++)
        for (int over = 0; over < 2; over++) {
            if (!is_type(t) || (over && (!ot_is_float((ot_dtype)t) || ot_dtype_bits((ot_dtype)t) != 8))) continue;
            m.out_dtype[m.n_out++] = (uint8_t)(over ? t | OT_MAP_NO_SATURATE : t);
            if (m.n_out < OT_MAP_OUT) continue;
            ot_map_emit_program(b, &m, &x);
            m.n_out = 0;
        }
    if (m.n_out) ot_map_emit_program(b, &m, &x);
}

/* x loaded in the four classes, and from its own converted to each, some by way of a narrower type. */
static void load_and_convert(ot_build *b, ot_value *x)
{
    static const ot_dtype by[] = { OT_BF16, OT_F8E4M3FN, OT_I8, OT_U4 };
    uint8_t own = (uint8_t)ot_class_of(x->dtype);
    ot_program m = { .n_in = 4, .n_out = 8, .n_inst = 4 };
    for (int c = 0; c < 4; c++) {
        m.in_class[c] = (uint8_t)c;
        m.out[c] = (int8_t)c;
        m.out[4 + c] = (int8_t)(4 + c);
        m.out_dtype[c] = m.out_dtype[4 + c] = (uint8_t)ot_class_dtype((ot_class)c);
        m.inst[c] =
            (ot_inst){ .row = OT_FN_Convert, .cls = (uint8_t)c, .arg = { (int8_t)own, -1, -1, -1, -1 }, .p = by[c] };
    }
    ot_map_emit_program(b, &m, (ot_value *[]){ x, x, x, x });
}

static bool agrees(ot_graph *g, const ot_value *x, ot_device *d, const char *what, int *runs)
{
    ot_error err = { 0 };
    dice roll = { 9 };
    memory m = memory_new(g);
    int64_t n = ot_numel(&x->shape);
    for (int64_t i = 0; i < n; i++)
        ot_set_f64(memory_of(&m, x), x->dtype, i, n == N ? edges[i] : dice_roll(&roll) * 4 - 2);
    bool ok = graph_run(g, NULL, &m, &err) == OT_OK;
    if (!ok) printf("types: %s\n", err.text);
    for (const ot_node *k = g->first; k && ok; k = k->next) {
        int compared = kernels_compare(what, k, &m, 0, d);
        ok = compared > 0;
        *runs += compared;
    }
    memory_free(&m);
    return ok;
}

bool test_types(ot_device *d)
{
    int runs = 0;
    bool ok = OT_LEN(edges) == N;
    for (int t = 1; t <= OT_I2; t++) {
        ot_error err = { 0 };
        ot_build b = { .graph = ot_graph_new(&err) };
        ot_shape s = { .rank = 1, .dim = { N } }, square = { .rank = 2, .dim = { 6, 9 } };
        if (is_type(t)) {
            ot_value *x = ot_graph_value(b.graph, "x", OT_INPUT, (ot_dtype)t, &s);
            store_as_all(&b, x);
            load_and_convert(&b, x);
            ok = agrees(b.graph, x, d, ot_dtype_name((ot_dtype)t), &runs) && ok;
        }
        ot_graph_free(b.graph);
        if (!is_type(t) || ot_dtype_bits((ot_dtype)t) >= 8) continue;
        b = (ot_build){ .graph = ot_graph_new(&err) };
        ot_value *x = ot_graph_value(b.graph, "x", OT_INPUT, (ot_dtype)t, &square);
        for (int axes = 1; axes < 4; axes++)
            ot_emit(&b, &ot_op_Reduce, &(ot_reduce){ .kind = OT_REDUCE_SUM, .axes = axes }, &x, 1);
        ok = agrees(b.graph, x, d, ot_dtype_name((ot_dtype)t), &runs) && ok;
        ot_graph_free(b.graph);
    }
    printf("types: %d kernel runs, %s\n", runs, ok ? "all as the reference" : "some differ");
    return ok;
}
