/* crossentropy.cu - cross-entropy of logits and classes, its gradient, and the sums over the samples.
 *
 * STAGE 0 the losses, 1 the gradient, and with LOSS the losses too: a group of threads per sample (group.cuh), which reads
 * the logits once if they fit in registers.  2, 3: a block adds CHUNK samples, or CHUNK sums, in f64.
 *
 * In the gradient a thread adds to the loss what its own elements contribute, before it writes over them: dx may be x.
 *
 *   PADDED         rows are a.row elements apart, a multiple of 16 bytes; what follows the classes is 0 in dx
 *   PROBS LOG_INPUT LOGP SMOOTH WEIGHT IGNORE MEAN EACH   the node's operands and attributes (crossentropy.h); EACH: no
 *                  reduction
 *   LOSS           STAGE 1: the losses are wanted
 *   WHOLE          one block computes everything, the reduction included
 *   TT TW TL TP    types of target, class weights and loss; TP of the losses of single samples */
#include "crossentropy.cuh"

OT_DEVICE double weight_of(const void *weight, ot_i64 c)
{
#if WEIGHT
    return (double)OT_LD(TW, weight, c);
#else
    (void)weight;
    (void)c;
    return 1;
#endif
}

/* The class of a sample; -1: ignored; -2: not a class number. */
OT_DEVICE ot_i64 class_of(const void *target, ot_i64 sample, ot_i64 n, ot_i64 ignore)
{
#if PROBS
    (void)target, (void)sample, (void)n, (void)ignore;
    return 0;
#else
    ot_i64 c = (ot_i64)OT_LD(TT, target, sample);
    if (IGNORE && c == ignore) return -1;
    return c < 0 || c >= n ? -2 : c;
#endif
}

/* The block's sum, in every thread: in a fixed order. */
OT_DEVICE double block_sum(double v, double *shared)
{
    for (int m = 16; m > 0; m /= 2) v += OT_SHUFFLE_XOR(v, m);
    if (OT_THREAD % 32 == 0) shared[OT_THREAD / 32] = v;
    OT_SYNC();
    v = 0;
    for (int w = 0; w < THREADS / 32; w++) v += shared[w];
    OT_SYNC();
    return v;
}

#if STAGE < 2
#include "group.cuh"

#define SPREAD (PROBS || SMOOTH) /* every class contributes to the loss */
#define LOGITS (!LOG_INPUT)

/* The factor of -log p[i], without the label's own weight. */
OT_DEVICE ACC spread(const ot_cross_entropy_args *a, const ot_line *l, INDEX i)
{
    ACC f = (ACC)a->share;
    if (i < 0 || i >= l->n) return 0;
#if PROBS
    f += (ACC)a->rest * (ACC)OT_LD(TT, a->target, l->start + (COLUMNS ? i * a->step : i));
#endif
    return f * (ACC)weight_of(a->weight, i);
}

OT_DEVICE ot_line line_at(const ot_cross_entropy_args *a, ot_i64 first)
{
    ot_line l = line_of(first, a->samples, a->n, a->step);
#if PADDED
    l.start = l.sample * a->row;
#endif
    return l;
}

typedef struct sample { ot_i64 label; ACC own; } sample;

/* The sample's label and its weight; an invalid label is reported and ignored. */
OT_DEVICE sample sample_of(const ot_cross_entropy_args *a, const ot_line *l)
{
    sample s = { -1, 0 };
    if (!l->live) return s;
    s.label = class_of(a->target, l->sample, a->n, a->ignore);
    if (s.label == -2 && l->member == 0) ot_report(a->fault, a->step_number, OT_FAULT_LABEL, (ot_i64)OT_LD(TT, a->target, l->sample));
    if (!PROBS && s.label >= 0) s.own = (ACC)(a->rest * weight_of(a->weight, s.label));
    return s;
}
#endif

#if STAGE == 0

OT_KERNEL(cross_entropy, ot_cross_entropy_args, BOUNDS)
{
    OT_SHARED(ACC, shared, OT_GROUP_SHARED);
#if WHOLE
    OT_SHARED(double, sums, 32);
    double total = 0, count = 0;
#endif
    OT_EACH_BLOCK_OF_SAMPLES(first, a.samples) {
        ot_line l = line_at(&a, first);
        sample  s = sample_of(&a, &l);
        ACC     max = LOWEST, sum = 0, lse = 0, loss = 0, v[LANES];
#if LOGITS || SPREAD || LOGP
        OT_KEEP(x, a.x, &l, a.step);
#endif
#if LOGITS
        OT_EACH_PACK(&l, i) {
            OT_OPEN(x, a.x, &l, i, a.step, -OT_INF, v);
            softmax_more(v, &max, &sum);
        }
        softmax_join(&max, &sum, shared);
        lse = log(sum);
#else
        max = sum = 0;
#endif
#if SPREAD || LOGP
        OT_EACH_PACK(&l, i) {
            OT_OPEN(x, a.x, &l, i, a.step, 0, v);
            for (int e = 0; e < LANES; e++) {
                v[e] = v[e] - max - lse;
                ACC f = SPREAD && s.label >= 0 ? spread(&a, &l, i + e) : (ACC)0;
                if (f != 0) loss -= f * v[e]; /* 0 times an infinite logarithm is ignored */
            }
            if (LOGP) put(a.logp, &l, i, a.step, v);
        }
        if (SPREAD) loss = group_sum(loss, shared);
#endif
        if (s.own != 0) {
            ACC own = (ACC)OT_LD(T, a.x, l.start + s.label * (COLUMNS ? a.step : 1));
            loss -= s.own * (own - max - lse);
        }
        if (!l.live || l.member != 0) continue;
#if WHOLE
        total += loss;
        count += s.label >= 0 ? weight_of(a.weight, s.label) : 0;
#else
        if (a.loss) OT_ST(TP, a.loss, l.sample, loss);
#endif
    }
#if WHOLE
    total = block_sum(total, sums);
    count = block_sum(count, sums);
    if (MEAN) total /= PROBS ? (double)a.samples : count;
    if (OT_THREAD == 0 && a.loss) OT_ST(TL, a.loss, 0, (ACC)total);
#endif
}

