/* print.c - the stable text form of a graph: one line per input and node.
 *
 *     input   input: float32[64,1,28,28]
 *     weight  conv1.weight: float32[20,1,5,5]
 *     Convolve(input, conv1.weight, conv1.bias) -> %12: float32[64,20,24,24]      conv1
 *
 * Values print by name if the name is unique in the graph, else as %id. */
#include "runtime/base/io.h"
#include "runtime/graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/op.h"

static void value_ref(FILE *f, const ot_value *v)
{
    if (!v) fputs("-", f);
    else if (v->producer || !*v->name) ot_print(f, "%%%d", v->id);
    else ot_print(f, "%s", v->name);
}

static void value_type(FILE *f, const ot_value *v)
{
    char buf[128];
    ot_print(f, ": %s%s", ot_dtype_name(v->dtype), v->shape.rank < 0 ? "[...]" : ot_shape_text(&v->shape, buf));
    if (v->layout == OT_CHANNELS_LAST) fputs(" channels-last", f);
}

static void node_line(FILE *f, const ot_node *n)
{
    ot_print(f, "%s%s(", n->phase == OT_PHASE_UPDATE ? "update  " : "", n->op->name);
    for (int i = 0; i < n->n_in; i++) {
        if (i) fputs(", ", f);
        value_ref(f, n->in[i]);
    }
    fputs(") ->", f);
    for (int i = 0; i < n->n_out; i++) {
        fputs(i ? ", " : " ", f);
        value_ref(f, n->out[i]);
        if (n->out[i]) value_type(f, n->out[i]);
    }
    ot_print(f, "   %s\n", n->name);
}

char *ot_graph_text(const ot_graph *g)
{
    static const char *const role[] = { "temp   ", "input  ", "const  ", "weight ", "state  " };
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) return NULL;
    for (int i = 0; i < g->n_values; i++) {
        const ot_value *v = g->values[i];
        if (v->producer || v->role == OT_TEMP) continue;
        ot_print(f, "%s ", role[v->role]);
        value_ref(f, v);
        value_type(f, v);
        fputc('\n', f);
    }
    for (const ot_node *k = g->first; k; k = k->next) node_line(f, k);
    for (int i = 0; i < g->n_assigns; i++) {
        value_ref(f, g->assigns[i].state);
        fputs(" := ", f);
        value_ref(f, g->assigns[i].value);
        fputc('\n', f);
    }
    fputs("output ", f);
    for (int i = 0; i < g->n_outputs; i++) {
        fputc(' ', f);
        value_ref(f, g->outputs[i]);
    }
    fputc('\n', f);
    if (!ot_memstream_close(f)) {
        free(text);
        return NULL;
    }
    return text;
}
