/* internal.h - the parsed file; only for the files of importer/ and exporter/.
 *
 * Memory  ot_file owns everything: the bytes as read, the messages unpacked from them, and an
 *         arena for what was decoded.  ot_imported.file is one. */
#ifndef OT_IMPORTER_INTERNAL_H
#define OT_IMPORTER_INTERNAL_H

#include <string.h>

#include "importer/import.h"
#include "ops/op.h"
#include "proto/onnx.pb-c.h"
#include "runtime/base/keyed_hash.h"

/* ---- guard.c: walks all bytes before they are unpacked ----------------------- */

enum { OT_DEEPEST = 100 }; /* messages inside messages */
#define OT_LARGEST_FILE ((size_t)INT32_MAX)

/* A large raw_data (payload.c). */
typedef struct ot_payload {
    size_t at, n;        /* in the file */
    const uint8_t *copy; /* in its message; NULL: not unpacked, or still in the file's bytes too */
} ot_payload;

typedef struct ot_payloads {
    uint8_t *bytes;   /* of the file, malloc */
    ot_payload *list; /* in the order of the file; malloc */
    size_t n, cap, next;
    ot_payload *unpacked; /* the last one, whose pages are not yet released */
    size_t released;      /* bytes of the file that use no memory any more */
} ot_payloads;

void ot_payloads_add(ot_payloads *p, size_t at, size_t n);          /* called by the guard */
void ot_payloads_alloc(ot_payloads *p, void *block, size_t n);      /* protobuf-c allocates a block */
void ot_payloads_free(ot_payloads *p, const void *block, size_t n); /* and frees one */
void ot_payloads_end(ot_payloads *p);                               /* everything is unpacked */

/* Counts what protobuf-c asks for and refuses more than `limit`. */
typedef struct ot_budget {
    size_t used, limit;
    bool hit;              /* refused by the limit, not by the system */
    ot_payloads *payloads; /* while unpacking; or NULL */
} ot_budget;

/* Walks the bytes as a message of type d without recursion and without memory: depth, lengths,
 * field numbers, wire types, and the heap that unpacking would take.  `what` begins the message. */
ot_status ot_guard_scan(const ProtobufCMessageDescriptor *d, const uint8_t *bytes, size_t n, const char *what,
                        ot_error *err);

/* Scans, then unpacks within a budget.  Release with ot_guard_free.  payloads (or NULL) has the bytes: their pages that hold
 * large payloads are given back. */
ot_status ot_guard_unpack(const ProtobufCMessageDescriptor *d, const uint8_t *bytes, size_t n, const char *what,
                          ot_payloads *payloads, ot_budget *b, ProtobufCMessage **out, ot_error *err);
void ot_guard_free(ProtobufCMessage *m, ot_budget *b);

/* ---- table.c: a hash table -------------------------------------------------- */

/* Open addressing; keys are borrowed.  Start as {0}; memory is the arena's. */
typedef struct ot_table {
    ot_arena *arena;
    const char **key;
    const void **value;
    size_t n, cap;
    ot_hash_key hash;
} ot_table;

void *ot_table_find(const ot_table *t, const char *key);            /* NULL: not there */
bool ot_table_set(ot_table *t, const char *key, const void *value); /* false: no memory */

/* ---- traced.c: what PyTorch's exporter says of the traced node that a node comes from -- */

const char *ot_traced_text(const Onnx__NodeProto *n); /* NULL: nothing */

/* Do the two come from different calls that both read the parameter of that name or, for a name that the exporter made, the same
 * parameters?  Then the program shares the tensor. */
bool ot_traced_shares(const Onnx__NodeProto *a, const Onnx__NodeProto *b, const char *name);

/* ---- the file --------------------------------------------------------------- */

/* Where the bytes of an external tensor are. */
typedef struct ot_external {
    const char *location;   /* as the file says, relative to the model's folder */
    int64_t offset, length; /* length as the file says; -1: not said */
} ot_external;

