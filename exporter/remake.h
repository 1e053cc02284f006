/* remake.h - edits to a file's graph in memory, which is then read as the file was; for untie.c, fill.c and classifier.c. */
#ifndef OT_REMAKE_H
#define OT_REMAKE_H

#include "exporter/messages.h"
#include "exporter/patch.h"

typedef struct ot_remake {
    const ot_imported *m;
    const ot_file *f;
    ot_patch patch;
    int *node;      /* span of each node of the graph */
    int graph;      /* span of the graph: the last, where it comes in parts */
    ot_table names; /* of everything in the graph; made when first asked */
} ot_remake;

ot_status ot_remake_begin(ot_remake *x, const ot_imported *m, ot_error *err);
void ot_remake_end(ot_remake *x);

/* The message of a source; NULL: none. */
const Onnx__TensorProto *ot_remake_tensor(const ot_remake *x, int source);

/* "<name>_<what>_<n>", or with the next number that is free; NULL: no memory. */
const char *ot_remake_name(ot_remake *x, const char *name, const char *what, int n);

/* An initializer with t's values and another name; where files list initializers among the inputs, there too. */
ot_status ot_remake_copy(ot_remake *x, const Onnx__TensorProto *t, const char *name, ot_error *err);

/* Input k of that node reads `name`. */
ot_status ot_remake_input(ot_remake *x, size_t node, int k, const char *name, ot_error *err);

/* That node reads `name` too, behind its other inputs. */
ot_status ot_remake_more(ot_remake *x, size_t node, const char *name, ot_error *err);

/* A node becomes another. */
ot_status ot_remake_node(ot_remake *x, size_t node, const Onnx__NodeProto *now, ot_error *err);

/* Number `index` of a repeated field of the graph becomes another. */
ot_status ot_remake_replace(ot_remake *x, uint32_t number, size_t index, const ProtobufCMessage *message,
                            ot_error *err);

/* A field of the model, behind the others. */
ot_status ot_remake_field(ot_remake *x, uint32_t number, const ProtobufCMessage *message, ot_error *err);

/* The file with the edits, read. */
ot_status ot_remake_finish(ot_remake *x, ot_imported **out, ot_error *err);

#endif
