/* attention.cu - attention and its gradient by tiles: scores are not stored in memory.
 *
 * A block of 128 threads computes BR rows (tokens of q; for dk and dv: of k) and iterates over the other side in tiles
 * of BC.  Its threads are a 16 x 8 grid: thread (ty, tx) has the pairs (ty + 16 i, tx + 8 j), so that the eight threads
 * of a row are neighbours in one warp.
 *
 * D, E: channels of q and k, of v.  ACC: type of computation.  MASK: 0 none, 1 bool, 2 added, of type MT. CAUSAL: later
 * tokens are hidden.
 * Numerics  running maximum and sum; earlier sums are rescaled when the maximum grows
 * Source    Dao et al. 2022, Milakov and Gimelshein 2018 */
#include "attention.cuh"

#define MR (BR / 16)
#define MC (BC / 8)
#define COLUMNS(n) (((n) + 7) / 8)
#define TY (OT_THREAD / 8)
#define TX (OT_THREAD % 8)
#define LOWEST (-(ACC)INFINITY)

#ifndef OT_HOST_TWIN
#undef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

/* The first element of x in one head of the B H.  Of both there are fewer than 2^31: blocks are numbered by them. */
OT_DEVICE void *head_of(const ot_attention_operand *x, ot_i64 head, ot_i64 heads)
{
    int sample = (int)head / (int)heads, h = (int)head % (int)heads;
    return (char *)x->at + (sample * x->batch + h / (int)x->share * x->head) * SIZE;
}

/* rows x width elements of a head of x, `from`, from row `first` on; zeros behind the last of n rows.  Lines have width + 1
 * elements, so that a column's lie in different banks. */
OT_DEVICE void load_tile(ACC *tile, const ot_attention_operand *x, const void *from, ot_i64 first, ot_i64 n, int rows,
                         int width)
{
    for (int i = OT_THREAD; i < rows * width; i += 128) {
        int r = i / width, d = i % width;
        tile[r * (width + 1) + d] =
            first + r < n ? (ACC)OT_LD(T, from, (first + r) * x->token + d * x->channel) : (ACC)0;
    }
}

/* The score of t for s from its product; *open: it depends on q and k. */
OT_DEVICE ACC masked(const ot_attention_args *a, ot_i64 head, ot_i64 t, ot_i64 s, ACC dot, int *open)
{
    ACC score = dot * (ACC)a->scale;
    *open = !CAUSAL || s <= t;
#if MASK
    ot_i64 m = head / a->heads * a->mask_stride[0] + head % a->heads * a->mask_stride[1] + t * a->mask_stride[2] + s * a->mask_stride[3];
#if MASK == 1
    *open = *open && ot_ld_b8(a->mask, m) != 0;
#else
    score += (ACC)OT_LD(MT, a->mask, m);
#endif
#endif
    return *open ? score : (ACC)a->hidden;
}

/* out[i][j] = row (ty + 16 i) of x . row (tx + 8 j) of y, over `width` channels. */
OT_DEVICE void products(const ACC *x, const ACC *y, int width, ACC out[MR][MC])
{
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < MC; j++) out[i][j] = 0;
    for (int d = 0; d < width; d++) {
        ACC left[MR], right[MC];
        for (int i = 0; i < MR; i++) left[i] = x[(TY + 16 * i) * (width + 1) + d];
        for (int j = 0; j < MC; j++) right[j] = y[(TX + 8 * j) * (width + 1) + d];
        for (int i = 0; i < MR; i++)
            for (int j = 0; j < MC; j++) out[i][j] += left[i] * right[j];
    }
}

/* sum[i][j] += row (ty + 16 i) of p . column (tx + 8 j) of y: (BC, width). */
#define ADD_PRODUCTS(sum, p, y, width)                                                             \
    for (int c_ = 0; c_ < BC; c_++)                                                                \
        for (int i_ = 0; i_ < MR; i_++) {                                                          \
            ACC p_ = p[(TY + 16 * i_) * (BC + 1) + c_];                                            \
            for (int j_ = 0; j_ < COLUMNS(width); j_++) {                                          \
                int d_ = TX + 8 * j_;                                                              \
                if ((width) % 8 == 0 || d_ < (width)) sum[i_][j_] += p_ * y[c_ * ((width) + 1) + d_]; \
            }                                                                                      \
        }

#define STORE_ROWS(x, out, sum, first, n, width, factor)                                           \
    for (int i_ = 0; i_ < MR; i_++)                                                                \
        for (int j_ = 0; j_ < COLUMNS(width); j_++) {                                              \
            ot_i64 r_ = (first) + TY + 16 * i_;                                                    \
            int    d_ = TX + 8 * j_;                                                               \
            if (r_ < (n) && d_ < (width)) OT_ST(T, out, r_ * (x).token + d_ * (x).channel, (CLS)(sum[i_][j_] * (factor))); \
        }

OT_DEVICE ACC larger(ACC x, ACC y) { return x > y || x != x ? x : y; }

#if FORWARD

