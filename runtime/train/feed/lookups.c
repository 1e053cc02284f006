/* lookups.c - numbers of tokens and categories, checked before the first step, or where they are too many batch by batch.
 *
 * An input that a Gather looks up in a table (an embedding) must hold numbers of its rows.  The kernel finds a wrong one
 * too, but in the middle of an epoch, and it knows no samples. */

#include <string.h>

#include "ops/op.h"
#include "runtime/train/feed/bind_inputs.h"

/* The graph input whose elements v has, in any shape and type; NULL: v is computed. */
static const ot_value *origin(const ot_value *v)
{
    while (v && v->producer) {
        if (!(v->producer->op->flags & OT_SAME) || !v->producer->n_in) return NULL;
        v = v->producer->in[0];
    }
    return v && v->role == OT_INPUT ? v : NULL;
}

/* Number of rows of the table of lookup n; -1: unknown. */
static int64_t rows_of(const ot_node *n)
{
    const ot_value *table = n->in[0];
    int64_t given = 0;
    int axis;
    for (const ot_attr *a = n->op->attrs; a && a->name; a++)
        if (!strcmp(a->name, "axis")) memcpy(&given, (const char *)n->attrs + a->offset, sizeof given);
    if (!table || table->shape.rank < 1 || !ot_axis(given, table->shape.rank, &axis)) return -1;
    return table->shape.dim[axis];
}

static ot_feeder *fed_with(const ot_feeders *fs, const ot_value *input)
{
    for (int i = 0; i < fs->n; i++)
        if (!strcmp(fs->f[i].name, input->name)) return &fs->f[i];
    return NULL;
}

/* Sets the range that batches are checked for; of several tables the smallest. */
static ot_status check_later(const ot_adapt_env *e, ot_feeder *f, const ot_node *n, int64_t rows, ot_error *err)
{
    if (f->range.why && f->range.most < rows) return OT_OK;
    f->range = (ot_range){ .least = -rows, .most = rows - 1, .except = 0 };
    f->range.why = ot_arena_printf(e->a, "%s looks it up in a table of %lld rows, valid are 0 to %lld", n->name,
                                   (long long)rows, (long long)rows - 1);
    return f->range.why ? OT_OK : ot_fail_more(err, OT_E_NOMEM, "no memory to prepare the data");
}

static ot_status check_rows(const ot_adapt_env *e, const ot_dataset *d, ot_feeder *f, const ot_node *n, int64_t rows,
                            ot_error *err)
{
    const ot_tensor *t = &f->src->t;
    int64_t all = 1;
    if (f->src->mapped && !f->src->same) return check_later(e, f, n, rows, err);
    for (int i = f->src->same; i < t->rank; i++) all *= t->dim[i];
    for (int64_t i = 0; i < all; i++) {
        int64_t v = ot_get_i64(t->data, t->dtype, ot_array_at(f->src, i));
        if (v >= -rows && v < rows) continue;
        int64_t each = f->whole || f->src->same ? 1 : all / t->dim[0];
        const char *column = f->whole ? NULL : ot_dataset_number_column(d, f->src, i % each);
        return ot_fail_more(
            err, OT_E_DATA,
            "%s%s%s: %s %lld has index %lld; %s looks it up in a table of %lld rows, valid are 0 to %lld%s%s%s",
            *t->name ? "array '" : "the array", t->name, *t->name ? "'" : "", f->whole ? "element" : "sample",
            (long long)(i / each), (long long)v, n->name, (long long)rows, (long long)rows - 1,
            column ? " (--categories " : "", column ? column : "",
            column ? " numbers the values of the column from 0)" : "");
    }
    return OT_OK;
}

int64_t ot_adapt_rows(const ot_graph *g, const ot_value *input)
{
    int64_t least = 0;
    for (const ot_node *n = g->first; n; n = n->next) {
        int64_t rows = n->op == &ot_op_Gather && n->n_in > 1 && origin(n->in[1]) == input ? rows_of(n) : -1;
        if (rows > 0 && (!least || rows < least)) least = rows;
    }
    return least;
}

ot_status ot_adapt_lookups(const ot_adapt_env *e, ot_feeders *fs, ot_error *err)
{
    ot_error found = { 0 };
    for (const ot_node *n = e->graph->first; n; n = n->next) {
        if (n->op != &ot_op_Gather || n->n_in < 2) continue;
        const ot_value *input = origin(n->in[1]);
        ot_feeder *f = input ? fed_with(fs, input) : NULL;
        int64_t rows = f ? rows_of(n) : -1;
        if (rows >= 0 && (ot_is_int(f->src->t.dtype) || ot_is_float(f->src->t.dtype)))
            check_rows(e, fs->data, f, n, rows, &found);
    }
    return found.status ? ot_fail(err, found.status, "%s: %-s", fs->data->name, found.text) : OT_OK;
}

static ot_status out_of_range(const ot_feeders *fs, const ot_feeder *f, int64_t at, ot_error *err)
{
    const ot_array *a = f->src;
    int64_t token = ot_dataset_token(fs->data, a, at);
    double v = ot_get_f64(a->t.data, a->t.dtype, ot_array_at(a, at));
    if (token < 0) {
        int64_t each = 1;
        for (int k = 1; k < a->t.rank; k++) each *= a->t.dim[k];
        return ot_fail(err, OT_E_DATA, "%s: '%s': sample %lld contains %.15g; %s", fs->data->name, a->t.name,
                       (long long)ot_dataset_origin(fs->data, at / each), v, f->range.why);
    }
    return ot_fail(err, OT_E_DATA, "%s: token %lld is %.15g; %s", fs->data->name, (long long)token, v, f->range.why);
}

/* Values of a mapped array, which nothing has read before. */
static ot_status check_samples(const ot_feeders *fs, const ot_feeder *f, const int64_t *index, int64_t n, ot_error *err)
{
    ot_error bad = { 0 };
    if (!f->src->mapped || f->src->source || fs->data->windows || f->whole) return OT_OK;
    ot_array_fetch(f->src, index, n);
    for (int64_t i = 0; i < n; i++)
        if (ot_array_check_sample(f->src, index[i], ot_dataset_origin(fs->data, index[i]), f->dtype, &bad))
            return ot_fail(err, bad.status, "%s: %s", fs->data->name, bad.text);
    return OT_OK;
}

ot_status ot_feeders_check(const ot_feeders *fs, const int64_t *index, int64_t n, ot_error *err)
{
    int64_t at;
    if (!fs->data || !index) return OT_OK;
    OT_TRY(ot_dataset_intact(fs->data, err));
    for (int i = 0; i < fs->n; i++) {
        const ot_feeder *f = &fs->f[i];
        const ot_range *r = &f->range;
        OT_TRY(check_samples(fs, f, index, n, err));
        if (r->why && !f->whole && !f->mask && !ot_array_within(f->src, index, n, r->least, r->most, r->except, &at))
            return out_of_range(fs, f, at, err);
    }
    return OT_OK;
}
