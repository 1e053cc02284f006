/* patch.h - edits to the bytes of a protobuf file; shared by the files of exporter/ alone.
 *
 * A patch is a list of replaced byte ranges.  Where a replacement changes a length, the lengths of
 * all messages around it are rewritten when the patch is finished.  Nothing is copied: the new file
 * is streamed from the old bytes and the replacements.
 *
 * Memory  Spans and edits are the patch's; replacements are borrowed until it is freed. */
#ifndef OT_PATCH_H
#define OT_PATCH_H

#include "exporter/pending.h"
#include "exporter/wire.h"
#include "importer/internal.h"

/* A length-delimited part that edits lie in. */
typedef struct ot_span {
    int parent; /* index; -1: the file */
    size_t len_at, body, end;
    int64_t delta; /* by how much it grows */
    bool floats;   /* an attribute whose floats count as a tensor */
} ot_span;

typedef struct ot_edit {
    size_t at, end, n; /* [at, end) becomes the n bytes */
    const void *bytes;
    size_t sequence; /* orders insertions at one place */
} ot_edit;

/* The tensors of a file, where they are; floats in attributes are among them (importer/sources.c). */
typedef struct ot_patch {
    const ot_file *f;
    const uint8_t *p; /* its bytes, without large payloads (ot_file_piece) */
    size_t n;
    ot_arena *arena; /* for replacements */
    ot_span *span;   /* [0] is the file */
    int *tensor;     /* span of the tensor of order i (ot_source.order) */
    int *other;      /* spans of tensors without an order: sparse ones, training graphs' */
    ot_edit *edit;
    size_t n_span, n_tensor, n_other, n_edit;
    size_t cap_span, cap_tensor, cap_other, cap_edit;
    bool no_memory; /* sticks */
} ot_patch;

/* walk.c */

/* Lists every tensor of the file, in the order of importer/sources.c. */
void ot_patch_walk(ot_patch *p);

/* patch.c */

ot_status ot_patch_begin(ot_patch *p, const ot_file *f, ot_error *err);
void ot_patch_free(ot_patch *p);
int ot_patch_span(ot_patch *p, int parent, const ot_field *f); /* 0 after a failure */
/* The last field of that number in a span: the one that counts; false: there is none. */
bool ot_field_last(const ot_patch *p, int span, uint32_t number, ot_field *f);
void ot_patch_edit(ot_patch *p, int span, size_t at, size_t end, const void *bytes, size_t n);
bool ot_patch_push(ot_patch *p, int **list, size_t *n, size_t *cap, int v);

/* Rewrites the lengths and sorts.  *size: of the new file. */
ot_status ot_patch_finish(ot_patch *p, const char *path, size_t *size, ot_error *err);

/* Hands the new file's bytes over, in order. */
ot_status ot_patch_stream(const ot_patch *p, ot_sink *sink, void *to, ot_error *err);

/* tensor.c */

/* What the tensor will hold: `bytes`, but elements equal to the old ones keep their bits.  *out is
 * s->data where nothing changed.  Errors: OT_E_DIVERGED, OT_E_NOMEM. */
ot_status ot_payload_merge(ot_arena *a, const ot_source *s, const void *bytes, const void **out, ot_error *err);
/* Edits a tensor whose payload is in the model file.  Errors: OT_E_INTERNAL (not found there). */
ot_status ot_payload_edit(ot_patch *p, int span, const ot_source *s, const void *payload, ot_error *err);

/* external.c */

/* Makes the data files that are needed and edits the tensors that name them.  payload[i] belongs to source i. */
ot_status ot_external_write(ot_patch *p, const ot_imported *m, const void *const *payload, ot_pending *to,
                            ot_error *err);

/* metadata.c */
ot_status ot_metadata_edit(ot_patch *p, const char *key, const char *value, ot_error *err);
ot_status ot_metadata_drop(ot_patch *p, const char *key, ot_error *err);

#endif
