/* zip.h - members of a zip archive, without unpacking it: arrays of an .npz, images. */
#ifndef OT_ZIP_H
#define OT_ZIP_H

#include "runtime/base/io.h"

#include <zlib.h>

enum { OT_ZIP_STORED = 0, OT_ZIP_DEFLATED = 8 };

typedef struct ot_zip {
    int fd;
    int64_t size;     /* of the file */
    const char *path; /* borrowed */
    ot_error *err;    /* of all that is done with it; not NULL */
} ot_zip;

/* A member while it is read. */
typedef struct ot_zip_member {
    const ot_zip *z;
    const char *name; /* of `length` bytes; valid during the call that gives the member */
    uint32_t length, method, crc;
    int64_t header; /* offset of the local header */
    int64_t packed, size;
    int64_t at, left; /* next packed byte, and how many remain */
    int64_t wanted;   /* bytes not yet returned */
    uint32_t sum;     /* checksum of those returned */
    z_stream stream;
    bool part;             /* only the first bytes are wanted: the checksum cannot be checked */
    bool ended;            /* the stream */
    unsigned char *buffer; /* of packed bytes; deflated members */
} ot_zip_member;

/* Errors: OT_E_IO.  The caller closes z, also after a failure. */
ot_status ot_zip_open(const char *path, ot_zip *z, ot_error *err);
void ot_zip_close(ot_zip *z);

/* Calls f with each of at most `most` members, in the order of the directory, until it fails; that they do not overlap is
 * checked afterwards.  Errors: OT_E_DATA (damaged, not supported), OT_E_IO, OT_E_NOMEM. */
typedef ot_status ot_zip_function(void *user, ot_zip_member *m);
ot_status ot_zip_each(const ot_zip *z, int64_t most, ot_zip_function *f, void *user);

/* Bytes of a member, in order, between begin and end; end is for a begin that succeeded.  read: up to n; fewer only at the end, where the
 * checksum is checked.  -1: failed, z->err is filled. */
ot_status ot_zip_begin(ot_zip_member *m);
int64_t ot_zip_read(ot_zip_member *m, void *p, int64_t n);
void ot_zip_end(ot_zip_member *m);

#endif