/* Over the eight threads of a row. */
OT_DEVICE ACC row_max(ACC v)
{
    for (int m = 4; m; m /= 2) v = larger(v, OT_SHUFFLE_XOR(v, m));
    return v;
}

OT_DEVICE ACC row_sum(ACC v)
{
    for (int m = 4; m; m /= 2) v += OT_SHUFFLE_XOR(v, m);
    return v;
}

OT_KERNEL(attend, ot_attention_args, 128)
{
    OT_DYNAMIC_SHARED(ACC, sq);
    ACC        *sk = sq + BR * (D + 1), *sv = sk + BC * (D + 1), *sp = sv + BC * (E + 1);
    ot_i64      tiles = (a.T + BR - 1) / BR, head = OT_BLOCK / tiles, first = OT_BLOCK % tiles * BR;
    const void *k = head_of(&a.k, head, a.heads), *v = head_of(&a.v, head, a.heads);
    ACC         top[MR], sum[MR], out[MR][COLUMNS(E)], score[MR][MC];
    for (int i = 0; i < MR; i++) {
        top[i] = LOWEST;
        sum[i] = 0;
        for (int j = 0; j < COLUMNS(E); j++) out[i][j] = 0;
    }
    load_tile(sq, &a.q, head_of(&a.q, head, a.heads), first, a.T, BR, D);
    for (ot_i64 s0 = 0; s0 < a.S; s0 += BC) {
        if (CAUSAL && !MASK && s0 > first + BR - 1) break; /* no query here attends that far */
        OT_SYNC();
        load_tile(sk, &a.k, k, s0, a.S, BC, D);
        load_tile(sv, &a.v, v, s0, a.S, BC, E);
        OT_SYNC();
        products(sq, sk, D, score);
        for (int i = 0; i < MR; i++) {
            ot_i64 t = first + TY + 16 * i;
            ACC    most = LOWEST, part = 0;
            int    open;
            for (int j = 0; j < MC; j++) {
                ot_i64 s = s0 + TX + 8 * j;
                score[i][j] = s < a.S && t < a.T ? masked(&a, head, t, s, score[i][j], &open) : LOWEST;
                most = larger(score[i][j], most);
            }
            most = larger(top[i], row_max(most));
            /* While all scores so far are minus infinity there is nothing to rescale. */
            ACC scale = top[i] == LOWEST ? (ACC)0 : exp(top[i] - most);
            for (int j = 0; j < MC; j++) {
                ACC p = score[i][j] == LOWEST ? (ACC)0 : exp(score[i][j] - most);
                sp[(TY + 16 * i) * (BC + 1) + TX + 8 * j] = p;
                part += p;
            }
            sum[i] = sum[i] * scale + row_sum(part);
            top[i] = most;
            for (int j = 0; j < COLUMNS(E); j++) out[i][j] *= scale;
        }
        OT_SYNC();
        ADD_PRODUCTS(out, sp, sv, E)
    }
    for (int i = 0; i < MR; i++) {
        ot_i64 t = first + TY + 16 * i;
        if (top[i] == LOWEST) sum[i] = LOWEST - LOWEST; /* every score is minus infinity: NaN, as in softmax */
        if (ZERO_ROWS && sum[i] != sum[i]) {
            top[i] = 0;
            sum[i] = 1;
            for (int j = 0; j < COLUMNS(E); j++) out[i][j] = 0;
        }
        if (TX == 0 && t < a.T) {
            if (a.top) ((ACC *)a.top)[head * a.T + t] = top[i];
            if (a.sum) ((ACC *)a.sum)[head * a.T + t] = sum[i];
        }
        for (int j = 0; j < COLUMNS(E); j++) out[i][j] /= sum[i];
    }
    STORE_ROWS(a.y, head_of(&a.y, head, a.heads), out, first, a.T, E, 1)
}

#else

/* Eight threads per token. */
OT_KERNEL(attention_delta, ot_attention_args, 128)
{
    for (ot_i64 r0 = OT_BLOCK * 16; r0 < a.rows; r0 += OT_BLOCKS * 16) {
        ot_i64 r = r0 + TY, t = r % a.T;
        ACC    sum = 0;
        const void *y = head_of(&a.y, r / a.T, a.heads), *dy = head_of(&a.dy, r / a.T, a.heads);
        for (int e = TX; e < E && r < a.rows; e += 8)
            sum += (ACC)OT_LD(T, dy, t * a.dy.token + e * a.dy.channel) * (ACC)OT_LD(T, y, t * a.y.token + e * a.y.channel);
        for (int m = 4; m; m /= 2) sum += OT_SHUFFLE_XOR(sum, m);
        if (TX == 0 && r < a.rows) ((ACC *)a.delta)[r] = sum;
    }
}

