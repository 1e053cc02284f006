/* wire.h - the protobuf wire format, read and written in place. */
#ifndef OT_WIRE_H
#define OT_WIRE_H

#include "runtime/base/base.h"

/* Numbers of the fields of onnx.proto that are read or written here. */
enum {
    OT_MODEL_GRAPH = 7,
    OT_MODEL_OPSET = 8,
    OT_MODEL_METADATA = 14,
    OT_MODEL_TRAINING = 20,
    OT_MODEL_FUNCTION = 25,
    OT_TRAINING_INITIALIZATION = 1,
    OT_TRAINING_ALGORITHM = 2,
    OT_FUNCTION_NODE = 7,
    OT_FUNCTION_ATTRIBUTE = 11,
    OT_GRAPH_NODE = 1,
    OT_GRAPH_INITIALIZER = 5,
    OT_GRAPH_INPUT = 11,
    OT_GRAPH_OUTPUT = 12,
    OT_GRAPH_VALUE_INFO = 13,
    OT_GRAPH_SPARSE = 15,
    OT_NODE_INPUT = 1,
    OT_NODE_ATTRIBUTE = 5,
    OT_ATTRIBUTE_NAME = 1,
    OT_ATTRIBUTE_F = 2,
    OT_ATTRIBUTE_T = 5,
    OT_ATTRIBUTE_G = 6,
    OT_ATTRIBUTE_FLOATS = 7,
    OT_ATTRIBUTE_TENSORS = 10,
    OT_ATTRIBUTE_GRAPHS = 11,
    OT_ATTRIBUTE_SPARSE = 22,
    OT_ATTRIBUTE_SPARSES = 23,
    OT_SPARSE_VALUES = 1,
    OT_SPARSE_INDICES = 2,
    OT_TENSOR_FLOATS = 4,
    OT_TENSOR_INT32S = 5,
    OT_TENSOR_INT64S = 7,
    OT_TENSOR_RAW = 9,
    OT_TENSOR_DOUBLES = 10,
    OT_TENSOR_UINT64S = 11,
    OT_TENSOR_EXTERNAL = 13,
    OT_TENSOR_LOCATION = 14,
    OT_ENTRY_KEY = 1, /* of a StringStringEntryProto */
    OT_ENTRY_VALUE = 2
};

/* One field on the wire.  body..end: its payload; for a length-delimited one without the length. */
typedef struct ot_field {
    uint32_t number;
    unsigned wire; /* 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes */
    size_t at;     /* its tag */
    size_t len_at; /* wire 2: the varint of its length */
    size_t body, end;
} ot_field;

/* The next field of [*at, end); false: there is none.  The bytes must have passed the importer's guard. */
bool ot_field_next(const uint8_t *p, size_t *at, size_t end, ot_field *f);
uint64_t ot_varint_read(const uint8_t *p, size_t *at, size_t end);
size_t ot_varint_size(uint64_t v);
size_t ot_varint_write(uint8_t *out, uint64_t v); /* bytes written; out NULL: only counts */
/* A StringStringEntryProto as field `number`, in the arena; NULL: no memory. */
const uint8_t *ot_entry_bytes(ot_arena *a, uint32_t number, const char *key, const char *value, size_t *n);

#endif
