/* body.c - a graph or function of the file with an index of its names and their users, to be changed and put back.
 *
 * Spec  ONNX IR: subgraphs see the names around them; outputs of subgraphs and functions are matched by position,
 *       those of the file by name. */
#include "exporter/body.h"

#include <stdio.h>
#include <stdlib.h>

void *ot_body_alloc(ot_body *b, size_t n)
{
    void *p = ot_arena_alloc(b->arena, n ? n : 1);
    if (!p) b->no_memory = true;
    return p;
}

void ot_body_say(ot_body *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    b->no_memory |= !ot_arena_line(b->arena, &b->lines, fmt, ap);
    va_end(ap);
}

/* ---- names ---------------------------------------------------------------------------- */

ot_name *ot_body_name(ot_body *b, const char *text) { return text && *text ? ot_table_find(&b->table, text) : NULL; }

static ot_name *name_of(ot_body *b, const char *text)
{
    if (!text || !*text) return NULL;
    ot_name *v = ot_body_name(b, text);
    if (v) return v;
    v = ot_body_alloc(b, sizeof *v);
    char *copy = v ? ot_arena_strdup(b->arena, text) : NULL;
    if (!copy || !ot_table_set(&b->table, copy, v)) {
        b->no_memory = true;
        return NULL;
    }
    v->text = copy;
    v->next = b->names;
    b->names = v;
    return v;
}

ot_name *ot_body_new(ot_body *b, const char *stem)
{
    const char *text = stem;
    for (int i = 1; text && ot_body_name(b, text); i++) text = ot_arena_printf(b->arena, "%s_%d", stem, i);
    if (!text) b->no_memory = true;
    return text ? name_of(b, text) : NULL;
}

static void make(ot_name *v, ot_frame *f, ot_item *maker, size_t port)
{
    if (!v) return;
    v->makers++;
    v->frame = f;
    v->maker = maker;
    v->port = port;
}

static void use_add(ot_body *b, ot_name *v, ot_item *i, ot_frame *f, size_t at)
{
    ot_use *u = v ? ot_body_alloc(b, sizeof *u) : NULL;
    if (!u) return;
    *u = (ot_use){ v->use, i, f, at };
    v->use = u;
    v->n_use++;
    v->used = true;
}

static void use_drop(ot_name *v, const ot_item *i, const ot_frame *f, size_t at)
{
    for (ot_use **p = v ? &v->use : NULL; p && *p; p = &(*p)->next) {
        const ot_use *u = *p;
        if (u->item != i || u->at != at || (!i && u->frame != f)) continue;
        *p = u->next;
        v->n_use--;
        return;
    }
}

static char **slot(const ot_use *u)
{
    if (u->item) return &u->item->n->input[u->at];
    return u->frame->graph ? &u->frame->graph->output[u->at]->name : &u->frame->fn->output[u->at];
}

bool ot_used_outside_nodes(const ot_name *v)
{
    for (const ot_use *u = v->use; u; u = u->next)
        if (!u->item) return true;
    return false;
}

/* ---- taking apart ------------------------------------------------------------------------ */

static void frame_open(ot_body *b, Onnx__GraphProto *g, Onnx__FunctionProto *fn, ot_item *owner);

static void item_open(ot_body *b, ot_frame *f, Onnx__NodeProto *n)
{
    ot_item *i = ot_body_alloc(b, sizeof *i);
    if (!i) return;
    *i = (ot_item){ .prev = f->last, .frame = f, .n = n };
    if (f->last) f->last->next = i;
    else f->first = i;
    f->last = i;
    f->n++;
    for (size_t k = 0; k < n->n_input; k++) use_add(b, name_of(b, n->input[k]), i, f, k);
    for (size_t k = 0; k < n->n_output; k++) make(name_of(b, n->output[k]), f, i, k);
    for (size_t k = 0; k < n->n_attribute; k++) {
        Onnx__AttributeProto *a = n->attribute[k];
        if (a->g) frame_open(b, a->g, NULL, i);
        for (size_t q = 0; q < a->n_graphs; q++) frame_open(b, a->graphs[q], NULL, i);
    }
}

static void graph_open(ot_body *b, ot_frame *f)
{
    Onnx__GraphProto *g = f->graph;
    bool file = !f->owner;
    for (size_t k = 0; k < g->n_initializer; k++) {
        ot_name *v = name_of(b, g->initializer[k]->name);
        make(v, f, NULL, 0);
        if (v) v->tensor = g->initializer[k];
    }
    for (size_t k = 0; k < g->n_sparse_initializer; k++) {
        const Onnx__TensorProto *t = g->sparse_initializer[k]->values;
        make(t ? name_of(b, t->name) : NULL, f, NULL, 0);
    }
    for (size_t k = 0; k < g->n_input; k++) {
        ot_name *v = name_of(b, g->input[k]->name);
        if (!v) continue;
        if (!v->tensor || v->frame != f) make(v, f, NULL, 0);
        v->input = g->input[k];
    }
    for (size_t k = 0; k < g->n_output; k++) {
        ot_name *v = name_of(b, g->output[k]->name);
        use_add(b, v, NULL, f, k);
        if (v && file) v->output = true, b->outputs++;
    }
}

