/* fused.h - Fused: an operator and the Maps beside it, which one kernel computes together.
 *
 * Pass epilogue makes such nodes if the device has a kernel for them; the reference computes part by part.  The parts are
 * nodes that are in no list any more.  The value between them is not stored, unless it is an output of the Fused node too:
 *
 *     Map -> operator      an element-wise program in front of it (the gradient of an activation)
 *     operator -> Map      one behind it (an activation, a residual)
 *
 * Numerics  A kernel may omit the rounding of a result between two parts to 16 bits. */
#ifndef OT_FUSED_H
#define OT_FUSED_H

#include "ops/kernel.h"
#include "ops/kernels/map.h"

enum { OT_FUSED_PARTS = 2, OT_FUSED_IN = 16, OT_FUSED_OUT = 8 };

/* Where an operand of a part is: an input of the Fused node, or one of these. */
enum { OT_FUSED_BETWEEN = -1, OT_FUSED_NONE = -2 }; /* the first part's result `between`; it is missing */

typedef struct ot_fused_part {
    const ot_node *node; /* types, shapes, layouts and attributes; its values are not those of the Fused node */
    int8_t in[OT_FUSED_IN];
    int8_t out[OT_FUSED_OUT]; /* an output of the Fused node; OT_FUSED_NONE: not stored */
} ot_fused_part;

typedef struct ot_fused {
    int op;      /* the part that is not a Map */
    int between; /* the result of the first part that the second reads */

    /* ReLU's result as bits: what its gradient reads is only whether y > 0.  An operator with ReLU behind it has an output
     * `mask_out`, a bit for each element of y, in an order of the kernel's; the gradient's Map reads those bits, the same
     * kernel's, as its last operand instead of y, where `masked`.  OT_FUSED_NONE, false: no such thing. */
    int mask_out;
    bool masked;
    ot_fused_part part[OT_FUSED_PARTS];
} ot_fused;

/* The parts: the operator, and the Map before or behind it; NULL: there is none. */
static inline const ot_fused_part *ot_fused_op(const ot_node *n)
{
    const ot_fused *f = n->attrs;
    return &f->part[f->op];
}
const ot_fused_part *ot_fused_before(const ot_node *n);
const ot_fused_part *ot_fused_behind(const ot_node *n);

/* The operand of the second part that is the first one's result. */
int ot_fused_between(const ot_node *n);

/* Are the operands and the result of a Map like x in type, layout and shape?  any_axes: in the number of elements only. */
bool ot_fused_like(const ot_node *map, const ot_value *x, bool any_axes);

/* The operator of a node for a table: that of the part which is no Map. */
const ot_op *ot_op_of(const ot_node *n);

/* "BatchNorm+Map", "Map+BatchNormDx"; of other nodes the name of the operator.  Writes into text of 48 bytes. */
const char *ot_node_title(const ot_node *n, char text[48]);

/* A call of the operator of a Fused node: with a Map behind it, its first result is at the address of the Map's. */
typedef struct ot_fused_call {
    ot_call call;
    const void *in[OT_FUSED_IN];
    void *out[OT_FUSED_OUT];
} ot_fused_call;
void ot_fused_call_of(const ot_call *c, ot_fused_call *r);

/* A Map that applies functions to one operand, one after another: step i is row(running, other) or row(other, running). */
typedef struct ot_chain_step {
    int row;   /* OT_FN_* */
    int other; /* input of the Map; -1: the function has one operand, or its other one is a number */
    double p, q, number;
} ot_chain_step;

enum { OT_CHAIN_STEPS = 3 };

typedef struct ot_chain {
    int n;
    int start; /* the input of the Map that runs through it */
    ot_chain_step step[OT_CHAIN_STEPS];
} ot_chain;

/* The Map of a part as a chain from input `start` (-1: the first operand of its first function) to its only output;
 * false: it is none, or a function has `start` as its other operand too.  Only functions with commuting operands have two, and derivatives that read y: `other` is then y. */
bool ot_chain_of(const ot_node *map, int start, ot_chain *c);

#endif
