/* members.h - the files of a folder, or of an archive that is not unpacked. */
#ifndef OT_MEMBERS_H
#define OT_MEMBERS_H

#include "runtime/base/io.h"
#include "runtime/data/data.h"

typedef struct ot_packed_file {
    const char *name; /* relative, with '/'; a folder without files ends with it */
    int64_t size;     /* of its content; -1: a folder */
    int64_t at;       /* folder: the time of its last change, in nanoseconds; archive: offset of the content */
    int64_t packed;   /* zip: bytes in the archive; -1: they are the content */
    uint32_t crc;     /* zip: of the content */
    int in;           /* of several archives: which has it */
    bool part;        /* size is that of its first bytes: there is nothing to check them with */
} ot_packed_file;

typedef struct ot_members ot_members;
struct ot_members {
    const char *path; /* of the folder or archive, for messages */
    int fd;           /* of it */
    int64_t n;
    ot_packed_file *list; /* in the order of their names, which differ */
    int64_t special; /* of a folder: number of files that cannot be read, such as pipes and devices; the first one */
    const char *special_name; /* in names */
    ot_arena *names;
    int64_t room;
    char *block; /* the unused rest of a block of names */
    size_t left;
    ot_members **joined; /* the archives whose files it lists; owned */
    int n_joined;
    const void *user; /* of `read`; borrowed */
    ot_status (*read)(const ot_members *m, const ot_packed_file *f, uint8_t *to, ot_error *err);
};

/* Bytes that are reused and grow. */
typedef struct ot_file_room {
    uint8_t *data;
    size_t size;
} ot_file_room;

/* At least n bytes.  false: no memory. */
bool ot_file_room_reserve(ot_file_room *r, size_t n);

/* All files below a folder, except hidden ones.  Links are followed where they stay below it.  Errors: OT_E_DATA (a link
 * that leads out or nowhere, folders that are nested too deeply), OT_E_IO, OT_E_NOMEM. */
ot_status ot_members_folder(const char *path, ot_members **out, ot_error *err);

/* An empty list of a folder's files: ot_members_take adds one by its name; `..` and links must not lead out of the folder.
 * *at: its number.  false: errno says why: EXDEV, ENOENT, EISDIR ...; ENOMEM.  The list is not sorted, and may have a file
 * twice. */
ot_status ot_members_beside(const char *folder, ot_members **out, ot_error *err);
bool ot_members_take(ot_members *m, const char *name, int64_t *at);

/* The file of member i of a folder.  false: it is a folder or no longer exists, or m is an archive. */
bool ot_members_id(const ot_members *m, int64_t i, ot_file_id *out);

/* The members of a tar file (ustar, GNU or pax), from its headers alone. */
ot_status ot_members_tar(const char *path, ot_members **out, ot_error *err);

/* The members of n tar files together; name: of the set, for messages.  Errors: also OT_E_DATA: two have a file of the same name. */
ot_status ot_members_tars(const char *name, const char *const *path, int n, ot_members **out, ot_error *err);

/* The members of a zip archive, stored or deflated, from its directory. */
ot_status ot_members_zip(const char *path, ot_members **out, ot_error *err);

void ot_members_free(ot_members *m); /* NULL is allowed */

/* The content of member i, of at most OT_MEMBER_MOST bytes, in r.  Any thread may call it, with an r of its own.  Errors:
 * OT_E_DATA (damaged, not a file), OT_E_IO, OT_E_NOMEM; they begin with path and name. */
enum { OT_MEMBER_MOST = 256 << 20 };
ot_status ot_members_read(const ot_members *m, int64_t i, ot_file_room *r, ot_error *err);

/* The first bytes of member i, at most n. */
ot_status ot_members_peek(const ot_members *m, int64_t i, uint8_t *to, int64_t *n, ot_error *err);

/* ---- for their readers ---- */

ot_members *ot_members_new(const char *path); /* NULL: no memory */
ot_status ot_members_add(ot_members *m, const char *name, size_t length, const ot_packed_file *f, ot_error *err);
ot_status ot_members_sort(ot_members *m, ot_error *err); /* Errors: OT_E_DATA (a name that is there twice) */

#endif
