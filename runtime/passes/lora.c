/* lora.c - finds the layers that get a low-rank adapter, and inserts the adapters.
 *
 * They are inserted into a copy of the file's graph, which trains; train/run/lora.c merges them into the weights.
 *
 * Source  Hu et al.: LoRA: Low-Rank Adaptation of Large Language Models (2021); names of the keys as in PEFT. */
#include "runtime/passes/lora.h"

#include <string.h>

#include "ops/op.h"
#include "runtime/passes/passes.h"

const char *const ot_lora_part[OT_LORA_PARTS] = { "lora_A", "lora_B" };

static const ot_key keys[] = {
    { "rank", "8", NULL, "rank of the adapters", OT_KEY_WHOLE, OT_KEY_ONE, NULL, OT_KEY_FROM(1, 65536) },
    { "alpha", NULL, "rank", "the adapters' results are multiplied by alpha / rank", OT_KEY_NUMBER, OT_KEY_ONE, NULL,
      OT_KEY_ABOVE(0) },
    { "targets", NULL, "all Gemm and MatMul",
      "layers that get adapters, by the name of their weight or node; convolutions too", OT_KEY_TEXT, OT_KEY_ONE,
      "GLOB", OT_KEY_ANY },
    { "dropout", "0", NULL, "ratio of the Dropout before the adapters", OT_KEY_NUMBER, OT_KEY_ONE, NULL,
      OT_KEY_FROM_BELOW(0, 1) },
    OT_KEYS_END,
};
static const ot_entry lora = { "lora", "adapters of low rank (--lora)", keys };
static const ot_entry *const entries[] = { &lora, NULL };
const ot_registry ot_loras = { "lora", "low-rank adapters, and their keys (--lora)", entries };

/* ---- which ------------------------------------------------------------------------------- */

/* How a node reads a weight. */
typedef struct use {
    ot_value *w;
    ot_value *through; /* the Transpose of it that the node reads; NULL: it reads w */
    bool conv, turned;
} use;

static bool is_plain_transpose(const ot_node *n)
{
    ot_ints perm = n->op == &ot_op_Transpose ? ot_attr_ints(n, "perm") : (ot_ints){ 0 };
    return n->op == &ot_op_Transpose && (perm.n == 0 || (perm.n == 2 && perm.v[0] == 1));
}

/* Is n a layer with a weight of the file? */
static bool use_of(const ot_node *n, use *u)
{
    *u = (use){ .conv = n->op == &ot_op_Conv };
    if (n->op != &ot_op_Gemm && n->op != &ot_op_MatMul && !u->conv) return false;
    if (n->n_in < 2 || !n->in[0] || !n->in[1] || n->n_out < 1 || !n->out[0]) return false;
    u->w = n->in[1];
    if (n->op == &ot_op_Gemm) {
        if (ot_attr_get(n, "transA", 0)) return false;
        u->turned = ot_attr_get(n, "transB", 0) != 0;
    }
    if (u->conv && ot_attr_get(n, "group", 1) != 1) return false;
    if (!u->conv && u->w->producer && is_plain_transpose(u->w->producer)) {
        u->through = u->w;
        u->w = u->w->producer->in[0];
        u->turned = !u->turned;
    }
    const ot_value *w = u->w;
    return w && w->source >= 0 && w->data && ot_is_float(w->dtype) && ot_numel(&w->shape) > 0 &&
           (u->conv ? w->shape.rank >= 3 : w->shape.rank == 2);
}

/* Counts the inputs of nodes, in bodies of If, Loop and Scan too, and the outputs that read the elements of each value of g, by id. */
static void count_element_reads(const ot_graph *g, const ot_graph *in, int *reads)
{
    for (const ot_node *n = in->first; n; n = n->next) {
        for (int i = 0; i < n->n_in; i++) {
            const ot_value *v = n->in[i];
            if (n->op->flags & OT_FROM_SHAPES) continue; /* its values are not read */
            if (ot_graph_has(g, v)) reads[v->id]++;
        }
        for (int i = 0; ot_subgraph(n, i); i++) count_element_reads(g, ot_subgraph(n, i), reads);
    }
    for (int i = 0; i < in->n_outputs; i++)
        if (ot_graph_has(g, in->outputs[i])) reads[in->outputs[i]->id]++;
}

static bool is_wanted(const ot_node *n, const use *u, const char *targets, const char *const *skip, int n_skip)
{
    for (int i = 0; i < n_skip; i++)
        if (!strcmp(skip[i], u->w->name)) return false;
    if (!targets) return !u->conv;
    return ot_pattern_rank(targets, u->w->name) >= 0 || ot_pattern_rank(targets, n->name) >= 0;
}

static ot_lora adapter(const use *u, int64_t rank)
{
    const ot_shape *s = &u->w->shape;
    ot_lora l = { .name = u->w->name,
                  .weight = u->w->source,
                  .dtype = u->w->dtype,
                  .conv = u->conv,
                  .turned = u->turned || u->conv };
    l.out = s->dim[l.turned ? 0 : 1];
    l.in = ot_numel(s) / l.out;
    l.shape[OT_LORA_A] = (ot_shape){ .rank = 2, .dim = { l.in, rank } };
    l.shape[OT_LORA_B] = (ot_shape){ .rank = 2, .dim = { rank, l.out } };
    if (!u->conv) return l;
    l.shape[OT_LORA_A] = *s;
    l.shape[OT_LORA_A].dim[0] = rank;
    l.shape[OT_LORA_B] = (ot_shape){ .rank = s->rank, .dim = { l.out, rank } };
    for (int d = 2; d < s->rank; d++) l.shape[OT_LORA_B].dim[d] = 1;
    return l;
}

