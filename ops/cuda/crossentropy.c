/* crossentropy.c - CrossEntropy and its gradient: a group of threads per sample, then sums over the samples.
 *
 * The loss reads the logits once, and once more if it depends on every class; a sample's logits stay in registers
 * between the two, and in the gradient, if they fit (group.c).  The gradient computes the loss too, from the same reading,
 * if it is wanted.  Few samples: one launch, of one block.
 *
 * Memory    workspace: a loss per sample, the sums of CHUNK samples each
 * Numerics  f32 (f64 for f64) within a sample, f64 over the samples, in an order that depends only on their number */
#include "ops/kernels/crossentropy.h"

#include <stdlib.h>

#include "ops/cuda/crossentropy.cuh"
#include "ops/cuda/group.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/types.h"
#include "ops/kernels/move.h"
#include "ops/kernels/softmax.h"

enum { CHUNK = 8192, FOLD_THREADS = 512, WHOLE_THREADS = 512, WHOLE_MOST = 8 * WHOLE_THREADS };

typedef struct loss_state {
    ot_gpu_fn *main, *fold_samples, *fold_sums;
    ot_group g;
    bool whole;
} loss_state;

/* The node's inputs by name; x is its input number `first`. */
typedef struct loss_node {
    const ot_cross_entropy *a;
    const ot_value *x, *target, *weight, *loss;
    ot_along v;
    int64_t samples, row;        /* row: of padded rows, elements from one to the next; else 0 */
    bool gradient, logp, losses; /* losses: are a result */
} loss_node;

static loss_node node_of(const ot_node *n, bool gradient)
{
    int first = gradient;
    loss_node l = { .a = n->attrs,
                    .x = n->in[first],
                    .target = n->in[first + 1],
                    .weight = n->n_in > first + 2 ? n->in[first + 2] : NULL,
                    .loss = gradient ? n->in[0] : n->out[0],
                    .gradient = gradient,
                    .logp = !gradient && n->n_out > 1 && n->out[1],
                    .losses = gradient ? n->n_out > 1 && n->out[1] : n->out[0] != NULL };
    l.v = ot_along_axis(&l.x->shape, l.a->axis);
    l.row = l.a->classes ? l.v.n : 0;
    l.v.n = ot_classes(l.a, l.x);
    l.samples = l.v.outer * l.v.inner;
    return l;
}

static bool each(const loss_node *l) { return l->a->reduction == OT_REDUCTION_NONE; }
static bool mean(const loss_node *l) { return l->a->reduction == OT_REDUCTION_MEAN; }

/* Is the divisor of the mean a sum over the labels instead of their number? */
static bool must_count(const loss_node *l) { return mean(l) && !l->a->probs && (l->weight || l->a->has_ignore); }

/* Are the losses of samples added? */
static bool folds(const loss_node *l) { return !each(l) && l->losses; }

static ot_dtype loss_type(const loss_node *l)
{
    return l->loss ? l->loss->dtype : l->x->dtype == OT_F64 ? OT_F64 : OT_F32;
}

static void node_text(const loss_node *l, bool whole, ot_text *t)
{
    ot_dtype tl = loss_type(l);
    ot_text_add(t, "#define PADDED %d\n#define PROBS %d\n#define LOG_INPUT %d\n#define LOGP %d\n#define SMOOTH %d\n",
                l->row != 0, l->a->probs != 0, l->a->log_input != 0, l->logp, l->a->label_smoothing != 0);
    ot_text_add(t, "#define WEIGHT %d\n#define IGNORE %d\n#define MEAN %d\n#define EACH %d\n#define WHOLE %d\n",
                l->weight != NULL, l->a->has_ignore != 0, mean(l), each(l), whole);
    ot_text_add(t, "#define TT %s\n#define TW %s\n#define TL %s\n#define TP %s\n", ot_cuda_type(l->target->dtype),
                l->weight ? ot_cuda_type(l->weight->dtype) : "f32", ot_cuda_type(tl),
                each(l)                 ? ot_cuda_type(tl)
                : l->x->dtype == OT_F64 ? "f64"
                                        : "f32");
}

