/* einsum.c - Einsum: sums of products over named axes.
 *
 * Spec    ai.onnx Einsum 12.  Letters, an ellipsis, repeated letters (diagonals), with or without "->";
 *         axes of size 1 broadcast.
 * Shapes  every letter has one size; y has the letters after "->", or those that occur once, sorted. Operands are
 *         combined from the left: common letters that are not needed any more become the inner axis of a matrix
 *         product, other common letters its batch.
 * Grad    of the Copies, Reduces, products it is made of. */
#include "ops/kernels/copy.h"
#include "ops/kernels/map.h"
#include "ops/kernels/move.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ops/kernels/reduce.h"
#include "ops/onnx/batching.h"

/* Letters are labels 0 to 51, axes of the ellipsis 52 on, counted from its left. */
enum { DOTS = 52, LABELS = DOTS + OT_MAX_RANK, MOST = 32 };

typedef struct einsum_attrs {
    const char *equation;
} einsum_attrs;

static const ot_attr einsum_rows[] = {
    { "equation", OT_TEXT, offsetof(einsum_attrs, equation), OT_REQUIRED, NULL },
    { 0 },
};

typedef struct term {
    int n;
    int label[OT_MAX_RANK];
} term;

typedef struct formula {
    term in[MOST], out;
    int dots;             /* axes of the longest ellipsis */
    int64_t size[LABELS]; /* -1: unused */
} formula;

/* ---- parsing --------------------------------------------------------------- */

static int letter(char c) { return islower((unsigned char)c) ? c - 'a' + 26 : c - 'A'; }

/* Parses one term up to ',' or '-' or the end.  dots: number of axes of its ellipsis.  Returns the end; NULL:
 * invalid term. */
static const char *read_term(const char *s, int dots, int longest, term *t)
{
    bool seen = false;
    for (t->n = 0; *s && *s != ',' && *s != '-'; s++) {
        if (*s == ' ') continue;
        if (!strncmp(s, "...", 3) && !seen && t->n + dots <= OT_MAX_RANK) {
            for (int i = 0; i < dots; i++) t->label[t->n++] = DOTS + longest - dots + i;
            seen = true;
            s += 2;
        } else if (isalpha((unsigned char)*s) && t->n < OT_MAX_RANK) t->label[t->n++] = letter(*s);
        else return NULL;
    }
    return s;
}

/* The number of axes of the ellipsis of the term at s in a tensor of this rank. */
static int dots_of(const char *s, int rank)
{
    bool seen = false;
    for (; *s && *s != ',' && *s != '-'; s++) {
        seen |= *s == '.';
        rank -= isalpha((unsigned char)*s) != 0;
    }
    return seen && rank > 0 ? rank : 0;
}

/* Without "->": the ellipsis, then the letters that occur once. */
static void implied(formula *f, int n)
{
    int times[LABELS] = { 0 };
    for (int i = 0; i < n; i++)
        for (int k = 0; k < f->in[i].n; k++) times[f->in[i].label[k]]++;
    f->out.n = 0;
    for (int d = 0; d < f->dots; d++) f->out.label[f->out.n++] = DOTS + d;
    for (int l = 0; l < DOTS; l++)
        if (times[l] == 1 && f->out.n < OT_MAX_RANK) f->out.label[f->out.n++] = l;
}

static bool read_formula(const ot_node *n, formula *f)
{
    const char *text = ((const einsum_attrs *)n->attrs)->equation, *s = text;
    if (!text || n->n_in > MOST) return false;
    f->dots = 0;
    for (int i = 0; i < n->n_in; i++) {
        int d = dots_of(s, n->in[i]->shape.rank);
        f->dots = d > f->dots ? d : f->dots;
        s = strpbrk(s, ",-");
        if (!s) break;
        s += *s == ',';
    }
    s = text;
    for (int i = 0; i < n->n_in; i++) {
        if (i && *s++ != ',') return false;
        s = read_term(s, dots_of(s, n->in[i]->shape.rank), f->dots, &f->in[i]);
        if (!s || f->in[i].n != n->in[i]->shape.rank) return false;
    }
    if (!*s) {
        implied(f, n->n_in);
        return true;
    }
    if (strncmp(s, "->", 2)) return false;
    s = read_term(s + 2, f->dots, f->dots, &f->out);
    return s && !*s;
}

