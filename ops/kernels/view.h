/* view.h - attributes of View. */
#ifndef OT_VIEW_H
#define OT_VIEW_H

#include "ops/op.h"

/* The same elements in the same order under this shape. */
typedef struct ot_view_attrs {
    ot_shape shape;
} ot_view_attrs;

#endif
