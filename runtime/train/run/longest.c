/* longest.c - a model that cannot compute samples as long as those of the data: how long they may be.
 *
 * A model whose input leaves the length open has a limit all the same where it has a table of positions: the shapes of an addition
 * do not fit then, or an index is outside the table.  Another, whose layer takes all places of a sample at once, computes few lengths
 * only, maybe longer ones.  They are found by inferring the graph at other lengths. */
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

/* The axis of this input that is the open length of a sequence, before or after its channels; 0: none.  Images have two such axes. */
static int sequence_axis(const ot_value *v, const ot_feed *f)
{
    if (!v || f->whole || v->shape.rank < 2 || v->shape.rank > 3) return 0;
    for (int d = 1; d < v->shape.rank; d++)
        if (v->shape.dim[d] < 0) return d;
    return 0;
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

/* The length nearest to that of the data that can be planned; 0: none was found within a second. */
static int64_t nearest(search *s)
{
    const double end = ot_seconds() + 1;
    for (int64_t far = 1; ot_seconds() < end; far++) {
        if (far < s->length && fits(s, s->length - far)) return s->length - far;
        if (fits(s, s->length + far)) return s->length + far;
    }
    return 0;
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
        int axis = sequence_axis(input_of(s.model, f), f);
        if (axis && f->shape.dim[axis] > s.length) s.length = f->shape.dim[axis], name = f->name;
    }
    if (!name || fits(&s, s.length)) return failed; /* for another reason */
    int64_t most = longest(&s), near = most ? 0 : nearest(&s);
    if (near)
        return ot_fail_more(err, failed,
                            "input '%s': the model does not compute samples of length %lld, as those of the data; the "
                            "nearest length that it computes is %lld",
                            name, (long long)s.length, (long long)near);
    if (!most) return failed;
    return ot_fail_more(err, failed,
                        "input '%s': the longest sample that the model computes has length %lld, but those of the data "
                        "have %lld; use --length %lld (text, recordings, windows of a table), or shorter arrays",
                        name, (long long)most, (long long)s.length, (long long)most);
}
