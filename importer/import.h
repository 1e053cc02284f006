/* import.h - ONNX file -> graph.  The folder's only entry point. */
#ifndef OT_IMPORT_H
#define OT_IMPORT_H

#include "runtime/base/io.h"
#include "runtime/graph/graph.h"

/* A tensor of the file that may be trained: an initializer (also external, also one listed as an input), a Constant
 * node's value, an attribute's list of floats that is a weight, or the same inside a subgraph.  ot_value.source and
 * ot_blob.source index these. */
typedef struct ot_source {
    /* Unique in the file: an initializer's name, a Constant's output name, `node/attribute`; the rest: sources.c. */
    const char *name;
    ot_dtype dtype;
    ot_shape shape;
    const void *data; /* row-major bytes, borrowed from the model */
    enum { OT_FROM_INITIALIZER, OT_FROM_CONSTANT, OT_FROM_ATTRIBUTE } kind;
    /* Position among all tensors of the file in a depth-first walk: the graph's initializers, then its nodes' attributes
     * (tensors, lists of floats) and subgraphs in order. */
    int order;
    bool external;
} ot_source;

typedef struct ot_dim_info {
    const char *name;
    int64_t value;
} ot_dim_info; /* name NULL and value -1: unknown */

/* The training that the file describes (TrainingInfoProto). */
typedef struct ot_training {
    const char *why; /* why it cannot be used (the rest is then empty); NULL: it can */
    /* The file's graph with the nodes of the algorithm, whose inputs follow the others; update bindings are its
     * assignments.  Names are those of the file. */
    ot_graph *graph;
    ot_graph *initialization; /* output i is the initial value of sources[sets[i]]; NULL: there is none */
    const int *sets;
    ot_error sticky; /* of the graphs */
} ot_training;

typedef struct ot_imported {
    ot_graph *graph; /* opset-upgraded, functions inlined; owned */
    int n_sources;
    ot_source *sources;
    int64_t ir_version, opset; /* opset of ai.onnx; 0: none given */
    const char *producer;      /* "" if none */
    const char *path;          /* as given */
    const char *notes;         /* lines for the user; "" if none */
    const char *fixed;         /* the first node whose numbers are in attributes that do not train; NULL: none */
    int64_t bytes;             /* memory of all of this: the file, its messages, external data, the graph */
    ot_training *training;     /* NULL: the file has none */
    void *file;                /* the parsed file and its bytes; only for importer/ and exporter/ */
} ot_imported;

/* Reads and checks a file.  All findings are listed at once in err->text (status OT_E_MODEL, or
 * OT_E_IO when it cannot be read, OT_E_NOMEM).  Free with ot_import_free. */
ot_status ot_import(const char *path, ot_imported **out, ot_error *err);

/* A complete file that has no name yet, and those of its data files that have none: open descriptors. */
typedef struct ot_unnamed {
    int fd, folder; /* the model; the folder that it will be in */
    int n;
    const struct ot_unnamed_data {
        const char *location;
        int fd;
    } *data;
} ot_unnamed;

/* ot_import for such a file; `path` is for messages. */
ot_status ot_import_unnamed(const ot_unnamed *u, const char *path, ot_imported **out, ot_error *err);

/* Imports other bytes (malloc; owned from here on, also after an error) as m's file: same path, folder, data files. */
ot_status ot_import_again(const ot_imported *m, void *bytes, size_t n, ot_imported **out, ot_error *err);

/* ---- for the exporter ---- */

/* Whether m was read from that file, or has data in it; *name: then its name for messages. */
bool ot_import_reads(const ot_imported *m, ot_file_id id, const char **name);
const char *ot_import_data_name(const ot_imported *m, int i); /* the i-th data file's location; NULL: there is none */
const char *ot_import_metadata(const ot_imported *m, const char *key); /* borrowed; NULL: the file has no such entry */
/* The same, also from the metadata of the graph; ignores case, as for the standard's keys Image.... */
const char *ot_import_metadata_folded(const ot_imported *m, const char *key);
/* Whether the file is an ONNX model, by the structure of its message (fast); -1: it cannot be read. */
int ot_import_is_model(int fd, uint64_t size);
void ot_import_free(ot_imported *m);

/* Large external tensors are mapped pages of their files.  Releases those that are in memory; the next access reads them
 * again. */
void ot_import_release(const ot_imported *m);

/* Errors: OT_E_IO: a data file of which m has mapped pages was changed since it was opened. */
ot_status ot_import_intact(const ot_imported *m, ot_error *err);

/* The i-th operator that the importer replaces by others, and its domain ("" is ai.onnx); NULL: end. */
const char *ot_import_rewritten(int i, const char **domain);

/* A serialized TensorProto (the standard's test data).  bytes of out->data belong to the arena. */
ot_status ot_import_tensor(const char *path, ot_arena *a, ot_tensor *out, ot_error *err);

#endif
