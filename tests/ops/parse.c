/* parse.c - the texts of test rows: operands, numbers, attributes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/harness.h"

static const struct { const char *name; ot_dtype t; } types[] = {
    { "f32", OT_F32 }, { "f64", OT_F64 }, { "f16", OT_F16 }, { "bf16", OT_BF16 }, { "i8", OT_I8 }, { "i16", OT_I16 },
    { "i32", OT_I32 }, { "i64", OT_I64 }, { "u8", OT_U8 }, { "u16", OT_U16 }, { "u32", OT_U32 }, { "u64", OT_U64 },
    { "bool", OT_BOOL }, { "f8e4m3fn", OT_F8E4M3FN }, { "f8e4m3fnuz", OT_F8E4M3FNUZ }, { "f8e5m2", OT_F8E5M2 },
    { "f8e5m2fnuz", OT_F8E5M2FNUZ }, { "str", OT_STRING }, { "i4", OT_I4 }, { "u4", OT_U4 }, { "i2", OT_I2 }, { "u2", OT_U2 },
    { "f4e2m1", OT_F4E2M1 }, { "f8e8m0", OT_F8E8M0 },
};

const char *parse_type_name(int i) { return i < OT_LEN(types) ? types[i].name : NULL; }

static bool bad(const char *what, const char *at)
{
    printf("row text: %s at '%.40s'\n", what, at);
    return false;
}

static const char *skip_spaces(const char *s)
{
    while (*s == ' ') s++;
    return s;
}

static bool at_end(const char *s) { return *s == ' ' || *s == '\0'; }

bool parse_numbers(const char **text, double *v, int *n)
{
    int room = *n;
    const char *s = *text;
    for (*n = 0; !at_end(s) && *s != ']';) {
        char *end;
        if (*n == room) return bad("too many numbers", s);
        v[(*n)++] = strtod(s, &end);
        if (end == s) return bad("a number was expected", s);
        s = *end == ',' ? end + 1 : end;
        if (*end && *end != ',' && *end != ' ' && *end != ']') return bad("a comma was expected", end);
    }
    *text = s;
    return true;
}

static bool parse_type(const char **text, ot_dtype *t, ot_shape *shape)
{
    const char *s = *text, *open = strchr(s, '[');
    if (!open) return bad("[shape] was expected", s);
    for (int i = 0; i < OT_LEN(types); i++)
        if (strlen(types[i].name) == (size_t)(open - s) && !strncmp(types[i].name, s, (size_t)(open - s))) {
            double d[OT_MAX_RANK];
            int n = OT_MAX_RANK;
            *t = types[i].t;
            s = open + 1;
            if (!parse_numbers(&s, d, &n)) return false;
            if (*s != ']') return bad("] was expected", s);
            shape->rank = n;
            for (int k = 0; k < n; k++) shape->dim[k] = (int64_t)d[k];
            *text = s + 1;
            return true;
        }
    return bad("no such type", s);
}

bool parse_operand(const char **text, operand *o)
{
    const char *s = skip_spaces(*text);
    o->source = LEFT_OUT;
    o->n = MAX_VALUES;
    if (*s == '-' && at_end(s + 1)) {
        *text = s + 1;
        return true;
    }
    if (!parse_type(&s, &o->dtype, &o->shape)) return false;
    o->source = RANDOM;
    o->lo = -1, o->hi = 1;
    if (ot_is_int(o->dtype)) o->lo = 0, o->hi = 10;
    if (o->dtype == OT_BOOL) o->lo = 0, o->hi = 2;
    if (*s == '(') {
        int used = 0;
        if (sscanf(s, "(%lf,%lf)%n", &o->lo, &o->hi, &used) < 2 || !used) return bad("(low,high) was expected", s);
        s += used;
    } else if (*s == '=' || *s == '~') {
        o->source = *s == '=' ? CONSTANT : FED;
        s++;
        if (!parse_numbers(&s, o->v, &o->n)) return false;
        int64_t need = ot_numel(&o->shape);
        if (o->n != need && !(o->n == 1 && need > 0)) return bad("the number of values does not fit the shape", *text);
    }
    if (!at_end(s)) return bad("a space was expected", s);
    *text = s;
    return true;
}

bool parse_output(const char **text, operand *o)
{
    const char *s = skip_spaces(*text);
    o->source = LEFT_OUT;
    if (*s == '-') {
        *text = s + 1;
        return true;
    }
    if (!parse_type(&s, &o->dtype, &o->shape)) return false;
    if (!at_end(s)) return bad("a space was expected", s);
    o->source = RANDOM;
    *text = s;
    return true;
}

/* ---- attributes --------------------------------------------------------------- */

