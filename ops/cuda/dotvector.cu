/* dotvector.cu - a matrix times a vector: the matrix is read once, so it must be read in whole cache lines.
 *
 * LANES threads of 256 share a line and sum its terms in strides; they are along k if k is dense (ALONG_K), else 32
 * lines are adjacent and 8 threads share each of them.  Sums of threads are added in a fixed order. */
#include "dot.cuh"

OT_KERNEL(dotvector, ot_dotvector_args, 256)
{
    enum { LINES = 256 / LANES };
    OT_SHARED(ACC, shared, 256);
    int    lane = ALONG_K ? OT_THREAD % LANES : OT_THREAD / LINES, mine = ALONG_K ? OT_THREAD / LANES : OT_THREAD % LINES;
    ot_i64 blocks = (a.lines + LINES - 1) / LINES;
    for (ot_i64 b = OT_BLOCK; b < blocks * a.batch; b += OT_BLOCKS) {
        ot_i64 line = b % blocks * LINES + mine, product = b / blocks, left = product;
        ot_i64 m = line * a.line, v = 0;
        ACC    sum = 0;
        for (int d = 0; d < a.axes; d++) {
            ot_i64 i = left % a.dim[d];
            left /= a.dim[d];
            m += i * a.matrix_step[d];
            v += i * a.vector_step[d];
        }
        if (line < a.lines)
            for (ot_i64 k = lane; k < a.K; k += LANES)
                sum += (ACC)OT_LD(T, a.matrix, m + k * a.k) * (ACC)OT_LD(T, a.vector, v + k);
        shared[OT_THREAD] = sum;
        OT_SYNC();
        for (int half = LANES / 2; half > 0; half /= 2) {
            if (lane < half) shared[OT_THREAD] += shared[OT_THREAD + half * (ALONG_K ? 1 : LINES)];
            OT_SYNC();
        }
        if (lane == 0 && line < a.lines) {
            ACC y = shared[OT_THREAD];
            if (a.bias) y += (ACC)OT_LD(T, a.bias, a.one_bias ? 0 : line);
            OT_ST(T, a.y, product * a.lines + line, (CLS)y);
        }
        OT_SYNC();
    }
}
