/* build.h - small models made in memory, for tests of passes. */
#ifndef OT_TESTS_BUILD_H
#define OT_TESTS_BUILD_H

#include "runtime/exec/exec.h"

/* A graph of ONNX operators with float weights from a fixed seed. */
typedef struct model {
    ot_error err;
    ot_graph *g;
    uint64_t draws;
} model;

void model_new(model *m);
void model_free(model *m);
ot_value *model_input(model *m, const char *name, ot_dtype t, ot_shape s);
ot_value *model_weight(model *m, const char *name, ot_shape s); /* an initializer */
ot_value *model_ints(model *m, const int64_t *v, int n);        /* a constant list */
ot_value *model_node(model *m, const char *op, ot_value *const *in, int n_in);
void model_output(model *m, ot_value *v, const char *name);

/* input (N,1,8,8) -> Conv 3x3 -> Relu -> MaxPool 2 -> Flatten -> Gemm -> output (N,5); `deep` more convolutions. */
void model_cnn(model *m, int deep);

/* Feeds for a batch of model_cnn, with class numbers as target. */
ot_config cnn_config(ot_want want, int64_t batch, ot_feed feeds[2]);

/* Plans, and runs `steps` updates over fixed random data; the weights' bytes after them go to *bytes
 * (malloc'ed).  Returns the last loss. */
double run_steps(const model *m, const ot_config *c, int steps, void **bytes, size_t *n);

/* The mean squared error of the output against fixed data of its shape, for a fixed `input` of the same shape (at most 4096 elements each), and its gradient
 * by every weight, in `all`; returns how many numbers (-1: m->err).  *found: nodes of the plan that `counts` takes. */
int model_gradients(model *m, double *all, bool (*counts)(const ot_node *n), int *found);

int layout_tests(void);               /* layout.c */
int precision_tests(void);            /* precision.c */
int recognise_tests(void);            /* recognise.c */
int recognise_norm_tests(void);       /* recognise_norm.c */
int recognise_loss_tests(void);       /* recognise_loss.c */
int recognise_softmax_tests(void);    /* recognise_softmax.c */
int recognise_batchnorm_tests(void);  /* recognise_batchnorm.c */
int recognise_activation_tests(void); /* recognise_activation.c */
int recognise_bias_tests(void);       /* recognise_bias.c */
int recognise_root_tests(void);       /* recognise_root.c */
int candidate_tests(void);            /* candidates.c */
int verify_tests(void);               /* verify.c */
int name_tests(void);                 /* names.c */
int decay_tests(void);                /* decay.c */
int prediction_tests(void);           /* predictions.c */
int copy_tests(void);                 /* copies.c */

#define SHAPE(...) ((ot_shape){ (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), { __VA_ARGS__ } })

#endif
