/* zip_members.c - the files of a zip archive, which is not unpacked. */
#include "runtime/data/members.h"
#include "runtime/data/zip.h"

#include <string.h>

enum { MOST_FILES = 1 << 24 };

static ot_status add(void *user, ot_zip_member *z)
{
    ot_members *m = user;
    const char *name = z->name;
    size_t n = z->length;
    while (n > 2 && name[0] == '.' && name[1] == '/') name += 2, n -= 2;
    if (!n) return OT_OK;
    ot_packed_file f = { .size = z->size, .at = z->at, .packed = -1, .crc = z->crc };
    if (z->method != OT_ZIP_STORED) f.packed = z->packed;
    if (name[n - 1] == '/') f.size = -1;
    return ot_members_add(m, name, n, &f, z->z->err);
}

static ot_status read_member(const ot_members *m, const ot_packed_file *f, uint8_t *to, ot_error *err)
{
    ot_error own = { 0 };
    ot_zip z = { .fd = m->fd, .path = m->path, .err = err ? err : &own };
    ot_zip_member x = { .z = &z,
                        .name = f->name,
                        .method = f->packed < 0 ? OT_ZIP_STORED : OT_ZIP_DEFLATED,
                        .crc = f->crc,
                        .at = f->at,
                        .left = f->packed < 0 ? f->size : f->packed,
                        .wanted = f->size,
                        .part = f->part };
    OT_TRY(ot_zip_begin(&x));
    int64_t got = ot_zip_read(&x, to, f->size);
    ot_zip_end(&x);
    return got < 0 ? z.err->status : OT_OK;
}

ot_status ot_members_zip(const char *path, ot_members **out, ot_error *err)
{
    ot_zip z;
    ot_error own = { 0 };
    *out = NULL;
    ot_members *m = ot_members_new(path);
    if (!m) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    m->read = read_member;
    ot_status s = ot_zip_open(path, &z, err ? err : &own);
    if (!s) s = ot_zip_each(&z, MOST_FILES, add, m);
    m->fd = z.fd;
    if (!s) s = ot_members_sort(m, err);
    if (s) ot_members_free(m);
    else *out = m;
    return s;
}
