/* build.h - from messages to a graph: what the files of importer/ share.
 *
 * A node of the file becomes an ot_form: its inputs are already values, its attributes still
 * messages, with the references of functions resolved.  upgrade.c turns a form of an old opset
 * into the newest one (and may emit nodes around it); ot_form_emit makes the graph's node. */
#ifndef OT_IMPORTER_BUILD_H
#define OT_IMPORTER_BUILD_H

#include "importer/internal.h"

typedef Onnx__AttributeProto ot_attribute;

/* A function call that is being inlined. */
typedef struct ot_inlining {
    const struct ot_inlining *up;
    const Onnx__FunctionProto *fn;
    const ot_attribute *const *attr; /* of the calling node, resolved */
    int n_attr, depth;
} ot_inlining;

/* The names that a body (a graph, a subgraph, a function) can use. */
typedef struct ot_scope {
    const struct ot_scope *up;              /* names around a subgraph; NULL for the file's graph and functions */
    ot_graph *graph;                        /* where nodes go */
    ot_table values;                        /* name -> ot_value, or OT_ABSENT */
    const ot_inlining *call;                /* NULL: not in a function */
    const char *prefix;                     /* of the names of values and nodes */
    const char *path;                       /* "node/branch/" for subgraphs, "" outside */
    Onnx__OperatorSetIdProto *const *opset; /* of this body */
    size_t n_opset;
} ot_scope;

extern const char ot_absent_mark;
#define OT_ABSENT ((void *)(uintptr_t)&ot_absent_mark) /* an input of a function that the call omits */

typedef struct ot_unsupported {
    const char *op, *domain, *first;
    int nodes;
    struct ot_unsupported *next;
} ot_unsupported;

typedef struct ot_job {
    ot_imported *m;
    ot_file *f;
    ot_error *found;
    ot_graph *graph;      /* the file's */
    ot_table functions;   /* "domain\1name\1overload" -> message */
    ot_table unsupported; /* "domain\1op" -> ot_unsupported; listed in the order of the file */
    ot_unsupported *first_unsupported, *last_unsupported;
    const void **order; /* messages: every tensor of the file and attribute with floats, sorted by address … */
    int *order_of;      /* … and its position in the file */
    int n_order;
    ot_value **order_value; /* constants of functions, made once */
    const char **path_of;   /* parallel to sources: "node/branch/" */
    ot_value **value_of;    /* parallel to sources */
    int cap_sources;
    int64_t nodes, most_nodes; /* built so far; what functions may make it grow to */
    ot_table traced;           /* value of the file -> the exporter's text about the traced node that made it */
    int detached, padded;      /* reads of detached values; lookups of tables with a row for padding */
    bool merged; /* some detached values are known from their readers alone: a graph optimizer removed the detach */
    const char *first_detached, *first_padded;
    const char *notes;
} ot_job;

/* Errors.  An error in the file is a finding: it is added to job->found and does not end the import, so that all are
 * reported at once.  A function that can fail returns the status of what it added.  After OT_E_MODEL or OT_E_IO the
 * current node is skipped (body.c makes placeholders for its outputs), or the current body if the finding is about
 * the body.  OT_E_NOMEM ends the import. */
static inline ot_status ot_status_of(const void *p) { return p ? OT_OK : OT_E_NOMEM; } /* of an allocation */

/* A node of the file before it is emitted. */
typedef struct ot_form {
    ot_job *job;
    ot_scope *scope;
    const char *op, *domain, *name;
    int64_t version; /* of the opset it is written in */
    int n_in, n_out, n_attr, cap_in, cap_attr;
    int n_listed;          /* outputs as the file lists them, with empty ones at the end */
    ot_value **in;         /* NULL: missing */
    ot_value **out;        /* filled by ot_form_emit */
    const char **out_name; /* "": not used */
    const ot_attribute **attr;
    bool done; /* an upgrade has emitted everything and filled out */
} ot_form;

/* body.c */
ot_status ot_graph_build(ot_job *j, ot_scope *s, const Onnx__GraphProto *g);
ot_status ot_body_build(ot_job *j, ot_scope *s, Onnx__NodeProto *const *node, size_t n);
ot_status ot_subgraph_build(ot_job *j, ot_scope *up, const Onnx__GraphProto *g, const char *node, const char *branch,
                            ot_graph **out);

