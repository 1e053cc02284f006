/* box.c - a box of elements with strides on both sides. */
#include "ops/kernels/box.h"

static int64_t size(int64_t v) { return v < 0 ? -v : v; }

static void exchange(ot_box *b, int i, int j)
{
    int64_t e = b->extent[i], t = b->t[i], f = b->f[i];
    b->extent[i] = b->extent[j];
    b->t[i] = b->t[j];
    b->f[i] = b->f[j];
    b->extent[j] = e;
    b->t[j] = t;
    b->f[j] = f;
}

void ot_box_simplify(ot_box *b)
{
    int n = 0;
    b->count = 1;
    for (int d = 0; d < b->rank; d++) {
        b->count *= b->extent[d];
        if (b->extent[d] == 1) continue;
        exchange(b, n, d);
        for (int e = n++; e > 0 && (size(b->t[e]) > size(b->t[e - 1]) ||
                                    (b->t[e] == b->t[e - 1] && size(b->f[e]) > size(b->f[e - 1])));
             e--)
            exchange(b, e, e - 1);
    }
    int m = n > 0;
    for (int d = 1; d < n; d++) {
        int64_t e = b->extent[d];
        if (b->t[m - 1] == b->t[d] * e && b->f[m - 1] == b->f[d] * e) {
            b->extent[m - 1] *= e;
            b->t[m - 1] = b->t[d];
            b->f[m - 1] = b->f[d];
        } else if (m != d) {
            exchange(b, m, d);
            m++;
        } else m++;
    }
    if (!m) {
        b->extent[0] = 1;
        b->t[0] = b->f[0] = 1;
        m = 1;
    }
    b->rank = m;
}

void ot_walk_start(ot_walk *w, const ot_box *b, int inner, int64_t index)
{
    *w = (ot_walk){ .rank = b->rank - inner, .to = b->to, .from = b->from };
    for (int d = w->rank - 1; d >= 0; d--) {
        w->k[d] = index % b->extent[d];
        index /= b->extent[d];
        w->to += w->k[d] * b->t[d];
        w->from += w->k[d] * b->f[d];
    }
}

void ot_walk_next(ot_walk *w, const ot_box *b)
{
    for (int d = w->rank - 1; d >= 0; d--) {
        w->to += b->t[d];
        w->from += b->f[d];
        if (++w->k[d] < b->extent[d]) return;
        w->to -= b->t[d] * b->extent[d];
        w->from -= b->f[d] * b->extent[d];
        w->k[d] = 0;
    }
}
