/* unfold.c - restores a BatchNormalization after convolutions into which one was folded during export (--unfold-bn).
 *
 * The norm is inserted into a copy of the file's graph, which trains; the result is folded into the convolution's
 * weight and bias when the file is written (train/run/unfold.c).  The convolution's own bias is removed: the norm's
 * replaces it.
 *
 * Source  the names: torch.onnx (TorchScript: onnx::Conv_12, older versions plain numbers; dynamo: <weight>_bias,
 *         and the value that the norm had), tf2onnx (_fused_bn), ONNX Runtime's optimizer (ConvBnFusion_). */
#include "runtime/passes/unfold.h"

#include <ctype.h>
#include <string.h>

#include "ops/op.h"
#include "runtime/passes/passes.h"

/* ---- which -------------------------------------------------------------------- */

static bool starts(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

static bool ends(const char *s, const char *with)
{
    size_t n = strlen(s), m = strlen(with);
    return n >= m && !strcmp(s + n - m, with);
}

static bool is_number(const char *s)
{
    if (!*s) return false;
    for (; *s; s++)
        if (!isdigit((unsigned char)*s)) return false;
    return true;
}

bool ot_unfold_named(const ot_graph *g)
{
    for (int i = 0; i < g->n_values; i++)
        if (g->values[i]->source >= 0 && strchr(g->values[i]->name, '.')) return true;
    return false;
}

bool ot_took_a_norm_in(const ot_node *n, const char *producer, bool named)
{
    if (n->n_in < 2 || !n->in[1] || !n->n_out || !n->out[0]) return false;
    const char *w = n->in[1]->name, *b = n->n_in > 2 && n->in[2] ? n->in[2]->name : "", *y = n->out[0]->name;
    bool torch = starts(producer, "pytorch");
    if (starts(w, "onnx::Conv_") && starts(b, "onnx::Conv_")) return true;
    if (ends(b, "_fused_bn") || starts(b, "ConvBnFusion_")) return true;
    if (torch && named && is_number(w) && is_number(b)) return true;
    size_t nw = strlen(w);
    if (torch && starts(b, w) && !strcmp(b + nw, "_bias")) return true;
    return torch && (starts(y, "getitem") || strstr(y, "batch_norm"));
}

/* Operators that usually follow a norm after a convolution. */
static const ot_op *const followers[] = {
    &ot_op_Relu,          &ot_op_LeakyRelu, &ot_op_PRelu,   &ot_op_Clip,        &ot_op_Sigmoid,
    &ot_op_HardSigmoid,   &ot_op_HardSwish, &ot_op_Swish,   &ot_op_Mish,        &ot_op_Tanh,
    &ot_op_Elu,           &ot_op_Selu,      &ot_op_Celu,    &ot_op_Softplus,    &ot_op_Gelu,
    &ot_op_Add,           &ot_op_Sum,       &ot_op_MaxPool, &ot_op_AveragePool, &ot_op_GlobalAveragePool,
    &ot_op_GlobalMaxPool,
};

static bool follows(const ot_op *op)
{
    for (int i = 0; i < OT_LEN(followers); i++)
        if (op == followers[i]) return true;
    return false;
}

/* value->mark of every value that g and its subgraphs read: the number of readers; FOLLOWED if a follower is among
 * them. */
enum { FOLLOWED = 1 << 24 };

static bool is_read(const ot_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && n->out[i]->mark) return true;
    return false;
}

/* Nodes whose results are not read do not count. */
static void count_uses(ot_graph *g)
{
    for (int i = 0; i < g->n_outputs; i++) g->outputs[i]->mark++;
    for (ot_node *n = g->last; n; n = n->prev) {
        if (!is_read(n)) continue;
        for (int i = 0; i < n->n_in; i++) {
            if (!n->in[i]) continue;
            n->in[i]->mark++;
            if (follows(n->op)) n->in[i]->mark |= FOLLOWED;
        }
        for (int i = 0; ot_subgraph(n, i); i++) count_uses(ot_subgraph(n, i));
    }
}

static bool known_weight(const ot_value *w)
{
    return (w->dtype == OT_F32 || w->dtype == OT_F64) && w->shape.rank >= 3 && w->source >= 0 && w->data;
}

typedef enum fit { NO_FIT, SHARED, FITS } fit;

/* Can a norm be inserted after n, and folded into it again? */
static fit fits(const ot_node *n)
{
    if (n->op != &ot_op_Conv || n->n_in < 3 || !n->in[1] || !n->in[2] || !n->out[0]) return NO_FIT;
    const ot_value *w = n->in[1], *b = n->in[2];
    if (!known_weight(w) || b->dtype != w->dtype || b->shape.rank != 1 || b->source < 0 || !b->data ||
        b->shape.dim[0] != w->shape.dim[0])
        return NO_FIT;
    if ((w->mark & ~FOLLOWED) != 1 || (b->mark & ~FOLLOWED) != 1) return SHARED;
    return w->role == OT_WEIGHT ? FITS : NO_FIT;
}

