/* specs.c - the grammar of what has parameters: name:key=value,key=[1,2]. */

#include "runtime/train/options/specs.h"

#include <math.h>
#include <string.h>

static char *piece(ot_arena *a, const char *from, size_t n) { return ot_arena_printf(a, "%.*s", (int)n, from); }

ot_status ot_spec_set(ot_spec *t, const char *key, double v, ot_arena *a, ot_error *err)
{
    ot_param *p = ot_arena_alloc(a, sizeof *p * (size_t)(t->n + 1));
    char *text = ot_arena_printf(a, "%.17g", v);
    if (!p || !text) return ot_fail(err, OT_E_NOMEM, "no memory for options");

    int n = 0;
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->param[i].key, key)) p[n++] = t->param[i];
    p[n++] = (ot_param){ .key = key, .text = text, .num = v };
    t->param = p;
    t->n = n;
    return OT_OK;
}

/* ---- parsing ---------------------------------------------------------------- */

typedef struct parser {
    const char *whole; /* for messages */
    const char *sort;
    ot_arena *a;
    ot_error *err;
} parser;

static ot_status parse_list(const parser *p, const char *key, const char *from, size_t n, ot_param *out)
{
    double *v = ot_arena_alloc(p->a, (n + 1) * sizeof *v);
    if (!v) return ot_fail(p->err, OT_E_NOMEM, "no memory for options");

    const char *end = from + n;
    while (from < end) {
        size_t k = strcspn(from, ",]");
        const char *first = from + strspn(from, " ");
        char *one = first < from + k ? piece(p->a, first, (size_t)(from + k - first)) : NULL;
        if (!one && first < from + k) return ot_fail(p->err, OT_E_NOMEM, "no memory for options");
        while (one && *one && one[strlen(one) - 1] == ' ') one[strlen(one) - 1] = '\0';
        if (!one || !ot_number(one, &v[out->n]))
            return ot_fail(p->err, OT_E_USAGE, "%s '%s': %s: '%s' is not a number", p->sort, p->whole, key,
                           one ? one : "");
        out->n++;
        from += k + 1;
    }
    out->list = v;
    return OT_OK;
}

/* One key=value; *at is left behind it and its comma. */
static ot_status parse_param(const parser *p, const char **at, ot_param *out)
{
    const char *s = *at;
    size_t k = strcspn(s, "=,");
    if (!k || s[k] != '=')
        return ot_fail(p->err, OT_E_USAGE, "%s '%s': expected key=value, got '%.*s'", p->sort, p->whole, (int)k, s);
    char *key = piece(p->a, s, k);
    s += k + 1;

    bool list = *s == '[';
    size_t n = list ? strcspn(s, "]") : strcspn(s, ",");
    if (list && s[n] != ']')
        return ot_fail(p->err, OT_E_USAGE, "%s '%s': %s: the list has no closing ']'", p->sort, p->whole,
                       key ? key : "");
    n += list;
    if (s[n] && s[n] != ',')
        return ot_fail(p->err, OT_E_USAGE, "%s '%s': expected ',' after the list, got '%s'", p->sort, p->whole, s + n);

    char *text = piece(p->a, s, n);
    if (!key || !text) return ot_fail(p->err, OT_E_NOMEM, "no memory for options");
    if (!*text) return ot_fail(p->err, OT_E_USAGE, "%s '%s': %s has no value", p->sort, p->whole, key);
    *out = (ot_param){ .key = key, .text = text, .num = list ? (double)NAN : ot_key_number(text) };
    if (list) OT_TRY(parse_list(p, key, s + 1, n - 2, out));
    *at = s + n + (s[n] == ',');
    if (s[n] == ',' && !**at)
        return ot_fail(p->err, OT_E_USAGE, "%s '%s': expected key=value after the last ','", p->sort, p->whole);
    return OT_OK;
}

