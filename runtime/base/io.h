/* io.h - files: reading whole ones, replacing them atomically. */
#ifndef OT_IO_H
#define OT_IO_H

#include "runtime/base/base.h"

/* Up to n bytes of an open file from offset `at`, whatever a single call gives; fewer where the file ends.  -1 and
 * errno: it cannot be read. */
int64_t ot_read_at(int fd, void *p, int64_t n, int64_t at);

/* The whole file, read into malloc'ed memory.  Refuses what is not a regular file and what is larger
 * than `limit` bytes.  Errors: OT_E_IO (path and system's reason), OT_E_NOMEM. */
ot_status ot_read_file(const char *path, size_t limit, void **bytes, size_t *n, ot_error *err);

/* The same of a file that is open, from its beginning; `path` is for messages. */
ot_status ot_read_open(int fd, const char *path, size_t limit, void **bytes, size_t *n, ot_error *err);

/* $XDG_CACHE_HOME/onnxtrain/<folder>/<name>, or below ~/.cache; make: makes the folders.  false: there is no
 * such place. */
bool ot_cache_path(const char *folder, const char *name, bool make, char *path, size_t n);

/* A file that appears complete or not at all: written without a name (or under a temporary one, where the file
 * system knows no other way), synced, renamed over `path`, the folder synced.  After any failure nothing is left
 * of it and `path` is as it was. */
typedef struct ot_replace ot_replace;
ot_status ot_replace_begin(const char *path, ot_replace **out, ot_error *err);
ot_status ot_replace_begin_at(int at, const char *path, ot_replace **out,
                              ot_error *err); /* seen from an open folder, which stays open */
ot_status ot_replace_write(ot_replace *r, const void *p, size_t n, ot_error *err);
ot_status ot_replace_sync(ot_replace *r, ot_error *err);   /* flushes; the file can be read back */
int ot_replace_fd(const ot_replace *r);                    /* for reading back; r's */
int ot_replace_folder(const ot_replace *r);                /* the folder, open; r's */
ot_status ot_replace_commit(ot_replace *r, ot_error *err); /* ot_replace_place, and frees r */
void ot_replace_abort(ot_replace *r);                      /* frees r; NULL is fine */

/* For files that appear together.  place: over what is there; place_new: only where nothing is.  placed: the file
 * stands under its name, which it also does when only its folder could not be brought to disk.  undo: removes it
 * again where it does, and frees r.  After either, abort frees r and leaves the file. */
ot_status ot_replace_place(ot_replace *r, ot_error *err);
ot_status ot_replace_place_new(ot_replace *r, ot_error *err);
bool ot_replace_placed(const ot_replace *r);
void ot_replace_undo(ot_replace *r);

/* Closes a stream into memory (open_memstream).  false: there was no memory for all of it; what it holds has gaps. */
bool ot_memstream_close(FILE *f);

/* Whether a file can be made at `path`: one is made there, without a name, and dropped.  Errors: OT_E_IO. */
ot_status ot_replace_probe(const char *path, ot_error *err);

/* Which file it is, whatever its names: links are followed, hard links are one file. */
typedef struct ot_file_id {
    uint64_t dev, ino;
} ot_file_id;
bool ot_file_of(int at, const char *path, ot_file_id *out); /* seen from an open folder; false: there is none */
bool ot_file_of_open(int fd, ot_file_id *out);
bool ot_file_same(ot_file_id a, ot_file_id b);
bool ot_path_same(const char *a, const char *b); /* one file, or one name where there is none yet */

#endif
