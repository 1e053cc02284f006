/* element.h - one element of any type, for the plain loops.
 *
 * A loop is written once, as an inline function that takes the type, and called through OT_BY_TYPE:
 * the compiler makes copies for f32, f64, bf16 and f16 in which the switch is gone; the other types
 * share one. */
#ifndef OT_REF_ELEMENT_H
#define OT_REF_ELEMENT_H

#include "runtime/base/base.h"

#define OT_INLINE static inline __attribute__((always_inline))

OT_INLINE double ot_load(const void *p, ot_dtype t, int64_t i)
{
    if (t == OT_F32) return ((const float *)p)[i];
    if (t == OT_F64) return ((const double *)p)[i];
    if (t == OT_BF16) return (double)ot_bf16_to_f32(((const uint16_t *)p)[i]);
    if (t == OT_F16) return (double)ot_f16_to_f32(((const uint16_t *)p)[i]);
    return ot_get_f64(p, t, i);
}

OT_INLINE void ot_store(void *p, ot_dtype t, int64_t i, double v)
{
    if (t == OT_F32) ((float *)p)[i] = (float)v;
    else if (t == OT_F64) ((double *)p)[i] = v;
    else ot_set_f64(p, t, i, v);
}

#define OT_BY_TYPE(t, loop, ...)                                                                   \
    do {                                                                                           \
        if ((t) == OT_F32) loop(OT_F32, __VA_ARGS__);                                              \
        else if ((t) == OT_F64) loop(OT_F64, __VA_ARGS__);                                         \
        else if ((t) == OT_BF16) loop(OT_BF16, __VA_ARGS__);                                       \
        else if ((t) == OT_F16) loop(OT_F16, __VA_ARGS__);                                         \
        else loop((t), __VA_ARGS__);                                                               \
    } while (0)

#endif
