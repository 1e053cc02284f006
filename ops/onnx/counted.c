/* counted.c - results that are computed while shapes are inferred. */
#include "ops/onnx/counted.h"

#include "ops/kernels/move.h"

bool ot_counted_afford(const ot_node *n, int64_t work)
{
    ot_room *room = n->graph->room;
    if (work > room->work) return false;
    room->work -= work;
    return true;
}

ot_status ot_counted_too_long(const ot_node *n, ot_error *err)
{
    return ot_node_fail(n, err, "evaluating its constants would take too long for a file of this size");
}

void *ot_counted_output(ot_node *n, int i, ot_dtype t, const ot_shape *y, ot_status *s, ot_error *err)
{
    if (i >= n->n_out || !n->out[i] || *s != OT_OK) return NULL;
    void *bytes = ot_node_alloc(n, ot_bytes(y, t) + 1);
    *s = bytes ? ot_set(n->out[i], t, y) : ot_fail(err, OT_E_NOMEM, "%s: no memory", n->name);
    if (!bytes) return NULL;
    n->out[i]->data = bytes;
    n->out[i]->role = OT_CONST;
    return bytes;
}

void ot_counted_lower(ot_build *b)
{
    for (int i = 0; i < b->node->n_out && !ot_broken(b); i++) {
        const ot_value *y = b->node->out[i];
        if (y) ot_yield(b, i, ot_graph_const_of(b->graph, y->name, y->dtype, &y->shape, y->data));
    }
}