/* Depth is bounded: the importer's guard refuses messages nested deeper than OT_DEEPEST. */
static void frame_open(ot_body *b, Onnx__GraphProto *g, Onnx__FunctionProto *fn, ot_item *owner)
{
    ot_frame *f = ot_body_alloc(b, sizeof *f);
    if (!f) return;
    *f = (ot_frame){ .graph = g, .fn = fn, .owner = owner, .sibling = owner ? owner->inner : NULL };
    if (owner) owner->inner = f;
    if (b->last_frame) b->last_frame->next = f;
    else b->frames = f;
    b->last_frame = f;
    if (g) graph_open(b, f);
    for (size_t k = 0; fn && k < fn->n_input; k++) make(name_of(b, fn->input[k]), f, NULL, 0);
    for (size_t k = 0; fn && k < fn->n_output; k++) use_add(b, name_of(b, fn->output[k]), NULL, f, k);
    Onnx__NodeProto **node = g ? g->node : fn->node;
    for (size_t k = 0, n = g ? g->n_node : fn->n_node; k < n; k++) item_open(b, f, node[k]);
}

ot_status ot_body_open(ot_body *b, Onnx__FunctionProto *fn)
{
    Onnx__OperatorSetIdProto **set = fn && fn->n_opset_import ? fn->opset_import : b->model->opset_import;
    size_t n = fn && fn->n_opset_import ? fn->n_opset_import : b->model->n_opset_import;
    b->table = (ot_table){ .arena = b->arena };
    b->version = b->m->opset; /* also where the file names none: as it was read */
    for (size_t k = 0; k < n; k++)
        if (!*ot_domain(set[k]->domain)) b->version = set[k]->version;
    frame_open(b, fn ? NULL : b->model->graph, fn, NULL);
    return b->no_memory ? ot_fail(b->err, OT_E_NOMEM, "export: no memory") : OT_OK;
}

/* ---- items ---------------------------------------------------------------------------------- */

ot_name *ot_item_in(ot_body *b, const ot_item *i, size_t at)
{
    return at < i->n->n_input ? ot_body_name(b, i->n->input[at]) : NULL;
}

ot_name *ot_item_out(ot_body *b, const ot_item *i, size_t at)
{
    return at < i->n->n_output ? ot_body_name(b, i->n->output[at]) : NULL;
}

bool ot_item_is(const ot_item *i, const char *op) { return !i->dead && ot_node_is(i->n, op); }

#define NO_NAME ot_message_text("") /* a missing input or output */

void ot_item_set_in(ot_body *b, ot_item *i, size_t at, ot_name *v)
{
    Onnx__NodeProto *n = i->n;
    if (at >= n->n_input) {
        char **list = ot_body_alloc(b, (at + 1) * sizeof *list);
        if (!list) return;
        if (n->n_input) memcpy(list, n->input, n->n_input * sizeof *list);
        while (n->n_input <= at) list[n->n_input++] = NO_NAME;
        n->input = list;
    }
    use_drop(ot_item_in(b, i, at), i, NULL, at);
    n->input[at] = v ? v->text : NO_NAME;
    use_add(b, v, i, i->frame, at);
    i->frame->changed = true;
}

void ot_item_cut_in(ot_body *b, ot_item *i, size_t n)
{
    while (i->n->n_input > n) {
        size_t at = i->n->n_input - 1;
        use_drop(ot_item_in(b, i, at), i, NULL, at);
        i->n->n_input = at;
    }
}

void ot_item_set_out(ot_body *b, ot_item *i, size_t at, ot_name *v)
{
    ot_name *old = ot_item_out(b, i, at);
    if (old && old->maker == i) old->gone = true, old->maker = NULL, old->makers--;
    i->n->output[at] = v ? v->text : NO_NAME;
    make(v, i->frame, i, at);
    if (v) v->gone = false;
    i->frame->changed = true;
}

void ot_item_cut_out(ot_body *b, ot_item *i, size_t n)
{
    while (i->n->n_output > n) {
        ot_item_set_out(b, i, i->n->n_output - 1, NULL);
        i->n->n_output--;
    }
}

void ot_item_kill(ot_body *b, ot_item *i)
{
    if (i->dead) return;
    ot_item_cut_in(b, i, 0);
    for (size_t k = 0; k < i->n->n_output; k++) {
        ot_name *v = ot_item_out(b, i, k);
        if (v && v->maker == i) v->gone = true, v->maker = NULL, v->makers--;
    }
    i->dead = i->frame->changed = true;
    for (ot_frame *f = i->inner; f; f = f->sibling) {
        for (size_t k = 0; f->graph && k < f->graph->n_output; k++)
            use_drop(ot_body_name(b, f->graph->output[k]->name), NULL, f, k);
        for (ot_item *in = f->first; in; in = in->next) ot_item_kill(b, in);
    }
}

