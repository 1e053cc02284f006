/* dnn_run.c - runs a plan of the emulated cuDNN: every tensor is read into doubles by its strides, the operations are
 * loops, and results that are not virtual are written back, rounded to their type. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulator/dnn.h"
#include "tests/cuda/emulator/elements.h"
#include "tests/cuda/emulator/emulator.h"

enum { MOST = 24, FIELDS = 64 };

/* A plan with its addresses, stored until the work is executed. */
typedef struct job {
    const dnn *plan;
    int n;
    int64_t uid[MOST];
    void *at[MOST];
    float number[MOST]; /* of tensors passed by value: read when they are passed */
    void *work;
} job;

typedef dnn_field field;

typedef struct machine {
    const job *j;
    int engine;
    field field[FIELDS];
    int n;
} machine;

/* ---- memory ------------------------------------------------------------------------------ */

static void *address(const job *j, const dnn_tensor *t)
{
    for (int i = 0; i < j->n; i++)
        if (j->uid[i] == t->uid) return t->by_value ? (void *)(uintptr_t)&j->number[i] : j->at[i];
    return NULL;
}

static int64_t count(const dnn_tensor *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= t->dim[d];
    return n;
}

/* The field of the tensor that op links to by `name`; created, and read if it is memory, at first use. */
static field *field_of(machine *m, const dnn *op, int name)
{
    const dnn *d = dnn_to(op, name);
    if (!d) return NULL;
    dnn_tensor t = dnn_tensor_of(d);
    for (int i = 0; i < m->n; i++)
        if (m->field[i].t.uid == t.uid) return &m->field[i];
    field *f = &m->field[m->n++];
    *f = (field){ .t = t, .n = count(&t) };
    f->v = calloc((size_t)f->n, sizeof *f->v);
    const void *from = t.is_virtual ? NULL : address(m->j, &t);
    for (int64_t i = 0; from && f->v && i < f->n; i++) {
        f->v[i] = emulator_load(from, t.type, t.by_value ? 0 : dnn_place(&t, i));
        if (m->engine == DNN_HALF) f->v[i] = emulator_rounded(f->v[i], 7, -133);
        if (m->engine == DNN_TF32 && t.type == dnn_cuda_type(CUDNN_DATA_FLOAT))
            f->v[i] = emulator_rounded(f->v[i], 10, -136);
    }
    return f;
}

static void write_back(machine *m, const field *f)
{
    void *to = f->t.is_virtual ? NULL : address(m->j, &f->t);
    double by = m->engine == DNN_RANDOM ? 1.01 : m->engine == DNN_WRONG ? 1.001 : 1;
    for (int64_t i = 0; to && i < f->n; i++) emulator_store(to, f->t.type, dnn_place(&f->t, i), by * f->v[i]);
    if (to && m->engine == DNN_BEYOND) emulator_store(to, f->t.type, dnn_place(&f->t, f->n - 1) + 1, 1);
}

/* ---- convolution ----------------------------------------------------------------------------- */

typedef struct window {
    int64_t in[3], k[3], out[3], stride[3], dilation[3], lo[3];
} window;

static window window_of(const dnn *conv, const field *x, const field *w, const field *y)
{
    window s;
    int nd = x->t.rank - 2;
    for (int j = 0; j < 3; j++) {
        int a = j - (3 - nd); /* leading axes of extent 1 */
        s.in[j] = a < 0 ? 1 : x->t.dim[2 + a];
        s.k[j] = a < 0 ? 1 : w->t.dim[2 + a];
        s.out[j] = a < 0 ? 1 : y->t.dim[2 + a];
        s.stride[j] = a < 0 ? 1 : dnn_number(conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, a);
        s.dilation[j] = a < 0 ? 1 : dnn_number(conv, CUDNN_ATTR_CONVOLUTION_DILATIONS, a);
        s.lo[j] = a < 0 ? 0 : dnn_number(conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, a);
    }
    return s;
}

/* Which of the three is summed into. */
typedef enum side { Y, X, W } side;

