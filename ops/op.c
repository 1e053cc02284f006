/* op.c - the operator table and helpers for shape rules. */
#include "ops/op.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* NULL-terminated, so that the table compiles even if a section of list.h is empty. */
static const ot_op *const table[] = {
#define ROW(name, ...) &ot_op_##name,
    OT_OPS(ROW)
#undef ROW
        NULL
};

const ot_op *ot_op_at(int i) { return i >= 0 && i < OT_LEN(table) ? table[i] : NULL; }

const ot_op *ot_find_op(const char *domain, const char *name)
{
    if (!strcmp(domain, "ai.onnx")) domain = "";
    for (const ot_op *const *o = table; *o; o++)
        if (!((*o)->flags & OT_INTERNAL) && !strcmp((*o)->name, name) &&
            !strcmp((*o)->domain ? (*o)->domain : "", domain))
            return *o;
    return NULL;
}

/* ---- slots ----------------------------------------------------------------- */

char ot_slot_at(const ot_op *op, int input)
{
    const char *s = op->slots ? op->slots : "-";
    while (input-- > 0 && s[1]) s++;
    return *s;
}

bool ot_slot_is_strong(char slot) { return slot >= 'A' && slot <= 'Z'; }
bool ot_slot_is_weak(char slot) { return slot >= 'a' && slot <= 'z' && slot != 't'; }

/* ---- attributes ------------------------------------------------------------ */

void ot_attr_defaults(const ot_op *op, void *attrs)
{
    memset(attrs, 0, op->attr_size);
    for (const ot_attr *a = op->attrs; a && a->name; a++) {
        char *field = (char *)attrs + a->offset;
        double v = a->dflt == OT_REQUIRED ? 0 : a->dflt;
        int64_t i = (int64_t)v;
        if (a->kind == OT_INT || a->kind == OT_ENUM) memcpy(field, &i, sizeof i);
        if (a->kind == OT_FLOAT) memcpy(field, &v, sizeof v);
    }
}

size_t ot_attr_bytes(const ot_op *op, const void *attrs)
{
    return op->attr_used ? op->attr_used(attrs) : op->attr_size;
}

const ot_attr *ot_attr_of(const ot_op *op, const char *name)
{
    for (const ot_attr *a = op->attrs; a && a->name; a++)
        if (!strcmp(a->name, name)) return a;
    return NULL;
}

int64_t ot_attr_get(const ot_node *n, const char *name, int64_t dflt)
{
    const ot_attr *a = ot_attr_of(n->op, name);
    if (a) memcpy(&dflt, (const char *)n->attrs + a->offset, sizeof dflt);
    return dflt;
}

ot_graph *ot_attr_graph(const ot_node *n, const ot_attr *a)
{
    ot_graph *sub = NULL;
    if (a->kind == OT_GRAPH) memcpy(&sub, (const char *)n->attrs + a->offset, sizeof sub);
    return sub;
}

ot_graph *ot_subgraph(const ot_node *n, int i)
{
    for (const ot_attr *a = n->op->attrs; a && a->name; a++) {
        ot_graph *sub = ot_attr_graph(n, a);
        if (sub && i-- == 0) return sub;
    }
    return NULL;
}

ot_ints ot_attr_ints(const ot_node *n, const char *name)
{
    ot_ints list = { 0 };
    const ot_attr *a = ot_attr_of(n->op, name);
    if (a) memcpy(&list, (const char *)n->attrs + a->offset, sizeof list);
    return list;
}

void ot_attr_set(const ot_op *op, void *attrs, const char *name, int64_t v)
{
    const ot_attr *a = ot_attr_of(op, name);
    if (a) memcpy((char *)attrs + a->offset, &v, sizeof v);
}

void ot_set_attr(ot_node *n, const char *name, int64_t v) { ot_attr_set(n->op, (void *)(uintptr_t)n->attrs, name, v); }

/* ---- element types --------------------------------------------------------- */

/* "float16, float32 or float64"; sets of types by their name. */
static const char *set_text(uint32_t set, char *text, size_t size)
{
    static const struct {
        uint32_t set;
        const char *name;
    } known[] = {
        { OT_SET_FLOAT, "a float" },
        { OT_SET_FLOAT | OT_SET_FLOAT8, "a float" },
        { OT_SET_INT, "an integer" },
        { OT_SET_NUMBER, "a number" },
        { OT_SET_COMMON, "a number or bool" },
        { OT_SET_BYTE, "a number or bool" },
        { OT_SET_ALL, "a number or bool" },
        { OT_SET_FLOAT | OT_SET_SIGNED, "a float or signed integer" },
        { OT_SET_WIDE, "a float or an integer of 32 or 64 bits" },
        { OT_SET_COMMON | OT_TYPE(OT_STRING), "a number, bool or string" },
        { OT_SET_ALL | OT_TYPE(OT_STRING), "a number, bool or string" },
    };
    for (int i = 0; i < OT_LEN(known); i++)
        if (known[i].set == set) return known[i].name;
    size_t at = 0;
    for (int t = 0; t < 32 && at < size; t++)
        if (set >> t & 1)
            at += (size_t)snprintf(text + at, size - at, "%s%s",
                                   !at             ? ""
                                   : set >> t == 1 ? " or "
                                                   : ", ",
                                   ot_dtype_name((ot_dtype)t));
    return text;
}

