/* lists.c - inputs of a file that are sequences or optional, as the arrays of a run give them.
 *
 * A sequence is fed by arrays NAME/0, NAME/1 ..., as outputs of that kind are written, or by one array NAME whose first axis counts its
 * elements (also none).  What is optional and has no array is empty.  In a copy of the graph the input becomes a SequenceConstruct over
 * inputs of those names, or an Optional of nothing; passes/sequence.c knows no third way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/op.h"
#include "ops/onnx/sequence.h"
#include "runtime/train/run/model.h"

/* The largest number of elements of a sequence, because arrays and inputs are found by name, in linear time. */
enum { MOST_ELEMENTS = 10000 };

static const char *element_name(ot_arena *a, const char *name, int64_t k)
{
    return ot_arena_printf(a, "%s/%lld", name, (long long)k);
}

/* The number of arrays NAME/0, NAME/1 ... without a gap. */
static ot_status count_elements(const ot_dataset *d, const char *name, int64_t *n, ot_error *err)
{
    size_t length = strlen(name);
    char text[24];
    for (*n = 0;; ++*n) {
        int i = 0;
        snprintf(text, sizeof text, "%lld", (long long)*n);
        for (; i < d->n; i++)
            if (!strncmp(d->array[i].t.name, name, length) && d->array[i].t.name[length] == '/' &&
                !strcmp(d->array[i].t.name + length + 1, text))
                break;
        if (i == d->n) break;
    }
    for (int i = 0; i < d->n; i++) {
        const char *t = d->array[i].t.name, *digits = t + length + 1;
        if (strncmp(t, name, length) || t[length] != '/' || !*digits || digits[strspn(digits, "0123456789")]) continue;
        if (strtoll(digits, NULL, 10) >= *n)
            return ot_fail(err, OT_E_DATA, "array '%s': array '%s/%lld' is missing", t, name, (long long)*n);
    }
    return OT_OK;
}

/* Refuses a sequence with too many elements. */
static ot_status check_count(const char *name, int64_t n, ot_error *err)
{
    if (n <= MOST_ELEMENTS) return OT_OK;
    return ot_fail(err, OT_E_DATA, "array '%s': sequence of %lld elements; at most %d are supported", name,
                   (long long)n, MOST_ELEMENTS);
}

/* An array as the elements along its first axis, which take its place in d. */
static ot_status cut(ot_dataset *d, const ot_array *whole, ot_arena *a, int64_t *n, ot_error *err)
{
    ot_array one = *whole;
    if (one.t.rank < 1)
        return ot_fail(err, OT_E_DATA,
                       "array '%s' is a scalar; its first axis must be the elements "
                       "of the sequence",
                       one.t.name);
    *n = one.t.dim[0];
    OT_TRY(check_count(one.t.name, *n, err));
    one.t.rank--;
    memmove(one.t.dim, one.t.dim + 1, sizeof one.t.dim - sizeof *one.t.dim);
    ot_shape s = ot_array_shape(&one);
    size_t bytes = ot_bytes(&s, one.t.dtype);
    ot_array *list = ot_arena_alloc(a, ((size_t)d->n + (size_t)*n) * sizeof *list);
    if (!list) return ot_fail(err, OT_E_NOMEM, "no memory for %lld elements of '%s'", (long long)*n, whole->t.name);
    int others = 0;
    for (int i = 0; i < d->n; i++)
        if (&d->array[i] != whole) list[others++] = d->array[i];
    for (int64_t k = 0; k < *n; k++) {
        one.t.name = element_name(a, whole->t.name, k);
        one.t.data = (char *)whole->t.data + (size_t)k * bytes;
        if (!one.t.name) return ot_fail(err, OT_E_NOMEM, "no memory for a name");
        list[others + k] = one;
    }
    d->array = list;
    d->n = others + (int)*n;
    return OT_OK;
}

/* Input i of g becomes a list of n inputs, or an empty optional; -1: that. */
static ot_status replace_input(ot_graph *g, int i, int64_t n)
{
    ot_value *v = g->inputs[i], **in = ot_graph_alloc(g, (size_t)(n < 0 ? 1 : n + 1) * sizeof *in);
    int behind = g->n_inputs - i - 1;
    ot_value **rest = ot_graph_alloc(g, (size_t)(behind + 1) * sizeof *rest);
    if (!in || !rest) return g->err->status;
    memcpy(rest, g->inputs + i + 1, (size_t)behind * sizeof *rest);
    g->n_inputs = i;
    for (int64_t k = 0; k < n; k++) {
        const char *name = element_name(g->arena, v->name, k);
        in[k] = name ? ot_graph_value(g, name, OT_INPUT, v->dtype, &v->shape) : NULL;
        if (!in[k]) return ot_fail(g->err, OT_E_NOMEM, "no memory for the elements of '%s'", v->name);
        in[k]->dim_names = v->dim_names;
        ot_graph_input(g, in[k]);
    }
    for (int k = 0; k < behind; k++) ot_graph_input(g, rest[k]);
    g->cursor = g->first;
    ot_node *list =
        ot_graph_node(g, n < 0 ? &ot_op_Optional : &ot_op_SequenceConstruct, v->name, NULL, in, n < 0 ? 0 : (int)n, 1);
    g->cursor = NULL;
    if (!list) return g->err->status;
    list->out[0]->name = v->name;
    ot_graph_replace(g, v, list->out[0]);
    return g->err->status;
}

/* The arrays of input i. */
static ot_status fill(ot_graph *g, int i, ot_dataset *d, ot_arena *a, ot_error *err)
{
    ot_value *v = g->inputs[i];
    const ot_array *whole = ot_dataset_find(d, v->name);
    int64_t n = -1;
    if (v->list & OT_INPUT_LIST) {
        OT_TRY(count_elements(d, v->name, &n, err));
        if (n && whole)
            return ot_fail(err, OT_E_DATA, "the data has '%s' and '%s/0': sequence '%s' is given twice", v->name,
                           v->name, v->name);
        if (!n && whole) OT_TRY(cut(d, whole, a, &n, err));
        else if (!n && v->list & OT_INPUT_OPTIONAL) n = -1;
        else if (!n)
            return ot_fail(err, OT_E_DATA,
                           "input '%s' is a sequence without data: provide '%s/0', '%s/1' ..., or one "
                           "array '%s' whose first axis is the elements",
                           v->name, v->name, v->name, v->name);
        OT_TRY(check_count(v->name, n, err));
    } else if (whole) {
        v->list = 0;
        return OT_OK;
    }
    return replace_input(g, i, n) ? ot_fail(err, g->err->status, "%s", g->err->text) : OT_OK;
}

ot_status ot_model_fill(const ot_model *m, const ot_dataset *d, ot_arena *a, ot_model *out, ot_dataset *fed,
                        ot_error *err)
{
    bool any = false;
    *fed = *d;
    for (int i = 0; i < m->file->graph->n_inputs; i++) any |= m->file->graph->inputs[i]->list != 0;
    if (!any) {
        *out = *m;
        return OT_OK;
    }
    OT_TRY(ot_model_copy(m, a, out, err));
    ot_graph *g = out->file->graph;
    ot_error first = { 0 };
    ot_status s = OT_OK;
    for (int i = g->n_inputs - 1; i >= 0 && !s; i--)
        if (g->inputs[i]->list) s = fill(g, i, fed, a, &first);
    if (!s) return OT_OK;
    ot_model_cut_drop(out);
    return ot_fail(err, s, "%s: %-s", d->name, first.text);
}
