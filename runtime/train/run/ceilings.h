/* ceilings.h - what the device does at best: a matrix product, and arrays that are read and written. */
#ifndef OT_CEILINGS_H
#define OT_CEILINGS_H

#include "runtime/train/run/session.h"

enum { OT_CEILING_SIZES = 16 };

typedef struct ot_ceilings {
    double flops;    /* per second, of a square matrix product in the session's precision */
    double bytes;    /* per second, of the sum of two arrays that no cache holds */
    double cached;   /* the most of smaller ones */
    int64_t product; /* rows of the product */
    int n;           /* sums of arrays that were measured: the bytes that each moves, rising, and bytes per second */
    double moved[OT_CEILING_SIZES], rate[OT_CEILING_SIZES];
} ot_ceilings;

/* Bytes per second that a kernel which moves so many bytes can reach: caches hold those of a small one.  0: not measured. */
double ot_ceilings_rate(const ot_ceilings *c, double moved);

/* Measures for some tenths of a second, with the session's device and threads. */
ot_status ot_ceilings_measure(const ot_session *x, ot_ceilings *out, ot_error *err);

#endif
