/* uses.h - where the initializers of a graph are used, and the strongest slot that each of them feeds. */
#ifndef OT_USES_H
#define OT_USES_H

#include <string.h>

#include "ops/op.h"

typedef enum ot_strength { OT_USE_NONE, OT_USE_WEAK, OT_USE_STRONG, OT_USE_STATISTIC } ot_strength;

typedef struct ot_slot_use {
    const ot_node *node;
    int input;
} ot_slot_use;

/* By value id: the uses of value v are list[first[v->id] .. first[v->id + 1]). */
typedef struct ot_uses {
    int *first;
    ot_slot_use *list;
    bool *output; /* of the graph */
    int *seen;    /* [2 * id + computed]: in which walk, and how deep */
    int *walk;    /* walks so far */
    int *passes;  /* how often all nodes were looked at */
} ot_uses;

/* The uses by nodes of g and of the subgraphs below them; memory is of g's arena. */
ot_status ot_find_uses(ot_graph *g, ot_uses *u);

enum {                         /* value->mark */
       OT_MARK_REACHES = 1,    /* a float path leads to an output */
       OT_MARK_NORMALISED = 2, /* an input, or one after arithmetic with constants only */
       OT_MARK_FED = 4,        /* depends on an input */
       OT_MARK_PREPARED = 8,   /* preprocessing before the model, set by the caller: what it feeds is no weight */
       OT_MARK_SPARE = 16,     /* scratch of the caller */
       OT_MARK_INSIDE = 32,    /* scratch of ot_judge */
       OT_MARK_WIDENED = 64    /* arithmetic of an input with a constant of more axes: distances to centres */
};

/* Sets the first three marks of all values of g, and OT_MARK_WIDENED. */
void ot_mark_uses(ot_graph *g);

/* How an initializer is used. */
typedef struct ot_verdict {
    ot_strength how;
    const ot_node *node; /* the operator whose slot it is */
    int input;
    bool normaliser, rotary, prepares;
    bool apart; /* computed from the initializer alone before it reaches the operator */
    int uses;   /* nodes that read the initializer */
} ot_verdict;

/* After ot_mark_uses: the strongest slot that v feeds, through operators that only reshape or convert, and through any operator
 * that depends on no input of the graph; in bodies of If, Loop and Scan too. */
ot_verdict ot_judge(const ot_graph *g, const ot_uses *u, const ot_value *v);

/* Is v, or what is computed from it alone, multiplied with something wherever it is read? */
bool ot_only_gates(const ot_graph *g, const ot_uses *u, const ot_value *v);

static inline bool ot_slot_is_one_of(char slot, const char *letters) { return strchr(letters, slot) != NULL; }

/* Add, Sub, Mul, Div. */
static inline bool ot_slot_is_arithmetic(char slot) { return ot_slot_is_one_of(slot, "axd"); }

#endif
