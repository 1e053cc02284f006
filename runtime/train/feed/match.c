/* match.c - chooses the array of an input (names, --inputs), and the order of its axes (channels, --permute). */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "runtime/train/feed/match.h"
#include "runtime/train/feed/preprocess.h"

enum { SHOWN = 12 };

/* ---- --inputs INPUT=ARRAY;INPUT=ARRAY --------------------------------------------- */

/* --inputs, unless it is for a table, where it names columns and is used when the table is read. */
static const char *wish(const ot_adapt_env *e, const ot_dataset *d)
{
    const char *text = d->table || d->windows ? NULL : e->s->columns;
    return text && strcmp(text, "auto") ? text : NULL;
}

/* The array of one INPUT=ARRAY, if INPUT is v's name; names may contain '='.  NULL: it is for another input. */
static const ot_array *named_by(const char *pair, size_t n, const ot_dataset *d, const char *input)
{
    size_t k = strlen(input);
    if (n < k + 2 || memcmp(pair, input, k) || pair[k] != '=') return NULL;
    for (int i = 0; i < d->n; i++) {
        const char *name = d->array[i].t.name;
        if (strlen(name) == n - k - 1 && !memcmp(name, pair + k + 1, n - k - 1)) return &d->array[i];
    }
    return NULL;
}

static const ot_array *wished(const ot_adapt_env *e, const ot_dataset *d, const char *input)
{
    const char *p = wish(e, d);
    while (p && *p) {
        size_t n = strcspn(p, ";");
        const ot_array *a = named_by(p, n, d, input);
        if (a) return a;
        p += n + (p[n] == ';');
    }
    return NULL;
}

static bool is_name(const char *text, const char *end, const char *name)
{
    return *name && strlen(name) == (size_t)(end - text) && !memcmp(text, name, strlen(name));
}

ot_status ot_match_check(const ot_adapt_env *e, const ot_dataset *d, ot_error *err)
{
    const ot_graph *g = e->graph;
    for (int i = 0; i < e->s->n_permute && !e->beside; i++) {
        const char *text = e->s->permute[i], *end = strrchr(text, '=');
        bool found = !end, images = false;
        for (int k = 0; k < g->n_inputs && end; k++) found |= is_name(text, end, g->inputs[k]->name);
        for (int k = 0; k < d->n; k++) {
            found |= end && is_name(text, end, d->array[k].t.name);
            images |= d->array[k].picture || d->array[k].source;
        }
        if (!found || images)
            return ot_fail(err, OT_E_USAGE,
                           images ? "--permute %s: the images of %s are arranged automatically; remove the option"
                                  : "--permute %s: expected NAME=AXES, an input of the model or an array of %s",
                           text, d->name);
    }
    for (const char *p = wish(e, d); p && *p;) {
        size_t n = strcspn(p, ";");
        bool found = false;
        for (int i = 0; i < g->n_inputs && !found; i++) found = named_by(p, n, d, g->inputs[i]->name) != NULL;
        if (!found && !e->beside)
            return ot_fail(err, OT_E_USAGE,
                           "--inputs %.*s: for arrays expected INPUT=ARRAY, an input of the model and an array of %s",
                           (int)n, p, d->name);
        p += n + (p[n] == ';');
    }
    return OT_OK;
}

/* ---- names -------------------------------------------------------------------------- */

static ot_shape shape_of(const ot_array *a) { return ot_array_shape(a); }

static bool is_taken(const ot_graph *g, const ot_array *a)
{
    bool taken = a->role != OT_ARRAY_INPUT;
    for (int k = 0; k < g->n_inputs && !taken; k++) taken = !strcmp(g->inputs[k]->name, a->t.name);
    return taken;
}

