/* untie.c - gives each of the nodes that read one tensor a copy of its own.
 *
 * Exporters store equal tensors once: zero biases of new layers, scales of norms, cloned layers.  Training would tie
 * them.  Here each merged use reads a copy: one input name of a node changes, and an initializer is added (and an
 * input of the graph, where the file lists initializers there).  The file is patched, not serialized again.
 *
 * Uses in subgraphs keep the first copy.  An Identity between them stays, unused. */
#include "exporter/untie.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/remake.h"

/* An input of a node of the graph. */
typedef struct use {
    size_t node;
    int input;
} use;

/* The uses of a name. */
typedef struct read {
    use first, *list; /* list: in the order of the graph, from the arena */
    int n, cap;
} read;

/* Properties of a node, computed once because it is compared with many others. */
typedef struct about {
    bool known, carries, identity;
    const char *module;                 /* with path; NULL: not said */
    size_t length;                      /* of its path */
    const Onnx__TensorProto **partners; /* the initializer behind each input, or NULL */
} about;

typedef struct untie {
    ot_remake re;
    const Onnx__GraphProto *g;
    about *node;          /* by number */
    ot_table initializer; /* name → TensorProto */
    ot_table maker;       /* name → about of its node */
    ot_table reader;      /* name → read */
    ot_table blank;       /* name → its tensor, if its values are usual (ot_tied) */
} untie;

/* Nodes that pass a tensor on, as exporters put between a weight and its layer. */
static bool carries(const Onnx__NodeProto *n)
{
    const ot_op *op = ot_find_op(ot_domain(n->domain), ot_text(n->op_type));
    return op && op->flags & OT_SAME;
}

static bool add_use(untie *x, const char *name, use u)
{
    read *r = ot_table_find(&x->reader, name);
    if (!r) {
        r = ot_arena_alloc(x->re.patch.arena, sizeof *r);
        if (!r || !ot_table_set(&x->reader, name, r)) return false;
        r->first = u;
    }
    if (r->n == r->cap) {
        int cap = r->cap ? 2 * r->cap : 2;
        use *wider = ot_arena_alloc(x->re.patch.arena, sizeof *wider * (size_t)cap);
        if (!wider) return false;
        for (int i = 0; i < r->n; i++) wider[i] = r->list[i];
        r->list = wider;
        r->cap = cap;
    }
    r->list[r->n++] = u;
    return true;
}

static bool index_names(untie *x)
{
    const Onnx__GraphProto *g = x->g;
    x->initializer.arena = x->maker.arena = x->reader.arena = x->re.patch.arena;
    x->node = ot_arena_alloc(x->re.patch.arena, sizeof *x->node * (g->n_node + 1));
    if (!x->node) return false;
    for (size_t i = 0; i < g->n_initializer; i++)
        if (!ot_table_set(&x->initializer, ot_text(g->initializer[i]->name), g->initializer[i])) return false;
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__NodeProto *n = g->node[i];
        x->node[i].carries = carries(n);
        x->node[i].identity = ot_node_is(n, "Identity") && n->n_output;
        for (size_t k = 0; k < n->n_output; k++)
            if (*n->output[k] && !ot_table_set(&x->maker, n->output[k], &x->node[i])) return false;
        for (size_t k = 0; k < n->n_input; k++)
            if (*n->input[k] && !add_use(x, n->input[k], (use){ i, (int)k })) return false;
    }
    return true;
}

/* The use of the tensor by the first node that computes with it, behind nodes that pass it on. */
static use at_work(const untie *x, use u)
{
    for (int i = 0; i < 8; i++) {
        const Onnx__NodeProto *n = x->g->node[u.node];
        bool on = u.input == 0 && x->node[u.node].carries && n->n_output;
        const read *next = on ? ot_table_find(&x->reader, n->output[0]) : NULL;
        if (!next) break;
        u = next->first;
    }
    return u;
}

/* The input that gets the copy: behind an Identity that has no other reader, so that the layer has a tensor of its own. */
static use to_edit(const untie *x, use u)
{
    for (int i = 0; i < 8; i++) {
        const Onnx__NodeProto *n = x->g->node[u.node];
        const read *next = x->node[u.node].identity ? ot_table_find(&x->reader, n->output[0]) : NULL;
        if (!next || next->n != 1) break;
        u = next->first;
    }
    return u;
}