static bool can(const ot_node *n, bool gradient, const char **why)
{
    loss_node l = node_of(n, gradient);
    if (l.row % ot_lanes(l.x->dtype)) return ot_refuse(why, "padded rows are not a multiple of 16 bytes");
    return ot_cuda_type_can(l.x->dtype, why) && ot_cuda_type_can(l.target->dtype, why) &&
           (!l.weight || ot_cuda_type_can(l.weight->dtype, why));
}

static bool loss_can(const ot_node *n, const char **why) { return can(n, false, why); }
static bool dx_can(const ot_node *n, const char **why) { return can(n, true, why); }

/* Elements of a padded row that are loaded: its classes, up to a multiple of 16 bytes. */
static int64_t whole_packs(const loss_node *l)
{
    int lanes = ot_lanes(l->x->dtype);
    return (l->v.n + lanes - 1) / lanes * lanes;
}

/* The assignment of samples to threads. */
static void choose(const loss_node *l, loss_state *s)
{
    bool spread = l->a->probs || l->a->label_smoothing != 0 || l->logp;
    if (!l->gradient && l->a->log_input && !spread) s->g = ot_group_columns(l->samples, 1, 0); /* a pick per sample */
    else if (l->v.inner != 1) s->g = ot_group_columns(l->samples, l->v.n, l->gradient || spread);
    else s->g = ot_group_rows(l->row ? whole_packs(l) : l->v.n, l->x->dtype, l->gradient || spread);
    int64_t threads = (l->samples * s->g.group + 31) / 32 * 32;
    int64_t most = l->gradient ? WHOLE_MOST / 2 : WHOLE_MOST; /* one block: the gradient writes as much as it reads */
    s->whole = folds(l) && s->g.group <= 32 && threads <= most;
    if (s->whole) s->g.threads = threads < 32 ? 32 : threads < WHOLE_THREADS ? (int)threads : WHOLE_THREADS;
}

static ot_status compile(const loss_node *l, loss_state *s, ot_prep *p)
{
    ot_text text = { 0 };
    ot_group_text(&s->g, l->x->dtype, &text);
    node_text(l, s->whole, &text);
    ot_text_add(&text, "#define STAGE %d\n#define LOSS %d\n", l->gradient, l->losses);
    ot_status st = ot_gpu_compile(p->device, "crossentropy.cu", text.text,
                                  l->gradient ? "cross_entropy_dx" : "cross_entropy", &s->main, p->err);
    ot_text_free(&text);
    for (int stage = 2; stage <= 3 && st == OT_OK; stage++) {
        if (s->whole || (!folds(l) && !(l->gradient && must_count(l))) || (stage == 3 && l->samples <= CHUNK)) break;
        node_text(l, false, &text);
        ot_text_add(&text, "#define STAGE %d\n#define CHUNK %d\n#define THREADS %d\n", stage, CHUNK, FOLD_THREADS);
        st = ot_gpu_compile(p->device, "crossentropy.cu", text.text, "cross_entropy_fold",
                            stage == 2 ? &s->fold_samples : &s->fold_sums, p->err);
        ot_text_free(&text);
    }
    return st;
}

static int64_t chunks_of(int64_t n) { return n > CHUNK ? (n + CHUNK - 1) / CHUNK : 1; }
static size_t losses_bytes(const loss_node *l)
{
    return folds(l) ? ((size_t)l->samples * sizeof(double) + 63) / 64 * 64 : 0;
}

static ot_status prepare(const ot_node *n, ot_prep *p, bool gradient)
{
    loss_node l = node_of(n, gradient);
    loss_state *s = calloc(1, sizeof *s);
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "no memory to prepare %s", n->op->name);
    choose(&l, s);
    ot_status st = compile(&l, s, p);
    if (st != OT_OK) {
        free(s);
        return st;
    }
    p->state = s;
    if (s->fold_samples) /* sums of chunks, of chunks of those ...: less than twice the first */
        p->work = losses_bytes(&l) + 2 * (size_t)(chunks_of(l.samples) + 1) * sizeof(ot_cross_entropy_sum);
    return OT_OK;
}

static ot_status loss_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, false); }
static ot_status dx_prepare(const ot_node *n, ot_prep *p) { return prepare(n, p, true); }

