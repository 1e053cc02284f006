"""Writes casts.h: what ml_dtypes and numpy make of floats without saturation, for tests/base/dtype.c.

    python3 tests/base/make_casts.py > tests/base/casts.h      needs numpy and ml_dtypes
"""
import struct

import ml_dtypes
import numpy as np

TYPES = [
    ("OT_F16", np.float16), ("OT_BF16", ml_dtypes.bfloat16),
    ("OT_F8E4M3FN", ml_dtypes.float8_e4m3fn), ("OT_F8E4M3FNUZ", ml_dtypes.float8_e4m3fnuz),
    ("OT_F8E5M2", ml_dtypes.float8_e5m2), ("OT_F8E5M2FNUZ", ml_dtypes.float8_e5m2fnuz),
    ("OT_F4E2M1", ml_dtypes.float4_e2m1fn),
]


def interesting(t):
    """Every power of two around the type's range, its neighbours, and the middles of its codes."""
    info = ml_dtypes.finfo(t)
    bits = 4 if t is ml_dtypes.float4_e2m1fn else 8 * np.dtype(t).itemsize
    codes = range(2 ** (bits - 1)) if bits <= 8 else list(range(0, 40)) + list(range(2**14, 2**14 + 8))
    raw = np.array(list(codes), np.uint8 if bits <= 8 else np.uint16).view(t).astype(np.float64)
    raw = np.sort(raw[np.isfinite(raw)])
    mid = (raw[1:] + raw[:-1]) / 2
    top = float(info.max)
    step = top - float(np.nextafter(np.array(info.max, t), np.array(0, t)).astype(np.float64)) if bits > 8 \
        else raw[-1] - raw[-2]
    v = [0.0, top, top + step / 2, top + step * 0.49, top + step * 0.51, top * 1e3, float("inf")]
    near = np.array(mid[:6], np.float32)
    v += list(mid[:12]) + list(mid[-12:])
    v += list(np.nextafter(near, np.float32(0))) + list(np.nextafter(near, np.float32(1e9)))
    return sorted({float(x) for x in np.array(v, np.float32)})  # ml_dtypes goes through float32


def code(v, t):
    y = np.array(v, np.float64).astype(t)
    return int(y.view(np.uint16 if np.dtype(t).itemsize == 2 else np.uint8))


print("/* casts.h - doubles and the codes they become.  Written by make_casts.py. */")
print("static const struct { uint64_t bits; ot_dtype t; uint32_t code; } cast[] = {")
for name, t in TYPES:
    for v in interesting(t):
        for s in (v, -v):
            bits = struct.unpack("<Q", struct.pack("<d", s))[0]
            with np.errstate(over="ignore"):
                print("    {UINT64_C(0x%016x), %s, 0x%x}, /* %r */" % (bits, name, code(s, t), float(s)))
print("};")