/* scope.c */
void ot_note(ot_job *j, const char *fmt, ...) OT_PRINTF(2, 3); /* adds a line to the model's notes for the user */
void *ot_job_alloc(ot_job *j, size_t n);                       /* zeroed; NULL and a finding: no memory */
ot_status ot_scope_bind(ot_job *j, ot_scope *s, const char *name, ot_value *v);
const char *ot_scope_name(const ot_scope *s, const char *name); /* in the graph's arena; NULL: no memory */
ot_value *ot_scope_find(const ot_scope *s, const char *name, bool *absent);
int64_t ot_scope_version(const ot_job *j, const ot_scope *s, const char *domain);

/* sources.c: the tensors of the file, in its order, and the names that users know them by.  -1: no memory. */
ot_status ot_tensors_order(ot_job *j);
int ot_tensor_index(const ot_job *j, const void *message); /* into order; -1: in none */
int ot_source_add(ot_job *j, ot_scope *s, const void *message, const ot_blob *b, const ot_external *e, const char *name,
                  int kind);
ot_status ot_sources_name(ot_job *j);

/* signature.c: marks the tensors of the graph that the exporter calls parameters or buffers. */
void ot_signature_read(ot_job *j, const ot_scope *s, const Onnx__GraphProto *g);

/* traced.c: detached inputs and padded lookups, before and after a node of the file is emitted. */
ot_status ot_traced_inputs(ot_form *f, const Onnx__NodeProto *n);
ot_status ot_traced_outputs(ot_form *f, const Onnx__NodeProto *n);
void ot_traced_notes(ot_job *j);

/* emit.c */
ot_status ot_form_emit(ot_form *f);
ot_dtype ot_hint(const ot_value *v); /* a guess of its element type; float32 if none */
void ot_hints_clear(ot_graph *g);

/* form.c: changing forms.  A value that is NULL: no memory. */
const ot_attribute *ot_form_get(const ot_form *f, const char *name);
int64_t ot_form_int(const ot_form *f, const char *name, int64_t dflt);
double ot_form_float(const ot_form *f, const char *name, double dflt);
bool ot_form_says(const ot_form *f, const char *name, const char *text);
void ot_form_drop(ot_form *f, const char *name);
ot_status ot_form_set_int(ot_form *f, const char *name, int64_t v);
ot_status ot_form_set_float(ot_form *f, const char *name, float v);
ot_status ot_form_set_text(ot_form *f, const char *name, const char *text);
ot_status ot_form_set_ints(ot_form *f, const char *name, const int64_t *v, size_t n);
ot_status ot_form_set_input(ot_form *f, int i, ot_value *v);
ot_value *ot_form_const(ot_form *f, ot_dtype t, int rank, int64_t n, const double *v); /* rank 0 or 1 */
ot_value *ot_form_ints(ot_form *f, const int64_t *v, size_t n);                        /* int64 of rank 1 */
/* Emits a node of one output, in the newest opset, before this one; the third form sets an attribute. */
ot_value *ot_form_before(ot_form *f, const char *op, ot_value *const *in, int n_in);
ot_value *ot_form_before_like(ot_form *f, const char *op, ot_value *const *in, int n_in); /* with its attributes */
ot_value *ot_form_before_int(ot_form *f, const char *op, ot_value *const *in, int n_in, const char *attr, int64_t v);
/* The same in steps, for several outputs and any attributes: begin, ot_form_set_* and ot_form_copy on g, finish, which gives output 0;
 * the others are g->out[i]. */
ot_status ot_form_begin(ot_form *f, ot_form *g, const char *op, ot_value *const *in, int n_in, int n_out);
ot_status ot_form_copy(ot_form *g, const ot_attribute *a); /* an attribute of another form */
ot_value *ot_form_finish(ot_form *g);
/* For messages: "node: operator"; the operator alone if that is the name of the node too. */
const char *ot_form_who(const ot_form *f);
ot_status ot_form_finding(const ot_form *f, const char *fmt, ...) OT_PRINTF(2, 3); /* gives OT_E_MODEL */
ot_status ot_form_require(const ot_form *f, unsigned inputs); /* a finding where one of these, by bit, is missing */

