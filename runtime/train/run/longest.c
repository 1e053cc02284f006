/* longest.c - a model that cannot compute samples as long as those of the data: how long they may be.
 *
 * A model whose input leaves the length open has a limit all the same where it has a table of positions: the shapes of an addition
 * do not fit then, or an index is outside the table.  The limit is found by inferring the graph at other lengths. */
#include <string.h>

#include "runtime/train/run/session.h"

typedef struct search {
    const ot_graph *model;
    ot_config c;
    const ot_feed *data; /* as the samples are */
    ot_feed *feeds;      /* room for as many */
    int64_t length;
} search;

static const ot_value *input_of(const ot_graph *g, const ot_feed *f)
{
    for (int i = 0; i < g->n_inputs && !f->target; i++)
        if (!strcmp(g->inputs[i]->name, f->name) && g->inputs[i]->shape.rank == f->shape.rank) return g->inputs[i];
    return NULL;
}

/* Is axis 1 of this input the open length of a sequence?  Images have two such axes. */
static bool is_sequence(const ot_value *v, const ot_feed *f)
{
    return v && !f->whole && (v->shape.rank == 2 || v->shape.rank == 3) && v->shape.dim[1] < 0;
}

static bool fits(search *s, int64_t length)
{
    ot_plan *p;
    ot_error e = { 0 };
    for (int i = 0; i < s->c.n_feeds; i++) {
        ot_feed *f = &s->feeds[i];
        *f = s->data[i];
        const ot_value *v = input_of(s->model, f);
        for (int d = 1; v && d < f->shape.rank; d++) /* masks may have it twice */
            if (v->shape.dim[d] < 0 && f->shape.dim[d] == s->length) f->shape.dim[d] = length;
        f->sample = f->data = NULL;
        f->set = NULL;
    }
    if (ot_plan_infer(s->model, &s->c, &p, &e)) return false;
    ot_plan_free(p);
    return true;
}

/* 0: none was found. */
static int64_t longest(search *s)
{
    int64_t low = 0, high = s->length;
    for (int64_t n = 1; n < high; n *= 2)
        if (fits(s, n)) low = n;
        else if (low) high = n;
    while (low && high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (fits(s, middle)) low = middle;
        else high = middle;
    }
    return low;
}

ot_status ot_session_explain_length(const ot_session *x, const ot_config *c, ot_status failed, ot_error *err)
{
    search s = { .model = x->model->file->graph, .c = *c, .data = c->feeds };
    const char *name = NULL;
    s.feeds = ot_arena_alloc(x->a, sizeof *s.feeds * (size_t)(c->n_feeds + 1));
    if (!s.feeds) return failed;
    s.c.feeds = s.feeds;
    for (int i = 0; i < c->n_feeds; i++) {
        const ot_feed *f = &c->feeds[i];
        if (is_sequence(input_of(s.model, f), f) && f->shape.dim[1] > s.length)
            s.length = f->shape.dim[1], name = f->name;
    }
    int64_t most = name ? longest(&s) : 0;
    if (!most) return failed;
    return ot_fail_more(err, failed,
                        "input '%s': the longest sample that the model computes has length %lld, but those of the data "
                        "have %lld; use --length %lld (text, recordings, windows of a table), or shorter arrays",
                        name, (long long)most, (long long)s.length, (long long)most);
}