ot_lora *ot_lora_find(ot_graph *g, const char *targets, const char *const *skip, int n_skip, int64_t rank, int *n,
                      int *shared)
{
    ot_lora *list = ot_graph_alloc(g, (size_t)(g->n_nodes + 1) * sizeof *list);
    int *reads = ot_graph_alloc(g, (size_t)(g->n_values + 1) * sizeof *reads),
        *layers = ot_graph_alloc(g, (size_t)(g->n_values + 1) * sizeof *layers),
        *at = ot_graph_alloc(g, (size_t)(g->n_values + 1) * sizeof *at);
    use u;
    int found = 0;
    *n = *shared = 0;
    if (!list || !reads || !layers || !at) return NULL;
    count_element_reads(g, g, reads);
    for (const ot_node *k = g->first; k; k = k->next) {
        if (!use_of(k, &u) || !is_wanted(k, &u, targets, skip, n_skip)) continue;
        int id = u.w->id;
        if (!layers[id]) list[at[id] = found++] = adapter(&u, rank);
        bool like = list[at[id]].conv == u.conv && list[at[id]].turned == (u.turned || u.conv);
        layers[id] += like && !(u.through && reads[u.through->id] > 1) ? 1 : -g->n_nodes - 1;
    }
    for (int i = 0; i < g->n_values; i++) /* keep those that these layers alone read */
        if (layers[i] && layers[i] != reads[i]) list[at[i]].weight = -1, ++*shared;
    for (int i = 0; i < found; i++)
        if (list[i].weight >= 0) list[(*n)++] = list[i];
    return list;
}

/* ---- the adapters ---------------------------------------------------------------------------- */

static ot_value *part(ot_graph *g, const ot_lora *l, int k)
{
    const char *name = ot_arena_printf(g->arena, "%s/%s", l->name, ot_lora_part[k]);
    if (!name) {
        ot_fail(g->err, OT_E_NOMEM, "no memory for a name");
        return NULL;
    }
    ot_value *v = ot_graph_const_of(g, name, l->dtype, &l->shape[k], l->start[k]);
    if (v) v->source = l->first + k, v->second = k == OT_LORA_B;
    return v;
}

static ot_value *scalar(ot_graph *g, const char *name, ot_dtype t, double v)
{
    uint64_t bytes[2] = { 0 };
    ot_set_f64(bytes, t, 0, v);
    return ot_graph_const(g, name, t, &OT_SCALAR, bytes);
}

static ot_value *result(ot_graph *g, const ot_op *op, const char *name, const void *attrs, ot_value *x, ot_value *w)
{
    ot_node *n = x && w ? ot_graph_node(g, op, name, attrs, (ot_value *[]){ x, w }, 2, 1) : NULL;
    return n ? n->out[0] : NULL;
}

/* Beside node k, whose input is x: what is added to its output y. */
static void insert(ot_graph *g, ot_node *k, const ot_lora *l, ot_value *const ab[2], double scale, double dropout)
{
    ot_value *x = k->in[0], *y = k->out[0], *h = x;
    g->cursor = k->next;
    if (dropout > 0) h = result(g, &ot_op_Dropout, "lora.dropout", NULL, x, scalar(g, "ratio", OT_F32, dropout));
    h = result(g, l->conv ? &ot_op_Conv : &ot_op_MatMul, k->name, l->conv ? k->attrs : NULL, h, ab[OT_LORA_A]);
    h = result(g, l->conv ? &ot_op_Conv : &ot_op_MatMul, k->name, NULL, h, ab[OT_LORA_B]);
    if (k->op == &ot_op_Gemm) {
        double alpha;
        memcpy(&alpha, (const char *)k->attrs + ot_attr_of(k->op, "alpha")->offset, sizeof alpha);
        scale *= alpha;
    }
    if (scale != 1) h = result(g, &ot_op_Mul, k->name, NULL, h, scalar(g, "scale", l->dtype, scale));
    ot_node *sum = h ? ot_graph_node(g, &ot_op_Add, k->name, NULL, (ot_value *[]){ y, h }, 2, 1) : NULL;
    g->cursor = NULL;
    if (!sum) return;
    ot_value *z = sum->out[0];
    ot_graph_replace(g, y, z);
    sum->in[0] = y;
    z->name = y->name;
    z->declared = y->declared;
    y->declared = OT_UNDEFINED;
}

ot_status ot_lora_insert(ot_graph *g, const ot_lora *l, int n, double scale, double dropout)
{
    ot_value *(*ab)[OT_LORA_PARTS] = ot_graph_alloc(g, sizeof *ab * (size_t)(n + 1));
    int last = -1;
    for (int i = 0; i < n; i++) last = l[i].weight > last ? l[i].weight : last;
    int *of = ot_graph_alloc(g, sizeof *of * (size_t)(last + 2)); /* the adapter of a source, from 1 */
    if (!ab || !of) return g->err->status;
    for (int i = 0; i < n; i++) {
        of[l[i].weight] = i + 1;
        for (int k = 0; k < OT_LORA_PARTS; k++) ab[i][k] = part(g, &l[i], k);
    }
    use u;
    for (ot_node *k = g->first, *next; k && g->err->status == OT_OK; k = next) {
        next = k->next;
        int i = use_of(k, &u) && u.w->source <= last ? of[u.w->source] : 0;
        if (i) insert(g, k, &l[i - 1], ab[i - 1], scale, dropout);
    }
    return g->err->status;
}