static ot_status parse(const ot_node *n, formula *f, ot_error *err)
{
    if (!read_formula(n, f))
        return ot_node_fail(
            n, err, "the equation '%s' does not match the %d operands",
            ((const einsum_attrs *)n->attrs)->equation ? ((const einsum_attrs *)n->attrs)->equation : "", n->n_in);
    for (int l = 0; l < LABELS; l++) f->size[l] = -1;
    for (int i = 0; i < n->n_in; i++)
        for (int k = 0; k < f->in[i].n; k++) {
            int64_t *size = &f->size[f->in[i].label[k]], d = n->in[i]->shape.dim[k];
            if (*size > 1 && d != 1 && d != *size)
                return ot_node_fail(n, err, "an axis of operand %d has %lld elements, but its letter has %lld", i,
                                    (long long)d, (long long)*size);
            if (*size < 0 || *size == 1) *size = d;
            else if (*size == 0 && d > 1)
                return ot_node_fail(n, err, "an axis of operand %d has %lld elements, but its letter has no size", i,
                                    (long long)d);
        }
    for (int k = 0; k < f->out.n; k++) {
        if (f->size[f->out.label[k]] < 0) return ot_node_fail(n, err, "the output has an axis that no operand has");
        for (int j = 0; j < k; j++)
            if (f->out.label[j] == f->out.label[k]) return ot_node_fail(n, err, "the output has an axis twice");
    }
    return OT_OK;
}

static ot_status einsum_infer(ot_node *n, ot_error *err)
{
    formula f;
    ot_shape y = { .rank = 0 };
    OT_TRY(parse(n, &f, err));
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i]->dtype != n->in[0]->dtype) return ot_node_fail(n, err, "the operands have different types");
    for (int k = 0; k < f.out.n; k++) y.dim[y.rank++] = f.size[f.out.label[k]];
    if (!ot_shape_fits(&y, n->in[0]->dtype)) return ot_node_fail(n, err, "the result is too large");
    return ot_set(n->out[0], n->in[0]->dtype, &y);
}

/* ---- lowering -------------------------------------------------------------- */

/* An operand in progress: every label at most once, no axis that only broadcasts. */
typedef struct operand {
    ot_value *v;
    term t;
} operand;

static uint64_t labels(const term *t)
{
    uint64_t set = 0;
    for (int k = 0; k < t->n; k++) set |= UINT64_C(1) << t->label[k];
    return set;
}

/* Extracts diagonals, and drops axes along which this operand is repeated for the others. */
static void settle(ot_build *b, const formula *f, operand *o)
{
    ot_shape s = { .rank = 0 };
    term t = { .n = 0 };
    int64_t xs[OT_MAX_RANK];
    ot_piece *p = ot_pieces(b, 1);
    if (!p) return;
    ot_strides(&o->v->shape, xs);
    for (int k = 0; k < o->t.n; k++) {
        int l = o->t.label[k], at = 0;
        if (o->v->shape.dim[k] != f->size[l]) continue;
        while (at < t.n && t.label[at] != l) at++;
        if (at == t.n) {
            t.label[t.n++] = l;
            p->extent[s.rank] = s.dim[s.rank] = f->size[l];
            s.rank++;
        }
        p->stride[at] += xs[k];
    }
    o->t = t;
    o->v = ot_copy_emit(b, &s, 0, p, 1, &o->v, 1);
}

/* Sums over the labels that are not in `needed`. */
static void sum_rest(ot_build *b, operand *o, uint64_t needed)
{
    int64_t axes = 0;
    term t = { .n = 0 };
    for (int k = 0; k < o->t.n; k++)
        if (needed >> o->t.label[k] & 1) t.label[t.n++] = o->t.label[k];
        else axes |= (int64_t)1 << k;
    o->v = ot_reduce_axes(b, o->v, OT_REDUCE_SUM, axes, false);
    o->t = t;
}

/* Orders the axes like the labels of `to`. */
static void arrange(ot_build *b, operand *o, const term *to)
{
    int perm[OT_MAX_RANK];
    for (int k = 0; k < to->n; k++)
        for (int j = 0; j < o->t.n; j++)
            if (o->t.label[j] == to->label[k]) perm[k] = j;
    o->v = ot_transpose(b, o->v, perm);
    o->t = *to;
}

/* Appends t's labels that are in `set`; returns the product of their sizes. */
static int64_t append(term *to, const term *t, uint64_t set, const formula *f)
{
    int64_t size = 1;
    for (int k = 0; k < t->n; k++) {
        if (!(set >> t->label[k] & 1)) continue;
        to->label[to->n++] = t->label[k];
        size *= f->size[t->label[k]];
    }
    return size;
}