/* attrs.c */
ot_status ot_attrs_fill(ot_form *f, const ot_op *op, void *attrs);

/* functions.c */
ot_status ot_functions_index(ot_job *j);
ot_status ot_function_find(ot_job *j, const Onnx__NodeProto *n, const Onnx__FunctionProto **out); /* *out NULL: none */
ot_status ot_function_inline(ot_job *j, ot_scope *s, const Onnx__NodeProto *n, const Onnx__FunctionProto *fn);
ot_status ot_attributes_resolve(ot_job *j, const ot_scope *s, const Onnx__NodeProto *n, const ot_attribute ***out,
                                int *n_out);

/* constant.c */
ot_status ot_constant_build(ot_job *j, ot_scope *s, const Onnx__NodeProto *n);
ot_value *ot_tensor_value(ot_job *j, ot_scope *s, const Onnx__TensorProto *t, const char *name, int kind);
ot_value *ot_sparse_value(ot_job *j, ot_scope *s, const Onnx__SparseTensorProto *t, const char *name);
/* The floats of a form's attribute as a tensor of that shape that may train. */
ot_value *ot_floats_value(ot_form *f, const ot_attribute *a, const ot_shape *shape);

/* sort.c: the order to build nodes in.  Errors: OT_E_MODEL (a cycle), OT_E_NOMEM. */
ot_status ot_sort_nodes(ot_arena *a, Onnx__NodeProto *const *node, size_t n, const char *where, const int **out,
                        ot_error *found);

/* upgrade.c */
ot_status ot_upgrade(ot_form *f);

const char *ot_upgrade_at(int i); /* operators that it replaces by others; NULL: end */

/* An operator of another domain, or a quantised one, that is replaced by operators of ai.onnx. */
typedef struct ot_rewriting {
    const char *op;
    int inputs, outputs; /* least number of inputs, largest number of outputs */
    ot_status (*rewrite)(ot_form *f);
} ot_rewriting;

/* microsoft.c: the operators of com.microsoft. */
ot_status ot_microsoft(ot_form *f);
const ot_rewriting *ot_microsoft_at(int i); /* NULL: end */
ot_status ot_simplified_norm(ot_form *f);   /* which ONNX Runtime also writes into ai.onnx */
/* x with its channels, which lie at the end, behind the batch; or back. */
ot_value *ot_channels(ot_form *f, ot_value *x, int rank, bool first);

/* quantised.c */
ot_status ot_qlinear_conv(ot_form *f);
ot_status ot_qlinear_matmul(ot_form *f);
ot_status ot_qgemm(ot_form *f);
ot_status ot_qlinear_sum(ot_form *f);
ot_status ot_qlinear_unary(ot_form *f);
ot_status ot_qlinear_softmax(ot_form *f);
ot_status ot_qlinear_pool(ot_form *f);
ot_status ot_nhwc_max_pool(ot_form *f);
ot_status ot_qlinear_where(ot_form *f);
ot_status ot_qlinear_concat(ot_form *f);
ot_value *ot_scaled_product(ot_form *f, ot_value *a, ot_value *b, ot_value *zero_a, ot_value *zero_b, ot_value *scale_a,
                            ot_value *scale_b);
ot_status ot_matmul_integer_to_float(ot_form *f);
ot_status ot_dynamic_quantize_matmul(ot_form *f);
ot_status ot_dynamic_quantize_lstm(ot_form *f);
ot_status ot_matmul_nbits(ot_form *f);
ot_status ot_gather_blocks(ot_form *f);

/* ml.c: the operators of ai.onnx.ml.  Unknown operators are not changed. */
ot_status ot_ml(ot_form *f);
const char *ot_ml_at(int i); /* the operators that it knows; NULL: end */

/* training.c: the training that the file describes; s: the names of its graph. */
ot_status ot_training_build(ot_job *j, const ot_scope *s);

/* gradient.c: the tensors that Gradient names become its inputs: xs, then y. */
ot_status ot_gradient(ot_form *f);

/* preview.c: the operators of ai.onnx.preview.training. */
ot_status ot_preview_training(ot_form *f);
const char *ot_preview_training_at(int i);

#endif
