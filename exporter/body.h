/* body.h - the messages of a file taken apart to be changed; shared by the files of exporter/ alone.
 *
 * A body is the file's graph or a function, with all subgraphs in it.  Names are kept per body: who makes one, who uses
 * it.  A name that is made twice (in the branches of an If, say) has makers > 1: it is left alone.
 *
 * Memory  Messages, items and names lie in one arena.  An allocation that fails sets no_memory, which sticks. */
#ifndef OT_BODY_H
#define OT_BODY_H

#include "exporter/deploy.h"
#include "exporter/messages.h"
#include "exporter/pending.h"

typedef struct ot_body ot_body;

/* One list of nodes. */
typedef struct ot_frame {
    struct ot_frame *next;   /* of the body */
    Onnx__GraphProto *graph; /* NULL: a function */
    Onnx__FunctionProto *fn;
    struct ot_item *owner;    /* the node this is a subgraph of; NULL: the body's own */
    struct ot_frame *sibling; /* the next subgraph of the owner */
    struct ot_item *first, *last;
    int n;
    bool changed;
} ot_frame;

typedef struct ot_item {
    struct ot_item *prev, *next;
    ot_frame *frame;
    ot_frame *inner; /* the first of its subgraphs */
    Onnx__NodeProto *n;
    int mark; /* scratch for walks */
    bool dead;
    bool half; /* deploy_half.c: computes in float16 */
} ot_item;

/* Input `at` of a node, or (item NULL) output `at` of a frame. */
typedef struct ot_use {
    struct ot_use *next;
    ot_item *item;
    ot_frame *frame;
    size_t at;
} ot_use;

typedef struct ot_name {
    struct ot_name *next; /* of the body */
    char *text;
    int makers;
    ot_item *maker; /* NULL: no node */
    size_t port;
    ot_frame *frame;             /* where it is made */
    Onnx__TensorProto *tensor;   /* as initializer */
    Onnx__ValueInfoProto *input; /* of a graph, also where it is an initializer */
    bool output;                 /* of the file */
    bool used;                   /* in the file as it was */
    bool gone;                   /* no node makes it any more */
    ot_use *use;
    int n_use;
    int mark;             /* scratch for walks */
    bool needed;          /* deploy_loss.c: by an output that is no loss */
    bool fed;             /* deploy_mode.c: depends on an input of the file, on its shape at least */
    bool half;            /* deploy_half.c: is float16 now */
    struct ot_name *twin; /* deploy_half.c: the same values in the other type; NULL: none yet */
} ot_name;

struct ot_body {
    ot_arena *arena;
    ot_imported *m; /* for decoding tensors */
    Onnx__ModelProto *model;
    int64_t version;  /* opset of ai.onnx */
    ot_frame *frames; /* the body's own first */
    ot_frame *last_frame;
    ot_table table;
    ot_table types; /* name -> ot_value of the file's inferred graph; empty: not known */
    ot_name *names;
    int outputs;                       /* of the file that are left */
    size_t cap_input, cap_initializer; /* of the lists, once they have grown */
    bool can_be_fed;                   /* some initializer may be replaced by callers */
    bool no_memory;
    const char *lines; /* printed for the user */
    ot_error *err;
};

/* body.c */
ot_status ot_body_open(ot_body *b, Onnx__FunctionProto *fn); /* NULL: the file's graph; arena, m, model, err are set */
ot_status ot_body_types(ot_body *b, const ot_graph *typed);  /* typed outlives b; NULL: nothing is known */
ot_status ot_body_close(ot_body *b);                         /* removes orphans; back into the messages */
void *ot_body_alloc(ot_body *b, size_t n);
void ot_body_say(ot_body *b, const char *fmt, ...) OT_PRINTF(2, 3);
ot_name *ot_body_name(ot_body *b, const char *text); /* NULL: unknown, or "" */
ot_name *ot_body_new(ot_body *b, const char *stem);  /* a fresh name; NULL: no memory */
ot_name *ot_item_in(ot_body *b, const ot_item *i, size_t at);
ot_name *ot_item_out(ot_body *b, const ot_item *i, size_t at);
bool ot_item_is(const ot_item *i, const char *op);                   /* of ai.onnx */
void ot_item_set_in(ot_body *b, ot_item *i, size_t at, ot_name *v);  /* at <= number of inputs; v NULL: missing */
void ot_item_cut_in(ot_body *b, ot_item *i, size_t n);               /* only the first n inputs stay */
void ot_item_set_out(ot_body *b, ot_item *i, size_t at, ot_name *v); /* what was there is gone */
void ot_item_cut_out(ot_body *b, ot_item *i, size_t n);
void ot_item_kill(ot_body *b, ot_item *i); /* with its subgraphs; its outputs are gone */
/* A new node of one input and one output beside `by` (before or behind it). */
ot_item *ot_body_unary(ot_body *b, ot_item *by, bool before, const char *op, ot_name *in, ot_name *out);
void ot_body_replace(ot_body *b, ot_name *from, ot_name *to); /* in all uses */
void ot_use_set(ot_body *b, ot_name *from, ot_use *u, ot_name *to);
void ot_body_drop_output(ot_body *b, ot_name *v); /* of the file */
bool ot_used_outside_nodes(const ot_name *v);     /* as output of the file, a subgraph or a function */

void ot_attr_drop(Onnx__NodeProto *n, const char *name);
void ot_attr_set_int(ot_body *b, Onnx__NodeProto *n, const char *name,
                     int64_t v); /* in place of its value, if it has one */

/* The tensor of a value that cannot change: an initializer that no caller can feed or a Constant node's, through
 * Identity; NULL: it is none.  *own: v is its only way out, so it may be changed for v's sake. */
Onnx__TensorProto *ot_body_constant(ot_body *b, const ot_name *v, bool *own);
/* The same, and whatever else is computed from constants alone.  false: v may change, or out->data is NULL after an error. */
bool ot_body_known(ot_body *b, const ot_name *v, ot_blob *out, ot_status *status);
/* v in the inferred graph; NULL: it is not there. */
const ot_value *ot_body_value(const ot_body *b, const ot_name *v);
ot_status ot_body_decode(const ot_body *b, const Onnx__TensorProto *t, ot_blob *out);
/* New payload.  External data stays external: it is written with the others (deploy_data.c). */
void ot_body_payload(ot_body *b, Onnx__TensorProto *t, ot_dtype dtype, const ot_shape *s, void *bytes);
ot_name *ot_body_initializer(ot_body *b, const char *stem, ot_dtype dtype, const ot_shape *s,
                             void *bytes); /* NULL: no memory */

/* The steps: deploy_loss.c, deploy_mode.c, deploy_fold.c, deploy_half.c. */
ot_status ot_deploy_losses(ot_body *b);
void ot_deploy_mode(ot_body *b, int *norms, int *dropouts);
ot_status ot_deploy_fold(ot_body *b);
ot_status ot_deploy_half(ot_body *b);

/* deploy_data.c */

/* Bytes of every tensor that is in external data, into one new file beside the model. */
ot_status ot_deploy_data(ot_body *b, ot_pending *to);

#endif
