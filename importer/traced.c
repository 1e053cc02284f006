/* traced.c - restores two effects on gradients that ONNX has no operator for, from the exporter's notes beside the
 * nodes.
 *
 * detach()     An input that the traced program read detached goes through a Detach: no gradient flows back.
 * padding_idx  Rows that an Embedding looks up for padding get no gradient from that lookup.
 *
 * Source  torch.onnx.export(dynamo=True) keeps the traced node that an ONNX node comes from in its metadata_props:
 *         "%mul_1 : [num_users=1] = call_function[target=torch.ops.aten.mul.Tensor](args = (%relu, %detach),
 *         kwargs = {})".  Its optimizer removes the Identity of a detach, but the text of each reader still names the
 *         detached value.  It also merges equal nodes, even where only one of them read a detached value. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "importer/build.h"

enum { MOST = 64 }; /* values that a traced node reads; what reads more is left alone */

typedef struct word {
    const char *s;
    size_t n;
} word;

typedef struct reading {
    const char *text; /* of the traced node */
    const ot_form *f;
    const Onnx__NodeProto *node;
    word arg[MOST];
    int n_arg;
} reading;

const char *ot_traced_text(const Onnx__NodeProto *n)
{
    for (size_t i = 0; i < n->n_metadata_props; i++)
        if (!strcmp(ot_text(n->metadata_props[i]->key), "pkg.torch.onnx.fx_node"))
            return ot_text(n->metadata_props[i]->value);
    return NULL;
}

/* The name behind a '%'. */
static word word_at(const char *s)
{
    word w = { s, 0 };
    while ((s[w.n] >= 'a' && s[w.n] <= 'z') || (s[w.n] >= 'A' && s[w.n] <= 'Z') || (s[w.n] >= '0' && s[w.n] <= '9') ||
           s[w.n] == '_')
        w.n++;
    return w;
}

/* The next parameter that the traced node reads; s: behind it.  Empty: none. */
static word next_parameter(const char **s)
{
    while ((*s = strchr(*s, '%'))) {
        word w = word_at(++*s);
        *s += w.n;
        if (w.n > 2 && !memcmp(w.s, "p_", 2)) return w;
    }
    return (word){ "", 0 };
}

static bool same(word a, word b) { return a.n == b.n && !memcmp(a.s, b.s, a.n); }

/* Does the traced program call the parameter of that name so?  "p_fc_weight" of "fc.weight" */
static bool stands_for(word w, const char *name)
{
    if (w.n != strlen(name) + 2) return false;
    for (size_t i = 2; i < w.n; i++) {
        unsigned char c = (unsigned char)name[i - 2];
        if (tolower((unsigned char)w.s[i]) != (isalnum(c) ? tolower(c) : '_')) return false;
    }
    return true;
}

static bool reads_parameter(const char *text, const char *name)
{
    word w;
    while ((w = next_parameter(&text)).n)
        if (stands_for(w, name)) return true;
    return false;
}

bool ot_traced_shares(const Onnx__NodeProto *a, const Onnx__NodeProto *b, const char *name)
{
    const char *s = ot_traced_text(a), *t = ot_traced_text(b);
    if (!s || !t || *s != '%' || *t != '%' || same(word_at(s + 1), word_at(t + 1))) return false;
    if (reads_parameter(s, name) && reads_parameter(t, name)) return true;
    word w = next_parameter(&s), v = next_parameter(&t);
    if (!w.n || strcmp(ot_text(a->op_type), ot_text(b->op_type)) != 0) return false;
    while (same(w, v) && w.n) w = next_parameter(&s), v = next_parameter(&t);
    return same(w, v);
}

static word word_of(const char *s) { return (word){ s, strlen(s) }; }

/* "detach", "detach_12" */
static bool is_detached(word w)
{
    static const char name[] = "detach";
    size_t n = sizeof name - 1;
    if (w.n < n || memcmp(w.s, name, n) != 0) return false;
    if (w.n > n && (w.s[n] != '_' || w.n == n + 1)) return false;
    for (size_t i = n + 1; i < w.n; i++)
        if (w.s[i] < '0' || w.s[i] > '9') return false;
    return true;
}

/* What the traced node reads, in order.  false: it names nothing detached, or too much. */
static bool read_args(reading *r)
{
    const char *s = strstr(r->text, "](args = (");
    bool found = false;
    while (s && (s = strchr(s, '%'))) {
        if (r->n_arg == MOST) return false;
        word w = word_at(++s);
        found |= is_detached(w);
        r->arg[r->n_arg++] = w;
    }
    return found;
}

/* The traced node that made input i; empty: unknown. */
static word maker(const reading *r, int i)
{
    const char *text = ot_table_find(&r->f->job->traced, r->node->input[i]);
    return text ? word_at(text + 1) : (word){ "", 0 };
}

static bool is_arg(const reading *r, int i, word w)
{
    return same(w, maker(r, i)) || same(w, word_of(r->node->input[i]));
}

/* Is input i read under a name of its own, or made by another part of the same traced node? */
static bool is_explained(const reading *r, int i)
{
    const char *text = ot_table_find(&r->f->job->traced, r->node->input[i]);
    if (text && !strcmp(text, r->text)) return true;
    for (int k = 0; k < r->n_arg; k++)
        if (!is_detached(r->arg[k]) && is_arg(r, i, r->arg[k])) return true;
    return is_detached(maker(r, i)); /* its Identity is still there */
}

