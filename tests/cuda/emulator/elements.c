/* elements.c - numbers of the types that the libraries compute with. */
#include "tests/cuda/emulator/elements.h"

#include <library_types.h>
#include <math.h>
#include <string.h>

size_t emulator_size(int type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

double emulator_load(const void *p, int type, int64_t i)
{
    const uint16_t *h = p;
    if (type == CUDA_R_8U) return ((const uint8_t *)p)[i / 8] >> i % 8 & 1; /* cuDNN's booleans: bits */
    if (type == CUDA_R_64F) return ((const double *)p)[i];
    if (type == CUDA_R_32F) return (double)((const float *)p)[i];
    if (type == CUDA_R_16BF) {
        uint32_t u = (uint32_t)h[i] << 16;
        float f;
        memcpy(&f, &u, sizeof f);
        return (double)f;
    }
    int e = h[i] >> 10 & 31, m = h[i] & 1023;
    double v = e == 31 ? (m ? (double)NAN : (double)INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h[i] & 0x8000 ? -v : v;
}

double emulator_rounded(double v, int bits, int least)
{
    int e;
    if (!isfinite(v) || v == 0) return v;
    frexp(v, &e);
    int step = e - 1 - bits > least ? e - 1 - bits : least;
    return ldexp(nearbyint(ldexp(v, -step)), step);
}

void emulator_store(void *p, int type, int64_t i, double v)
{
    uint8_t bit = (uint8_t)(1 << i % 8);
    if (type == CUDA_R_8U) ((uint8_t *)p)[i / 8] = (uint8_t)((((uint8_t *)p)[i / 8] & ~bit) | (v != 0 ? bit : 0));
    else if (type == CUDA_R_64F) ((double *)p)[i] = v;
    else if (type == CUDA_R_32F) ((float *)p)[i] = (float)v;
    else if (type == CUDA_R_16BF) {
        float f = (float)emulator_rounded((double)(float)v, 7, -133);
        uint32_t u;
        memcpy(&u, &f, sizeof u);
        ((uint16_t *)p)[i] = (uint16_t)(u >> 16);
    } else {
        double r = fabs(emulator_rounded((double)(float)v, 10, -24));
        int e = 0;
        uint16_t h;
        if (isnan(v)) h = 0x7e00;
        else if (r >= 65520) h = 0x7c00;
        else if (r < 0x1p-14) h = (uint16_t)ldexp(r, 24);
        else {
            double m = frexp(r, &e);
            h = (uint16_t)((e + 14) << 10 | ((int)ldexp(m, 11) - 1024));
        }
        ((uint16_t *)p)[i] = (uint16_t)(h | (signbit(v) ? 0x8000 : 0));
    }
}
