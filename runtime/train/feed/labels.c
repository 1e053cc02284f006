/* labels.c - the classes that a graph itself names: a list of constants, of which the ArgMax of the scores selects one.
 *
 * Source  classlabels_* of the classifiers of ai.onnx.ml (importer/ml.c makes the list a constant), the list that skl2onnx
 *         selects from with ArrayFeatureExtractor, and the keys of a ZipMap. */
#include <stdio.h>
#include <string.h>

#include "ops/op.h"
#include "runtime/train/feed/declared.h"

static ot_status no_memory(ot_error *err) { return ot_fail(err, OT_E_NOMEM, "no memory for the names of classes"); }

/* The value that v is a copy of, in another shape or type. */
static const ot_value *origin(const ot_value *v)
{
    static const ot_op *const same[] = { &ot_op_Identity, &ot_op_Cast,    &ot_op_CastLike, &ot_op_Squeeze,
                                         &ot_op_Reshape,  &ot_op_Flatten, &ot_op_Unsqueeze };
    for (;;) {
        bool moves = false;
        for (int i = 0; i < OT_LEN(same) && v->producer; i++) moves |= ot_is(v->producer, same[i]);
        if (!moves || !v->producer->in[0]) return v;
        v = v->producer->in[0];
    }
}

/* The list of labels from which v selects one with an ArgMax; NULL: v is something else. */
static const ot_value *list_of(const ot_value *v)
{
    const ot_node *n = origin(v)->producer;
    if (!ot_is(n, &ot_op_Gather)) return NULL;
    const ot_value *list = origin(n->in[0]), *at = origin(n->in[1]);
    bool named = list->dtype == OT_STRING || ot_is_int(list->dtype);
    return list->role == OT_CONST && list->data && list->shape.rank == 1 && named && ot_is(at->producer, &ot_op_ArgMax)
               ? list
               : NULL;
}

/* Is the list 0, 1, 2 ...?  Then labels are class numbers. */
static bool counts(const ot_value *list)
{
    for (int64_t i = 0; i < list->shape.dim[0]; i++)
        if (list->dtype == OT_STRING || ot_get_i64(list->data, list->dtype, i) != i) return false;
    return true;
}

static bool same_list(const ot_value *a, const ot_value *b)
{
    if ((a->dtype == OT_STRING) != (b->dtype == OT_STRING) || !ot_shape_eq(&a->shape, &b->shape)) return false;
    for (int64_t i = 0; i < a->shape.dim[0]; i++)
        if (a->dtype == OT_STRING ? strcmp(((const char *const *)a->data)[i], ((const char *const *)b->data)[i]) != 0
                                  : ot_get_i64(a->data, a->dtype, i) != ot_get_i64(b->data, b->dtype, i))
            return false;
    return true;
}

/* The list of labels that all outputs of labels share; NULL: there is none, or several. */
static const ot_value *find_list(const ot_graph *g)
{
    const ot_value *found = NULL;
    for (int i = 0; i < g->n_outputs; i++) {
        const ot_value *list = g->outputs[i]->labels ? g->outputs[i]->labels : list_of(g->outputs[i]);
        if (list && found && !same_list(list, found)) return NULL;
        if (list) found = list;
    }
    return found;
}

ot_status ot_label_classes(const ot_imported *file, ot_arena *a, const char *const **out, int *n, ot_error *err)
{
    const ot_value *list = find_list(file->graph);
    *n = 0;
    if (!list || counts(list) || list->shape.dim[0] > OT_MOST_CLASSES) return OT_OK;
    int size = (int)list->shape.dim[0];
    const char **name = ot_arena_alloc(a, sizeof *name * (size_t)(size + 1));
    if (!name) return no_memory(err);
    for (int i = 0; i < size; i++) {
        name[i] = list->dtype == OT_STRING
                      ? ot_arena_strdup(a, ((const char *const *)list->data)[i])
                      : ot_arena_printf(a, "%lld", (long long)ot_get_i64(list->data, list->dtype, i));
        if (!name[i]) return no_memory(err);
    }
    *out = name;
    *n = size;
    return OT_OK;
}