/* The longest output whose name and '=' begin the text. */
static const char *leading_output(const char *text, const char *const *outputs)
{
    const char *best = NULL;
    size_t most = 0;
    for (; outputs && *outputs; outputs++) {
        size_t n = strlen(*outputs);
        if (!strncmp(text, *outputs, n) && text[n] == '=' && (!best || n > most)) best = *outputs, most = n;
    }
    return best;
}

static ot_status no_output(const parser *p, const char *text, size_t n, const char *const *outputs)
{
    const char *s = "";
    for (int i = 0; outputs && outputs[i] && s; i++)
        s = ot_arena_printf(p->a, "%s%s'%s'", s, i ? ", " : "", outputs[i]);
    return ot_fail(p->err, OT_E_USAGE, "%s '%s': the model has no output '%.*s'; its outputs are %s", p->sort, p->whole,
                   (int)n, text, s && *s ? s : "none");
}

static ot_status check_value(const parser *p, const ot_entry *kind, const ot_key *key, const ot_param *one)
{
    if (ot_key_fits(key, one)) return OT_OK;
    const char *wants = ot_key_wants(key, p->a);
    if (!wants) return ot_fail(p->err, OT_E_NOMEM, "no memory for options");
    const ot_key *other = kind->keys; /* that a value for a shorter name may be meant for: class_weights for weight */
    while (other->name && (other == key || !strstr(other->name, key->name))) other++;
    return ot_fail(p->err, OT_E_USAGE, "--%s %s: invalid value %s=%s; expected %s%s%s%s%s", p->sort, kind->name,
                   one->key, one->text, wants, other->name ? "; see also " : "", other->name ? other->name : "",
                   other->name ? ": " : "", other->name ? other->meaning : "");
}

static ot_status check_missing(const parser *p, const ot_entry *kind, const ot_spec *t)
{
    for (const ot_key *k = kind->keys; k && k->name; k++)
        if (!k->dflt && !k->without && !ot_spec_find(t, k->name))
            return ot_fail(p->err, OT_E_USAGE, "--%s %s needs %s=...: %s", p->sort, kind->name, k->name,
                           ot_key_wants(k, p->a));
    return OT_OK;
}

ot_status ot_spec_parse(const char *text, const ot_registry *known, const char *const *outputs, ot_arena *a,
                        ot_spec *out, ot_error *err)
{
    parser p = { .whole = text, .sort = known->sort, .a = a, .err = err };
    *out = (ot_spec){ .output = leading_output(text, outputs) };
    const char *s = out->output ? text + strlen(out->output) + 1 : text;

    size_t k = strcspn(s, ":");
    size_t eq = strcspn(s, "=");
    if (eq < k && outputs) return no_output(&p, s, eq, outputs);
    char *name = piece(a, s, k);
    if (!name) return ot_fail(err, OT_E_NOMEM, "no memory for options");
    const ot_entry *kind = ot_registry_find(known, name);
    if (!kind) return ot_registry_unknown(known, known->sort, name, a, err);
    out->name = kind->name;
    out->entry = kind;
    if (s[k] && !s[k + 1]) return ot_fail(err, OT_E_USAGE, "%s '%s': expected key=value after ':'", known->sort, text);
    s += k + (s[k] == ':');

    int most = 0;
    for (const char *c = s; *c; c++) most += *c == '=';
    ot_param *param = ot_arena_alloc(a, sizeof *param * (size_t)(most + 1));
    if (!param) return ot_fail(err, OT_E_NOMEM, "no memory for options");
    out->param = param;
    while (*s) {
        ot_param one;
        OT_TRY(parse_param(&p, &s, &one));
        const ot_key *key = ot_entry_key(kind, one.key);
        if (!key)
            return ot_fail(err, OT_E_USAGE, "%s '%s': %s has no parameter '%s'; supported: %s", known->sort, text,
                           kind->name, one.key, ot_entry_key_names(kind, a));
        if (ot_spec_find(out, one.key))
            return ot_fail(err, OT_E_USAGE, "%s '%s': %s is given twice", known->sort, text, one.key);
        OT_TRY(check_value(&p, kind, key, &one));
        param[out->n++] = one;
    }
    return check_missing(&p, kind, out);
}