/* Sums over the samples; *last: the position of the final sum.  losses NULL: the weights only. */
static ot_status fold(const ot_call *c, const loss_node *l, const void *losses, const void *target, const void *weight,
                      void *loss, const ot_cross_entropy_sum **last)
{
    const loss_state *s = c->state;
    ot_cross_entropy_sum *sums = (ot_cross_entropy_sum *)((char *)c->work + losses_bytes(l));
    ot_cross_entropy_fold_args a = { .each = losses,
                                     .target = target,
                                     .weight = weight,
                                     .n = l->samples,
                                     .classes = l->v.n,
                                     .ignore = l->a->ignore_index,
                                     .sums = sums,
                                     .loss = loss,
                                     .count = must_count(l) ? 0 : (double)l->samples };
    OT_TRY(ot_gpu_launch(c->device, s->fold_samples, chunks_of(a.n), FOLD_THREADS, 0, &a, c->err));
    while (chunks_of(a.n) > 1) {
        a.each = a.sums;
        a.n = chunks_of(a.n);
        a.sums += a.n;
        OT_TRY(ot_gpu_launch(c->device, s->fold_sums, chunks_of(a.n), FOLD_THREADS, 0, &a, c->err));
    }
    *last = a.sums;
    return OT_OK;
}

static ot_cross_entropy_args args_of(const ot_call *c, const loss_node *l)
{
    int first = l->gradient;
    return (ot_cross_entropy_args){
        .x = c->in[first],
        .target = c->in[first + 1],
        .weight = l->weight ? c->in[first + 2] : NULL,
        .samples = l->samples,
        .n = l->v.n,
        .step = l->v.inner,
        .row = l->row,
        .ignore = l->a->ignore_index,
        .share = l->v.n ? l->a->label_smoothing / (double)l->v.n : 0,
        .rest = 1 - l->a->label_smoothing,
        .fault = c->device->fault,
        .step_number = c->step,
    };
}

static ot_status loss_run(const ot_call *c)
{
    const loss_state *s = c->state;
    loss_node l = node_of(c->node, false);
    ot_cross_entropy_args a = args_of(c, &l);
    const ot_cross_entropy_sum *sum;
    int64_t blocks = s->whole ? 1 : ot_gpu_blocks(c->device, a.samples, ot_group_samples(&s->g));
    a.logp = l.logp ? c->out[1] : NULL;
    a.loss = s->whole || !folds(&l) ? c->out[0] : c->work;
    OT_TRY(ot_gpu_launch(c->device, s->main, blocks, s->g.threads, 0, &a, c->err));
    if (s->whole || !folds(&l)) return OT_OK;
    return fold(c, &l, a.loss, a.target, a.weight, c->out[0], &sum);
}

static ot_status dx_run(const ot_call *c)
{
    const loss_state *s = c->state;
    loss_node l = node_of(c->node, true);
    ot_cross_entropy_args a = args_of(c, &l);
    const ot_cross_entropy_sum *sum;
    int64_t blocks = s->whole ? 1 : ot_gpu_blocks(c->device, a.samples, ot_group_samples(&s->g));
    void *loss = l.losses ? c->out[1] : NULL;
    a.dloss = c->in[0];
    a.dx = c->out[0];
    a.loss = folds(&l) && !s->whole ? c->work : loss;
    if (must_count(&l) && !s->whole) {
        OT_TRY(fold(c, &l, NULL, a.target, a.weight, NULL, &sum));
        a.count = &sum->count;
    }
    OT_TRY(ot_gpu_launch(c->device, s->main, blocks, s->g.threads, 0, &a, c->err));
    return folds(&l) && !s->whole ? fold(c, &l, a.loss, a.target, a.weight, loss, &sum) : OT_OK;
}

const ot_kernel ot_cuda_CrossEntropy = {
    .name = "cuda", .can = loss_can, .prepare = loss_prepare, .run = loss_run, .release = free
};
const ot_kernel ot_cuda_CrossEntropyDx = {
    .name = "cuda", .can = dx_can, .prepare = dx_prepare, .run = dx_run, .release = free, .inplace = 2
};
