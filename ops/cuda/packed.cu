/* packed.cu - Copy of elements of less than a byte: a thread assembles a byte of the output. */
#include "copy.cuh"

OT_KERNEL(packed, ot_packed_args, 256)
{
    int            per = 8 / a.bits, mask = (1 << a.bits) - 1;
    unsigned char *y = (unsigned char *)a.y;
    OT_GRID_LOOP(byte, (a.elements + per - 1) / per) {
        int v = a.fill < 0 ? y[byte] : 0;
        for (int e = 0; e < per && byte * per + e < a.elements; e++) {
            ot_i64 k[OT_COPY_AXES], rest = byte * per + e;
            int    code = a.fill;
            for (int d = OT_COPY_AXES - 1; d >= 0; d--) {
                k[d] = rest % a.shape[d];
                rest /= a.shape[d];
            }
            for (ot_i64 i = 0; i < a.n; i++) {
                const ot_packed_box *b = a.table + i;
                ot_i64               from = b->from;
                int                  inside = b->in >= a.first && b->in < a.first + OT_COPY_INPUTS;
                for (int d = 0; d < OT_COPY_AXES; d++) {
                    ot_i64 at = k[d] - b->dst[d];
                    inside = inside && at >= 0 && at < b->extent[d];
                    from += at * b->f[d];
                }
                if (!inside) continue;
                const unsigned char *x = (const unsigned char *)a.in[b->in - a.first];
                code = x[from / per] >> (int)(from % per) * a.bits & mask;
            }
            if (code >= 0) v = (v & ~(mask << e * a.bits)) | code << e * a.bits;
        }
        y[byte] = (unsigned char)v;
    }
}