static bool parse_list(const char **text, ot_graph *g, const ot_attr *a, void *field)
{
    double v[256];
    int n = OT_LEN(v);
    const char *s = *text;
    if (*s++ != '[') return bad("[list] was expected", s - 1);
    if (!parse_numbers(&s, v, &n)) return false;
    if (*s++ != ']') return bad("] was expected", s - 1);
    int64_t *i = ot_graph_alloc(g, sizeof *i * (size_t)(n + 1));
    float *f = ot_graph_alloc(g, sizeof *f * (size_t)(n + 1));
    for (int k = 0; k < n; k++) i[k] = (int64_t)v[k], f[k] = (float)v[k];
    if (a->kind == OT_INTS) *(ot_ints *)field = (ot_ints){ n, i };
    else *(ot_floats *)field = (ot_floats){ n, f };
    *text = s;
    return true;
}

/* [Relu,Tanh] */
static bool parse_words(const char **text, ot_graph *g, ot_strings *list)
{
    const char *s = *text;
    const char **v = ot_graph_alloc(g, (strlen(s) + 1) * sizeof *v);
    int n = 0;
    if (*s++ != '[') return bad("[list] was expected", s - 1);
    for (; *s && *s != ']' && *s != ' '; s += *s == ',') {
        size_t length = strcspn(s, ",] ");
        v[n++] = ot_arena_printf(g->arena, "%.*s", (int)length, s);
        s += length;
    }
    if (*s++ != ']') return bad("] was expected", s - 1);
    *list = (ot_strings){ n, v };
    *text = s;
    return true;
}

static bool parse_tensor(const char **text, ot_graph *g, ot_blob *blob)
{
    static operand o;
    if (strncmp(*text, "tensor:", 7)) return bad("tensor: was expected", *text);
    *text += 7;
    if (!parse_operand(text, &o)) return false;
    char *bytes = ot_graph_alloc(g, ot_bytes(&o.shape, o.dtype) + 1);
    for (int64_t i = 0; i < ot_numel(&o.shape); i++) ot_set_f64(bytes, o.dtype, i, o.v[o.n == 1 ? 0 : i]);
    *blob = (ot_blob){ .dtype = o.dtype, .shape = o.shape, .data = bytes, .source = -1 };
    return true;
}

static bool parse_word(const char **text, ot_graph *g, const ot_attr *a, void *field)
{
    char word[64];
    size_t n = strcspn(*text, " ");
    if (n >= sizeof word) return bad("too long", *text);
    memcpy(word, *text, n);
    word[n] = '\0';
    *text += n;
    if (a->kind == OT_TEXT) {
        *(const char **)field = ot_arena_strdup(g->arena, word);
        return true;
    }
    for (int64_t i = 0; a->names[i]; i++)
        if (!strcmp(a->names[i], word)) {
            memcpy(field, &i, sizeof i);
            return true;
        }
    return bad("no such name", word);
}

static bool parse_scalar(const char **text, const ot_attr *a, void *field)
{
    double v;
    int n = 1;
    if (!parse_numbers(text, &v, &n) || n != 1) return bad("one number was expected", *text);
    int64_t i = (int64_t)v;
    double f = (double)(float)v; /* as the file stores it */
    if (a->kind == OT_INT) memcpy(field, &i, sizeof i);
    else memcpy(field, &f, sizeof f);
    return true;
}

bool parse_attrs(const char *text, const ot_op *op, ot_graph *g, void *attrs)
{
    const char *s = text ? skip_spaces(text) : "";
    while (*s) {
        size_t n = strcspn(s, "=");
        const ot_attr *a = op->attrs;
        while (a && a->name && (strlen(a->name) != n || strncmp(a->name, s, n))) a++;
        if (!a || !a->name || s[n] != '=') return bad("no such attribute", s);
        void *field = (char *)attrs + a->offset;
        s += n + 1;
        bool ok = false;
        switch (a->kind) {
        case OT_INT: case OT_FLOAT: ok = parse_scalar(&s, a, field); break;
        case OT_ENUM: case OT_TEXT: ok = parse_word(&s, g, a, field); break;
        case OT_INTS: case OT_FLOATS: ok = parse_list(&s, g, a, field); break;
        case OT_TENSOR: ok = parse_tensor(&s, g, field); break;
        case OT_TEXTS: ok = parse_words(&s, g, field); break;
        case OT_GRAPH: ok = bad("this kind of attribute has no text", s); break;
        }
        if (!ok) return false;
        s = skip_spaces(s);
    }
    return true;
}

/* ---- numbers ------------------------------------------------------------------ */

dice dice_of(const char *text)
{
    dice d = { 14695981039346656037u };
    for (; *text; text++) d.state = (d.state ^ (unsigned char)*text) * 1099511628211u;
    return d;
}

double dice_roll(dice *d)
{
    uint64_t x = d->state += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}
