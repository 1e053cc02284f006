/* table_inputs.c - which columns of a table go to which input of the model, and in which form. */
#include <string.h>

#include "runtime/data/table.h"

/* ---- columns of each input ----------------------------------------------------------------- */

typedef struct group {
    const ot_data_input *of;
    int *column, n;
    bool given;
} group;

typedef struct chooser {
    ot_dataset *d;
    ot_columns *t;
    group *g;
    int n;
    bool *taken, *without;
    ot_error *err;
} chooser;

static bool usable(const ot_column *q)
{
    return q->kind != OT_KIND_LABEL && q->kind != OT_KIND_EMPTY && q->kind != OT_KIND_IMAGE;
}

static group *find_group(const chooser *x, const char *name, size_t n)
{
    for (int i = 0; i < x->n; i++)
        if (strlen(x->g[i].of->name) == n && !memcmp(x->g[i].of->name, name, n)) return &x->g[i];
    return NULL;
}

static ot_status no_input(const chooser *x, const char *name, size_t n)
{
    const char **names = ot_arena_alloc(x->d->arena, sizeof *names * (size_t)x->n);
    for (int i = 0; names && i < x->n; i++) names[i] = x->g[i].of->name;
    const char *all = names ? ot_arena_names(x->d->arena, names, x->n) : NULL;
    return ot_fail(x->err, OT_E_USAGE, "--inputs: the model has no input '%.*s', only %s", (int)n, name,
                   all ? all : "others");
}

/* An option that lists columns of inputs.  *n 0: it is not given, or has no effect. */
static ot_status named_columns(ot_dataset *d, const ot_columns *t, const char *option, const char *text, int *list,
                               int *n, ot_error *err)
{
    int inputs = 0;
    *n = 0;
    if (!text) return OT_OK;
    OT_TRY(ot_table_columns(t, text, option, list, n, err));
    for (int i = 0; i < *n; i++) inputs += !ot_table_is_target(t, list[i]);
    if (!inputs || (!t->recorded && !t->order)) return OT_OK;
    *n = 0;
    return ot_dataset_tell(
        d, err, "%s: %s has no effect: the model records how it takes the columns (change with --inputs auto)", t->path,
        option);
}

ot_status ot_table_name_columns(ot_dataset *d, ot_columns *t, ot_error *err)
{
    int n, *list = ot_arena_alloc(d->arena, (size_t)t->columns * sizeof *list);
    if (!list) return ot_table_no_memory(t, err);
    OT_TRY(named_columns(d, t, "--categories", t->options.categories, list, &n, err));
    for (int i = 0; i < n; i++) {
        ot_column *q = &t->column[list[i]];
        if (q->kind == OT_KIND_IMAGE)
            return ot_fail(err, OT_E_DATA, "%s: --categories: column '%s' has names of images", t->path, q->name);
        if (ot_table_is_target(t, list[i])) continue; /* ot_table_names_classes */
        q->named = true;
        if (q->kind != OT_KIND_EMPTY) q->kind = OT_KIND_CATEGORY;
    }
    OT_TRY(named_columns(d, t, "--passthrough", t->options.passed, list, &n, err));
    for (int i = 0; i < n; i++) t->column[list[i]].passed = true;
    return OT_OK;
}

static ot_status given_groups(chooser *x, const char *text)
{
    for (const char *p = text, *from, *end; *p; p = *end ? end + 1 : end) {
        const char *texts = x->t->text ? ot_texts_input(x->t->text) : NULL;
        end = ot_table_group_end(p, &from);
        if (texts && strlen(texts) == (size_t)(from - 1 - p) && !memcmp(p, texts, strlen(texts))) continue;
        group *g = from > p ? find_group(x, p, (size_t)(from - 1 - p)) : x->n == 1 ? x->g : NULL;
        if (!g && x->n == 1 && from > p) { /* an equals sign in the name of a column */
            g = x->g;
            from = p;
        }
        if (!g && from > p) return no_input(x, p, (size_t)(from - 1 - p));
        if (!g) { /* of several inputs: columns that none of them gets */
            int n;
            OT_TRY(ot_table_read_list(x->t, from, end, "--inputs", x->g->column, &n, x->without, x->err));
            if (!n) continue;
            return ot_fail(x->err, OT_E_USAGE,
                           "--inputs: the model has %d inputs: expected INPUT=COLUMN,... or -COLUMN,..., got '%.*s'",
                           x->n, (int)(end - p), p);
        }
        OT_TRY(ot_table_read_list(x->t, from, end, "--inputs", g->column, &g->n, x->without, x->err));
        g->given = g->n > 0;
    }
    for (int i = 0; i < x->n; i++)
        for (int k = 0; k < x->g[i].n; k++) {
            const int c = x->g[i].column[k];
            if (ot_table_is_target(x->t, c)) /* an autoencoder's may be; any other model would only copy it */
                OT_TRY(ot_dataset_tell(x->d, x->err, "%s: column '%s' is an input and the target (--inputs, --target)",
                                       x->t->path, x->t->column[c].name));
            x->taken[c] = true;
        }
    return OT_OK;
}