/* The array for an input of the file's training algorithm: by name, as its target, or the only target where it is the only one. */
static const ot_array *target_for(const ot_adapt_env *e, const ot_dataset *d, const ot_value *v)
{
    const ot_array *only = NULL;
    int n = 0, open = 0;
    for (int i = 0; i < d->n; i++) {
        const ot_array *a = &d->array[i];
        bool prefixed = !strncmp(a->t.name, "target_", 7);
        if (!strcmp(a->t.name, v->name) || (prefixed && !strcmp(a->t.name + 7, v->name))) return a;
        if (a->role == OT_ARRAY_TARGET) only = a, n++;
    }
    for (int i = e->model_inputs; i < e->graph->n_inputs; i++)
        open += ot_input_is_fed(e->graph, e->graph->inputs[i]) && !ot_dataset_find(d, e->graph->inputs[i]->name);
    if (n != 1 || open != 1) return NULL;
    ot_adapt_note(e, "the target is used as input '%s' of the file's training algorithm", v->name);
    return only;
}

const ot_array *ot_match_array(const ot_adapt_env *e, const ot_dataset *d, const ot_value *v, int needed, bool target,
                               bool *named)
{
    const ot_array *only = wished(e, d, v->name), *other = NULL, *images = NULL;
    int n = 0, others = 0, n_images = 0;
    *named = true;
    if (only) return only;
    if (target) {
        *named = false;
        return target_for(e, d, v);
    }
    for (int i = 0; i < d->n; i++) {
        const ot_array *a = &d->array[i];
        if (!strcmp(a->t.name, v->name)) return a;
        bool input = a->role == OT_ARRAY_INPUT || !*a->t.name; /* images without a name are an input, if a target too */
        if (input && !*a->t.name) only = a, n++;
        if (input && *a->t.name) other = a, others++;
        if (input && a->source) images = a, n_images++;
    }
    if (n_images == 1) other = images, others = 1; /* what is beside images describes them */
    if (others == 1 && n == 0 && needed == 1 && !e->as_is && !d->table) {
        ot_adapt_note(e, "array '%s' is fed to input '%s', the only one (change with --inputs)", other->t.name,
                      v->name);
        return other;
    }
    *named = false;
    return n == 1 && needed == 1 ? only : NULL;
}

/* "'x' float32 [40,4], 'y' int64 [40]" */
static const char *arrays_text(const ot_dataset *d, ot_arena *a)
{
    const char *s = "";
    char shape[128];
    for (int i = 0; i < d->n && s; i++) {
        const ot_array *x = &d->array[i];
        ot_shape have = shape_of(x);
        if (i == SHOWN) {
            s = ot_arena_printf(a, "%s and %d more", s, d->n - i);
            break;
        }
        s = ot_arena_printf(a, "%s%s'%s' %s %s", s, i ? ", " : "", *x->t.name ? x->t.name : "(without a name)",
                            ot_dtype_name(x->t.dtype), ot_shape_text(&have, shape));
    }
    return s && *s ? s : "none";
}

/* The only array of v's shape that does not have the name of an input; NULL: none, or several. */
static const ot_array *by_shape(const ot_graph *g, const ot_dataset *d, const ot_value *v)
{
    const ot_array *only = NULL;
    int n = 0;
    for (int i = 0; i < d->n; i++) {
        const ot_array *a = &d->array[i];
        ot_shape have = shape_of(a);
        if (!is_taken(g, a) && *a->t.name && v->shape.rank > 0 && ot_shape_agrees(&v->shape, &have, 1)) only = a, n++;
    }
    return n == 1 ? only : NULL;
}

ot_status ot_match_failed(const ot_adapt_env *e, const ot_dataset *d, const ot_value *v, ot_error *err)
{
    char shape[128];
    const ot_array *like = by_shape(e->graph, d, v);
    const char *name = like ? like->t.name : "ARRAY", *more = NULL;
    bool targets = false;
    for (int i = 0; i < d->n; i++) targets |= d->array[i].role == OT_ARRAY_TARGET;
    if (!d->table && d->n)
        more = ot_arena_printf(e->a, "; %s--inputs '%s=%s' feeds %s%s", like ? "" : "choose one: ", v->name, name,
                               like ? "the one of this shape" : "it",
                               targets || e->as_is ? "" : ", --target ARRAY says which one is the target");
    return ot_fail_more(err, OT_E_DATA, "input '%s' is %s %s: the data has no array of this name; its arrays are %s%s",
                        v->name, ot_dtype_name(v->dtype), ot_shape_text(&v->shape, shape), arrays_text(d, e->a),
                        more ? more : "");
}

/* ---- axes ----------------------------------------------------------------------------- */

