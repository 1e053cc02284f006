/* ceilings.h - what the device does at best: a matrix product, and arrays that are read and written. */
#ifndef OT_CEILINGS_H
#define OT_CEILINGS_H

#include "runtime/train/run/session.h"

typedef struct ot_ceilings {
    double flops;    /* per second, of a square matrix product in the session's precision */
    double bytes;    /* per second, of the sum of two arrays that no cache holds */
    int64_t product; /* rows of the product */
} ot_ceilings;

/* Measures for some tenths of a second, with the session's device and threads. */
ot_status ot_ceilings_measure(const ot_session *x, ot_ceilings *out, ot_error *err);

#endif
