/* messages.h - ONNX messages in an arena: new ones, and what is read of those in a file; shared by the files of exporter/ alone.
 *
 * Memory  Names, texts and bytes that are passed are borrowed.  NULL, false: no memory. */
#ifndef OT_MESSAGES_H
#define OT_MESSAGES_H

#include "importer/internal.h"

/* protobuf-c's strings are not const, but packing only reads them. */
static inline char *ot_message_text(const char *s) { return (char *)(uintptr_t)s; }

/* The declaration of a tensor.  A negative dimension is the symbolic one `symbol`. */
Onnx__ValueInfoProto *ot_message_value(ot_arena *a, const char *name, ot_dtype t, int rank, const int64_t *dim,
                                       const char *symbol);

/* Of shape s; without a payload. */
Onnx__TensorProto *ot_message_tensor(ot_arena *a, const char *name, ot_dtype t, const ot_shape *s);

/* t gets that raw_data instead of its own payload; everything else stays. */
void ot_message_payload(Onnx__TensorProto *t, size_t n, const void *bytes);

/* An attribute of that type, its value not set. */
Onnx__AttributeProto *ot_message_attribute(ot_arena *a, const char *name, Onnx__AttributeProto__AttributeType type);

/* *n becomes a Constant with value t and the same name and outputs. */
bool ot_message_constant(ot_arena *a, Onnx__NodeProto *n, Onnx__TensorProto *t);

Onnx__StringStringEntryProto *ot_message_entry(ot_arena *a, const char *key, const char *value);

/* Appends to a repeated field.  list: the address of the field; *cap: how many it has room for, 0 at first.  The arena keeps outgrown
 * lists, which sum to less than the last. */
bool ot_message_push(ot_arena *a, void *list, size_t *n, size_t *cap, void *item);

/* Whether the metadata entry `key` of a file may be replaced: other tools' keys keep their values. */
static inline bool ot_metadata_is_ours(const char *key) { return !strncmp(key, "onnxtrain.", 10); }

bool ot_node_is(const Onnx__NodeProto *n, const char *op); /* of ai.onnx */

/* Attributes; NULL or otherwise: there is none. */
Onnx__AttributeProto *ot_attr_find(const Onnx__NodeProto *n, const char *name);
int64_t ot_attr_int(const Onnx__NodeProto *n, const char *name, int64_t otherwise);
double ot_attr_float(const Onnx__NodeProto *n, const char *name, double otherwise);

/* The tensor of a Constant; NULL: n is none, or has its value in another form. */
Onnx__TensorProto *ot_constant_tensor(const Onnx__NodeProto *n);

/* Adds the tensors of the graph's initializers and Constants by name, but not those of its subgraphs. */
bool ot_graph_tensors(const Onnx__GraphProto *g, ot_table *by_name);

#endif
