/* dnn.h - the emulated cuDNN's descriptors: their attributes, and nothing else. */
#ifndef OT_EMULATOR_DNN_H
#define OT_EMULATOR_DNN_H

#include <cudnn.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct dnn dnn;

/* One attribute.  list: bytes of n elements; of descriptors: n pointers, each a use of its descriptor. */
typedef struct dnn_value {
    int name, type;
    int64_t n;
    void *list;
} dnn_value;

struct dnn {
    uint64_t magic;
    int type, users;
    bool final;
    int n;
    dnn_value value[24];
};

enum { DNN_RANK = 5, DNN_OPS = 24 };

/* A tensor as its descriptor says it. */
typedef struct dnn_tensor {
    int rank, type;
    int64_t uid, dim[DNN_RANK], stride[DNN_RANK];
    bool is_virtual, by_value;
} dnn_tensor;

/* cudnn.c */
dnn *dnn_new(int type);
void dnn_use(dnn *d);
void dnn_drop(dnn *d); /* one use less; the last one frees it */
bool dnn_put(dnn *d, int name, int type, int64_t n, const void *list);
const dnn_value *dnn_find(const dnn *d, int name);
const dnn *dnn_to(const dnn *d, int name);         /* the descriptor it links to; NULL: none */
int64_t dnn_number(const dnn *d, int name, int i); /* an INT64 or an enumeration; 0: none */
dnn_tensor dnn_tensor_of(const dnn *d);
int dnn_cuda_type(int type); /* CUDA_R_ of CUDNN_DATA_; -1: not emulated */

/* dnn_engines.c: finalizing, and queries of engines and plans. */
cudnnStatus_t dnn_check(dnn *d);
cudnnStatus_t dnn_ask(dnn *d, int name, int type, int64_t room, int64_t *n, void *list);

/* dnn_text.c: a descriptor and all it links to, to text and back. */
char *dnn_write(const dnn *d);
dnn *dnn_read(const char **text);

/* A tensor while a plan runs: its elements in row-major order. */
typedef struct dnn_field {
    dnn_tensor t;
    double *v;
    int64_t n;
} dnn_field;

/* dnn_pieces.c: products, pointwise operations, reductions, views: the operations of attention. */
bool dnn_is_piece(const dnn *op);
cudnnStatus_t dnn_check_piece(const dnn *op);
int dnn_piece_links(const dnn *op, int name[4]); /* attributes of its tensors; the last one is the result */
void dnn_run_piece(const dnn *op, dnn_field *const *f);
int64_t dnn_place(const dnn_tensor *t, int64_t i); /* offset of element i, row-major */

/* dnn_run.c */
cudnnStatus_t dnn_execute(void *stream, const dnn *plan, const dnn *pack);

/* The engines on offer (dnn_engines.c).  RANDOM returns wrong bits, HALF rounds operands to 8 bits, TF32 those of
 * f32 to 11: the first two must never be chosen, the third only where it is allowed.  GREEDY needs more memory than
 * there is, FICKLE makes no plan.  Plans on disk identify them by number: a new engine gets a new number. */
enum {
    DNN_RANDOM = 900,
    DNN_TF32,
    DNN_GREEDY,
    DNN_FICKLE,
    DNN_WORKING,
    DNN_PLAIN,
    DNN_WINOGRAD,
    DNN_SLOW,
    DNN_HALF,
    DNN_WRONG,
    DNN_BEYOND
};
const dnn *dnn_graph_of(const dnn *plan, int *engine);
int64_t dnn_work_of(int engine);
/* Whether the plan of this graph runs: not all that is planned does. */
bool dnn_runs(const dnn *graph, int engine);

#endif
