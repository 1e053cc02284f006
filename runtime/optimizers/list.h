/* list.h - the optimizers, in the order of the help.  A row here promises `const ot_optimizer ot_optimizer_NAME`. */
#ifndef OT_OPTIMIZERS_LIST_H
#define OT_OPTIMIZERS_LIST_H

#define OT_OPTIMIZERS(X) \
    X(sgd)               \
    X(adam)              \
    X(adamw)             \
    X(adagrad)           \
    X(adadelta)          \
    X(rmsprop)           \
    X(adamax)            \
    X(nadam)             \
    X(radam)             \
    X(lion)              \
    X(lamb)              \
    X(lars)              \
    X(muon)

#endif
