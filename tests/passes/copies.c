/* copies.c - chains of operators that only move elements: Copies of Copies are joined, and the results are those of the same
 * chains with arithmetic between the links. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/kernels/copy.h"
#include "tests/passes/build.h"

enum { CHAINS = 400, RANK = 3, MOST_ELEMENTS = 1500, MOST = 2 * MOST_ELEMENTS };

static bool is_copy(const ot_node *n) { return n->op == &ot_op_Copy; }

static uint32_t draw(uint64_t *dice, uint32_t n) /* 0 .. n-1 */
{
    *dice = *dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*dice >> 33) % n;
}

/* An attribute of the node that makes v; the list must live as long as the graph. */
static void *attribute(const ot_value *v, const char *name)
{
    for (const ot_attr *a = v->producer->op->attrs; a && a->name; a++)
        if (!strcmp(a->name, name)) return (char *)(uintptr_t)v->producer->attrs + a->offset;
    fail_msg("no attribute %s", name);
    return NULL;
}

static int64_t numel(const int64_t *dim) { return dim[0] * dim[1] * dim[2]; }

static ot_value *transposed(model *m, ot_value *v, int64_t *dim, uint64_t *dice)
{
    static const int64_t perm[][RANK] = { { 1, 0, 2 }, { 0, 2, 1 }, { 2, 1, 0 }, { 1, 2, 0 }, { 2, 0, 1 } };
    const int64_t *p = perm[draw(dice, 5)], was[RANK] = { dim[0], dim[1], dim[2] };
    v = model_node(m, "Transpose", OT_IN(v));
    *(ot_ints *)attribute(v, "perm") = (ot_ints){ RANK, p };
    for (int d = 0; d < RANK; d++) dim[d] = was[p[d]];
    return v;
}

static ot_value *sliced(model *m, ot_value *v, int64_t *dim, uint64_t *dice)
{
    static const int64_t axes[RANK] = { 0, 1, 2 };
    int64_t start[RANK], end[RANK], step[RANK];
    for (int d = 0; d < RANK; d++) {
        int64_t lo = draw(dice, (uint32_t)dim[d]), n = 1 + draw(dice, (uint32_t)(dim[d] - lo)), by = 1 + draw(dice, 2);
        if (draw(dice, 3) == 0) lo = 0, n = dim[d];
        bool back = draw(dice, 3) == 0;
        start[d] = back ? lo + n - 1 : lo;
        /* Backwards to element 0 is to an end before -dim. */
        end[d] = back ? lo - 1 - (lo == 0 ? dim[d] + 1 : 0) : lo + n;
        step[d] = back ? -by : by;
        dim[d] = (n + by - 1) / by;
    }
    return model_node(m, "Slice",
                      OT_IN(v, model_ints(m, start, RANK), model_ints(m, end, RANK), model_ints(m, axes, RANK),
                            model_ints(m, step, RANK)));
}

static ot_value *padded(model *m, ot_value *v, int64_t *dim, uint64_t *dice)
{
    int64_t mode = draw(dice, 3), pads[2 * RANK]; /* constant, reflect, edge */
    for (int d = 0; d < RANK; d++) {
        int64_t most = mode == 1 && dim[d] < 3 ? dim[d] : 3;
        pads[d] = draw(dice, (uint32_t)most);
        pads[d + RANK] = draw(dice, (uint32_t)most);
    }
    for (int d = 0; d < RANK; d++) dim[d] += pads[d] + pads[d + RANK];
    v = model_node(m, "Pad", OT_IN(v, model_ints(m, pads, 2 * RANK)));
    *(int64_t *)attribute(v, "mode") = mode;
    return v;
}

static ot_value *expanded(model *m, ot_value *v, int64_t *dim, uint64_t *dice)
{
    for (int d = 0; d < RANK; d++)
        if (dim[d] == 1) dim[d] = 1 + draw(dice, 3);
    return model_node(m, "Expand", OT_IN(v, model_ints(m, dim, RANK)));
}

static ot_value *doubled(model *m, ot_value *v, int64_t *dim, uint64_t *dice)
{
    int64_t axis = draw(dice, RANK);
    v = model_node(m, "Concat", OT_IN(v, v));
    *(int64_t *)attribute(v, "axis") = axis;
    dim[axis] *= 2;
    return v;
}

typedef ot_value *link_of(model *m, ot_value *v, int64_t *dim, uint64_t *dice);

/* h = x w; h + the sum of u chain(h), where chain has 2 to 4 links.  apart: a negation after every link keeps the Copies
 * apart, and another one restores the sign. */
static ot_value *chain(model *m, ot_value *x, int number, bool apart)
{
    static link_of *const links[] = { transposed, transposed, sliced, sliced, padded, expanded, doubled };
    uint64_t dice = (uint64_t)number * 77773 + 5;
    int64_t dim[RANK] = { 2, 3, 8 };
    ot_value *h = model_node(m, "MatMul", OT_IN(x, model_weight(m, "w", SHAPE(8, 8)))), *v = h;
    int n = 2 + (int)draw(&dice, 3);
    for (int i = 0; i < n; i++) {
        link_of *f = links[draw(&dice, OT_LEN(links))];
        if ((f == doubled || f == padded) && numel(dim) > MOST_ELEMENTS / 8) f = sliced;
        v = f(m, v, dim, &dice);
        if (apart) v = model_node(m, "Neg", OT_IN(v));
    }
    if (apart && n % 2) v = model_node(m, "Neg", OT_IN(v));
    v = model_node(m, "Mul", OT_IN(v, model_weight(m, "u", (ot_shape){ RANK, { dim[0], dim[1], dim[2] } })));
    return model_node(m, "Add", OT_IN(h, model_node(m, "ReduceSum", OT_IN(v))));
}

static void chains(void **state)
{
    int fewer = 0;
    (void)state;
    for (int i = 0; i < CHAINS; i++) {
        static double all[2][MOST];
        int n[2], copies[2];
        for (int apart = 0; apart < 2; apart++) {
            model m;
            model_new(&m);
            ot_value *x = model_input(&m, "input", OT_F32, SHAPE(2, 3, 8));
            model_output(&m, chain(&m, x, i, apart), "output");
            n[apart] = model_gradients(&m, all[apart], is_copy, &copies[apart]);
            if (n[apart] < 0) fail_msg("chain %d: %s", i, m.err.text);
            model_free(&m);
        }
        if (copies[0] > copies[1])
            fail_msg("chain %d: %d copies, %d with arithmetic between them", i, copies[0], copies[1]);
        fewer += copies[0] < copies[1];
        assert_int_equal(n[0], n[1]);
        for (int k = 0; k < n[0]; k++)
            if (!(fabs(all[0][k] - all[1][k]) <= 1e-5 * (1 + fabs(all[1][k]))))
                fail_msg("chain %d: number %d is %g, expected %g", i, k, all[0][k], all[1][k]);
    }
    assert_true(fewer > CHAINS / 2);
}

int copy_tests(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(chains) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