/* Columns of images go to the inputs that take images, in order; to the only input too where it is flat and nothing else is
 * left for it. */
static void spread_images(chooser *x)
{
    bool alone = x->n == 1;
    for (int i = 0; i < x->t->columns; i++) alone &= x->taken[i] || x->without[i] || !usable(&x->t->column[i]);
    for (int i = 0; i < x->t->columns; i++) {
        group *g = NULL;
        if (x->taken[i] || x->without[i] || x->t->column[i].kind != OT_KIND_IMAGE) continue;
        for (int k = 0; k < x->n && !g; k++)
            if (!x->g[k].n && (alone || ot_table_takes_images(x->t, x->g[k].of))) g = &x->g[k];
        if (!g) return;
        g->column[g->n++] = i;
        x->taken[i] = true;
    }
}

static bool all_images(const chooser *x)
{
    bool all = x->n > 0;
    for (int i = 0; i < x->n; i++) all &= x->g[i].n == 1 && x->t->column[x->g[i].column[0]].kind == OT_KIND_IMAGE;
    return all;
}

/* What is left goes to the one input that has nothing; of two, numbers to floats and categories to integers. */
static void spread_rest(chooser *x)
{
    group *open[2] = { NULL };
    int n = 0;
    for (int i = 0; i < x->n; i++)
        if (!x->g[i].n && n++ < 2) open[n - 1] = &x->g[i];
    bool split = n == 2 && ot_is_float(open[0]->of->dtype) != ot_is_float(open[1]->of->dtype);
    if (n != 1 && !split) return;
    const int *order = x->t->order;
    for (int k = 0; k < (order ? x->t->n_order : x->t->columns); k++) {
        int i = order ? order[k] : k;
        const ot_column *q = &x->t->column[i];
        if (x->taken[i] || x->without[i] || !usable(q)) continue;
        bool number = q->kind != OT_KIND_CATEGORY;
        group *g = n == 1 ? open[0] : ot_is_float(open[0]->of->dtype) == number ? open[0] : open[1];
        g->column[g->n++] = i;
        x->taken[i] = true;
    }
}

/* Is it a date in another form than ISO 8601: 31.12.2023, 12/31/23? */
static bool is_other_date(const char *s)
{
    static const char digit[] = "0123456789";
    size_t day = strspn(s, digit), month = day && s[day] ? strspn(s + day + 1, digit) : 0;
    const char *year = s + day + 1 + month + 1;
    if (day < 1 || day > 2 || !strchr("./-", s[day]) || month < 1 || month > 2 || s[day + 1 + month] != s[day])
        return false;
    size_t n = strspn(year, digit);
    return (n == 2 || n == 4) && (!year[n] || year[n] == ' ');
}

static ot_status tell_dates(const chooser *x)
{
    for (int i = 0; i < x->t->columns; i++) {
        const ot_column *q = &x->t->column[i];
        bool text = q->kind == OT_KIND_CATEGORY || q->kind == OT_KIND_LABEL;
        if (text && q->undated.text && is_other_date(q->undated.text))
            OT_TRY(ot_dataset_tell(x->d, x->err, "%s: column '%s' has '%s'; dates are read in the form 2023-12-31 only",
                                   x->t->path, q->name, q->undated.text));
    }
    return OT_OK;
}

