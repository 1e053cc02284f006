/* untie.c - gives each of the nodes that read one tensor a copy of its own.
 *
 * Exporters store equal tensors once: zero biases of new layers, scales of norms, cloned layers.  Training would tie
 * them.  Here each merged use reads a copy: one input name of a node changes, and an initializer is added (and an
 * input of the graph, where the file lists initializers there).  The file is patched, not packed anew.
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

typedef struct untie {
    ot_remake re;
    const Onnx__GraphProto *g;
    ot_table initializer; /* name → TensorProto */
    ot_table maker;       /* name → node */
    ot_table reader;      /* name → read: its first reader, and how many there are */
    ot_table blank;       /* name → its tensor, where all elements are equal */
} untie;

typedef struct read {
    use first;
    int n;
} read;

/* Nodes that pass a tensor on, as exporters put between a weight and its layer. */
static bool carries(const Onnx__NodeProto *n)
{
    const ot_op *op = ot_find_op(ot_domain(n->domain), ot_text(n->op_type));
    return op && op->flags & OT_SAME;
}

static bool index_names(untie *x)
{
    const Onnx__GraphProto *g = x->g;
    x->initializer.arena = x->maker.arena = x->reader.arena = x->re.patch.arena;
    for (size_t i = 0; i < g->n_initializer; i++)
        if (!ot_table_set(&x->initializer, ot_text(g->initializer[i]->name), g->initializer[i])) return false;
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__NodeProto *n = g->node[i];
        for (size_t k = 0; k < n->n_output; k++)
            if (*n->output[k] && !ot_table_set(&x->maker, n->output[k], n)) return false;
        for (size_t k = 0; k < n->n_input; k++) {
            read *r = *n->input[k] ? ot_table_find(&x->reader, n->input[k]) : NULL;
            if (r) r->n++;
            if (r || !*n->input[k]) continue;
            r = ot_arena_alloc(x->re.patch.arena, sizeof *r);
            if (!r) return false;
            *r = (read){ { i, (int)k }, 1 };
            if (!ot_table_set(&x->reader, n->input[k], r)) return false;
        }
    }
    return true;
}

/* Where what the use reads comes to work: behind nodes that pass it on. */
static use at_work(const untie *x, use u)
{
    for (int i = 0; i < 8; i++) {
        const Onnx__NodeProto *n = x->g->node[u.node];
        const read *next = u.input == 0 && carries(n) && n->n_output ? ot_table_find(&x->reader, n->output[0]) : NULL;
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
        bool identity = !*ot_domain(n->domain) && !strcmp(ot_text(n->op_type), "Identity") && n->n_output;
        const read *next = identity ? ot_table_find(&x->reader, n->output[0]) : NULL;
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
        const Onnx__NodeProto *n = t ? NULL : ot_table_find(&x->maker, name);
        if (t || !n || !carries(n) || !n->n_input) return t;
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

/* By the other tensors of the two nodes; where they do not tell (the same ones of equal elements), the same module does. */
static bool same_partners(const untie *x, use a, use b, bool same_module)
{
    const Onnx__NodeProto *p = x->g->node[a.node], *q = x->g->node[b.node];
    bool same = same_module;
    for (int i = 0; i < (int)p->n_input && i < (int)q->n_input; i++) {
        if (i == a.input) continue;
        const Onnx__TensorProto *t = behind(x, p->input[i]), *u = behind(x, q->input[i]);
        if (!t || !u) continue;
        if (t != u) return false;
        if (!ot_table_find(&x->blank, ot_text(t->name))) same = true;
    }
    return same;
}

static bool belong_together(const untie *x, const ot_tied *t, use a, use b)
{
    if (t->asked) return false;
    a = at_work(x, a);
    b = at_work(x, b);
    const Onnx__NodeProto *p = x->g->node[a.node], *q = x->g->node[b.node];
    if (a.node == b.node) return !t->equal;
    if (strcmp(ot_text(p->op_type), ot_text(q->op_type)) != 0 || a.input != b.input) return !t->equal;
    size_t k, m;
    const char *one = module_of(p, &k), *other = module_of(q, &m);
    bool same = one && other && k == m && !memcmp(one, other, k);
    if (one && other && !same && same_but_numbers(one, k, other, m)) return false; /* layers of a list: clones */
    return !t->equal || same_partners(x, a, b, same);
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
        for (size_t i = 0; i < x->g->n_node; i++)
            for (size_t k = 0; k < x->g->node[i]->n_input && carries(x->g->node[i]) == carried; k++)
                if (!strcmp(x->g->node[i]->input[k], name)) list[(*n)++] = (use){ i, (int)k };
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
    if (!name) return ot_fail(err, OT_E_NOMEM, "--untie: no memory");
    if (count) t->op = ot_text(x->g->node[at_work(x, u[0]).node]->op_type);
    for (int i = 0; i < count; i++) { /* the groups */
        int with = 0;
        while (with < i && !belong_together(x, t, u[with], u[i])) with++;
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
        const Onnx__TensorProto *t = list[i].equal ? ot_remake_tensor(&x.re, list[i].source) : NULL;
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