/* a times c, summed over the common labels that are not in `needed`. */
static void multiply(ot_build *b, const formula *f, operand *a, operand *c, uint64_t needed)
{
    uint64_t la = labels(&a->t), lc = labels(&c->t), both = la & lc;
    term ta = { .n = 0 }, tc = { .n = 0 }, ty = { .n = 0 };
    if (__builtin_popcountll((la | lc) & needed) > OT_MAX_RANK) {
        ot_node_fail(b->node, b->graph->err, "a product of more than %d axes", OT_MAX_RANK);
        return;
    }
    int64_t B = append(&ta, &a->t, both & needed, f);
    int64_t M = append(&ta, &a->t, la & ~lc, f);
    int64_t K = append(&ta, &a->t, both & ~needed, f);
    append(&tc, &ta, both, f); /* in a's order */
    int64_t N = append(&tc, &c->t, lc & ~la, f);
    append(&ty, &ta, needed, f);
    append(&ty, &tc, lc & ~la, f);
    arrange(b, a, &ta);
    arrange(b, c, &tc);
    ot_value *x = ot_view(b, a->v, &(ot_shape){ .rank = 3, .dim = { B, M, K } });
    ot_value *w = ot_view(b, c->v, &(ot_shape){ .rank = 3, .dim = { B, K, N } });
    ot_value *y = both & ~needed ? ot_matmul(b, x, false, w, false) : ot_map2(b, OT_FN_Mul, 0, 0, x, w);
    ot_shape s = { .rank = 0 };
    for (int k = 0; k < ty.n; k++) s.dim[s.rank++] = f->size[ty.label[k]];
    a->v = ot_view(b, y, &s);
    a->t = ty;
}

static void einsum_lower(ot_build *b)
{
    formula f;
    operand o[MOST];
    uint64_t needed;
    int n = b->node->n_in;
    if (parse(b->node, &f, b->graph->err) != OT_OK) return;
    for (int i = 0; i < n && !ot_broken(b); i++) {
        o[i] = (operand){ b->node->in[i], f.in[i] };
        settle(b, &f, &o[i]);
    }
    for (int i = 0; i < n && !ot_broken(b); i++) {
        needed = labels(&f.out);
        for (int j = 0; j < n; j++) needed |= j == i ? 0 : labels(&o[j].t);
        sum_rest(b, &o[i], needed);
    }
    for (int i = 1; i < n && !ot_broken(b); i++) {
        needed = labels(&f.out);
        for (int j = i + 1; j < n; j++) needed |= labels(&o[j].t);
        multiply(b, &f, &o[0], &o[i], needed);
    }
    if (ot_broken(b)) return;
    arrange(b, &o[0], &f.out);
    ot_yield(b, 0, o[0].v);
}

/* Is the letter of axis a of operand `part` of an einsum summed over? */
static bool is_summed(const char *part, int a, const char *arrow)
{
    for (int i = 0; i <= a; i++)
        if (part[i] < 'A') return false; /* an ellipsis, or another operand */
    return !strchr(arrow, part[a]);
}

/* Adds a letter to the operands with a batch. */
static bool einsum_batch(ot_batching *b, const ot_node *n, const ot_shape *own, ot_batched *r)
{
    (void)own;
    const ot_attr *a = ot_attr_of(n->op, "equation");
    const char *text = *(const char *const *)((const char *)n->attrs + a->offset);
    const char *arrow = text ? strstr(text, "->") : NULL;
    char extra = 'A';
    if (!arrow) return false;
    while (strchr(text, extra) && extra < 'Z') extra++;
    char *now = ot_graph_alloc(b->g, strlen(text) + (size_t)n->n_in + 2), *to = now;
    if (!now || strchr(text, extra)) return false;
    const char *s = text;
    for (int i = 0; i < n->n_in; i++) {
        if (ot_batch_has(n, i)) *to++ = extra;
        if (ot_batch_has(n, i) && n->in[i]->mark != OT_ALONE && is_summed(s, ot_batch_axis(n->in[i]), arrow))
            ot_batch_mixes(b, n, i, ot_batch_axis(n->in[i]));
        while (s < arrow && *s != ',') *to++ = *s++;
        if (s < arrow) *to++ = *s++;
        if (ot_batch_has(n, i) && !(r->in[i] = ot_batch_full(b, n->in[i]))) return false;
    }
    sprintf(to, "->%c%s", extra, arrow + 2);
    memcpy((char *)r->attrs + a->offset, &now, sizeof now);
    return ot_batch_explicit(r, 0);
}

const ot_op ot_op_Einsum = {
    .name = "Einsum",
    .types = { "T", .T = OT_SET_NUMBER },
    .slots = "M",
    .since = 12,
    .in = { 1, OT_VARIADIC },
    .out = { 1, 1 },
    .attrs = einsum_rows,
    .attr_size = sizeof(einsum_attrs),
    .infer = einsum_infer,
    .lower = einsum_lower,
    .flags = OT_PRODUCT,
    .batch = einsum_batch,
};