/* Names of columns that nothing uses. */
static ot_status tell_unused(const chooser *x)
{
    ot_columns *t = x->t;
    const char **name[2] = { ot_arena_alloc(x->d->arena, sizeof **name * (size_t)t->columns),
                             ot_arena_alloc(x->d->arena, sizeof **name * (size_t)t->columns) };
    int n[2] = { 0 };
    bool tokens = ot_windows_input(&t->options) != NULL; /* the model reads class numbers of so many tokens */
    if (!name[0] || !name[1]) return ot_table_no_memory(t, x->err);
    for (int i = 0; i < t->columns; i++) {
        bool label = !usable(&t->column[i]);
        if (!x->taken[i] && !(x->without[i] && label)) name[label][n[label]++] = t->column[i].name;
    }
    for (int k = 0; k < 2; k++) {
        const char *all = ot_arena_names(x->d->arena, name[k], n[k]);
        if (!all) return ot_table_no_memory(t, x->err);
        if (n[k])
            OT_TRY(ot_dataset_tell(x->d, x->err, "%s: column%s %s %s not used%s", t->path, n[k] > 1 ? "s" : "", all,
                                   n[k] > 1 ? "are" : "is",
                                   !k           ? ""
                                   : x->t->text ? ": identifiers, free text or nothing but missing values (change with "
                                                  "--inputs COLUMN, or A,B for two columns of text)"
                                   : tokens     ? ": identifiers, free text or nothing but missing values (change with "
                                                  "--inputs); a column of text becomes tokens with --tokenizer PATH or "
                                                  "--text bytes"
                                                : ": identifiers, free text or nothing but missing values (change with "
                                                  "--inputs)"));
    }
    return tell_dates(x);
}

static ot_status no_group(const chooser *x)
{
    const ot_columns *t = x->t;
    bool texts = !t->options.n_inputs || ot_windows_input(&t->options);
    const char *hint = texts ? "; a column of text becomes tokens with --tokenizer PATH or --text bytes" : "";
    if (x->n == 1)
        return ot_fail(
            x->err, OT_E_DATA,
            "%s: no column can be an input: column '%s' is the target, others are identifiers, free text or have no "
            "values; choose with --inputs and --target (for an autoencoder, name its columns in both)%s",
            t->path, x->d->column ? x->d->column : "", hint);
    ot_fail(x->err, OT_E_DATA,
            "%s: which columns go to which input? Inputs that are named like a column get that column; others need "
            "--inputs 'INPUT=COLUMN,COLUMN;INPUT=COLUMN'%s. Inputs without columns:",
            t->path, hint);
    for (int i = 0; i < x->n; i++)
        if (!x->g[i].n) ot_fail_more(x->err, OT_E_DATA, "  %s", x->g[i].of->name);
    ot_fail_more(x->err, OT_E_DATA, "columns:");
    for (int i = 0; i < t->columns && i < OT_TABLE_MOST_NAMES; i++)
        ot_fail_more(x->err, OT_E_DATA, "  %s (%s)", t->column[i].name, ot_kind_name[t->column[i].kind]);
    return ot_table_list_rest(t->columns, x->err);
}

/* ---- forms ------------------------------------------------------------------------------------- */

static int wide(const ot_column *q)
{
    switch (q->kind) {
    case OT_KIND_CATEGORY:
    case OT_KIND_LABEL: return q->words.n + (ot_column_missing(q) > 0);
    case OT_KIND_DATE: return OT_DATE_PARTS;
    case OT_KIND_TIME: return OT_TIME_PARTS;
    default: return 1;
    }
}

static ot_status wrong_width(const chooser *x, const group *g, int64_t want, int64_t natural)
{
    const ot_columns *t = x->t;
    ot_error *err = x->err;
    char shape[128], other[100] = "";
    if (natural != g->n && ot_is_float(g->of->dtype))
        snprintf(other, sizeof other, " with one element per category (one-hot), or %d with one element per column",
                 g->n);
    ot_fail(err, OT_E_DATA, "%s: input '%s' is %s, %lld elements per row, but its %d column%s %lld%s:", t->path,
            g->of->name, ot_shape_text(&g->of->shape, shape), (long long)want, g->n, g->n == 1 ? " has" : "s have",
            (long long)natural, other);
    for (int i = 0; i < g->n && i < OT_TABLE_MOST_NAMES; i++) {
        const ot_column *q = &t->column[g->column[i]];
        ot_fail_more(err, OT_E_DATA, "  %s: %s, %d", q->name, ot_kind_name[q->kind],
                     ot_is_float(g->of->dtype) ? wide(q) : 1);
    }
    ot_table_list_rest(g->n, err);
    if (x->d->rule)
        ot_fail_more(err, OT_E_DATA, "column '%s', %s, is the target (change with --target)", x->d->column, x->d->rule);
    return ot_fail_more(err, OT_E_DATA, "choose columns with --inputs, or make a model for that many%s",
                        ot_row_windows_hint(g->of, shape));
}