int *ot_unfold_without_bias(ot_graph *g, const char *producer, int *n)
{
    bool named = ot_unfold_named(g);
    int *list = ot_graph_alloc(g, (size_t)g->n_nodes * sizeof *list);
    *n = 0;
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark = 0;
    count_uses(g);
    for (const ot_node *k = g->first; k && list; k = k->next) {
        const ot_value *w = k->op == &ot_op_Conv && k->n_in == 2 ? k->in[1] : NULL;
        if (w && known_weight(w) && w->role == OT_WEIGHT && (w->mark & ~FOLLOWED) == 1 &&
            ot_took_a_norm_in(k, producer, named))
            list[(*n)++] = w->source;
    }
    return list;
}

ot_unfolded *ot_unfold_find(ot_graph *g, const char *producer, int *n, int *shared)
{
    bool named = ot_unfold_named(g), told = false, normed = false;
    *n = *shared = 0;
    for (const ot_node *k = g->first; k; k = k->next) {
        told |= k->op == &ot_op_Conv && ot_took_a_norm_in(k, producer, named);
        normed |= k->op == &ot_op_BatchNormalization;
    }
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark = 0;
    count_uses(g);
    ot_unfolded *list = ot_graph_alloc(g, (size_t)g->n_nodes * sizeof *list);
    for (const ot_node *k = g->first; k && list; k = k->next) {
        fit f = fits(k);
        bool wanted =
            f != NO_FIT && (told ? ot_took_a_norm_in(k, producer, named) : !normed && k->out[0]->mark & FOLLOWED);
        *shared += wanted && f == SHARED;
        if (wanted && f == FITS)
            list[(*n)++] = (ot_unfolded){ .name = k->name,
                                          .y = k->out[0]->id,
                                          .weight = k->in[1]->source,
                                          .bias = k->in[2]->source,
                                          .dtype = k->in[1]->dtype,
                                          .channels = k->in[1]->shape.dim[0] };
    }
    return list;
}

/* ---- what they compute -------------------------------------------------------------- */

ot_status ot_unfold_measure(ot_graph *g, const ot_unfolded *u, int n)
{
    g->n_outputs = 0;
    for (int i = 0; i < n && g->err->status == OT_OK; i++) {
        ot_value *y = g->values[u[i].y];
        int64_t axes[OT_MAX_RANK];
        int rank = y->producer->in[1]->shape.rank;
        for (int d = 2; d < rank; d++) axes[d - 2] = d;
        ot_value *which = ot_graph_const(g, "axes", OT_I64, &(ot_shape){ .rank = 1, .dim = { rank - 2 } }, axes);
        ot_node *mean = ot_graph_node(g, &ot_op_ReduceMean, "mean", NULL, (ot_value *[]){ y, which }, 2, 1);
        ot_node *off = mean ? ot_graph_node(g, &ot_op_Sub, "off", NULL, (ot_value *[]){ y, mean->out[0] }, 2, 1) : NULL;
        ot_node *square =
            off ? ot_graph_node(g, &ot_op_Mul, "square", NULL, (ot_value *[]){ off->out[0], off->out[0] }, 2, 1) : NULL;
        ot_node *var = square ? ot_graph_node(g, &ot_op_ReduceMean, "variance", NULL,
                                              (ot_value *[]){ square->out[0], which }, 2, 1)
                              : NULL;
        if (!var) break;
        ot_graph_output(g, mean->out[0]);
        ot_graph_output(g, var->out[0]);
    }
    return g->err->status;
}

/* ---- the norm ------------------------------------------------------------------------ */

const char *const ot_unfolded_part[OT_UNFOLDED_PARTS] = { "norm.scale", "norm.bias", "norm.mean", "norm.var" };

/* A tensor of the norm, named after the convolution's weight. */
static ot_value *part(ot_graph *g, const ot_unfolded *u, const char *of, int k)
{
    const char *name = ot_arena_printf(g->arena, "%s/%s", of, ot_unfolded_part[k]);
    if (!name) {
        ot_fail(g->err, OT_E_NOMEM, "no memory for a name");
        return NULL;
    }
    ot_value *v = ot_graph_const_of(g, name, u->dtype, &(ot_shape){ .rank = 1, .dim = { u->channels } }, u->start[k]);
    if (!v) return NULL;
    v->source = u->first + k;
    if (k < OT_UNFOLDED_MEAN) v->said = OT_SAID_PARAMETER;
    return v;
}

ot_status ot_unfold_insert(ot_graph *g, const ot_unfolded *u, int n)
{
    for (int i = 0; i < n && g->err->status == OT_OK; i++) {
        ot_value *y = g->values[u[i].y], *in[5] = { y };
        ot_node *conv = y->producer;
        for (int k = 0; k < OT_UNFOLDED_PARTS; k++) in[1 + k] = part(g, &u[i], conv->in[1]->name, k);
        conv->n_in = 2;
        g->cursor = conv->next;
        ot_node *norm = ot_graph_node(g, &ot_op_BatchNormalization, u[i].name, NULL, in, 5, 1);
        g->cursor = NULL;
        if (!norm) break;
        ot_value *z = norm->out[0];
        ot_graph_replace(g, y, z);
        norm->in[0] = y;
        z->name = y->name;
        z->declared = y->declared;
        y->name = u[i].name;
        y->declared = OT_UNDEFINED;
    }
    return g->err->status;
}
