/* bytes.h - writes messages byte by byte, right or wrong, and imports them. */
#ifndef OT_TESTS_IMPORTER_H
#define OT_TESTS_IMPORTER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "importer/import.h"
#include "ops/op.h"

/* A growing run of bytes; start as {0}, end with bytes_free. */
typedef struct bytes {
    uint8_t *p;
    size_t n, cap;
} bytes;

void bytes_free(bytes *b);
void put(bytes *b, const void *p, size_t n);
void put_varint(bytes *b, uint64_t v);
void put_int(bytes *b, int field, int64_t v);
void put_float(bytes *b, int field, float v);
void put_data(bytes *b, int field, const void *p, size_t n);
void put_text(bytes *b, int field, const char *s);
void put_message(bytes *b, int field, bytes *inner); /* frees inner */

/* ---- parts of a model; each appends to b ---------------------------------- */

void attr_int(bytes *node, const char *name, int64_t v);
void attr_float(bytes *node, const char *name, float v);
void attr_text(bytes *node, const char *name, const char *v);
void attr_ints(bytes *node, const char *name, int n, const int64_t *v);
void attr_graph(bytes *node, const char *name, bytes *graph);
void attr_tensor(bytes *node, const char *name, bytes *tensor);
void attr_ref(bytes *node, const char *name, int type, const char *to);

/* A node without its attributes.  in and out are names parted by spaces; "-" is the empty name. */
bytes node_begin(const char *op, const char *name, const char *in, const char *out);
void graph_node(bytes *graph, bytes node);
void graph_op(bytes *graph, const char *op, const char *name, const char *in, const char *out);

bytes tensor_begin(const char *name, int dtype, int rank, const int64_t *dim);
void graph_tensor(bytes *graph, bytes tensor);                                                    /* an initializer */
void graph_floats(bytes *graph, const char *name, int n, const float *v);                         /* of rank 1 */
void tensor_outside(bytes *tensor, const char *location, const char *offset, const char *length); /* NULL: not said */

void graph_input(bytes *graph, const char *name, int dtype, int rank, const int64_t *dim); /* dim < 0: a name */
void graph_output(bytes *graph, const char *name);

bytes model_of(bytes *graph, int64_t ir, int64_t opset); /* opset 0: none.  Frees graph */
void model_opset(bytes *model, const char *domain, int64_t version);

/* y = Relu-like chain that every test may rely on: x -> Identity -> y, float32 [2,3]. */
bytes small_graph(void);

/* A model that has a little of everything: Constant, weight, attribute, function. */
bytes rich_model(void);

/* ---- importing ---------------------------------------------------------------- */

/* A fresh folder of the test; files in it go by their name. */
const char *path_of(const char *name);
void write_file(const char *name, const void *p, size_t n);

/* Writes the bytes to "m.onnx" and imports it. */
ot_status import_model(const bytes *b, ot_imported **out, ot_error *err);

/* Checks that it imports and that the graph keeps its invariants.  Frees model; the result is freed with
 * ot_import_free. */
ot_imported *accepted(bytes *model);

/* Checks that it is refused with that status, and that the text contains every string (NULL-terminated) and the
 * file's name. */
void refused(bytes *model, ot_status s, ...) __attribute__((sentinel));
void refused_file(const char *path, ot_status s, ...) __attribute__((sentinel));

const ot_node *node_of(const ot_graph *g, const char *op, int nth); /* NULL: not there */

int test_guard(void);
int test_structure(void);
int test_tensors(void);
int test_external(void);
int test_functions(void);
int test_upgrade(void);

#endif
