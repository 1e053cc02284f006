/* list.h - the losses, in the order of the help.  A row here promises `const ot_loss_kind ot_loss_kind_NAME`. */
#ifndef OT_LOSSES_LIST_H
#define OT_LOSSES_LIST_H

#define OT_LOSSES(X)    \
    X(cross_entropy)      \
    X(nll)                \
    X(bce)                \
    X(bce_with_logits)    \
    X(mse)                \
    X(l1)                 \
    X(huber)              \
    X(smooth_l1)          \
    X(kl)                 \
    X(hinge)              \
    X(focal)              \
    X(dice)               \
    X(ctc)                \
    X(cosine)             \
    X(triplet)            \
    X(contrastive)        \
    X(poisson_nll)        \
    X(gaussian_nll)       \
    X(output)

#endif
