/* case.h - one row = one test of one operator.
 *
 * tests/ops/<anything>.c holds ot_cases_<Name>[] for every operator <Name> of the three ONNX
 * sections of ops/list.h; an operator without rows is a failure.  The runner (run.c) does, per row:
 *   infer        shapes and types of the outputs are the row's
 *   forward      lowered, run by the reference kernels; `y` if the row gives it; guard bytes
 *   kernels      every candidate kernel of every node it lowers to, against the reference
 *   gradient     of every float input that is fed and not nondiff, through lowering and autodiff,
 *                in f64, against central differences (or against the row's `dx`); then in f32, every candidate
 *                kernel of every node against the reference
 *
 *     const ot_case ot_cases_Gather[] = {
 *         { .name = "rows", .attrs = "axis=0", .in = "f32[4,3] i64[2]=3,-1", .out = "f32[2,3]" },
 *         { .name = "range", .in = "f32[4] i64[1]~9", .out = "f32[1]", .fail_run = OT_E_DATA },
 *         { 0 }
 *     };
 *
 * Inputs, separated by spaces (no spaces within one):
 *   f32[2,3]          fed, random in (-1, 1) from a fixed seed (integers: 0..9, bool: 0 or 1)
 *   f32[2,3](0.5,2)   fed, random in that interval
 *   f32[2]~1,2        fed, with these values: not a constant for infer and lower
 *   i64[2]=1,2        a constant (initializer); a single value fills the shape: f32[4]=0.5
 *   f32[]             rank 0
 *   -                 missing
 * Values: decimal, inf, -inf, nan.  Types: f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool
 * f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz f8e8m0 f4e2m1 i4 u4 i2 u2 str (each "").  Attributes: name=3  name=0.5  name=[1,2]
 * name=word (texts and enums)  name=[word,word]  name=tensor:f32[2]=1,2. */
#ifndef OT_CASE_H
#define OT_CASE_H

#include "ops/op.h"

typedef struct ot_case {
    const char *name;     /* "grouped"; the test is called <Op>.grouped */
    const char *attrs;    /* NULL: defaults */
    const char *in;
    const char *out;      /* "f32[2,3] i64[2,3]"; "-": not needed.  NULL with fail set */
    const char *y;        /* expected values of output 0: "1,2,3"; NULL: only shapes and kernels are compared */
    const char *dx;       /* expected gradients when dL/dy is 1 everywhere, inputs separated by spaces, "-":
                           * not compared: "1,0.5 0,0.5".  Replaces central differences (ties, kinks) */
    double      off;      /* random float inputs stay this far from 0 (kinks) */
    double      tol;      /* relative tolerance of kernels against the reference in f32; 0: 1e-5 */
    ot_status   fail;     /* infer or lower must fail so */
    ot_status   fail_run; /* the run must fail so */
    const char *no_grad;  /* why no gradient is checked (zero everywhere, random ...); NULL: it is checked */
    bool        grad16;   /* on a device, gradients in the row's own 16-bit type as well */
    bool        cpu;      /* not on a device, where each new program of a Map is compiled: the operator's other rows stand
                           * for it there.  Of operators that are lowered to many Maps, and of kernels of the CPU */
} ot_case;

#endif
