/* unsupported.c - Unsupported: the placeholder in a graph for an unknown operator.
 *
 * It has neither type nor shape: outputs that depend on it are skipped (passes/partial.c). */
#include "ops/op.h"

#include <stddef.h>

typedef struct unsupported_attrs {
    const char *op, *domain;
} unsupported_attrs; /* "": ai.onnx */

static const ot_attr rows[] = {
    { "op", OT_TEXT, offsetof(unsupported_attrs, op), 0, NULL },
    { "domain", OT_TEXT, offsetof(unsupported_attrs, domain), 0, NULL },
    { 0 },
};

static ot_status unsupported_infer(ot_node *n, ot_error *err)
{
    const unsupported_attrs *a = n->attrs;
    return ot_fail(err, OT_E_MODEL, "%s: %s%s%s is not supported", n->name, a->domain, *a->domain ? "." : "", a->op);
}

const ot_op ot_op_Unsupported = {
    .name = "Unsupported",
    .types = { "*" },
    .in = { 0, OT_VARIADIC },
    .out = { 0, OT_VARIADIC },
    .flags = OT_INTERNAL | OT_LISTS,
    .attrs = rows,
    .attr_size = sizeof(unsupported_attrs),
    .infer = unsupported_infer,
};