/* One plane of x, one of w, one of y. */
static void planes(const window *s, side to, double *x, double *w, double *y)
{
    int64_t f = 0;
    for (int64_t a = 0; a < s->k[0]; a++)
        for (int64_t b = 0; b < s->k[1]; b++)
            for (int64_t c = 0; c < s->k[2]; c++, f++) {
                int64_t o = 0;
                for (int64_t p = 0; p < s->out[0]; p++)
                    for (int64_t q = 0; q < s->out[1]; q++)
                        for (int64_t r = 0; r < s->out[2]; r++, o++) {
                            int64_t i = p * s->stride[0] + a * s->dilation[0] - s->lo[0],
                                    j = q * s->stride[1] + b * s->dilation[1] - s->lo[1];
                            int64_t k = r * s->stride[2] + c * s->dilation[2] - s->lo[2];
                            if (i < 0 || j < 0 || k < 0 || i >= s->in[0] || j >= s->in[1] || k >= s->in[2]) continue;
                            double *e = &x[(i * s->in[1] + j) * s->in[2] + k];
                            if (to == Y) y[o] += *e * w[f];
                            else if (to == X) *e += y[o] * w[f];
                            else w[f] += *e * y[o];
                        }
            }
}

static void convolve(const dnn *conv, double alpha, side to, field *x, field *w, field *y)
{
    window s = window_of(conv, x, w, y);
    field *sum = to == Y ? y : to == X ? x : w;
    int64_t I = s.in[0] * s.in[1] * s.in[2], O = s.out[0] * s.out[1] * s.out[2], K = s.k[0] * s.k[1] * s.k[2];
    int64_t C = w->t.dim[1], M = w->t.dim[0], groups = x->t.dim[1] / C;
    memset(sum->v, 0, (size_t)sum->n * sizeof *sum->v);
    for (int64_t n = 0; n < x->t.dim[0]; n++)
        for (int64_t m = 0; m < M; m++)
            for (int64_t c = 0; c < C; c++)
                planes(&s, to, x->v + (n * groups * C + m / (M / groups) * C + c) * I, w->v + (m * C + c) * K,
                       y->v + (n * M + m) * O);
    for (int64_t i = 0; i < sum->n; i++) sum->v[i] *= alpha;
}

static double factor(const dnn *op, int name)
{
    const dnn_value *v = dnn_find(op, name);
    return v->type == CUDNN_TYPE_DOUBLE ? *(const double *)v->list : (double)*(const float *)v->list;
}

static field *run_convolution(machine *m, const dnn *op)
{
    field *x, *w, *y;
    switch (op->type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        x = field_of(m, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X),
        w = field_of(m, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
        y = field_of(m, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
        convolve(dnn_to(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC),
                 factor(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA), Y, x, w, y);
        return y;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        x = field_of(m, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX),
        w = field_of(m, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
        y = field_of(m, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
        convolve(dnn_to(op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC),
                 factor(op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA), X, x, w, y);
        return x;
    default:
        x = field_of(m, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X),
        w = field_of(m, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
        y = field_of(m, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
        convolve(dnn_to(op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC),
                 factor(op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA), W, x, w, y);
        return w;
    }
}

static field *run_piece(machine *m, const dnn *op)
{
    int name[4], n = dnn_piece_links(op, name);
    field *f[4];
    for (int i = 0; i < n; i++) f[i] = field_of(m, op, name[i]);
    dnn_run_piece(op, f);
    return f[n - 1];
}

/* ---- norms -------------------------------------------------------------------------------------- */

static int64_t pixels(const field *x) { return x->n / (x->t.dim[0] * x->t.dim[1]); }

/* Every element of channel c: i counts them in x->v. */
#define EACH(x, c, i)                                                  \
    for (int64_t s_ = 0, i; s_ < (x)->t.dim[0] * pixels(x); s_++)       \
        if (i = (s_ / pixels(x) * (x)->t.dim[1] + (c)) * pixels(x) + s_ % pixels(x), true)

static void run_norm(machine *m, const dnn *op)
{
    field *x = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC),
          *y = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC);
    field *scale = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC),
          *bias = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC);
    field *mean = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC),
          *inv = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC);
    field *epsilon = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC),
          *f = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC);
    field *run_m = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC),
          *run_v = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC);
    field *new_m = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC),
          *new_v = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC);
    double n = (double)(x->n / x->t.dim[1]);
    for (int64_t c = 0; c < x->t.dim[1]; c++) {
        double a = 0, v = 0;
        EACH(x, c, i) a += x->v[i];
        a /= n;
        EACH(x, c, i) v += (x->v[i] - a) * (x->v[i] - a);
        v /= n;
        mean->v[c] = a;
        inv->v[c] = 1 / sqrt(v + epsilon->v[0]);
        EACH(x, c, i) y->v[i] = (x->v[i] - a) * inv->v[c] * scale->v[c] + bias->v[c];
        if (!f) continue;
        new_m->v[c] = (1 - f->v[0]) * run_m->v[c] + f->v[0] * a;
        new_v->v[c] = (1 - f->v[0]) * run_v->v[c] + f->v[0] * v * n / (n - 1);
    }
    field *out[] = { y, mean, inv, f ? new_m : NULL, f ? new_v : NULL };
    for (int i = 0; i < 5; i++)
        if (out[i]) write_back(m, out[i]);
}

