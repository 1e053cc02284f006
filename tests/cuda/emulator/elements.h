/* elements.h - numbers of the types that the libraries compute with, for the emulated ones. */
#ifndef OT_EMULATOR_ELEMENTS_H
#define OT_EMULATOR_ELEMENTS_H

#include <stddef.h>
#include <stdint.h>

/* type: CUDA_R_64F, _32F, _16F or _16BF. */
size_t emulator_size(int type);
double emulator_load(const void *p, int type, int64_t i);
void emulator_store(void *p, int type, int64_t i, double v); /* to nearest even */

/* v with `bits` bits behind the first, to nearest even; steps no finer than 2^least. */
double emulator_rounded(double v, int bits, int least);

#endif