/* The types that a letter allows. */
static uint32_t set_of(const ot_types *s, char letter)
{
    switch (letter) {
    case 'T': return s->T;
    case 'U': return s->U;
    case 'V': return s->V;
    case 'n': return OT_SET_ALL;
    case 't': return OT_SET_ALL | OT_TYPE(OT_STRING);
    case 'r': return OT_SET_FLOAT | OT_SET_FLOAT8 | OT_TYPE(OT_F4E2M1);
    case 'x': return OT_SET_INDEX;
    case 'b': return OT_TYPE(OT_BOOL);
    case 'i': return OT_TYPE(OT_I64);
    case 's': return OT_TYPE(OT_STRING);
    case 'f': return OT_TYPE(OT_F32);
    default: return UINT32_MAX;
    }
}

uint32_t ot_types_of(const ot_op *op, int input)
{
    const char *l = op->types.in;
    if (!l) return 0;
    while (input-- > 0 && l[1]) l++;
    return set_of(&op->types, *l);
}

/* The first input of n with that letter; -1: none. */
static int first_of(const ot_node *n, char letter)
{
    const char *l = n->op->types.in;
    for (int i = 0; i < n->n_in; i++, l += l[1] != 0)
        if (*l == letter && n->in[i]) return i;
    return -1;
}

static ot_status check_type(const ot_node *n, int i, char letter, ot_error *err)
{
    const ot_value *v = n->in[i], *t;
    char text[256];
    int first = first_of(n, letter == 'W' ? 'T' : letter);
    uint32_t set = set_of(&n->op->types, letter);
    if (letter == 'W' && first >= 0) set = n->in[first]->dtype == OT_F64 ? OT_TYPE(OT_F64) : OT_TYPE(OT_F32);
    if (v->dtype == OT_UNDEFINED && !(n->op->flags & OT_LISTS))
        return ot_node_fail(n, err, "input %d ('%s') is a sequence or optional; expected a tensor", i, v->name);
    if (!(set >> v->dtype & 1))
        return ot_node_fail(n, err, "input %d ('%s') is %s; expected %s", i, v->name, ot_dtype_name(v->dtype),
                            set_text(set, text, sizeof text));
    if (letter < 'T' || letter > 'V' || (t = n->in[first])->dtype == v->dtype) return OT_OK;
    return ot_node_fail(n, err, "inputs %d ('%s') and %d ('%s') are %s and %s; expected one type", first, t->name, i,
                        v->name, ot_dtype_name(t->dtype), ot_dtype_name(v->dtype));
}

ot_status ot_node_infer(ot_node *n, ot_error *err)
{
    const char *l = n->op->types.in;
    for (int i = 0; l && i < n->n_in; i++, l += l[1] != 0)
        if (n->in[i]) OT_TRY(check_type(n, i, *l, err));
    return n->op->infer(n, err);
}

/* ---- shape rules ----------------------------------------------------------- */

ot_status ot_node_fail(const ot_node *n, ot_error *err, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    ot_vtext(text, sizeof text, fmt, ap);
    va_end(ap);
    return ot_fail(err, OT_E_MODEL, "%s: %s: %s", n->name, n->op->name, text);
}

void *ot_node_alloc(ot_node *n, size_t bytes) { return ot_graph_alloc(n->graph, bytes); }

ot_status ot_set(ot_value *y, ot_dtype t, const ot_shape *s)
{
    if (y) {
        y->dtype = t;
        y->shape = *s;
    }
    return OT_OK;
}

ot_status ot_like(ot_value *y, const ot_value *x) { return ot_set(y, x->dtype, &x->shape); }

bool ot_axis(int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank) return false;
    *out = (int)(axis < 0 ? axis + rank : axis);
    return true;
}

ot_status ot_node_axis(const ot_node *n, int64_t axis, int rank, int *out, ot_error *err)
{
    if (ot_axis(axis, rank, out)) return OT_OK;
    return ot_node_fail(n, err, "axis %lld is out of range for rank %d", (long long)axis, rank);
}

bool ot_is_const(const ot_value *v) { return v && v->role == OT_CONST && v->data && !v->differentiated; }

const void *ot_settled_bytes(const ot_graph *g, const ot_value *v)
{
    while (v->role == OT_TEMP && v->producer && v->producer->op->flags & OT_ALIAS && v->layout == OT_PLAIN)
        v = v->producer->in[0];
    if (v->role != OT_CONST && v->role != OT_WEIGHT && v->role != OT_STATE) return NULL;
    if (v->role != OT_CONST && v->layout != OT_PLAIN) return NULL;
    for (int i = 0; i < g->n_assigns; i++)
        if (g->assigns[i].state == v) return NULL;
    return (uintptr_t)v->data % alignof(max_align_t) ? NULL : v->data;
}

ot_status ot_const_ints(const ot_node *n, int i, ot_ints *out, ot_error *err)
{
    *out = (ot_ints){ 0, NULL };
    const ot_value *v = ot_node_in(n, i);
    if (!v) return OT_OK;
    if (!ot_is_const(v))
        return ot_node_fail(n, err, "input %d ('%s') must be known before the run, because sizes depend on it", i,
                            v->name);
    if (!ot_is_int(v->dtype) || v->shape.rank > 1)
        return ot_node_fail(n, err, "input %d ('%s') must be a list of integers", i, v->name);
    int64_t len = ot_numel(&v->shape);
    int64_t *list = ot_graph_alloc(n->graph, (size_t)len * sizeof *list);
    if (!list) return ot_fail(err, OT_E_NOMEM, "%s: no memory", n->name);
    for (int64_t k = 0; k < len; k++) list[k] = ot_get_i64(v->data, v->dtype, k);
    *out = (ot_ints){ (int)len, list };
    return OT_OK;
}
