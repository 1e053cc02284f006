/* harness.h - pieces of the operator test: texts of rows, and running a graph node by node. */
#ifndef OT_TEST_OPS_HARNESS_H
#define OT_TEST_OPS_HARNESS_H

#include "ops/kernel.h"
#include "tests/ops/case.h"

/* ---- texts (parse.c) -------------------------------------------------------- */

enum { MAX_IN = 32, MAX_OUT = 16, MAX_VALUES = 4096 };

/* How an input gets its elements. */
typedef enum source { LEFT_OUT, RANDOM, FED, CONSTANT } source;

typedef struct operand {
    source   source;
    ot_dtype dtype;
    ot_shape shape;
    double   lo, hi;       /* RANDOM */
    int      n;            /* FED, CONSTANT: how many values the text has; 1 fills the shape */
    double   v[MAX_VALUES];
} operand;

/* Each returns false and prints the error in the row's text. */
bool parse_operand(const char **text, operand *o);      /* one word of `in` */
bool parse_output(const char **text, operand *o);       /* one word of `out`; LEFT_OUT: not needed */
bool parse_numbers(const char **text, double *v, int *n); /* "1,2,3", up to a space; n: room, then count */
bool parse_attrs(const char *text, const ot_op *op, ot_graph *g, void *attrs);

const char *parse_type_name(int i);                     /* NULL: there are no more */

/* Deterministic numbers: the same row has the same data on every machine. */
typedef struct dice { uint64_t state; } dice;
dice   dice_of(const char *text);
double dice_roll(dice *d); /* uniform in [0,1) */

/* ---- execution (execute.c) --------------------------------------------------- */

/* Enables guard bytes with the address sanitizer, if there is one: not with a device, which copies them. */
void guards_watch(void);

/* Bytes of every value of one graph, with guard bytes around them. */
typedef struct memory { void **at; int n; } memory;

memory      memory_new(const ot_graph *g);
void        memory_free(memory *m);
void       *memory_of(memory *m, const ot_value *v); /* constants: their data; others: made at first */
bool        memory_guarded(const memory *m, const ot_value *v);

/* Runs n with kernel k on the given buffers; a workspace with guard bytes.  *intact: none was touched. */
ot_status kernel_run(const ot_kernel *k, const ot_node *n, const void *const *in, void *const *out,
                     int threads, bool *intact, ot_error *err);

/* The same on a device, whose memory is made, filled from `in` (guard bytes included) and read back to
 * `out`; an output whose buffer is that of an input shares it on the device too.  variant: which of the
 * kernel's ways; *variants: how many there are, 0: the kernel refuses the node, and nothing was run. */
ot_status kernel_run_on(ot_device *d, const ot_kernel *k, const ot_node *n, const void *const *in, void *const *out,
                        int variant, int *variants, bool *intact, ot_error *err);
enum { GUARD = 64 }; /* bytes around every buffer */

/* Every node from the first up to `last` (NULL: all) by its reference kernel. */
ot_status graph_run(const ot_graph *g, const ot_node *last, memory *m, ot_error *err);

/* Tries every kernel of n on the device (NULL: the CPU) but the reference against it, in f32 tolerance tol;
 * prints what differs.  A device must have a kernel for every node but those of strings.
 * Returns the number of comparisons, -1: one failed. */
int kernels_compare(const char *name, const ot_node *n, memory *m, double tol, ot_device *device);

void kernels_ran(void); /* prints how many runs each kernel had: "kernels: cuda 12 cudnn 3" */

/* Opens the device to be tested (device.c), or the one of architecture `arch` that is described; NULL: the first there
 * is.  0; 77: there is none, which is printed; 1: the one of $ONNXTRAIN_CUDA_MODULE is not available. */
int device_open(const char *arch, ot_device **out);

/* ---- devices that are described (compile.c) ----------------------------------- */

/* A description of a device of "sm_80", "sm_90a" or "sm_120", in cuDNN's form; NULL: another one. */
const char *describe_device(const char *arch, char *text, size_t n);

/* Prepares every kernel of our own that can run n; prints what fails.  Their number, -1: one failed. */
int kernels_prepare(const char *name, const ot_node *n, ot_device *d);

/* Prints a line about the kernels compiled so far, and those that spill registers though
 * tests/cuda/spills.txt does not list them; their number. */
int compiled_badly(ot_device *d, const char *arch);

bool values_close(const char *name, const char *what, ot_dtype t, int64_t n, const void *got, const void *want,
                  double tol);
void *guarded_new(size_t bytes);             /* aligned, with guard bytes on both sides */
bool  guarded_intact(const void *p, size_t bytes);
void  guarded_free(void *p);

/* ---- the table of element types (types.c) -------------------------------------- */

/* Infers, lowers and runs a row with every kernel; the status, with the reason in err. */
ot_status row_try(const ot_op *op, const ot_case *row, ot_error *err);

/* Every input of the rows in every element type: answered, or refused as a fault of the model.  Counts go to the
 * three; false: something else came out, printed. */
bool types_of(const ot_op *op, const ot_case *rows, int *cases, int *answered, int *refused);

#endif