static ot_status check_column(const ot_columns *t, const ot_column *q, bool text, ot_error *err)
{
    if (q->kind == OT_KIND_EMPTY && !text)
        return ot_fail(err, OT_E_DATA, "%s: column '%s' has no values", t->path, q->name);
    if (q->kind == OT_KIND_LABEL && q->words.full && !text)
        return ot_fail(err, OT_E_DATA, "%s: column '%s' has more than %d different strings: too many for categories",
                       t->path, q->name, q->words.n);
    return q->kind == OT_KIND_CATEGORY && !q->named && !text ? ot_table_check_stray(t, q, true, err) : OT_OK;
}

/* Whether numbers for that input are standardised: not where the model fills in missing values of it, and by default not where the
 * model scales it itself. */
static bool is_scaled(const ot_columns *t, const ot_data_input *in)
{
    const char *how = t->options.normalize;
    return !in->gaps && (how ? !strcmp(how, "mean,std") : t->mapped && !in->scales);
}

/* The form of column q in an input; ids: one element per column. */
static ot_column_field field_of(ot_column *q, int column, const ot_data_input *in, bool ids, bool scaled)
{
    ot_column_field f = { .column = column, .name = q->name, .kind = q->kind, .width = 1, .words = &q->words };
    bool number = ot_is_float(in->dtype) || in->dtype == OT_UNDEFINED;
    if (f.kind == OT_KIND_LABEL) f.kind = OT_KIND_CATEGORY;
    f.own = f.kind == OT_KIND_CATEGORY && ot_column_missing(q) > 0;
    if (in->dtype == OT_STRING) {
        f.form = OT_FORM_TEXT;
    } else if (f.kind == OT_KIND_CATEGORY) {
        f.form = number && !ids ? OT_FORM_ONE_HOT : OT_FORM_ID;
        if (f.form == OT_FORM_ONE_HOT) f.width = wide(q);
    } else if (!ids && number && (f.kind == OT_KIND_DATE || f.kind == OT_KIND_TIME)) {
        f.form = OT_FORM_PARTS;
        f.width = wide(q);
    } else {
        f.form = OT_FORM_VALUE;
        f.scaled = number && scaled && f.kind != OT_KIND_BOOLEAN;
    }
    f.scaled = f.scaled || (f.form == OT_FORM_PARTS && scaled);
    f.measured = f.form != OT_FORM_VALUE && f.form != OT_FORM_PARTS;
    return f;
}

int64_t ot_table_elements(const ot_data_input *in)
{
    int64_t n = 1;
    if (in->shape.rank < 0) return -1;
    for (int i = 1; i < in->shape.rank; i++)
        if (in->shape.dim[i] < 0 || !ot_mul(n, in->shape.dim[i], &n)) return -1;
    return n;
}

ot_shape ot_table_sample(const ot_data_input *in, int64_t n)
{
    ot_shape s = { 1, { n } };
    if (in->shape.rank < 1 || ot_table_elements(in) != n) return s;
    s.rank = in->shape.rank - 1;
    memcpy(s.dim, in->shape.dim + 1, (size_t)s.rank * sizeof *s.dim);
    return s;
}

