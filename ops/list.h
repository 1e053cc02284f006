/* list.h - every operator, one row each, alphabetical within its section.
 *
 * A 1 says "ops/ref/ (ops/cpu/) has this kernel".  Adding an operator is one row here and the
 * files the row promises: ot_op_<Name>, a kernel per 1, test rows ot_cases_<Name> in tests/ops/.
 * A promise not kept does not link.  Operators with 0 0 are lowered to others. */
#ifndef OT_LIST_H
#define OT_LIST_H

/* ---- element-wise operators of ONNX: each becomes a Map -------------------- */

#define OT_ROW_OPS(X)                   \
    /* operator            ref cpu */

/* ---- movement, shapes, reductions, indexing of ONNX ------------------------ */

#define OT_MOVE_OPS(X)                  \
    /* operator            ref cpu */

/* ---- linear algebra, convolution, pooling, norms, softmax, losses of ONNX --- */

#define OT_NN_OPS(X)                    \
    /* operator            ref cpu */

/* ---- kernels: what a backend implements ------------------------------------ */

#define OT_MAP_KERNELS(X)               \
    /* operator            ref cpu */

#define OT_MOVE_KERNELS(X)              \
    /* operator            ref cpu */

#define OT_NN_KERNELS(X)                \
    /* operator            ref cpu */

#define OT_ONNX_OPS(X) OT_ROW_OPS(X) OT_MOVE_OPS(X) OT_NN_OPS(X)
#define OT_KERNEL_OPS(X) OT_MAP_KERNELS(X) OT_MOVE_KERNELS(X) OT_NN_KERNELS(X)
#define OT_OPS(X) OT_ONNX_OPS(X) OT_KERNEL_OPS(X)

#endif