/* The initializer behind a name; NULL: none. */
static const Onnx__TensorProto *behind(const untie *x, const char *name)
{
    for (int i = 0; i < 8; i++) {
        const Onnx__TensorProto *t = ot_table_find(&x->initializer, name);
        const about *by = t ? NULL : ot_table_find(&x->maker, name);
        if (t || !by || !by->carries) return t;
        const Onnx__NodeProto *n = x->g->node[by - x->node];
        if (!n->n_input) return NULL;
        name = n->input[0];
    }
    return NULL;
}

/* ---- do two uses belong together? ----------------------------------------------------- */

/* The module that a node is in, as exporters of PyTorch say: its name up to the last '/'.  NULL: not said. */
static const char *module_of(const Onnx__NodeProto *n, size_t *length)
{
    const char *s = ot_text(n->name);
    for (size_t i = 0; i < n->n_metadata_props; i++)
        if (!strcmp(ot_text(n->metadata_props[i]->key), "namespace")) s = ot_text(n->metadata_props[i]->value);
    const char *slash = strrchr(s, '/');
    *length = slash ? (size_t)(slash - s) : 0;
    return slash ? s : NULL;
}

/* The digits at s + i that are a whole part of a path; 0: none. */
static size_t number_at(const char *s, size_t i, size_t n)
{
    size_t k = i;
    if (i && s[i - 1] != '.' && s[i - 1] != '/') return 0;
    while (k < n && isdigit((unsigned char)s[k])) k++;
    return k == n || s[k] == '.' || s[k] == '/' || s[k] == ':' ? k - i : 0;
}

/* Are the two paths the same but for numbers in a list: layers.0.fc and layers.1.fc? */
static bool same_but_numbers(const char *a, size_t n, const char *b, size_t m)
{
    size_t i = 0, k = 0;
    while (i < n && k < m) {
        size_t p = number_at(a, i, n), q = number_at(b, k, m);
        if (!(p && q) && a[i] != b[k]) return false;
        i += p && q ? p : 1;
        k += p && q ? q : 1;
    }
    return i == n && k == m;
}

static bool learn(untie *x, size_t node)
{
    about *a = &x->node[node];
    const Onnx__NodeProto *n = x->g->node[node];
    if (a->known) return true;
    a->partners = ot_arena_alloc(x->re.patch.arena, sizeof *a->partners * (n->n_input + 1));
    if (!a->partners) return false;
    for (size_t i = 0; i < n->n_input; i++) a->partners[i] = behind(x, n->input[i]);
    a->module = module_of(n, &a->length);
    return a->known = true;
}

/* Do the two nodes have the same other tensors?  Where these are the same and have usual values, the answer is same_module. */
static bool same_partners(const untie *x, use a, use b, bool same_module)
{
    const Onnx__NodeProto *p = x->g->node[a.node], *q = x->g->node[b.node];
    bool same = same_module;
    for (int i = 0; i < (int)p->n_input && i < (int)q->n_input; i++) {
        if (i == a.input) continue;
        const Onnx__TensorProto *t = x->node[a.node].partners[i], *u = x->node[b.node].partners[i];
        if (!t || !u) continue;
        if (t != u) return false;
        if (!ot_table_find(&x->blank, ot_text(t->name))) same = true;
    }
    return same;
}

/* a and b: at work, their nodes learnt. */
static bool belong_together(const untie *x, const ot_tied *t, const char *name, use a, use b)
{
    const Onnx__NodeProto *p = x->g->node[a.node], *q = x->g->node[b.node];
    if (a.node == b.node) return !t->usual;
    if (ot_traced_shares(p, q, name)) return true; /* a module under two names */
    if (strcmp(ot_text(p->op_type), ot_text(q->op_type)) != 0 || a.input != b.input) return !t->usual;
    const about *one = &x->node[a.node], *other = &x->node[b.node];
    bool both = one->module && other->module;
    bool same = both && one->length == other->length && !memcmp(one->module, other->module, one->length);
    if (t->usual && !same_partners(x, a, b, same))
        return false; /* the quick question first: every two uses may be compared */
    bool clones = both && !same && same_but_numbers(one->module, one->length, other->module, other->length);
    return !clones; /* of a list of layers */
}

