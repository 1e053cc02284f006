/* recurrent.h - attributes and operands of Recurrent and RecurrentDx: all steps of one direction of LSTM, GRU or RNN.
 *
 * Recurrent   (r, x[, b, h0, c0, lens[, inputs, w]]) -> y, h, gates[, cells[, c]]
 *           x: (T, N, G H) what the inputs add to the gates   r: (G H, H)   b: (2 G H) biases, added to x and to a below
 *           h0, c0: (N, H); missing: zeros   lens: (N) steps of each sample, within 0..T; missing: T
 *           inputs: (T, N, I)   w: (G H, I)   instead of x, which is their product then: the pass `project`, when gradients are there
 *           y: (T, N, H), 0 after the end of a sample   h, c: (N, H) the last state
 *           gates: (T, N, G H) activated   cells: (T, N, H) LSTM: c of the step; GRU: q, below.  Both for the gradient,
 *           0 after the end of a sample
 * RecurrentDx (r, y, gates, cells, h0, c0, lens, dy, dh, dc) -> dx, before, dh0, db[, dc0 or da]
 *           any input from cells on may be missing
 *           dx: (T, N, G H)   before: (T, N, H) the state before each step, for the gradient of r
 *           LSTM: dc0 (N, H)   GRU: da (T, N, G H), the gradient of a
 *
 * A step, with a = r h' of the state h' before it, and biases added to x and a:
 *   LSTM    i, o, f = sigmoid(x + a)   g = tanh(x + a)   c = f c' + i g   h = o tanh(c)       gates i o f g
 *   GRU     z, r = sigmoid(x + a)   q = a of n   n = tanh(x + r q)   h = (1 - z) n + z h'     gates z r n
 *   RNN     h = tanh(x + a), or ReLU                                                          gate h
 * With `reverse` the steps are T-1 .. 0; a sample begins at its own last step. */
#ifndef OT_RECURRENT_H
#define OT_RECURRENT_H

#include "ops/op.h"

typedef enum ot_cell { OT_CELL_LSTM, OT_CELL_GRU, OT_CELL_TANH, OT_CELL_RELU } ot_cell;

typedef struct ot_recurrent {
    int64_t cell; /* ot_cell */
    int64_t reverse;
} ot_recurrent;

enum { OT_REC_R, OT_REC_X, OT_REC_B, OT_REC_H0, OT_REC_C0, OT_REC_LENS, OT_REC_INPUTS, OT_REC_W, OT_REC_IN };
enum { OT_REC_Y, OT_REC_H, OT_REC_GATES, OT_REC_CELLS, OT_REC_C };
enum {
    OT_RECDX_R,
    OT_RECDX_Y,
    OT_RECDX_GATES,
    OT_RECDX_CELLS,
    OT_RECDX_H0,
    OT_RECDX_C0,
    OT_RECDX_LENS,
    OT_RECDX_DY,
    OT_RECDX_DH,
    OT_RECDX_DC,
    OT_RECDX_IN
};
enum { OT_RECDX_DX, OT_RECDX_BEFORE, OT_RECDX_DH0, OT_RECDX_DB, OT_RECDX_DC0, OT_RECDX_DA = OT_RECDX_DC0 };

typedef struct ot_recurrent_sizes {
    int64_t T, N, H, G, I; /* I: 0 where x is given */
} ot_recurrent_sizes;

ot_recurrent_sizes ot_recurrent_sizes_of(const ot_node *n); /* of either node */

static inline int ot_cell_gates(int64_t cell) { return cell == OT_CELL_LSTM ? 4 : cell == OT_CELL_GRU ? 3 : 1; }

/* The number of results of Recurrent and RecurrentDx. */
static inline int ot_cell_outputs(int64_t cell) { return cell == OT_CELL_LSTM ? 5 : cell == OT_CELL_GRU ? 4 : 3; }
static inline int ot_cell_gradients(int64_t cell) { return cell == OT_CELL_LSTM || cell == OT_CELL_GRU ? 5 : 4; }

#endif
