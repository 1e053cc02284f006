/* window.c - resolves kernel_shape, strides, dilations, pads, auto_pad and ceil_mode. */
#include "ops/kernels/window.h"

const char *const ot_auto_pads[] = { "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", NULL };

/* Extents, strides, pads stay below this, so that sums and products of two of them fit in 64 bits. */
#define LIMIT ((int64_t)1 << 31)

static ot_status list(const ot_node *n, const char *what, const ot_ints *v, int len, int64_t min, ot_error *err)
{
    if (v->n && v->n != len) return ot_node_fail(n, err, "%s has %d values; expected %d", what, v->n, len);
    for (int i = 0; i < v->n; i++)
        if (v->v[i] < min || v->v[i] >= LIMIT)
            return ot_node_fail(n, err, "%s has %lld; expected at least %lld and less than 2^31", what,
                                (long long)v->v[i], (long long)min);
    return OT_OK;
}

ot_status ot_window_lists(const ot_node *n, const ot_window_attrs *a, const int64_t *kernel, int nd, ot_window *w,
                          ot_error *err)
{
    if (nd < 1 || nd > OT_WINDOW_AXES)
        return ot_node_fail(n, err, "x has %d spatial axes; 1 to %d are supported", nd, OT_WINDOW_AXES);
    OT_TRY(list(n, "kernel_shape", &a->kernel, nd, 1, err));
    OT_TRY(list(n, "strides", &a->strides, nd, 1, err));
    OT_TRY(list(n, "dilations", &a->dilations, nd, 1, err));
    OT_TRY(list(n, "pads", &a->pads, 2 * nd, 0, err));
    *w = (ot_window){ .nd = nd };
    for (int j = 0; j < nd; j++) {
        if (kernel[j] < 1 || kernel[j] >= LIMIT)
            return ot_node_fail(n, err, "the window has extent %lld on spatial axis %d; expected at least 1",
                                (long long)kernel[j], j);
        w->kernel[j] = kernel[j];
        w->stride[j] = a->strides.n ? a->strides.v[j] : 1;
        w->dilation[j] = a->dilations.n ? a->dilations.v[j] : 1;
    }
    return OT_OK;
}

static int64_t reach(const ot_window *w, int j) { return (w->kernel[j] - 1) * w->dilation[j] + 1; }

int64_t ot_window_out(const ot_window *w, int j, int64_t in)
{
    int64_t room = in + w->pad_lo[j] + w->pad_hi[j] - reach(w, j);
    return room < 0 ? 0 : room / w->stride[j] + 1;
}

ot_status ot_window_resolve(const ot_node *n, const ot_window_attrs *a, const int64_t *kernel, const ot_shape *x,
                            ot_window *w, int64_t *out, ot_error *err)
{
    int nd = x->rank - 2;
    OT_TRY(ot_window_lists(n, a, kernel, nd, w, err));
    for (int j = 0; j < nd; j++) {
        int64_t in = x->dim[2 + j];
        if (in >= LIMIT) return ot_node_fail(n, err, "spatial axis %d of x has 2^31 elements or more", j);
        if (a->auto_pad == OT_PAD_SAME_UPPER || a->auto_pad == OT_PAD_SAME_LOWER) {
            out[j] = (in + w->stride[j] - 1) / w->stride[j];
            int64_t total = (out[j] - 1) * w->stride[j] + reach(w, j) - in;
            if (total < 0) total = 0;
            w->pad_lo[j] = a->auto_pad == OT_PAD_SAME_UPPER ? total / 2 : total - total / 2;
            w->pad_hi[j] = total - w->pad_lo[j];
            continue;
        }
        bool explicit_pads = a->auto_pad == OT_PAD_NOTSET && a->pads.n;
        w->pad_lo[j] = explicit_pads ? a->pads.v[j] : 0;
        w->pad_hi[j] = explicit_pads ? a->pads.v[nd + j] : 0;
        out[j] = ot_window_out(w, j, in);
        /* One more window (the only one, if x is narrower than it), partly beyond the padding, if it starts inside x
         * or its lower padding. */
        if (a->ceil_mode && (out[j] - 1) * w->stride[j] + reach(w, j) < in + w->pad_lo[j] + w->pad_hi[j] &&
            out[j] * w->stride[j] < in + w->pad_lo[j])
            out[j]++;
        if (out[j] < 1 && in > 0)
            return ot_node_fail(n, err, "the window spans %lld on spatial axis %d; x has %lld with its padding",
                                (long long)reach(w, j), j, (long long)(in + w->pad_lo[j] + w->pad_hi[j]));
    }
    return OT_OK;
}

void ot_window_3d(const ot_window *w, ot_window *out)
{
    int lead = OT_WINDOW_AXES - (int)w->nd;
    *out = (ot_window){ .nd = OT_WINDOW_AXES };
    for (int j = 0; j < OT_WINDOW_AXES; j++) {
        bool has = j >= lead;
        out->kernel[j] = has ? w->kernel[j - lead] : 1;
        out->stride[j] = has ? w->stride[j - lead] : 1;
        out->dilation[j] = has ? w->dilation[j - lead] : 1;
        out->pad_lo[j] = has ? w->pad_lo[j - lead] : 0;
        out->pad_hi[j] = has ? w->pad_hi[j - lead] : 0;
    }
}

void ot_spatial_3d(const ot_shape *s, int64_t out[OT_WINDOW_AXES])
{
    int lead = OT_WINDOW_AXES - (s->rank - 2);
    for (int j = 0; j < OT_WINDOW_AXES; j++) out[j] = j < lead ? 1 : s->dim[2 + j - lead];
}

void ot_window_words(FILE *f, const ot_window *w)
{
    for (int d = 0; d < (int)w->nd; d++)
        fprintf(f, " %lld/%lld*%lld+%lld+%lld", (long long)w->kernel[d], (long long)w->stride[d],
                (long long)w->dilation[d], (long long)w->pad_lo[d], (long long)w->pad_hi[d]);
}