ot_item *ot_body_unary(ot_body *b, ot_item *by, bool before, const char *op, ot_name *in, ot_name *out)
{
    ot_item *i = ot_body_alloc(b, sizeof *i);
    Onnx__NodeProto *n = ot_body_alloc(b, sizeof *n);
    char **output = ot_body_alloc(b, sizeof *output), *type = ot_arena_strdup(b->arena, op);
    char *name = out ? ot_arena_printf(b->arena, "%s_%s", out->text, op) : NULL;
    if (!type || !name) b->no_memory = true;
    if (!i || !n || !output || !type || !name || !in || !out) return NULL;
    onnx__node_proto__init(n);
    n->op_type = type;
    n->name = name;
    n->output = output;
    n->n_output = 1;
    *output = NO_NAME;
    ot_frame *f = by->frame;
    *i = (ot_item){ .frame = f, .n = n, .prev = before ? by->prev : by, .next = before ? by : by->next };
    *(i->prev ? &i->prev->next : &f->first) = i;
    *(i->next ? &i->next->prev : &f->last) = i;
    f->n++;
    f->changed = true;
    ot_item_set_in(b, i, 0, in);
    ot_item_set_out(b, i, 0, out);
    return i;
}

void ot_use_set(ot_body *b, ot_name *from, ot_use *u, ot_name *to)
{
    ot_use copy = *u;
    use_drop(from, copy.item, copy.frame, copy.at);
    *slot(&copy) = to->text;
    use_add(b, to, copy.item, copy.frame, copy.at);
}

void ot_body_replace(ot_body *b, ot_name *from, ot_name *to)
{
    while (from->use && !b->no_memory) ot_use_set(b, from, from->use, to);
}

void ot_body_drop_output(ot_body *b, ot_name *v)
{
    Onnx__GraphProto *g = b->frames->graph;
    for (size_t k = 0; k < g->n_output; k++) {
        if (!g->output[k] || strcmp(ot_text(g->output[k]->name), v->text) != 0) continue;
        use_drop(v, NULL, b->frames, k);
        g->output[k] = NULL; /* places of the others stay; ot_body_close closes the gap */
        b->outputs--;
    }
    v->output = false;
}

/* ---- putting back ---------------------------------------------------------------------------- */

/* A name that was used and is not any more. */
static bool orphan(const ot_body *b, const ot_name *v)
{
    return v->used && !v->n_use && !v->output && !v->gone && v->makers == 1 &&
           (v->frame == b->frames || v->maker || v->tensor);
}

static bool all_unused(ot_body *b, const ot_item *i)
{
    for (size_t k = 0; k < i->n->n_output; k++) {
        const ot_name *v = ot_item_out(b, i, k);
        if (v && (v->n_use || v->output || v->makers > 1)) return false;
    }
    return true;
}

static bool sweep_once(ot_body *b)
{
    bool more = false;
    for (ot_name *v = b->names; v; v = v->next) {
        if (!orphan(b, v)) continue;
        if (v->maker) {
            if (!all_unused(b, v->maker)) continue;
            ot_item_kill(b, v->maker);
            more = true;
            continue;
        }
        bool open = v->input && !v->tensor, fed = v->input && (!v->tensor || b->can_be_fed);
        if (!v->tensor && (!open || !v->frame->graph || v->frame->owner)) continue; /* counts by place */
        if (fed) ot_body_say(b, "input '%.200s' removed: it is not used any more", v->text);
        v->gone = true;
    }
    return more;
}

#define KEEP(b, list, n, text_of)                                       \
    do {                                                                \
        size_t kept_ = 0;                                               \
        for (size_t k_ = 0; k_ < (n); k_++) {                           \
            const ot_name *v_ = ot_body_name(b, text_of((list)[k_]));   \
            if (!v_ || !v_->gone) (list)[kept_++] = (list)[k_];         \
        }                                                               \
        (n) = kept_;                                                    \
    } while (0)
#define NAME(x) ((x)->name)
#define TENSOR_NAME(x) ((x)->tensor_name)

static void frame_close(ot_body *b, ot_frame *f)
{
    Onnx__NodeProto **list = ot_body_alloc(b, (size_t)f->n * sizeof *list);
    size_t n = 0, kept = 0;
    for (ot_item *i = f->first; list && i; i = i->next)
        if (!i->dead) list[n++] = i->n;
    Onnx__GraphProto *g = f->graph;
    if (!g) {
        f->fn->node = list;
        f->fn->n_node = n;
        return;
    }
    g->node = list;
    g->n_node = n;
    for (size_t k = 0; k < g->n_output; k++)
        if (g->output[k]) g->output[kept++] = g->output[k];
    g->n_output = kept;
    KEEP(b, g->initializer, g->n_initializer, NAME);
    KEEP(b, g->value_info, g->n_value_info, NAME);
    KEEP(b, g->quantization_annotation, g->n_quantization_annotation, TENSOR_NAME);
    if (!f->owner) KEEP(b, g->input, g->n_input, NAME);
}

ot_status ot_body_close(ot_body *b)
{
    while (sweep_once(b)) {
    }
    for (ot_frame *f = b->frames; f; f = f->next) frame_close(b, f);
    return b->no_memory ? ot_fail(b->err, OT_E_NOMEM, "export: no memory") : OT_OK;
}