/* Does the file know a value of that name? */
static bool is_known(const reading *r, word w)
{
    char name[256];
    if (w.n >= sizeof name) return false;
    memcpy(name, w.s, w.n);
    name[w.n] = 0;
    return w.n > 2 && (!memcmp(w.s, "p_", 2) || !memcmp(w.s, "b_", 2) || !memcmp(w.s, "c_", 2) ||
                       ot_table_find(&r->f->job->traced, name) || ot_table_find(&r->f->scope->values, name));
}

/* As many inputs as arguments, and where an argument is known, it is the input of its place? */
static bool in_order(const reading *r)
{
    if (r->f->n_in != r->n_arg) return false;
    for (int i = 0; i < r->n_arg; i++) {
        if (!r->f->in[i]) return false;
        bool made = r->f->in[i]->role == OT_TEMP;
        if (made && !is_detached(r->arg[i]) && is_known(r, r->arg[i]) && !is_arg(r, i, r->arg[i])) return false;
    }
    return true;
}

/* Which inputs are read detached, by bit. */
static uint64_t detached(reading *r)
{
    int named = 0, unknown = 0, open = 0;
    uint64_t inputs = 0;
    bool ordered = in_order(r);
    for (int k = 0; k < r->n_arg; k++) {
        named += is_detached(r->arg[k]);
        unknown += !is_detached(r->arg[k]) && !is_known(r, r->arg[k]);
    }
    for (int i = 0; i < r->f->n_in && i < MOST; i++) {
        const ot_value *v = r->f->in[i];
        const char *text = v ? ot_table_find(&r->f->job->traced, r->node->input[i]) : NULL;
        if (!v || v->role == OT_INPUT || (text && (!strcmp(text, r->text) || is_detached(word_at(text + 1))))) continue;
        if (ordered ? is_detached(r->arg[i]) : v->role == OT_TEMP && !is_explained(r, i)) {
            inputs |= UINT64_C(1) << i;
            open++;
        }
    }
    return ordered || (!unknown && open <= named) ? inputs : 0; /* else it is not clear which input */
}

static ot_value *detach(ot_form *f, ot_value *v)
{
    ot_node *n = ot_graph_node(f->scope->graph, &ot_op_Detach, f->name, NULL, &v, 1, 1);
    if (n) n->out[0]->mark = v->mark;
    return n ? n->out[0] : NULL;
}

static bool is_of_main(const ot_form *f) { return !f->scope->up && !f->scope->call; }

ot_status ot_traced_inputs(ot_form *f, const Onnx__NodeProto *n)
{
    reading r = { .text = ot_traced_text(n), .f = f, .node = n };
    if (!r.text || *r.text != '%' || !is_of_main(f)) return OT_OK;
    bool itself = strstr(r.text, "[target=torch.ops.aten.detach.default]") != NULL;
    uint64_t inputs = itself ? 1 : read_args(&r) ? detached(&r) : 0;
    for (int i = 0; i < f->n_in && i < MOST; i++) {
        if (!(inputs >> i & 1) || !f->in[i]) continue;
        f->in[i] = detach(f, f->in[i]);
        OT_TRY(ot_status_of(f->in[i]));
        f->job->merged |= !itself;
        if (!f->job->detached++) f->job->first_detached = f->name;
    }
    return OT_OK;
}

/* The row that an Embedding keeps for padding.  -1: none. */
static int64_t padding_of(const char *text)
{
    const char *s = strstr(text, "[target=torch.ops.aten.embedding.default](args = (%"),
               *end = s ? strchr(s, ')') : NULL;
    for (int k = 0; s && k < 2; k++) s = strchr(s + 1, ',');
    while (s && strchr(", ", *s)) s++;
    return s && end && s < end && *s >= '0' && *s <= '9' ? strtoll(s, NULL, 10) : -1;
}

ot_status ot_traced_outputs(ot_form *f, const Onnx__NodeProto *n)
{
    const char *text = ot_traced_text(n);
    if (!text || *text != '%' || !is_of_main(f)) return OT_OK;
    for (int i = 0; i < f->n_out; i++)
        if (*f->out_name[i] && !ot_table_set(&f->job->traced, f->out_name[i], text)) return OT_E_NOMEM;
    int64_t row = !strcmp(f->op, "Gather") && f->n_in == 2 && f->n_out == 1 ? padding_of(text) : -1;
    ot_value *y = f->out[0];
    if (row < 0 || !y || !f->in[0] || f->in[0]->source < 0) return OT_OK;
    ot_value *held = detach(f, y), *index = ot_form_ints(f, &row, 1), *last = ot_form_ints(f, &(int64_t){ -1 }, 1);
    ot_value *like = index ? ot_form_before(f, "CastLike", OT_IN(index, f->in[1])) : NULL;
    ot_value *there = like ? ot_form_before(f, "Equal", OT_IN(f->in[1], like)) : NULL;
    ot_value *wide = there && last ? ot_form_before(f, "Unsqueeze", OT_IN(there, last)) : NULL;
    f->out[0] = held && wide ? ot_form_before(f, "Where", OT_IN(wide, held, y)) : NULL;
    if (!f->job->padded++) f->job->first_padded = f->in[0]->name;
    return ot_status_of(f->out[0]);
}

void ot_traced_notes(ot_job *j)
{
    if (j->detached)
        ot_note(
            j, "%d input%s without gradient, because the program detached them (first: of '%s')%s", j->detached,
            j->detached > 1 ? "s" : "", j->first_detached,
            j->merged
                ? "; the exporter merged equal nodes, so further detached inputs may be missing from the file; torch.onnx.export(..., optimize=False) keeps them"
                : "");
    if (j->padded)
        ot_note(j,
                "%d table%s without gradient for the padding index (padding_idx), as declared in the file (first: "
                "'%s')",
                j->padded, j->padded > 1 ? "s" : "", j->first_padded);
}
