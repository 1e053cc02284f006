/* boxes.c - Copy and CopyDx of random boxes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernels/copy.h"
#include "tests/moves/moves.h"

enum { PIECES = 700, INPUTS = 60 };

/* How a random node is made. */
typedef struct recipe {
    const char *name;
    ot_dtype type;
    int rank, pieces, inputs;
    int64_t largest;  /* extent */
    int holes;        /* one of so many boxes is omitted; 0: none */
    bool overlapping; /* strides that meet, for CopyDx */
} recipe;

/* Divides the output into disjoint boxes, splitting random ones until there are enough. */
static int cut(dice *d, const ot_shape *y, int want, ot_piece *p)
{
    int n = 1;
    memcpy(p[0].extent, y->dim, sizeof p[0].extent);
    for (int tries = 0; n < want && tries < 20 * want; tries++) {
        ot_piece *b = &p[pick(d, n)];
        int axis = (int)pick(d, y->rank);
        if (b->extent[axis] < 2) continue;
        int64_t at = between(d, 1, b->extent[axis] - 1);
        p[n] = *b;
        p[n].dst[axis] += at;
        p[n++].extent[axis] -= at;
        b->extent[axis] = at;
    }
    return n;
}

/* Strides: axes in a random order, packed with random gaps, some repeated, some reversed.  Gives the elements of
 * the input that the piece needs. */
static int64_t lay(dice *d, ot_piece *p, int rank, bool overlapping)
{
    int order[OT_MAX_RANK];
    int64_t step = 1, reach = 0;
    for (int i = 0; i < rank; i++) order[i] = i;
    int swaps = pick(d, 2) ? rank : 0;
    for (int i = 0; i < swaps; i++) {
        int j = (int)pick(d, rank), k = order[i];
        order[i] = order[j];
        order[j] = k;
    }
    if (pick(d, 4) == 0) step = between(d, 1, 3);
    p->src = pick(d, 3) ? 0 : pick(d, 9) * (pick(d, 2) ? 1 : 4);
    for (int i = rank - 1; i >= 0; i--) {
        int axis = order[i];
        int64_t n = p->extent[axis], last;
        p->stride[axis] = pick(d, 8) == 0 ? 0 : step;
        last = (n - 1) * p->stride[axis];
        if (p->stride[axis]) step *= n + (pick(d, 6) ? 0 : pick(d, 3));
        if (overlapping && pick(d, 2)) step = between(d, 1, step);
        if (pick(d, 6) == 0) { /* from the other end */
            p->src += last;
            p->stride[axis] = -p->stride[axis];
        }
        reach += last;
    }
    return p->src + reach + 1; /* with reversed axes src is inside */
}

static ot_shape random_shape(dice *d, const recipe *r)
{
    ot_shape s = { .rank = r->rank };
    for (int i = 0; i < s.rank; i++) s.dim[i] = between(d, pick(d, 5) ? 2 : 1, r->largest);
    return s;
}

/* Pieces of a Copy with this output, and how many elements each input needs. */
static int make_pieces(dice *d, const recipe *r, const ot_shape *y, ot_piece *p, int64_t *need)
{
    int n = cut(d, y, r->pieces, p), kept = 0;
    for (int i = 0; i < r->inputs; i++) need[i] = 1;
    for (int i = 0; i < n; i++) {
        if (r->holes && pick(d, r->holes) == 0) continue;
        p[kept] = p[i];
        p[kept].in = i < r->inputs ? i : pick(d, r->inputs);
        int64_t elements = lay(d, &p[kept], r->rank, r->overlapping);
        if (elements > need[p[kept].in]) need[p[kept].in] = elements;
        kept++;
    }
    return kept;
}

static void copy_trial(trials *t, dice *d, const recipe *r, int number)
{
    char name[128];
    ot_graph *g = graph_new();
    ot_piece *p = ot_graph_alloc(g, PIECES * sizeof *p);
    ot_shape y = random_shape(d, r);
    ot_value *in[INPUTS];
    int64_t need[INPUTS];
    int n = make_pieces(d, r, &y, p, need);
    for (int i = 0; i < r->inputs; i++) in[i] = numbers(g, d, r->type, vector(need[i]), -8, 8);
    ot_copy a = { .shape = y, .fill = (double)pick(d, 3), .n = n, .piece = p };
    snprintf(name, sizeof name, "Copy.%s.%d", r->name, number);
    try_node(t, name, g, &ot_op_Copy, &a, in, r->inputs);
}