static ot_status make_input(const chooser *x, const group *g, ot_table_input *in)
{
    ot_columns *t = x->t;
    bool number = ot_is_float(g->of->dtype) || g->of->dtype == OT_UNDEFINED, text = g->of->dtype == OT_STRING;
    bool plain = !t->mapped && x->n == 1 && !t->options.columns;
    int64_t want = ot_table_elements(g->of), natural = 0;
    for (int i = 0; i < g->n; i++) {
        const ot_column *q = &t->column[g->column[i]];
        if (q->kind == OT_KIND_IMAGE && g->n == 1)
            return ot_table_image_input(x->d, t, g->column[i], g->of, x->n == 1, in, x->err);
        if (q->kind == OT_KIND_IMAGE)
            return ot_fail(x->err, OT_E_DATA,
                           "%s: column '%s' has names of images: an input takes one such column and no others "
                           "(--inputs)",
                           t->path, q->name);
        OT_TRY(check_column(t, q, text, x->err));
        natural += number ? wide(q) : 1;
    }
    bool ids = !number || (want == g->n && want != natural);
    *in = (ot_table_input){ .name = x->n > 1 || !plain ? g->of->name : "",
                            .of = g->of->name,
                            .dtype = number || plain ? OT_F32
                                     : text          ? OT_STRING
                                                     : OT_I64,
                            .gaps = g->of->gaps && number,
                            .scales = g->of->scales && number,
                            .n = g->n };
    if (want >= 0 && want != natural && want != g->n && !plain) return wrong_width(x, g, want, natural);
    if (!ids && natural > INT32_MAX / 8) return wrong_width(x, g, want, natural);
    in->shape = plain ? (ot_shape){ 1, { g->n } } : ot_table_sample(g->of, ids ? g->n : natural);
    in->field = ot_arena_alloc(x->d->arena, sizeof *in->field * (size_t)(g->n + 1));
    if (!in->field) return ot_table_no_memory(t, x->err);
    for (int i = 0, at = 0; i < g->n; i++) {
        ot_column *q = &t->column[g->column[i]];
        ot_data_input as = *g->of;
        if (plain) as.dtype = OT_F32;
        ot_column_field *f = &in->field[i];
        *f = field_of(q, g->column[i], &as, ids, !q->passed && is_scaled(t, g->of));
        f->at = at;
        at += f->width;
        bool lacks = f->scaled || (ot_column_missing(q) > 0 && !in->gaps);
        if (!lacks || in->dtype != OT_F32) f->measured = true;
        if (f->measured)
            for (int k = 0; k < f->width && k < OT_TIME_PARTS; k++) f->std[k] = 1;
        /* A whole number that is not below 0 is its own id. */
        bool id = in->dtype == OT_I64 && f->form == OT_FORM_VALUE && f->kind != OT_KIND_BOOLEAN;
        if (id && (ot_column_missing(q) || q->exact < t->rows))
            return ot_fail(x->err, OT_E_DATA,
                           "%s: column '%s' for input '%s' (%s) has %s; expected whole numbers or categories", t->path,
                           q->name, g->of->name, ot_dtype_name(g->of->dtype),
                           ot_column_missing(q) ? "missing values" : "other values than whole numbers");
        t->pending = t->pending || !f->measured;
    }
    return OT_OK;
}

/* The first input column that is more than numbers; NULL: there is none.  gaps: missing values are the model's. */
static const ot_column *mapped_column(const ot_columns *t, const bool *others, bool gaps)
{
    for (int i = 0; i < t->columns; i++) {
        const ot_column *q = &t->column[i];
        bool number = q->kind == OT_KIND_NUMBER || q->counted == t->rows;
        if (!others[i] && q->kind != OT_KIND_IMAGE && (!number || (ot_column_missing(q) && !gaps))) return q;
    }
    return NULL;
}

static ot_status check_alone(const chooser *x, const bool *others)
{
    const ot_columns *t = x->t;
    ot_error *err = x->err;
    bool gaps = true;
    for (int i = 0; i < x->n; i++) gaps &= x->g[i].of->gaps || !ot_is_float(x->g[i].of->dtype);
    const ot_column *q = t->options.alone && !t->options.columns ? mapped_column(t, others, gaps) : NULL;
    if (!q) return OT_OK;
    int64_t line = q->odd.line ? q->odd.line : q->lost.line ? q->lost.line : q->none.line;
    char where[64] = "";
    if (line) snprintf(where, sizeof where, "line %lld, ", (long long)line);
    if (t->order)
        return ot_fail(err, OT_E_DATA, "%s: %scolumn '%s' %s; the model was trained with a number in each row", t->path,
                       where, q->name, ot_column_missing(q) ? "has missing values" : "does not contain numbers");
    return ot_fail(
        err, OT_E_DATA,
        "%s: %scolumn '%s' %s, and the model does not record how that is handled (a model that was trained on "
        "such a table does); --inputs auto measures means and categories on this file",
        t->path, where, q->name, ot_column_missing(q) ? "has missing values" : "does not contain numbers");
}

ot_status ot_table_name_twice(const ot_columns *t, const char **name, ot_error *err)
{
    ot_words seen = { 0 };
    ot_arena *a = ot_arena_new();
    ot_status s = a ? OT_OK : ot_table_no_memory(t, err);
    *name = NULL;
    for (int i = 0; i < t->columns && !s && !*name; i++)
        if (ot_words_find(&seen, t->column[i].name) >= 0) *name = t->column[i].name;
        else s = ot_words_add(&seen, t->column[i].name, OT_MOST_COLUMNS, a, t->path, err);
    ot_words_free(&seen);
    ot_arena_free(a);
    return s;
}

