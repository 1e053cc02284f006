/* io.h - reads whole files, replaces files atomically. */
#ifndef OT_IO_H
#define OT_IO_H

#include "runtime/base/base.h"

/* Reads up to n bytes of an open file from offset `at`, repeating short reads; fewer at the end of the file.  -1 and
 * errno: it cannot be read. */
int64_t ot_read_at(int fd, void *p, int64_t n, int64_t at);

/* Opens dir/location for reading, without waiting for a writer of a pipe.  beneath: what it leads to is in `dir` (relative
 * to the open folder `at`, or AT_FDCWD) or below, in which the kernel holds it; under: it is below `folder`, a real path.
 * -1 and errno: it cannot be opened; EXDEV: it leads out. */
int ot_open_beneath(int at, const char *dir, const char *location);
int ot_open_under(const char *dir, const char *location, const char *folder);

/* The whole file, read into malloc'ed memory.  Refuses anything but a regular file of at most `limit` bytes.  Errors:
 * OT_E_IO (path and system's reason), OT_E_NOMEM. */
ot_status ot_read_file(const char *path, size_t limit, void **bytes, size_t *n, ot_error *err);

/* The same for an open file, from its beginning; `path` is for messages. */
ot_status ot_read_open(int fd, const char *path, size_t limit, void **bytes, size_t *n, ot_error *err);

/* ftruncate, made again when a signal interrupts it.  -1 and errno: the file keeps its size. */
int ot_truncate(int fd, int64_t size);

/* $XDG_CACHE_HOME/onnxtrain/<folder>/<name>, or the same below ~/.cache; make: creates the folders.  false: there is
 * no cache folder. */
bool ot_cache_path(const char *folder, const char *name, bool make, char *path, size_t n);

/* Where a path, seen from the open folder `at` or AT_FDCWD, leads: a folder, open, and a name in it, of which there need not
 * be a file.  links: links at the end of the path are followed, but for those of /proc to open files, and those of other
 * users in a folder where all users can write: OT_E_IO. */
typedef struct ot_place_at {
    int dir;
    char *name; /* malloc'ed */
} ot_place_at;
ot_status ot_place_find(int at, const char *path, bool links, ot_place_at *out, ot_error *err);
void ot_place_free(ot_place_at *p);

/* A file that appears complete or not at all: written without a name (or with a temporary one if the file system
 * requires it), synced, renamed over `path`, and the folder synced.  After any failure nothing of it remains and
 * `path` is unchanged.
 * With AT_FDCWD the path is a user's: a link is followed, and a file without write permission is refused.  Seen from an open
 * folder it is a file of ours, and replaces whatever link or file has its name. */
typedef struct ot_replace ot_replace;
ot_status ot_replace_begin(const char *path, ot_replace **out, ot_error *err);
ot_status ot_replace_begin_at(int at, const char *path, ot_replace **out,
                              ot_error *err); /* relative to an open folder, which stays open */
ot_status ot_replace_write(ot_replace *r, const void *p, size_t n, ot_error *err);
ot_status ot_replace_sync(ot_replace *r, ot_error *err);   /* flushes; the file can be read back */
int ot_replace_fd(const ot_replace *r);                    /* for reading back; r's */
int ot_replace_folder(const ot_replace *r);                /* the folder, open; r's */
const char *ot_replace_name(const ot_replace *r);          /* the name in it; r's */
ot_status ot_replace_commit(ot_replace *r, ot_error *err); /* ot_replace_place, and frees r */
void ot_replace_abort(ot_replace *r);                      /* frees r; NULL is allowed */

/* All of that at once, with these n bytes.  folder: an open one that `name` is seen from, `shown` in messages; AT_FDCWD and
 * NULL: none. */
ot_status ot_replace_file(int folder, const char *shown, const char *name, const void *p, size_t n, ot_error *err);

/* For files that appear together.  place: replaces an existing file; place_new: only if none exists.  placed: the
 * file has its name, also if only the sync of its folder failed.  undo: removes it in that case, and frees r.  After
 * either, abort frees r and keeps the file. */
ot_status ot_replace_place(ot_replace *r, ot_error *err);
ot_status ot_replace_place_new(ot_replace *r, ot_error *err);
bool ot_replace_placed(const ot_replace *r);
bool ot_replace_full(const ot_replace *r); /* it failed because the disk, or the user's part of it, is full */
void ot_replace_undo(ot_replace *r);

/* Closes a stream into memory (open_memstream).  false: no memory for all of it; the contents have gaps. */
bool ot_memstream_close(FILE *f);

/* Can a file of `size` bytes (0: not known) be created at `path`?  Creates an empty one there, without a name, drops it, and
 * compares the size with the space that is free.  Errors: OT_E_IO. */
ot_status ot_replace_probe(const char *path, uint64_t size, ot_error *err);

/* Identifies a file, whatever its names: links are followed, hard links are one file. */
typedef struct ot_file_id {
    uint64_t dev, ino;
} ot_file_id;
bool ot_file_of(int at, const char *path, ot_file_id *out); /* relative to an open folder; false: there is none */
bool ot_file_of_open(int fd, ot_file_id *out);
bool ot_file_same(ot_file_id a, ot_file_id b);
bool ot_path_same(const char *a, const char *b); /* the same file, or the same name if there is none yet */

#endif