#elif STAGE == 1

OT_KERNEL(cross_entropy_dx, ot_cross_entropy_args, BOUNDS)
{
    OT_SHARED(ACC, shared, OT_GROUP_SHARED);
    double count = !MEAN ? 1 : a.count ? *a.count : (double)a.samples;
#if WHOLE
    OT_SHARED(double, sums, 32);
    double total = 0;
    if (MEAN && !PROBS && (WEIGHT || IGNORE)) {
        count = 0;
        for (ot_i64 k = OT_THREAD; k < a.samples; k += THREADS) {
            ot_i64 c = class_of(a.target, k, a.n, a.ignore);
            count += c >= 0 ? weight_of(a.weight, c) : 0;
        }
        count = block_sum(count, sums);
    }
#endif
    OT_EACH_BLOCK_OF_SAMPLES(first, a.samples) {
        ot_line l = line_at(&a, first);
        sample  s = sample_of(&a, &l);
        ACC     max = LOWEST, sum = 0, lse = 0, factors = 0, g = 0, loss = 0, v[LANES];
        if (s.label >= 0) g = (ACC)((double)OT_LD(TL, a.dloss, EACH ? l.sample : 0) / count);
#if LOGITS || LOSS
        OT_KEEP(x, a.x, &l, a.step);
#endif
#if LOGITS
        OT_EACH_PACK(&l, i) {
            OT_OPEN(x, a.x, &l, i, a.step, -OT_INF, v);
            softmax_more(v, &max, &sum);
            if (SPREAD)
                for (int e = 0; e < LANES; e++) factors += spread(&a, &l, i + e);
        }
        softmax_join(&max, &sum, shared);
        if (SPREAD) factors = group_sum(factors, shared);
        factors = (factors + s.own) / sum;
        lse = log(sum);
#else
        max = sum = 0;
#endif
        OT_EACH_PACK(&l, i) {
#if LOGITS || LOSS
            OT_OPEN(x, a.x, &l, i, a.step, 0, v);
#endif
            for (int e = 0; e < LANES; e++) {
                ACC f = (SPREAD ? spread(&a, &l, i + e) : (ACC)0) + (i + e == s.label ? s.own : (ACC)0);
                ACC p = LOGITS ? factors * exp(v[e] - max) : (ACC)0;
                if (LOSS && f != 0 && s.label >= 0) loss -= f * (v[e] - max - lse); /* as in stage 0 */
                v[e] = s.label < 0 ? (ACC)0 : g * (p - f);
            }
            put(a.dx, &l, i, a.step, v);
        }
#if PADDED
        if (l.live)
            for (ot_i64 i = a.n + l.member; i < a.row; i += GROUP) OT_ST(T, a.dx, l.start + i, (ACC)0);
#endif
#if LOSS
        loss = group_sum(loss, shared);
#if WHOLE
        total += l.live && l.member == 0 ? loss : (ACC)0;
#else
        if (l.live && l.member == 0) OT_ST(TP, a.loss, l.sample, loss);
#endif
#endif
    }
#if WHOLE
    total = block_sum(total, sums);
    if (OT_THREAD == 0) OT_ST(TL, a.loss, 0, (ACC)(total / count));
#endif
}

#else

/* STAGE 2: of the samples; 3: of sums. */
OT_KERNEL(cross_entropy_fold, ot_cross_entropy_fold_args, THREADS)
{
    OT_SHARED(double, shared, 32);
    double loss = 0, count = 0;
    ot_i64 first = OT_BLOCK * CHUNK, end = first + CHUNK < a.n ? first + CHUNK : a.n;
    for (ot_i64 k = first + OT_THREAD; k < end; k += THREADS) {
#if STAGE == 2
        if (a.each) loss += (double)OT_LD(TP, a.each, k);
        if (MEAN && a.count == 0) {
            ot_i64 c = class_of(a.target, k, a.classes, a.ignore);
            count += c >= 0 ? weight_of(a.weight, c) : 0;
        }
#else
        const ot_cross_entropy_sum *s = (const ot_cross_entropy_sum *)a.each + k;
        loss += s->loss;
        count += s->count;
#endif
    }
    loss = block_sum(loss, shared);
    count = block_sum(count, shared);
    if (OT_THREAD != 0) return;
    a.sums[OT_BLOCK].loss = loss;
    a.sums[OT_BLOCK].count = count;
    if (OT_BLOCKS == 1 && a.loss) OT_ST(TL, a.loss, 0, loss / (!MEAN ? 1 : a.count != 0 ? a.count : count));
}

#endif