static ot_status check_names(const ot_columns *t, ot_error *err)
{
    const char *name;
    OT_TRY(ot_table_name_twice(t, &name, err));
    return name ? ot_fail(err, OT_E_DATA, "%s: two columns are named '%s'", t->path, name) : OT_OK;
}

/* --inputs says more than that the columns are chosen again. */
static bool given(const ot_columns *t) { return t->options.columns && strcmp(t->options.columns, "auto"); }

static ot_status choose(chooser *x)
{
    ot_columns *t = x->t;
    bool all = true;
    for (int k = 0; k < t->n_targets; k++)
        for (int i = 0; i < t->wanted[k].n; i++)
            x->taken[t->wanted[k].column[i]] = !ot_row_windows_reads_target(t, &t->wanted[k]);
    if (t->split_column >= 0) x->taken[t->split_column] = true;
    if (t->group_column >= 0) x->taken[t->group_column] = true;
    for (int i = 0; t->text && i < t->columns; i++) x->taken[i] = x->taken[i] || ot_texts_has(t->text, i);
    bool *others = ot_arena_copy(x->d->arena, x->taken, (size_t)t->columns); /* that are no inputs */
    if (!others) return ot_table_no_memory(t, x->err);
    for (int i = 0; i < t->columns; i++) others[i] = others[i] || (t->ordered && !t->ordered[i]);
    if (given(t) && x->n) OT_TRY(given_groups(x, t->options.columns));
    for (int i = 0; i < x->n && x->n > 1; i++) {
        const char *name = x->g[i].of->name;
        int c = x->g[i].n ? -1 : ot_column_find(t, name), n = 1;
        if (c < 0 && !x->g[i].n) n = ot_table_columns_of_list(t, name, strlen(name), &c);
        for (int k = c; c >= 0 && k < c + n; k++) {
            if (x->taken[k] || x->without[k]) continue;
            x->g[i].column[x->g[i].n++] = k;
            x->taken[k] = true;
        }
    }
    spread_images(x);
    if (all_images(x)) t->mapped = t->scaled = false;
    else if (x->n) OT_TRY(check_alone(x, others));
    spread_rest(x);
    for (int i = 0; i < x->n; i++) all = all && x->g[i].n;
    if (!all && !t->mapped && !t->options.columns && x->n > 1) { /* ot_adapt_inputs says what the inputs need */
        x->g[0] = (group){ .of = &ot_table_any_input, .column = x->g[0].column };
        x->n = 1;
        memset(x->taken, 0, (size_t)t->columns);
        return choose(x);
    }
    if (!all) return no_group(x);
    t->n_inputs = x->n;
    t->input = ot_arena_alloc(x->d->arena, sizeof *t->input * (size_t)x->n);
    if (!t->input) return ot_table_no_memory(t, x->err);
    if (t->mapped || t->scaled || x->n > 1 || t->options.columns)
        OT_TRY(check_names(t, x->err)); /* their names are recorded */
    for (int i = 0; i < x->n; i++) OT_TRY(make_input(x, &x->g[i], &t->input[i]));
    return tell_unused(x);
}

const ot_data_input ot_table_any_input = { .name = "", .dtype = OT_F32, .shape = { .rank = -1 } };

ot_status ot_table_choose_inputs(ot_dataset *d, ot_columns *t, ot_error *err)
{
    const ot_data_options *o = &t->options;
    ot_arena *a = d->arena;
    int n = o->n_inputs ? o->n_inputs : !t->text;
    chooser x = { d,
                  t,
                  ot_arena_alloc(a, sizeof *x.g * (size_t)n),
                  n,
                  ot_arena_alloc(a, (size_t)t->columns),
                  ot_arena_alloc(a, (size_t)t->columns),
                  err };
    if (!x.g || !x.taken || !x.without) return ot_table_no_memory(t, err);
    for (int i = 0; i < n; i++) {
        x.g[i].of = o->n_inputs ? &o->input[i] : &ot_table_any_input;
        x.g[i].column = ot_arena_alloc(a, sizeof(int) * (size_t)t->columns);
        if (!x.g[i].column) return ot_table_no_memory(t, err);
    }
    t->pending = false;
    t->scaled = true;
    for (int i = 0; i < n; i++) t->scaled &= is_scaled(t, x.g[i].of);
    return choose(&x);
}
