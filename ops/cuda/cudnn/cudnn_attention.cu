/* cudnn_attention.cu - what cuDNN's attention reads and we do not have: a mask of bounded numbers, and one number per
 * token for the two that FusedAttention leaves.
 *
 * MT the mask's elements, CLS their class, LEAST the bound. */
#include "cudnn_attention.cuh"

OT_KERNEL(attention_bias, ot_attention_beside_args, 256)
{
    OT_GRID_LOOP(i, a.n) {
        CLS m = OT_LD(MT, a.mask, i);
        a.bias[i] = m < (CLS)LEAST ? (float)LEAST : (float)m; /* a NaN stays one */
    }
}

OT_KERNEL(attention_lse, ot_attention_beside_args, 256)
{
    OT_GRID_LOOP(i, a.n) a.lse[i] = a.top[i] + log(a.sum[i]);
}
