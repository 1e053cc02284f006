/* sounds.c - the samples of a data set that are recordings in files, decoded when they are needed. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/data/internal.h"
#include "runtime/data/members.h"
#include "runtime/data/sound.h"

enum { HEAD = 16 << 10 };

typedef struct sound_source {
    ot_image_source base;
    const ot_members *m;
    const int64_t *member; /* of each row */
} sound_source;

static ot_status read_sound(const ot_image_source *s, int64_t row, const ot_sound_want *want, ot_image_room *room,
                            float *to, ot_error *err)
{
    const sound_source *p = (const sound_source *)s;
    const ot_packed_file *f = &p->m->list[p->member[row]];
    ot_file_room bytes = { room->bytes, room->size };
    ot_error bad = { 0 };
    ot_status status = ot_members_read(p->m, p->member[row], &bytes, err);
    room->bytes = bytes.data;
    room->size = bytes.size;
    if (status) return status;
    status = ot_sound_decode(room->bytes, (size_t)f->size, want, to, &bad);
    return status ? ot_fail(err, status, "%s/%s: %-s", p->m->path, f->name, bad.text) : OT_OK;
}

static const char *name_of(const ot_image_source *s, int64_t row)
{
    const sound_source *p = (const sound_source *)s;
    return p->m->list[p->member[row]].name;
}

/* One file, from its first bytes if they are enough. */
static ot_status look(const ot_members *m, int64_t i, ot_file_room *r, ot_sound *out, ot_error *err)
{
    ot_error bad = { 0 };
    bool more = false;
    int64_t size = m->list[i].size, n = HEAD;
    if (!ot_file_room_reserve(r, HEAD)) return ot_fail(err, OT_E_NOMEM, "%s: no memory", m->path);
    OT_TRY(ot_members_peek(m, i, r->data, &n, err));
    ot_status s = ot_sound_look(r->data, (size_t)n, (size_t)size, out, &more, &bad);
    if (!s && more) {
        OT_TRY(ot_members_read(m, i, r, err));
        s = ot_sound_look(r->data, (size_t)size, (size_t)size, out, &more, &bad);
    }
    return s ? ot_fail(err, s, "%s/%s: %-s", m->path, m->list[i].name, bad.text) : OT_OK;
}

/* The rate of all, the largest number of channels, the longest.  What cannot be read is reported, or skipped, when it is used. */
static ot_status survey(sound_source *s, int64_t n, int64_t *frames, ot_error *err)
{
    ot_file_room r = { 0 };
    ot_error first = { 0 };
    ot_status status = OT_OK;
    int64_t found = -1;
    for (int64_t k = 0; k < n && !status; k++) {
        ot_sound x;
        ot_error bad = { 0 };
        status = look(s->m, s->member[k], &r, &x, &bad);
        if (status && !first.status) first = bad;
        if (status == OT_E_NOMEM) break;
        if (status) {
            status = OT_OK;
            continue;
        }
        if (found >= 0 && x.rate != s->base.rate)
            status =
                ot_fail(err, OT_E_DATA,
                        "%s: %s has a sample rate of %d Hz, but %s has %d Hz; convert them to one rate, for example "
                        "with: sox IN -r %d OUT",
                        s->m->path, s->m->list[s->member[found]].name, s->base.rate, s->m->list[s->member[k]].name,
                        x.rate, s->base.rate);
        if (found < 0) found = k, s->base.rate = x.rate;
        if (x.channels > s->base.channels) s->base.channels = x.channels;
        if (x.frames > *frames) *frames = x.frames;
    }
    free(r.data);
    if (status == OT_E_NOMEM || (!status && found < 0)) return ot_fail(err, first.status, "%s", first.text);
    return status;
}

ot_status ot_sounds_array(ot_dataset *d, ot_array *x, const int64_t *member, int64_t n, ot_error *err)
{
    sound_source *s = ot_arena_alloc(d->arena, sizeof *s);
    if (!s) return ot_fail(err, OT_E_NOMEM, "%s: no memory", d->name);
    *s = (sound_source){ .base = { .read_sound = read_sound, .name = name_of, .folder = d->members->path },
                         .m = d->members,
                         .member = member };
    x->frames = 0;
    OT_TRY(survey(s, n, &x->frames, err));
    x->source = &s->base;
    x->mapped = true;
    x->t.dtype = OT_F32;
    x->t.rank = 3;
    memcpy(x->t.dim, (int64_t[]){ n, 0, s->base.channels }, 3 * sizeof(int64_t));
    for (int64_t i = 0; i < n; i++) {
        const ot_packed_file *f = &s->m->list[member[i]];
        d->mapped_hash = ot_hash(d->mapped_hash, f->name, strlen(f->name));
        d->mapped_hash = ot_hash(d->mapped_hash, &(int64_t[3]){ f->size, f->at, (int64_t)f->crc }, 3 * sizeof(int64_t));
    }
    return OT_OK;
}

static ot_status read_one(const ot_members *m, const ot_packed_file *f, uint8_t *to, ot_error *err)
{
    int64_t got = ot_read_at(m->fd, to, f->size, 0);
    if (got == f->size) return OT_OK;
    return ot_fail(err, OT_E_IO, "%s/%s: has %lld bytes, but had %lld when it was opened", m->path, f->name,
                   (long long)(got < 0 ? 0 : got), (long long)f->size);
}

ot_status ot_sound_open(const char *path, ot_dataset *d, ot_error *err)
{
    static const int64_t first = 0;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *folder = !slash ? "." : ot_arena_printf(d->arena, "%.*s", slash > path ? (int)(slash - path) : 1, path);
    struct stat st;
    ot_members *m = folder ? ot_members_new(folder) : NULL;
    if (!m) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    d->members = m;
    m->read = read_one;
    m->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (m->fd < 0 || fstat(m->fd, &st))
        return ot_fail(err, OT_E_IO, "%s: cannot be opened: %s", path, strerror_r(errno, (char[128]){ 0 }, 128));
    ot_packed_file f = { .size = st.st_size, .packed = -1 };
    OT_TRY(ot_members_add(m, name, strlen(name), &f, err));
    ot_array *x = ot_dataset_add(d, "");
    if (!x) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    d->mapped_hash = 2;
    return ot_sounds_array(d, x, &first, 1, err);
}

static ot_array *sounds_of(const ot_dataset *d)
{
    for (int i = 0; i < d->n; i++)
        if (ot_array_is_sound(&d->array[i])) return &d->array[i];
    return NULL;
}

ot_status ot_sounds_match(ot_dataset *d, const ot_dataset *like, ot_error *err)
{
    ot_array *x = sounds_of(d);
    const ot_array *y = sounds_of(like);
    if (!x || !y) return OT_OK;
    if (x->source->rate != y->source->rate)
        return ot_fail(err, OT_E_DATA, "%s: has a sample rate of %d Hz, but %s has %d Hz", d->name, x->source->rate,
                       like->name, y->source->rate);
    x->frames = y->frames;
    return OT_OK;
}
