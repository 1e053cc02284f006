/* features.c - which axis of an input of rank 3 has the features, as the layer that reads it says: the last for a recurrent or
 * a dense layer, axis 1 for a convolution, also where the graph transposes, pads or slices the input first. */
#include "ops/op.h"
#include "runtime/train/feed/bind_inputs.h"

enum { RANK = 3 };

/* value->mark: 0: not of the input; else 1 + 3 * (where axis 1 of the input is) + (where axis 2 is). */
static int mark_of(int first, int second) { return 1 + RANK * first + second; }
static int first_of(int mark) { return (mark - 1) / RANK; }
static int second_of(int mark) { return (mark - 1) % RANK; }

/* The position of axis a of its input in the output of Transpose n. */
static int moved(const ot_node *n, int a)
{
    ot_ints perm = ot_attr_ints(n, "perm");
    if (perm.n && perm.n != RANK) return a; /* of another rank, or invalid */
    for (int d = 0; d < RANK; d++) {
        int from = RANK - 1 - d;
        if ((!perm.n || ot_axis(perm.v[d], RANK, &from)) && from == a) return d;
    }
    return a;
}

/* The feature axis of input i of node n; -1: unknown. */
static int asks(const ot_node *n, int i)
{
    static const ot_op *const last[] = { &ot_op_LSTM, &ot_op_GRU, &ot_op_RNN, &ot_op_MatMul,
                                         &ot_op_LayerNormalization },
                              *const second[] = { &ot_op_Conv, &ot_op_ConvTranspose, &ot_op_BatchNormalization,
                                                  &ot_op_InstanceNormalization, &ot_op_GroupNormalization };
    for (int k = 0; k < OT_LEN(last) && i == 0; k++)
        if (n->op == last[k]) return 2;
    for (int k = 0; k < OT_LEN(second) && i == 0; k++)
        if (n->op == second[k]) return 1;
    return -1;
}

/* Does an output of n have the axes of input 0, in the same order? */
static bool keeps_axes(const ot_node *n)
{
    return n->op == &ot_op_Identity || n->op == &ot_op_Cast || n->op == &ot_op_Dropout || n->op == &ot_op_Pad ||
           n->op == &ot_op_Slice;
}

int ot_adapt_features(const ot_graph *g, const ot_value *input)
{
    int found = -1;
    for (int i = 0; i < g->n_values; i++) g->values[i]->mark = g->values[i] == input ? mark_of(1, 2) : 0;
    for (const ot_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_in; i++) {
            int m = n->in[i] ? n->in[i]->mark : 0, axis = m ? asks(n, i) : -1;
            if (axis >= 0) {
                int a = first_of(m) == axis ? 1 : second_of(m) == axis ? 2 : -1;
                if (a < 0 || (found >= 0 && found != a)) return -1;
                found = a;
            } else if (m && n->op == &ot_op_Transpose) {
                n->out[0]->mark = mark_of(moved(n, first_of(m)), moved(n, second_of(m)));
            } else if (m && i == 0 && keeps_axes(n)) {
                for (int k = 0; k < n->n_out; k++)
                    if (n->out[k]) n->out[k]->mark = m;
            }
        }
    return found;
}