/* Is the array rows of records with as many elements as a sample of v? */
static bool is_row_of(const ot_array *a, const ot_value *v)
{
    int64_t n = 1;
    if (!a->flat || a->t.rank != 2 || v->shape.rank < 3) return false;
    for (int i = 1; i < v->shape.rank; i++) {
        if (v->shape.dim[i] < 1 || n > a->t.dim[1]) return false;
        n *= v->shape.dim[i];
    }
    return n == a->t.dim[1];
}

/* Does the input take the array with its axes in that order? */
static bool fits_turned(const ot_value *v, const ot_array *a, const int *axis)
{
    ot_shape turned = { a->t.rank, { a->t.dim[0] } };
    for (int i = 1; i < a->t.rank; i++) turned.dim[i] = a->t.dim[axis[i]];
    return ot_shape_agrees(&v->shape, &turned, 1);
}

/* Array a with the shape that permutation `axis` converts to v's. */
static ot_array shaped_row(const ot_array *a, const ot_value *v, const int *axis)
{
    ot_array shaped = *a;
    shaped.t.rank = v->shape.rank;
    for (int i = 1; i < v->shape.rank; i++) shaped.t.dim[axis[i]] = v->shape.dim[i];
    return shaped;
}

/* The axes of --permute NAME=axes for array a or input v; *given false: there is none. */
static ot_status read_axes(const ot_adapt_env *e, const ot_value *v, const ot_array *a, int rank, int *axis,
                           bool *given, ot_error *err)
{
    *given = false;
    for (int i = 0; i < e->s->n_permute; i++) {
        const char *text = e->s->permute[i], *p = strrchr(text, '=');
        bool mine = !p || is_name(text, p, v->name) || is_name(text, p, a->t.name);
        if (!mine) continue;
        bool seen[OT_MAX_RANK] = { 0 }, good = true;
        int k = 0;
        for (p = p ? p + 1 : text; good; k++) {
            char *end;
            long at = strtol(p, &end, 10);
            good = end != p && at >= 0 && at < rank && k < rank && !seen[at];
            if (!good) break;
            seen[at] = true;
            axis[k] = (int)at;
            if (!*end) break;
            good = *end == ',';
            p = end + 1;
        }
        if (good && k + 1 == rank && axis[0] != 0)
            return ot_fail_more(
                err, OT_E_USAGE,
                "--permute %s: axis 0 of array '%s' counts the samples and stays first, such as 0,3,1,2; "
                "where another axis counts them, transpose the array with numpy.transpose",
                text, a->t.name);
        if (!good || k + 1 != rank)
            return ot_fail_more(
                err, OT_E_USAGE,
                "--permute %s: array '%s' has %d axes; expected each of them once, 0 (the samples) first, "
                "such as 0,3,1,2",
                text, a->t.name, rank);
        *given = true;
    }
    return OT_OK;
}

/* s if the permutation of sample axes is a rotation: axis[1..rank) is s, s+1, .., rank-1, 1, .., s-1; else 0. */
static int rotation(const int *axis, int rank)
{
    for (int i = 1; i < rank; i++)
        if (axis[i] != (axis[1] - 1 + i - 1) % (rank - 1) + 1) return 0;
    return axis[1];
}

/* Rotates the sample axes so that axis s is first: a transposition of a (front, back) matrix. */
static void turn(const ot_array *a, int s, ot_feeder *f)
{
    int64_t front = 1, back = 1;
    int r = a->t.rank;
    f->sample = (ot_shape){ .rank = r - 1 };
    for (int i = 0; i < r - 1; i++) f->sample.dim[i] = a->t.dim[(s - 1 + i) % (r - 1) + 1];
    for (int i = 1; i < r; i++) *(i < s ? &front : &back) *= a->t.dim[i];
    if (front > 1 && back > 1) memcpy(f->gather.permute, (int64_t[]){ front, 1, back }, sizeof f->gather.permute);
}

static bool may_be_channels(int64_t n) { return n == 1 || n == 3 || n == 4; }