/* Parallel to ot_imported.sources: the message a source comes from. */
typedef struct ot_origin {
    const Onnx__TensorProto *tensor; /* NULL: an attribute's floats */
    const ot_external *external;     /* NULL: its bytes are in the model file */
} ot_origin;

typedef struct ot_file {
    const char *path;          /* as given */
    const char *dir;           /* folder of the path: "." or without a last slash */
    const char *real_dir;      /* folder of the file that a link leads to; NULL: path is no link */
    const ot_unnamed *unnamed; /* NULL: the file has its name */
    ot_file_id id;
    bool id_known;
    uint8_t *bytes; /* malloc, or mapped; without the payloads, which ot_file_piece reads */
    size_t n;
    bool mapped;
    ot_payloads payloads;
    Onnx__ModelProto *model;
    ot_budget budget;
    ot_arena *arena;
    ot_error sticky; /* the graph's err */
    ot_origin *origins;
    struct ot_data_file *data_files; /* file.c: those that tensors refer to, newest first */
    ot_table data_table;             /* the same, by location */
    size_t densified;                /* bytes that sparse tensors have become */
} ot_file;

/* Reads, walks and unpacks.  Free with ot_file_free. */
ot_status ot_file_open(const char *path, const ot_unnamed *u, ot_file **out, ot_error *err); /* u: NULL or import.h */
/* The same file with other bytes, which it takes (malloc), also where it fails. */
ot_status ot_file_again(const ot_file *f, void *bytes, size_t n, ot_file **out, ot_error *err);
void ot_file_free(ot_file *f);
/* The file's bytes from `at` on.  *n: how many are wanted; becomes how many are contiguous there. */
const uint8_t *ot_file_piece(const ot_file *f, size_t at, size_t *n);

/* The bytes of an external tensor: exactly `bytes` of them, in pages of its file, aligned to `element` bytes, or at
 * 64-byte alignment in the file's arena.
 * Errors are added to `found`, but for a file that cannot be opened (OT_E_IO): ot_file_missing reports it once. */
ot_status ot_file_external(ot_file *f, const ot_external *e, size_t bytes, size_t element, const char *tensor,
                           const void **out, ot_error *found);
void ot_file_missing(const ot_file *f, ot_error *found);

/* A data file of the model, open for reading until f is freed; -1: it cannot be opened.  `location` is
 * kept.  *size: its bytes; *why: the reason it could not be opened. */
int ot_file_data(ot_file *f, const char *location, uint64_t *size, const char **why);

/* ---- tensor.c ---------------------------------------------------------------- */

/* Decodes t.  f may be NULL: external data is refused then.  out->data is borrowed from t or is
 * in the arena; out->source is -1.  *external (may be NULL) is the location of external data.  Strings are an
 * array of `const char *`.  An error is added to `found`, and returned. */
ot_status ot_tensor_decode(ot_file *f, ot_arena *a, const Onnx__TensorProto *t, const char *what, ot_blob *out,
                           const ot_external **external, ot_error *found);
ot_status ot_tensor_densify(ot_file *f, ot_arena *a, const Onnx__SparseTensorProto *t, const char *what, ot_blob *out,
                            ot_error *found);

/* ---- check.c ----------------------------------------------------------------- */

/* All checks of the structure that need no knowledge of operators. */
void ot_check_model(const Onnx__ModelProto *m, ot_error *found);
void ot_check_training(const Onnx__ModelProto *m, const Onnx__TrainingInfoProto *t,
                       ot_error *found); /* of a checked model */

/* The tensor type within a type that may be a sequence or an optional: *list is OT_INPUT_*, 0 for a plain tensor.
 * NULL: it contains none. */
const Onnx__TypeProto__Tensor *ot_type_tensor(const Onnx__TypeProto *t, int *list);

static inline const char *ot_text(const char *s) { return s ? s : ""; }
static inline const char *ot_domain(const char *s) { return !s || !strcmp(s, "ai.onnx") ? "" : s; }

#endif
