/* optimizers.h - the registry of optimizers: names, keys, and the function that builds an update (update.h). */
#ifndef OT_OPTIMIZERS_H
#define OT_OPTIMIZERS_H

#include "runtime/base/registry.h"
#include "runtime/graph/graph.h"
#include "runtime/optimizers/list.h"

struct ot_update;

typedef struct ot_optimizer {
    ot_entry entry;
    ot_value *(*build)(struct ot_update *x);  /* the new weight; NULL: error recorded */
    const char *moves;                        /* the key whose value is `momentum`; NULL: none */
    const char *(*refuses)(const ot_spec *o); /* why these values cannot be combined, NULL: they can; may be NULL */
} ot_optimizer;

extern const ot_registry ot_optimizers;

#define OT_DECLARE(name) extern const ot_optimizer ot_optimizer_##name;
OT_OPTIMIZERS(OT_DECLARE)
#undef OT_DECLARE

const ot_optimizer *ot_optimizer_find(const char *name); /* NULL: no such optimizer */

/* The initial learning rate, and the initial value that a schedule may change (0: none): as given or the default.
 * false: no such optimizer. */
bool ot_optimizer_defaults(const ot_spec *o, double *lr, double *momentum);

#endif
