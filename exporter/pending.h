/* pending.h - a model and its data files that appear together, or not at all; shared by the files of exporter/ alone.
 *
 *     ot_pending_open ─ ot_pending_data ... ─ the model's bytes into p.r ─ ot_pending_import ─ ot_pending_place ─ ot_pending_end
 *
 * Until they are placed the files have no name. */
#ifndef OT_PENDING_H
#define OT_PENDING_H

#include "importer/import.h"
#include "runtime/base/io.h"

/* Takes the next bytes of a file. */
typedef ot_status ot_sink(void *to, const void *bytes, size_t n, ot_error *err);

/* Where the new model will stand. */
typedef struct ot_place {
    const char *path; /* for messages */
    int dir;          /* the folder, open */
    const char *base; /* the name in it */
    const char *stem; /* that without .onnx, at most 200 bytes */
} ot_place;

/* Data files that are complete and have no name yet, newest first. */
typedef struct ot_data_files {
    struct ot_data_files *next;
    const char *name;
    ot_replace *r;
} ot_data_files;

typedef struct ot_pending {
    ot_arena *arena;
    ot_place to;
    ot_replace *r; /* the model */
    ot_data_files *data;
} ot_pending;

/* The content of a data file: `size` bytes that `stream` passes to a sink, the same at every call. */
typedef struct ot_content {
    uint64_t size;
    ot_status (*stream)(const void *what, ot_sink *sink, void *to, ot_error *err);
    const void *what;
} ot_content;

/* pending.c */

/* *p starts as {0}.  folder: `path` is seen from it; NULL: from the working directory. */
ot_status ot_pending_open(ot_pending *p, ot_arena *a, const char *path, const int *folder, ot_error *err);
/* A data file with that content: one that is there, or a new one.  own: the name to try first; NULL: none.  *name: its
 * name in the folder. */
ot_status ot_pending_data(ot_pending *p, const ot_content *c, const char *own, const char **name, ot_error *err);
/* ot_replace_write as a sink: for p->r and others. */
ot_status ot_sink_file(void *r, const void *bytes, size_t n, ot_error *err);
/* Imports what was written. */
ot_status ot_pending_import(const ot_pending *p, ot_imported **out, ot_error *err);
/* Data and model get their names; data files that the model replaced left behind go, m's not. */
ot_status ot_pending_place(ot_pending *p, const ot_imported *m, ot_error *err);
/* Releases; files that have no name are gone, and so are data files whose model did not take its place. */
void ot_pending_end(ot_pending *p);

/* superseded.c */

/* What a new data file of the model `stem` is called: "<stem>-<8 hex digits>.onnx.data".  The number is the CRC-32 of its
 * bytes, or one of the OT_DATA_NAMES from there on that is free. */
enum { OT_DATA_NAMES = 1000 };
const char *ot_data_name(ot_arena *a, const char *stem, uint32_t number);

/* Data files of that pattern that the existing model at `to` refers to and that are not needed any more: neither the new model
 * (open as `fresh`) nor another model in the folder nor m has data in them.  Ends with NULL; NULL: none, or unknown. */
const char **ot_data_old(ot_arena *a, const ot_place *to, int fresh, const ot_imported *m);

#endif