static void run_norm_dx(machine *m, const dnn *op)
{
    field *x = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC),
          *dy = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC);
    field *scale = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC),
          *mean = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC);
    field *inv = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC),
          *dx = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC);
    field *dscale = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC),
          *dbias = field_of(m, op, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC);
    double n = (double)(x->n / x->t.dim[1]);
    for (int64_t c = 0; c < x->t.dim[1]; c++) {
        double ds = 0, db = 0;
        EACH(x, c, i) db += dy->v[i], ds += dy->v[i] * (x->v[i] - mean->v[c]) * inv->v[c];
        EACH(x, c, i)
        dx->v[i] = scale->v[c] * inv->v[c] * (dy->v[i] - db / n - (x->v[i] - mean->v[c]) * inv->v[c] * ds / n);
        dscale->v[c] = ds;
        dbias->v[c] = db;
    }
    write_back(m, dx);
    write_back(m, dscale);
    write_back(m, dbias);
}

/* ---- plans ---------------------------------------------------------------------------------------- */

static void run_job(const void *what)
{
    const job *j = what;
    machine m = { .j = j };
    const dnn *graph = dnn_graph_of(j->plan, &m.engine);
    const dnn_value *ops = dnn_find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    if (dnn_work_of(m.engine)) memset(j->work, 0xA5, (size_t)dnn_work_of(m.engine));
    for (int64_t i = 0; i < ops->n; i++) {
        const dnn *op = ((dnn *const *)ops->list)[i];
        if (op->type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR) run_norm(&m, op);
        else if (op->type == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR) run_norm_dx(&m, op);
        else write_back(&m, dnn_is_piece(op) ? run_piece(&m, op) : run_convolution(&m, op));
    }
    for (int i = 0; i < m.n; i++) free(m.field[i].v);
}

static void must_hold(const void *at, size_t bytes, size_t alignment, const char *what)
{
    if (emulator_is_device(at, bytes) && (uintptr_t)at % alignment == 0) return;
    fprintf(stderr, "emulator: cudnnBackendExecute: %s: %zu bytes at %p, aligned to %zu, are not the device's\n", what,
            bytes, at, alignment);
    abort();
}

/* Every tensor in memory has an address in the pack, and all of it is device memory. */
static bool bound(const job *j, const dnn *op)
{
    for (int i = 0; i < op->n; i++) {
        const dnn *d = op->value[i].type == CUDNN_TYPE_BACKEND_DESCRIPTOR ? *(dnn *const *)op->value[i].list : NULL;
        if (!d || d->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) continue;
        dnn_tensor t = dnn_tensor_of(d);
        void *at = address(j, &t);
        if (t.is_virtual) continue;
        if (!at) return false;
        size_t n = (size_t)dnn_place(&t, count(&t) - 1) + 1;
        if (!t.by_value)
            must_hold(at, t.type == dnn_cuda_type(CUDNN_DATA_BOOLEAN) ? (n + 7) / 8 : n * emulator_size(t.type), 16,
                      "a tensor");
    }
    return true;
}

cudnnStatus_t dnn_execute(void *stream, const dnn *plan, const dnn *pack)
{
    const dnn_value *ids = dnn_find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
                    *at = dnn_find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    job j = { .plan = plan, .n = (int)ids->n };
    int engine;
    const dnn *graph = dnn_graph_of(plan, &engine);
    const dnn_value *ops = dnn_find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    if (j.n > MOST || !dnn_runs(graph, engine)) return CUDNN_STATUS_BAD_PARAM;
    memcpy(j.uid, ids->list, (size_t)ids->n * sizeof *j.uid);
    memcpy(j.at, at->list, (size_t)at->n * sizeof *j.at);
    memcpy(&j.work, dnn_find(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)->list, sizeof j.work);
    for (int i = 0; i < j.n; i++)
        if (j.at[i] && !emulator_is_device(j.at[i], 1)) j.number[i] = *(const float *)j.at[i];
    for (int64_t i = 0; i < ops->n; i++)
        if (!bound(&j, ((dnn *const *)ops->list)[i])) return CUDNN_STATUS_BAD_PARAM;
    if (dnn_work_of(engine)) must_hold(j.work, (size_t)dnn_work_of(engine), 256, "the workspace");
    return emulator_submit(stream, run_job, &j, sizeof j, "cudnnBackendExecute") ? CUDNN_STATUS_EXECUTION_FAILED
                                                                                 : CUDNN_STATUS_SUCCESS;
}