/* p, and ds / scale, the gradient of the product of t and s; 0 for pairs outside. */
OT_DEVICE ACC pair(const ot_attention_args *a, ot_i64 head, ot_i64 t, ot_i64 s, ACC dot, ACC dp, ACC *p)
{
    int    open;
    ot_i64 r = head * a->T + t;
    *p = 0;
    if (t >= a->T || s >= a->S) return 0;
    ACC score = masked(a, head, t, s, dot, &open);
    *p = exp(score - ((const ACC *)a->top)[r]) / ((const ACC *)a->sum)[r];
    return open ? *p * (dp - ((const ACC *)a->delta)[r]) : (ACC)0;
}

OT_KERNEL(attention_dq, ot_attention_args, 128)
{
    OT_DYNAMIC_SHARED(ACC, sq);
    ACC        *sdy = sq + BR * (D + 1), *sk = sdy + BR * (E + 1), *sv = sk + BC * (D + 1), *sp = sv + BC * (E + 1);
    ot_i64      tiles = (a.T + BR - 1) / BR, head = OT_BLOCK / tiles, first = OT_BLOCK % tiles * BR;
    const void *k = head_of(&a.k, head, a.heads), *v = head_of(&a.v, head, a.heads);
    ACC         sum[MR][COLUMNS(D)], dot[MR][MC], dp[MR][MC], p;
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < COLUMNS(D); j++) sum[i][j] = 0;
    load_tile(sq, &a.q, head_of(&a.q, head, a.heads), first, a.T, BR, D);
    load_tile(sdy, &a.dy, head_of(&a.dy, head, a.heads), first, a.T, BR, E);
    for (ot_i64 s0 = 0; s0 < a.S; s0 += BC) {
        if (CAUSAL && s0 > first + BR - 1) break; /* hidden scores have no gradient */
        OT_SYNC();
        load_tile(sk, &a.k, k, s0, a.S, BC, D);
        load_tile(sv, &a.v, v, s0, a.S, BC, E);
        OT_SYNC();
        products(sq, sk, D, dot);
        products(sdy, sv, E, dp);
        for (int i = 0; i < MR; i++)
            for (int j = 0; j < MC; j++)
                sp[(TY + 16 * i) * (BC + 1) + TX + 8 * j] =
                    pair(&a, head, first + TY + 16 * i, s0 + TX + 8 * j, dot[i][j], dp[i][j], &p);
        OT_SYNC();
        ADD_PRODUCTS(sum, sp, sk, D)
    }
    STORE_ROWS(a.dq, head_of(&a.dq, head, a.heads), sum, first, a.T, D, (ACC)a.scale)
}

OT_KERNEL(attention_dkv, ot_attention_args, 128)
{
    OT_DYNAMIC_SHARED(ACC, sk);
    ACC        *sv = sk + BR * (D + 1), *sq = sv + BR * (E + 1), *sdy = sq + BC * (D + 1), *sp = sdy + BC * (E + 1);
    ot_i64      tiles = (a.S + BR - 1) / BR, head = OT_BLOCK / tiles, first = OT_BLOCK % tiles * BR;
    const void *q = head_of(&a.q, head, a.heads), *dy = head_of(&a.dy, head, a.heads);
    ACC         sum_k[MR][COLUMNS(D)], sum_v[MR][COLUMNS(E)], dot[MR][MC], dp[MR][MC];
    for (int i = 0; i < MR; i++) {
        for (int j = 0; j < COLUMNS(D); j++) sum_k[i][j] = 0;
        for (int j = 0; j < COLUMNS(E); j++) sum_v[i][j] = 0;
    }
    load_tile(sk, &a.k, head_of(&a.k, head, a.heads), first, a.S, BR, D);
    load_tile(sv, &a.v, head_of(&a.v, head, a.heads), first, a.S, BR, E);
    for (ot_i64 t0 = CAUSAL && !MASK ? first / BC * BC : 0; t0 < a.T; t0 += BC) { /* earlier ones do not see it */
        OT_SYNC();
        load_tile(sq, &a.q, q, t0, a.T, BC, D);
        load_tile(sdy, &a.dy, dy, t0, a.T, BC, E);
        OT_SYNC();
        products(sk, sq, D, dot);
        products(sv, sdy, E, dp);
        for (int i = 0; i < MR; i++)
            for (int j = 0; j < MC; j++)
                dp[i][j] = pair(&a, head, t0 + TX + 8 * j, first + TY + 16 * i, dot[i][j], dp[i][j],
                                &sp[(TY + 16 * i) * (BC + 1) + TX + 8 * j]);
        OT_SYNC();
        ADD_PRODUCTS(sum_v, sp, sdy, E)
        OT_SYNC();
        for (int i = 0; i < MR; i++)
            for (int j = 0; j < MC; j++) sp[(TY + 16 * i) * (BC + 1) + TX + 8 * j] = dp[i][j];
        OT_SYNC();
        ADD_PRODUCTS(sum_k, sp, sq, D)
    }
    if (a.dk.at) { STORE_ROWS(a.dk, head_of(&a.dk, head, a.heads), sum_k, first, a.S, D, (ACC)a.scale) }
    if (a.dv.at) { STORE_ROWS(a.dv, head_of(&a.dv, head, a.heads), sum_v, first, a.S, E, 1) }
}

#endif
