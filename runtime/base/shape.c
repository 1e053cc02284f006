/* shape.c - shapes: sizes, text, broadcasting, strides. */
#include "runtime/base/base.h"

#include <stdio.h>
#include <string.h>

int64_t ot_numel(const ot_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++) n *= s->dim[i];
    return n;
}

bool ot_shape_known(const ot_shape *s)
{
    if (s->rank < 0) return false;
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 0) return false;
    return true;
}

/* Zero and unknown dimensions count as one: strides and partial products must fit as well. */
bool ot_shape_fits(const ot_shape *s, ot_dtype t)
{
    if (s->rank > OT_MAX_RANK) return false;
    int bits = ot_dtype_bits(t);
    int64_t n = bits > 8 ? bits / 8 : bits ? 1 : (int64_t)sizeof(void *);
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] < -1) return false;
        if (s->dim[i] > 0 && !ot_mul(n, s->dim[i], &n)) return false;
    }
    return n <= INT64_MAX - 64; /* space for rounding up */
}

size_t ot_bytes(const ot_shape *s, ot_dtype t)
{
    int bits = ot_dtype_bits(t);
    uint64_t n = (uint64_t)ot_numel(s);
    if (t == OT_STRING) return (size_t)n * sizeof(char *);
    if (bits >= 8) return (size_t)n * (size_t)(bits / 8);
    if (bits == 4) return (size_t)(n / 2 + n % 2);
    if (bits == 2) return (size_t)(n / 4 + (n % 4 != 0));
    return 0;
}

bool ot_shape_eq(const ot_shape *a, const ot_shape *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

const char *ot_shape_text(const ot_shape *s, char buf[128])
{
    const size_t cap = 128, tail = sizeof "…]"; /* the suffix of a truncated text */
    if (s->rank < 0) return strcpy(buf, "[unknown rank]");
    size_t len = 0;
    buf[len++] = '[';
    for (int i = 0; i < s->rank; i++) {
        char one[32];
        if (s->dim[i] < 0) strcpy(one, "?");
        else snprintf(one, sizeof one, "%lld", (long long)s->dim[i]);
        size_t n = strlen(one);
        if (len + 1 + n + tail > cap) {
            strcpy(buf + len, "…]");
            return buf;
        }
        if (i) buf[len++] = ',';
        memcpy(buf + len, one, n);
        len += n;
    }
    strcpy(buf + len, "]");
    return buf;
}

bool ot_broadcast(const ot_shape *a, const ot_shape *b, ot_shape *out)
{
    ot_shape y = { .rank = -1 };
    if (a->rank >= 0 && b->rank >= 0) {
        y.rank = a->rank > b->rank ? a->rank : b->rank;
        for (int i = 0; i < y.rank; i++) {
            int ia = i - (y.rank - a->rank), ib = i - (y.rank - b->rank);
            int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];
            if (da == db || db == 1) y.dim[i] = da;
            else if (da == 1) y.dim[i] = db;
            else if (da < 0) y.dim[i] = db; /* it must broadcast to db */
            else if (db < 0) y.dim[i] = da;
            else return false;
        }
    }
    *out = y;
    return true;
}

void ot_strides(const ot_shape *s, int64_t stride[OT_MAX_RANK])
{
    int64_t n = 1;
    for (int i = s->rank - 1; i >= 0; i--) {
        stride[i] = n;
        if (s->dim[i] > 0) n *= s->dim[i];
    }
}
