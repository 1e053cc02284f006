/* io.h - files: reading whole ones, replacing them atomically. */
#ifndef OT_IO_H
#define OT_IO_H

#include "runtime/base/base.h"

/* The whole file, read into malloc'ed memory.  Refuses what is not a regular file and what is larger
 * than `limit` bytes.  Errors: OT_E_IO (path and system's reason), OT_E_NOMEM. */
ot_status ot_read_file(const char *path, size_t limit, void **bytes, size_t *n, ot_error *err);

/* $XDG_CACHE_HOME/onnxtrain/<folder>/<name>, or below ~/.cache; make: makes the folders.  false: there is no
 * such place. */
bool ot_cache_path(const char *folder, const char *name, bool make, char *path, size_t n);

/* A file that appears complete or not at all: written beside `path` under a temporary name, synced,
 * renamed over it, the folder synced.  After any failure the temporary file is gone and `path` is
 * as it was. */
typedef struct ot_replace ot_replace;
ot_status ot_replace_begin(const char *path, ot_replace **out, ot_error *err);
ot_status ot_replace_write(ot_replace *r, const void *p, size_t n, ot_error *err);
const char *ot_replace_path(const ot_replace *r);              /* the temporary name, for reading back */
ot_status ot_replace_sync(ot_replace *r, ot_error *err);       /* flushes; the file can be read back */
ot_status ot_replace_commit(ot_replace *r, ot_error *err);     /* frees r */
void      ot_replace_abort(ot_replace *r);                     /* frees r; NULL is fine */

#endif
