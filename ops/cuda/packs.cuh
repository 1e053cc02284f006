/* packs.cuh - floats by 16 bytes at a time: OT_LANES_<t> of them.
 *
 * ot_ldp_<t>(p, i, v) reads elements i, i+1, … into v, ot_stp_<t> writes them; p + i is aligned to 16 bytes.
 * ot_pack contains the bytes read, before conversion: 16-bit elements need half the registers in it. */
#ifndef OT_PACKS_CUH
#define OT_PACKS_CUH

#define OT_LANES_f64 2
#define OT_LANES_f32 4
#define OT_LANES_f16 8
#define OT_LANES_bf16 8

typedef struct OT_ALIGN(16) ot_pack { ot_u32 w[4]; } ot_pack;

OT_DEVICE void ot_unpack_f64(ot_pack q, double *v)
{
    for (int k = 0; k < 2; k++) v[k] = ot_bits_f64((ot_u64)q.w[2 * k + 1] << 32 | q.w[2 * k]);
}

OT_DEVICE ot_pack ot_repack_f64(const double *v)
{
    ot_pack q;
    for (int k = 0; k < 2; k++) {
        ot_u64 u = ot_f64_bits(v[k]);
        q.w[2 * k] = (ot_u32)u;
        q.w[2 * k + 1] = (ot_u32)(u >> 32);
    }
    return q;
}

OT_DEVICE void ot_unpack_f32(ot_pack q, float *v)
{
    for (int k = 0; k < 4; k++) v[k] = ot_bits_f32(q.w[k]);
}

OT_DEVICE ot_pack ot_repack_f32(const float *v)
{
    ot_pack q;
    for (int k = 0; k < 4; k++) q.w[k] = ot_f32_bits(v[k]);
    return q;
}

#define OT_PACK_16(t)                                             \
    OT_DEVICE void ot_unpack_##t(ot_pack q, float *v)              \
    {                                                             \
        for (int k = 0; k < 4; k++) {                             \
            v[2 * k] = ot_##t##_to_f32((ot_u16)(q.w[k] & 0xffffu)); \
            v[2 * k + 1] = ot_##t##_to_f32((ot_u16)(q.w[k] >> 16)); \
        }                                                         \
    }                                                             \
    OT_DEVICE ot_pack ot_repack_##t(const float *v)               \
    {                                                             \
        ot_pack q;                                                \
        for (int k = 0; k < 4; k++)                               \
            q.w[k] = ot_f32_to_##t(v[2 * k]) | (ot_u32)ot_f32_to_##t(v[2 * k + 1]) << 16; \
        return q;                                                 \
    }
OT_PACK_16(f16)
OT_PACK_16(bf16)

#define OT_PACK_MOVES(t, stored, cls)                                                        \
    OT_DEVICE ot_pack ot_grab_##t(const void *p, ot_i64 i) { return *(const ot_pack *)((const stored *)p + i); } \
    OT_DEVICE void ot_ldp_##t(const void *p, ot_i64 i, cls *v) { ot_unpack_##t(ot_grab_##t(p, i), v); }          \
    OT_DEVICE void ot_stp_##t(void *p, ot_i64 i, const cls *v) { *(ot_pack *)((stored *)p + i) = ot_repack_##t(v); }
OT_PACK_MOVES(f64, double, double)
OT_PACK_MOVES(f32, float, float)
OT_PACK_MOVES(f16, ot_u16, float)
OT_PACK_MOVES(bf16, ot_u16, float)

#define OT_GRAB(t, p, i) OT_PASTE(ot_grab_, t)(p, i)
#define OT_UNPACK(t, q, v) OT_PASTE(ot_unpack_, t)(q, v)
#define OT_LDP(t, p, i, v) OT_PASTE(ot_ldp_, t)(p, i, v)
#define OT_STP(t, p, i, v) OT_PASTE(ot_stp_, t)(p, i, v)

#endif