/* ---- one tensor ------------------------------------------------------------------------- */

/* Layers that read it themselves come first: PyTorch's exporter keeps the name of one of theirs, and the others read it
 * through an Identity. */
static use *uses_of(untie *x, const char *name, int *n)
{
    const read *r = ot_table_find(&x->reader, name);
    use *list = ot_arena_alloc(x->re.patch.arena, sizeof *list * (size_t)(r->n + 1));
    *n = 0;
    for (int carried = 0; list && carried < 2; carried++)
        for (int i = 0; i < r->n; i++)
            if (x->node[r->list[i].node].carries == carried) list[(*n)++] = r->list[i];
    return list;
}

/* The first group keeps the tensor; the others get copies. */
static ot_status part(untie *x, ot_tied *t, ot_error *err)
{
    const Onnx__TensorProto *tensor = ot_remake_tensor(&x->re, t->source);
    const read *r = tensor ? ot_table_find(&x->reader, ot_text(tensor->name)) : NULL;
    int count = 0;
    if (!r || r->n < 2 || ot_table_find(&x->initializer, ot_text(tensor->name)) != tensor)
        return OT_OK; /* or not the graph's own */
    use *u = uses_of(x, ot_text(tensor->name), &count);
    const char **name = u ? ot_arena_alloc(x->re.patch.arena, sizeof *name * (size_t)(count + 1)) : NULL;
    use *work = name ? ot_arena_alloc(x->re.patch.arena, sizeof *work * (size_t)(count + 1)) : NULL;
    bool known = work != NULL;
    for (int i = 0; i < count && known; i++) {
        work[i] = at_work(x, u[i]);
        known = learn(x, work[i].node);
    }
    if (!known) return ot_fail(err, OT_E_NOMEM, "--untie: no memory");
    if (count) t->op = ot_text(x->g->node[work[0].node]->op_type);
    for (int i = 0; i < count; i++) { /* the groups */
        int with = t->asked ? i : 0;
        while (with < i && !belong_together(x, t, ot_text(tensor->name), work[with], work[i])) with++;
        if (with < i) name[i] = name[with];
        else if (!i) name[i] = ot_text(tensor->name);
        else {
            t->made++;
            name[i] = ot_remake_name(&x->re, ot_text(tensor->name), "untied", t->made + 1);
            if (!name[i]) return ot_fail(err, OT_E_NOMEM, "--untie: no memory");
            OT_TRY(ot_remake_copy(&x->re, tensor, name[i], err));
        }
    }
    for (int i = 0; i < count; i++) {
        use at = to_edit(x, u[i]);
        if (t->made && (name[i] != name[0] || at.node != u[i].node))
            OT_TRY(ot_remake_input(&x->re, at.node, at.input, name[i], err));
    }
    return OT_OK;
}

ot_status ot_untie(const ot_imported *m, ot_tied *list, int n, int *made, ot_imported **out, ot_error *err)
{
    untie x = { .g = ((const ot_file *)m->file)->model->graph };
    *made = 0;
    if (out) *out = NULL;
    OT_TRY(ot_remake_begin(&x.re, m, err));
    ot_status s = index_names(&x) ? OT_OK : ot_fail(err, OT_E_NOMEM, "--untie: no memory");
    x.blank.arena = x.re.patch.arena;
    for (int i = 0; i < n && !s; i++) {
        const Onnx__TensorProto *t = list[i].usual ? ot_remake_tensor(&x.re, list[i].source) : NULL;
        if (t && !ot_table_set(&x.blank, ot_text(t->name), t)) s = ot_fail(err, OT_E_NOMEM, "--untie: no memory");
    }
    for (int i = 0; i < n && !s; i++) {
        list[i].made = 0;
        list[i].op = "";
        s = part(&x, &list[i], err);
        *made += list[i].made;
    }
    if (!s && out && *made) s = ot_remake_finish(&x.re, out, err);
    ot_remake_end(&x.re);
    return s;
}
