/* group.c - groups steps that run as one launch: the updates of all weights, the norms of all gradients.
 *
 * A step moves up behind an earlier one that its kernel can be grouped with, if everything it reads was computed
 * before the first step of the group: no call of a group waits for another.  It does not move over readers of a
 * state that it assigns, because the new value could then not replace the old one in place.  A step that computes a value
 * again does not move: it is late in order to save memory.
 *
 * A step of small operands whose results are needed late, as a bias's gradient is, first moves down to the next one that it can be
 * grouped with. */
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "runtime/passes/group.h"

/* How many steps after the first of a group are examined.  In a forward and backward run a step that moves up
 * lengthens the lifetime of its result, so only what is computed from weights alone (their casts) moves far. */
enum { REACH = 2048, REACH_OF_VALUES = 8 };

/* How far a step moves down, and the bytes of its operands at most: they live longer then. */
enum { REACH_DOWN = 16, SMALL_BYTES = 1 << 18 };

static bool of_weights(const ot_node *n)
{
    bool any = false;
    for (int i = 0; i < n->n_in; i++) {
        const ot_value *v = n->in[i];
        if (!v || v->producer) return false;
        any = any || v->role == OT_WEIGHT || v->role == OT_STATE;
    }
    return any;
}

/* Was everything that step u reads computed before step t?  node->mark: index among the steps, -1 in an earlier
 * phase. */
static bool is_ready(const ot_step *s, int t, int u)
{
    const ot_node *n = s[u].node;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->producer && n->in[i]->producer->mark >= t) return false;
    return true;
}

/* Does a step of t .. u-1 read a state that u assigns?  state: by value id, NULL. */
static bool passes_reader(const ot_step *s, int t, int u, ot_value *const *state)
{
    const ot_node *n = s[u].node;
    for (int k = 0; k < n->n_out; k++) {
        const ot_value *old = n->out[k] ? state[n->out[k]->id] : NULL;
        for (int j = t; j < u && old; j++)
            for (int i = 0; i < s[j].node->n_in; i++)
                if (s[j].node->in[i] == old) return true;
    }
    return false;
}

static void move_up(ot_step *s, int to, int from)
{
    ot_step moved = s[from];
    memmove(&s[to + 1], &s[to], (size_t)(from - to) * sizeof *s);
    s[to] = moved;
    for (int i = to; i <= from; i++) ((ot_node *)(uintptr_t)s[i].node)->mark = i;
}

/* ---- down -------------------------------------------------------------------------- */

static bool reads(const ot_node *n, const ot_node *maker)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->producer == maker) return true;
    return false;
}

static bool is_small(const ot_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && (!n->in[i]->producer || ot_value_bytes(n->in[i]) > SMALL_BYTES)) return false;
    return true;
}

/* Step t and the views of its results that follow it: they move together. */
static int with_views(const ot_step *s, int t, int n)
{
    int count = 1;
    while (t + count < n && s[t + count].node->op->flags & OT_ALIAS && reads(s[t + count].node, s[t].node)) count++;
    return count;
}

/* The next step that step t can be grouped with, not before what that one reads; -1: none that t, with its views, can wait for. */
static int partner_below(const ot_step *s, int t, int views, int n)
{
    const ot_node *m = s[t].node;
    for (int u = t + views; u < n && u <= t + REACH_DOWN; u++) {
        for (int k = t; k < t + views; k++)
            if (reads(s[u].node, s[k].node)) return -1;
        if (s[u].kernel == s[t].kernel && !s[u].node->again && s[t].kernel->many->joins(m, s[u].node))
            return is_ready(s, t, u) ? -1 : u;
    }
    return -1;
}

/* From the last to the first, so that those of a row meet at the last. */
static void move_down(ot_step *s, int n)
{
    for (int t = n - 1; t >= 0; t--) {
        if (!s[t].kernel->many || s[t].node->again || !is_small(s[t].node)) continue;
        int count = with_views(s, t, n), to = partner_below(s, t, count, n);
        if (to < 0) continue;
        for (int k = 0; k < count; k++) {
            ot_step moved = s[t];
            memmove(&s[t], &s[t + 1], (size_t)(to - 1 - t) * sizeof *s);
            s[to - 1] = moved;
        }
        for (int i = t; i < to; i++) ((ot_node *)(uintptr_t)s[i].node)->mark = i;
    }
}

/* ---- up ---------------------------------------------------------------------------- */

static void group_from(ot_step *s, int t, int n, ot_value *const *state)
{
    const ot_grouped *many = s[t].kernel->many;
    int count = 1;
    for (int u = t + 1; u < n && u < t + REACH; u++) {
        const ot_node *m = s[u].node;
        if (s[u].kernel != s[t].kernel || m->again || !is_ready(s, t, u)) continue;
        if (m->phase == OT_PHASE_BATCH && u >= t + count + REACH_OF_VALUES && !of_weights(m)) continue;
        if (!many->joins(s[t].node, m) || passes_reader(s, t, u, state)) continue;
        s[u].group = 0;
        move_up(s, t + count++, u);
    }
    s[t].group = count;
}

ot_status ot_group_steps(ot_plan *p)
{
    ot_graph *g = p->graph;
    ot_value **state = calloc((size_t)g->n_values + 1, sizeof *state);
    if (!state) return ot_fail(g->err, OT_E_NOMEM, "no memory to group steps");
    for (int i = 0; i < g->n_assigns; i++) state[g->assigns[i].value->id] = g->assigns[i].state;
    for (ot_node *n = g->first; n; n = n->next) n->mark = -1;
    for (int phase = 0; phase < 2; phase++) {
        ot_step *s = phase ? p->update_steps : p->batch_steps;
        int n = phase ? p->n_update_steps : p->n_batch_steps;
        for (int t = 0; t < n; t++) ((ot_node *)(uintptr_t)s[t].node)->mark = t;
        if (!phase) move_down(s, n);
        for (int t = 0; t < n; t += s[t].group)
            if (s[t].kernel->many) group_from(s, t, n, state);
        for (int t = 0; t < n; t++) ((ot_node *)(uintptr_t)s[t].node)->mark = -1;
    }
    free(state);
    return OT_OK;
}