/* The axis that must become the first if images have channels first and the input last, or vice versa; 0: no, or ambiguous. */
static int channels_of(const ot_value *v, const ot_array *a)
{
    const int64_t *d = a->t.dim, *want = v->shape.dim;
    if (v->shape.rank != 4 || a->t.rank != 4) return 0;
    ot_shape first = { 4, { d[0], d[3], d[1], d[2] } }, last = { 4, { d[0], d[2], d[3], d[1] } };
    bool to_first = may_be_channels(want[1]) && want[1] == d[3] && ot_shape_agrees(&v->shape, &first, 1);
    bool to_last = may_be_channels(want[3]) && want[3] == d[1] && ot_shape_agrees(&v->shape, &last, 1);
    return to_first == to_last ? 0 : to_first ? 3 : 2;
}

const char *ot_match_channels(const ot_value *v, const ot_array *a, char buf[300])
{
    int rank = a->t.rank;
    char axes[8 * OT_MAX_RANK] = "0";
    *buf = '\0';
    if (v->shape.rank != rank || rank < 3) return buf;
    for (int s = 2; s < rank; s++) {
        ot_shape turned = { rank, { a->t.dim[0] } };
        size_t at = 1;
        for (int i = 1; i < rank; i++) {
            int from = (s - 1 + i - 1) % (rank - 1) + 1;
            turned.dim[i] = a->t.dim[from];
            at += (size_t)snprintf(axes + at, sizeof axes - at, ",%d", from);
        }
        if (!ot_shape_agrees(&v->shape, &turned, 1)) continue;
        snprintf(buf, 300, "; %s? --permute '%.200s=%s' (as numpy.transpose) moves them",
                 rank == 3       ? "axes in another order"
                 : s + 1 == rank ? "channels last"
                                 : "channels first",
                 v->name, axes);
        return buf;
    }
    return buf;
}

const char *ot_match_row(const ot_value *v, const ot_array *a, char buf[300])
{
    const int64_t *d = v->shape.dim;
    bool first = v->shape.rank == 4 && (d[1] == 3 || d[1] == 4), last = v->shape.rank == 4 && (d[3] == 3 || d[3] == 4);
    *buf = '\0';
    if (a->t.dtype == OT_U8 && is_row_of(a, v) && first != last)
        snprintf(
            buf, 300, ", %s; if each %s: --permute '%.200s=%s'", first ? "channel after channel" : "pixel after pixel",
            first ? "pixel has its channels together" : "channel is a plane", v->name, first ? "0,3,1,2" : "0,2,3,1");
    return buf;
}

ot_status ot_match_axes(const ot_adapt_env *e, const ot_value *v, const ot_array *a, ot_feeder *f, bool *turned,
                        ot_error *err)
{
    int s = 0, *axis = f->axis;
    ot_shape have = shape_of(a);
    bool given, recorded = false, row = is_row_of(a, v);
    int rank = row ? v->shape.rank : a->t.rank;
    *turned = false;
    OT_TRY(read_axes(e, v, a, rank, axis, &given, err));
    if (!given) recorded = ot_preprocess_axes(e->preprocess, v->name, rank, axis) && (row || fits_turned(v, a, axis));
    given |= recorded;
    f->axes = given ? rank : 0;
    if (given && (rank < 3 || !(s = rotation(axis, rank))))
        return ot_fail_more(
            err, OT_E_USAGE,
            "--permute: of array '%s' only orders that rotate the axes of a sample are supported, such as "
            "0,3,1,2 and 0,2,3,1; transpose the array with numpy.transpose",
            a->t.name);
    if (given && s == 1) return OT_OK; /* as they are */
    if (!given && !ot_shape_agrees(&v->shape, &have, 1)) s = channels_of(v, a);
    if (!s) return OT_OK;
    ot_array shaped = given && row ? shaped_row(a, v, axis) : *a;
    turn(&shaped, s, f);
    char to[128];
    if (recorded)
        ot_adapt_note(
            e,
            "array '%s': the order of its axes is as the model's metadata say, each sample is %s (change with --permute)",
            a->t.name, ot_shape_text(&f->sample, to));
    if (!given)
        ot_adapt_note(e, "array '%s': channels are moved %s for input '%s', each sample is %s (change with --permute)",
                      a->t.name, s == 3 ? "first" : "last", v->name, ot_shape_text(&f->sample, to));
    *turned = true;
    return OT_OK;
}