static void add_trial(trials *t, dice *d, const recipe *r, int number)
{
    char name[128];
    ot_graph *g = graph_new();
    ot_piece *p = ot_graph_alloc(g, PIECES * sizeof *p);
    ot_shape y = random_shape(d, r);
    int64_t need[INPUTS];
    int n = make_pieces(d, r, &y, p, need);
    for (int i = 0; i < n; i++) p[i].in = 0;
    for (int i = 1; i < r->inputs; i++) need[0] = need[i] > need[0] ? need[i] : need[0];
    ot_value *dy = numbers(g, d, r->type, y, -1, 1);
    ot_copy a = { .shape = vector(need[0]), .n = n, .piece = p };
    snprintf(name, sizeof name, "CopyDx.%s.%d", r->name, number);
    try_node(t, name, g, &ot_op_CopyDx, &a, &dy, 1);
}

void test_boxes(trials *t)
{
    static const recipe copies[] = {
        { "bytes", OT_U8, 3, 3, 2, 24, 4, false },      { "halves", OT_F16, 4, 4, 3, 12, 5, false },
        { "floats", OT_F32, 3, 2, 2, 40, 3, false },    { "doubles", OT_F64, 5, 6, 4, 6, 4, false },
        { "one", OT_F32, 2, 1, 1, 150, 0, false },      { "one_half", OT_F16, 3, 1, 1, 70, 0, false },
        { "one_byte", OT_I8, 2, 1, 1, 200, 0, false },  { "one_double", OT_F64, 4, 1, 1, 16, 0, false },
        { "large", OT_F32, 3, 5, 2, 60, 4, false },     { "many", OT_F32, 3, 600, 5, 30, 3, false },
        { "inputs", OT_F16, 2, 300, 60, 60, 9, false }, { "eight_axes", OT_F32, 8, 9, 3, 4, 4, false },
        { "four_bits", OT_I4, 3, 6, 3, 9, 3, false },   { "four_bits_inputs", OT_U4, 2, 90, 60, 25, 5, false },
    };
    static const recipe adds[] = {
        { "floats", OT_F32, 3, 3, 1, 20, 4, false },
        { "meeting", OT_F32, 3, 3, 1, 9, 0, true },
        { "doubles", OT_F64, 4, 2, 1, 7, 4, true },
        { "halves", OT_BF16, 2, 2, 1, 30, 0, true },
        { "integers", OT_I32, 3, 5, 1, 9, 3, true },
        { "bytes", OT_U8, 2, 4, 1, 20, 3, true },
        { "many", OT_F32, 2, 600, 1, 60, 5, false },
        { "many_meeting", OT_I64, 3, 300, 1, 14, 5, true },
        { "eight_axes", OT_F32, 8, 3, 1, 3, 0, true },
        { "f8e4m3fn", OT_F8E4M3FN, 3, 3, 1, 9, 0, true },
        { "f8e5m2fnuz_many", OT_F8E5M2FNUZ, 2, 300, 1, 40, 5, true },
        { "f8e8m0", OT_F8E8M0, 2, 2, 1, 20, 3, false },
        { "f4e2m1", OT_F4E2M1, 3, 3, 1, 13, 4, false },
        { "f4e2m1_many", OT_F4E2M1, 2, 600, 1, 60, 5, false },
        { "two_bits", OT_I2, 2, 3, 1, 31, 4, true },
    };
    for (int i = 0; i < OT_LEN(copies); i++) {
        dice d = dice_of(copies[i].name);
        for (int k = 0; k < 12; k++) copy_trial(t, &d, &copies[i], k);
    }
    for (int i = 0; i < OT_LEN(adds); i++) {
        dice d = dice_of(adds[i].name);
        for (int k = 0; k < 8; k++) add_trial(t, &d, &adds[i], k);
    }
}
