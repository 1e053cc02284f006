/* pictures.c - images in class folders, of a folder or an archive, decoded when they are needed.
 *
 * Layout  PART/CLASS/.../image or CLASS/.../image; parts are folders called train, val or validation, test (also training,
 *         Test_Data ...).  Folders that everything is in are passed over.  Classes are numbered in the order of their names. */
#include "runtime/data/internal.h"
#include "runtime/data/members.h"
#include "runtime/data/rows.h"
#include "runtime/data/sound.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_PIXELS = 1 << 27, LOOKED_AT = 16, SHOWN = 10, MOST_CLASSES = 1 << 20, HEADER = 1 << 16 };

typedef struct picture_source {
    ot_image_source base;
    const ot_members *m;
    const int64_t *member; /* of each row */
    bool masks;            /* pixels are class numbers */
    int colours;           /* channels of the images that were looked at, also of masks */
} picture_source;

/* ---- one image ------------------------------------------------------------------------------ */

void ot_image_room_free(ot_image_room *r)
{
    free(r->bytes);
    ot_pixels_free(&r->pixels);
    *r = (ot_image_room){ 0 };
}

static ot_status read_picture(const ot_image_source *s, int64_t row, int channels, ot_image_room *room, ot_image *out,
                              ot_error *err)
{
    const picture_source *p = (const picture_source *)s;
    const ot_packed_file *f = &p->m->list[p->member[row]];
    ot_file_room bytes = { room->bytes, room->size };
    ot_error bad = { 0 };
    ot_pixels *x = &room->pixels;
    ot_status status = ot_members_read(p->m, p->member[row], &bytes, err);
    room->bytes = bytes.data;
    room->size = bytes.size;
    if (status) return status;
    ot_pixels_free(x);
    status = p->masks ? ot_picture_numbers(room->bytes, (size_t)f->size, MOST_PIXELS, x, &bad)
                      : ot_picture_decode(room->bytes, (size_t)f->size, MOST_PIXELS, x, &bad);
    if (!status) status = ot_pixels_turn(x, &bad);
    if (!status && !p->masks) status = ot_pixels_to_bytes(x, channels, &bad);
    if (status)
        return ot_fail(
            err, status, "%s/%s: %-s%s", p->m->path, f->name, bad.text,
            p->masks && status == OT_E_DATA ? " (targets that are images need a table and a loss such as mse)" : "");
    *out = (ot_image){
        .data = x->data, .height = x->height, .width = x->width, .channels = channels, .stride = x->width * channels
    };
    return OT_OK;
}

static bool header_size(const uint8_t *bytes, int64_t n, int64_t *height, int64_t *width)
{
    ot_pixels x;
    ot_error bad = { 0 };
    if (ot_picture_size(bytes, (size_t)n, &x, &bad)) return false;
    bool across = x.orientation >= 5;
    *height = across ? x.width : x.height;
    *width = across ? x.height : x.width;
    return true;
}

static ot_status size_of(const ot_image_source *s, int64_t row, ot_image_room *room, int64_t *height, int64_t *width,
                         ot_error *err)
{
    const picture_source *p = (const picture_source *)s;
    int64_t i = p->member[row], all = p->m->list[i].size, n = all < HEADER ? all : HEADER;
    ot_file_room bytes = { room->bytes, room->size };
    bool enough = ot_file_room_reserve(&bytes, HEADER);
    ot_status status = enough ? ot_members_peek(p->m, i, bytes.data, &n, err)
                              : ot_fail(err, OT_E_NOMEM, "%s: no memory to read images", p->m->path);
    bool known = !status && header_size(bytes.data, n, height, width);
    if (!status && !known) { /* the header is longer, or at the end */
        status = ot_members_read(p->m, i, &bytes, err);
        known = !status && header_size(bytes.data, all, height, width);
    }
    room->bytes = bytes.data;
    room->size = bytes.size;
    return status || known ? status : ot_fail(err, OT_E_DATA, "%s/%s: has no size", p->m->path, p->m->list[i].name);
}

static const char *name_of(const ot_image_source *s, int64_t row)
{
    const picture_source *p = (const picture_source *)s;
    return p->m->list[p->member[row]].name;
}

/* ---- which files, and what they are called ---------------------------------------------------- */

bool ot_picture_name(const char *name)
{
    static const char *const end[] = { "jpg", "jpeg", "jpe", "jfif", "png", "webp", "bmp", "pbm",
                                       "pgm", "ppm",  "pnm", "pam",  "tif", "tiff", "jp2", "j2k" };
    const char *dot = strrchr(name, '.'), *slash = strrchr(name, '/');
    for (int i = 0; dot && dot > slash && i < OT_LEN(end); i++)
        if (!strcasecmp(dot + 1, end[i])) return true;
    return false;
}

/* Anything below a folder whose name begins with a dot, or that packers add. */
static bool is_hidden(const char *name)
{
    if (!strncmp(name, "__MACOSX/", 9)) return true;
    for (const char *p = name; p; p = strchr(p, '/'), p = p ? p + 1 : NULL)
        if (*p == '.') return true;
    return false;
}

/* The part that a folder of this name is; -1: none.  n: its length. */
int ot_picture_part(const char *name, size_t n)
{
    static const struct {
        const char *name;
        ot_split split;
    } part[] = { { "train", OT_SPLIT_TRAIN }, { "training", OT_SPLIT_TRAIN }, { "val", OT_SPLIT_VAL },
                 { "valid", OT_SPLIT_VAL },   { "validation", OT_SPLIT_VAL }, { "dev", OT_SPLIT_VAL },
                 { "test", OT_SPLIT_TEST },   { "testing", OT_SPLIT_TEST } };
    static const char *const end[] = { "_data", "_set", "_images", "-data", "-set", "set", "data" };
    for (int e = 0; e <= OT_LEN(end); e++) {
        size_t k = e < OT_LEN(end) ? strlen(end[e]) : 0, m = n > k ? n - k : 0;
        if (e < OT_LEN(end) && (m < 1 || strncasecmp(name + m, end[e], k))) continue;
        for (int i = 0; i < OT_LEN(part); i++)
            if (strlen(part[i].name) == m && !strncasecmp(name, part[i].name, m)) return (int)part[i].split;
    }
    return -1;
}

/* The pictures of a set; files that are none, by number and by one example. */
typedef struct found {
    const ot_members *m;
    int64_t *member; /* sorted by name */
    int64_t n, others;
    const char *other;
    size_t skip; /* bytes of every name that are passed over */
    bool parts;
    const char *what; /* "images", "recordings" */
} found;

/* A file without a picture's name may be one by its content; what cannot be looked at is one, so that it is an error later. */
static ot_status is_picture(const ot_members *m, int64_t i, bool *is, ot_error *err)
{
    uint8_t head[64];
    int64_t n = sizeof head;
    ot_pixels x;
    ot_error bad = { 0 };
    *is = ot_picture_name(m->list[i].name);
    if (*is) return OT_OK;
    OT_TRY(ot_members_peek(m, i, head, &n, err));
    if (n >= 12 && !memcmp(head, "GIF8", 4)) return OT_OK;
    ot_status s = ot_picture_size(head, (size_t)n, &x, &bad);
    /* Headers may go on beyond what was read: any message but that of an unknown format is one of a picture. */
    *is = (!s || x.format) && n >= 12;
    return OT_OK;
}

static ot_status find_pictures(const ot_members *m, ot_arena *a, found *f, ot_error *err)
{
    *f = (found){ .m = m, .member = ot_arena_alloc(a, (size_t)(m->n + 1) * sizeof(int64_t)) };
    if (!f->member) return ot_fail(err, OT_E_NOMEM, "%s: no memory for the list of its images", m->path);
    for (int64_t i = 0; i < m->n; i++) {
        bool is;
        if (m->list[i].size < 0 || is_hidden(m->list[i].name)) continue;
        OT_TRY(is_picture(m, i, &is, err));
        if (is) f->member[f->n++] = i;
        else if (!f->others++) f->other = m->list[i].name;
    }
    return OT_OK;
}

/* A set of more recordings than images is one of recordings. */
static void prefer_sounds(const ot_members *m, found *f)
{
    int64_t n = 0, files = f->n + f->others;
    f->what = "images";
    for (int64_t i = 0; i < m->n; i++)
        n += m->list[i].size >= 0 && !is_hidden(m->list[i].name) && ot_sound_name(m->list[i].name);
    if (n <= f->n) return;
    *f = (found){ .m = m, .member = f->member, .what = "recordings", .others = files - n };
    for (int64_t i = 0; i < m->n; i++) {
        const char *name = m->list[i].name;
        if (m->list[i].size < 0 || is_hidden(name)) continue;
        if (ot_sound_name(name)) f->member[f->n++] = i;
        else if (!f->other) f->other = name;
    }
}

static bool of_sounds(const found *f) { return *f->what == 'r'; }

static const char *name_at(const found *f, int64_t i) { return f->m->list[f->member[i]].name; }

/* Passes over folders that all pictures are in, but for the last: it is a class.  Names are sorted: what the first and the
 * last have in common all have. */
static void find_layout(found *f)
{
    const char *a = name_at(f, 0), *b = name_at(f, f->n - 1);
    for (;;) {
        const char *p = a + f->skip, *end = strchr(p, '/');
        size_t n = end ? (size_t)(end - p) + 1 : 0;
        bool all = n && !strncmp(p, b + f->skip, n), deeper = end && strchr(end + 1, '/');
        if (!all || !deeper || ot_picture_part(p, n - 1) >= 0) break;
        f->skip += n;
    }
    f->parts = true;
    for (int64_t i = 0; i < f->n && f->parts; i++) {
        const char *p = name_at(f, i) + f->skip, *end = strchr(p, '/');
        f->parts = end && ot_picture_part(p, (size_t)(end - p)) >= 0;
    }
}

/* Folders of a training and another part, each with class folders, are parts: what is beside them would become one class,
 * and each part another. */
static ot_status check_parts(const found *f, ot_error *err)
{
    const char *part[3] = { NULL }, *other = NULL;
    for (int64_t i = 0; i < f->n && !f->parts; i++) {
        const char *p = name_at(f, i) + f->skip, *end = strchr(p, '/');
        int of = end ? ot_picture_part(p, (size_t)(end - p)) : -1;
        if (of < 0) other = p;
        else if (strchr(end + 1, '/')) part[of] = p;
    }
    const char *a = part[OT_SPLIT_TRAIN], *b = part[OT_SPLIT_TEST] ? part[OT_SPLIT_TEST] : part[OT_SPLIT_VAL];
    if (!a || !b || !other) return OT_OK;
    return ot_fail(
        err, OT_E_DATA,
        "%s: has the parts '%.*s' and '%.*s', each with class folders, but also '%.*s', which is not a part: move "
        "it away, or rename it to train, val or test",
        f->m->path, (int)strcspn(a, "/"), a, (int)strcspn(b, "/"), b, (int)strcspn(other, "/"), other);
}

/* ot_dataset.lacks */
static unsigned parts_without(const found *f)
{
    unsigned has = 0;
    for (int64_t i = 0; i < f->n && f->parts; i++) {
        const char *p = name_at(f, i) + f->skip;
        has |= 1u << ot_picture_part(p, (size_t)(strchr(p, '/') - p));
    }
    if (!f->parts) has = 1u << OT_SPLIT_TRAIN;
    return ~has;
}

/* Keeps those of one part; false: the set has no such part. */
static bool take_part(found *f, ot_split split, const char **folder, size_t *length)
{
    int64_t n = 0;
    *folder = NULL;
    *length = 0;
    if (!f->parts) return split == OT_SPLIT_TRAIN;
    for (int64_t i = 0; i < f->n; i++) {
        const char *p = name_at(f, i) + f->skip, *end = strchr(p, '/');
        if (ot_picture_part(p, (size_t)(end - p)) != (int)split) continue;
        *folder = p;
        *length = (size_t)(end - p);
        f->member[n++] = f->member[i];
    }
    f->n = n;
    return n > 0;
}

/* ---- classes --------------------------------------------------------------------------------- */

/* The class of picture i, after the part; *n 0: it is in no folder. */
static const char *class_at(const found *f, int64_t i, size_t *n)
{
    const char *p = name_at(f, i) + f->skip, *end = strchr(p, '/');
    if (f->parts && end) p = end + 1, end = strchr(p, '/');
    *n = end ? (size_t)(end - p) : 0;
    return p;
}

/* A class folder without pictures is a mistake that a model cannot learn from. */
static ot_status check_empty(const found *f, const char *part, size_t length, ot_error *err)
{
    for (int64_t i = 0; i < f->m->n; i++) {
        const ot_packed_file *e = &f->m->list[i];
        size_t n = strlen(e->name);
        const char *p = e->name + (n > f->skip ? f->skip : n);
        if (e->size >= 0 || is_hidden(e->name) || (i + 1 < f->m->n && !strncmp(f->m->list[i + 1].name, e->name, n)))
            continue;
        if (f->parts) {
            if (strncmp(p, part, length) || p[length] != '/') continue;
            p += length + 1;
        }
        if (*p && strchr(p, '/') == e->name + n - 1)
            return ot_fail(err, OT_E_DATA, "%s/%s: the class has no %s; remove the folder, or put %s there", f->m->path,
                           e->name, f->what, f->what);
    }
    return OT_OK;
}

/* A table beside the files may be what has their labels. */
static ot_status no_class(const found *f, int64_t i, ot_error *err)
{
    const char *table = NULL;
    for (int64_t k = 0; k < f->m->n && !table; k++) {
        const char *name = f->m->list[k].name;
        bool is = ot_ends_in(name, ".csv") || ot_ends_in(name, ".tsv") || ot_rows_mark(name) == OT_ROWS_JSON;
        if (is && f->m->list[k].size > 0 && !is_hidden(name)) table = name;
    }
    char beside[400] = "";
    if (table)
        snprintf(beside, sizeof beside, "; if the table '%.150s' has their names and labels: --data '%.150s/%s'", table,
                 f->m->path, table);
    return ot_fail(err, OT_E_DATA, "%s/%s: is in no class folder; expected FOLDER/CLASS/%s%s", f->m->path,
                   name_at(f, i), of_sounds(f) ? "recording" : "image", beside);
}

static ot_status number_classes(const found *f, ot_dataset *d, ot_array *target, ot_error *err)
{
    int64_t n = 0, room = 0;
    const char **name = NULL;
    int64_t *y = target->t.data;
    for (int64_t i = 0; i < f->n; i++) {
        size_t length;
        const char *p = class_at(f, i, &length);
        if (!length) return no_class(f, i, err);
        if (!n || strncmp(name[n - 1], p, length) || name[n - 1][length]) {
            if (n == MOST_CLASSES)
                return ot_fail(err, OT_E_DATA, "%s: has more than %d classes", f->m->path, MOST_CLASSES);
            if (n == room) {
                const char **wide = ot_arena_alloc(d->arena, (size_t)(room = room ? 2 * room : 64) * sizeof *wide);
                if (!wide) return ot_fail(err, OT_E_NOMEM, "%s: no memory for the names of classes", f->m->path);
                if (n) memcpy(wide, name, (size_t)n * sizeof *wide);
                name = wide;
            }
            if (!(name[n++] = ot_arena_printf(d->arena, "%.*s", (int)length, p)))
                return ot_fail(err, OT_E_NOMEM, "%s: no memory for the names of classes", f->m->path);
            if (!ot_is_utf8(name[n - 1])) /* names of classes are kept in the trained model */
                return ot_fail(err, OT_E_DATA, "%s/%s: the name of this class is not UTF-8; rename the folder",
                               f->m->path, name[n - 1]);
        }
        y[i] = n - 1;
    }
    d->class_name = name;
    d->n_classes = (int)n;
    d->renumbers = true;
    return OT_OK;
}

typedef struct numbered {
    const char *name;
    int number;
} numbered;

static int by_text(const void *a, const void *b)
{
    return strcmp(((const numbered *)a)->name, ((const numbered *)b)->name);
}

ot_status ot_unknown_class(const ot_dataset *d, const char *class, const char *const *name, int n, const char *from,
                           ot_error *err)
{
    char known[400] = "", of[320] = "";
    size_t at = 0;
    for (int i = 0; i < n && at < sizeof known - 60; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s'%.40s'", i ? ", " : "", name[i]);
    if (d->column) snprintf(of, sizeof of, "column '%.280s' ", d->column);
    return ot_fail(
        err, OT_E_DATA,
        "%s: %shas class '%.40s', which is not in %s (classes %s%s): rename or remove it, or use a model that was trained with it",
        d->name, of, class, from, known, at >= sizeof known - 60 ? ", ..." : "");
}

ot_status ot_pictures_number(ot_dataset *d, const char *const *name, int n, const char *from, ot_error *err)
{
    numbered *of = ot_arena_alloc(d->arena, ((size_t)n + 1) * sizeof *of), *at;
    int64_t *to = ot_arena_alloc(d->arena, ((size_t)d->n_classes + 1) * sizeof *to);
    const ot_array *y = ot_dataset_find(d, "target");
    if (!of || !to) return ot_fail(err, OT_E_NOMEM, "%s: no memory for classes", d->name);
    for (int i = 0; i < n; i++) of[i] = (numbered){ name[i], i };
    qsort(of, (size_t)n, sizeof *of, by_text);
    for (int i = 0; i < d->n_classes; i++) {
        numbered key = { .name = d->class_name[i] };
        if (!(at = bsearch(&key, of, (size_t)n, sizeof *of, by_text)))
            return ot_unknown_class(d, key.name, name, n, from, err);
        to[i] = at->number;
    }
    int64_t *label = y ? y->t.data : NULL;
    for (int64_t i = 0; label && i < d->samples; i++) label[i] = to[label[i]];
    d->class_name = name;
    d->n_classes = n;
    return OT_OK;
}

/* ---- the set --------------------------------------------------------------------------------- */

/* What is known of the images of 16 bits among those that were looked at. */
typedef struct deep {
    int n;    /* 0: there is none */
    int most; /* the largest value, without alpha */
} deep;

/* Adds the image in r, of 16 bits; what cannot be decoded is an error later. */
static ot_status look_deep(const ot_file_room *r, int64_t size, deep *at, ot_error *err)
{
    ot_pixels x;
    ot_error bad = { 0 };
    ot_status s = ot_picture_decode(r->data, (size_t)size, MOST_PIXELS, &x, &bad);
    if (s == OT_E_NOMEM) return ot_fail(err, s, "%s", bad.text);
    if (s) return OT_OK;
    const uint16_t *v = x.data;
    int colours = x.channels > 2 ? 3 : 1;
    for (int64_t i = 0; i < x.height * x.width && x.bits == 16; i++)
        for (int c = 0; c < colours; c++)
            if (v[i * x.channels + c] > at->most) at->most = v[i * x.channels + c];
    at->n++;
    ot_pixels_free(&x);
    return OT_OK;
}

/* Sizes and channels of a few images, spread over the set. */
static ot_status look_at(picture_source *s, int64_t n, deep *bits, ot_error *err)
{
    ot_file_room r = { 0 };
    ot_status status = OT_OK;
    s->base.channels = 1;
    for (int64_t k = 0, some = n < LOOKED_AT ? n : LOOKED_AT; k < some && !status; k++) {
        int64_t i = s->member[k * n / some];
        ot_pixels x;
        ot_error bad = { 0 };
        status = ot_members_read(s->m, i, &r, &bad);
        if (status == OT_E_NOMEM) ot_fail(err, status, "%s", bad.text);
        bool known = !status && !ot_picture_size(r.data, (size_t)s->m->list[i].size, &x, &bad);
        if (status != OT_E_NOMEM) status = OT_OK; /* what cannot be read is reported, or skipped, when it is used */
        if (!known) continue;
        bool across = x.orientation >= 5, first = !s->base.height && !k;
        int64_t h = across ? x.width : x.height, w = across ? x.height : x.width;
        if (first) s->base.height = h, s->base.width = w;
        if (s->base.height != h || s->base.width != w) s->base.height = s->base.width = 0;
        if (x.channels > 2) s->base.channels = 3;
        s->base.alpha |= x.channels % 2 == 0;
        if (x.bits == 16 && !s->masks) status = look_deep(&r, s->m->list[i].size, bits, err);
    }
    free(r.data);
    return status;
}

static bool say(ot_dataset *d, const char *fmt, ...) OT_PRINTF(2, 3);
static bool say(ot_dataset *d, const char *fmt, ...)
{
    va_list ap;
    if (!d->notes) d->notes = "";
    va_start(ap, fmt);
    bool ok = ot_arena_line(d->arena, &d->notes, fmt, ap);
    va_end(ap);
    return ok;
}

static bool sorted(const int64_t *x, int64_t n)
{
    bool is = true;
    for (int64_t i = 1; i < n; i++) is &= x[i] >= x[i - 1];
    return is;
}

/* Images of 16 bits lose the lower 8, which may be all that they have. */
static bool say_deep(ot_dataset *d, const deep *x)
{
    enum { DIM = 1 << 15 }; /* a set without a value above half of the range is far from using it */
    if (!x->n) return true;
    if (x->most >= DIM) return say(d, "%s: images have 16 bits, of which the upper 8 are used", d->name);
    return say(
        d,
        "%s: images have 16 bits, of which the upper 8 are used: the largest value of %d image%s is %d of 65535 and "
        "becomes %d of 255; multiply the values, so that they fill the range, or use arrays of floats (.npz)",
        d->name, x->n, x->n == 1 ? "" : "s", x->most, x->most >> 8);
}

/* "train: 1400 images of 2 classes: cat 700, dog 700". */
static ot_status describe(ot_dataset *d, const found *f, const char *part, size_t length, ot_error *err)
{
    char text[600] = "";
    size_t at = 0;
    const ot_array *y = ot_dataset_find(d, "target");
    const int64_t *label = y ? y->t.data : NULL;
    for (int64_t i = 0, c = 0;
         label && d->class_name && sorted(label, f->n) && i < f->n && c < SHOWN && at < sizeof text - 100; c++) {
        int64_t from = i;
        while (i < f->n && label[i] == label[from]) i++;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%.40s %lld", c ? ", " : ": ", d->class_name[label[from]],
                               (long long)(i - from));
    }
    bool ok = say(d, "%s%s%.*s: %lld %s%s", f->m->path, length ? "/" : "", (int)length, part ? part : "",
                  (long long)f->n, f->what, label ? "" : ", no labels");
    if (ok && label && d->n_classes)
        ok = say(d, "%d class%s%s%s", d->n_classes, d->n_classes == 1 ? "" : "es", text,
                 *text && d->n_classes > SHOWN ? " ..." : "");
    if (ok && f->others > 0)
        ok = f->others > 1 ? say(d, "%lld other files are ignored, such as %s", (long long)f->others, f->other)
                           : say(d, "1 other file is ignored: %s", f->other);
    if (ok && f->m->special)
        ok = say(d, "%lld pipe%s or device%s ignored, such as %s", (long long)f->m->special,
                 f->m->special > 1 ? "s" : "", f->m->special > 1 ? "s are" : " is", f->m->special_name);
    return ok ? OT_OK : ot_fail(err, OT_E_NOMEM, "%s: no memory", f->m->path);
}

static ot_status add_target(const found *f, ot_dataset *d, ot_error *err)
{
    ot_array *y = ot_dataset_add(d, "target");
    ot_shape shape = { .rank = 1, .dim = { f->n } };
    if (!y) return ot_fail(err, OT_E_NOMEM, "%s: no memory", f->m->path);
    OT_TRY(ot_array_alloc(d, y, OT_I64, &shape, -1, f->m->path, err));
    y->role = OT_ARRAY_TARGET;
    return number_classes(f, d, y, err);
}

ot_status ot_pictures_array(ot_dataset *d, ot_array *x, const int64_t *member, int64_t n, bool masks, ot_error *err)
{
    picture_source *s = ot_arena_alloc(d->arena, sizeof *s);
    if (!s) return ot_fail(err, OT_E_NOMEM, "%s: no memory", d->name);
    *s = (picture_source){
        .base = { .read = read_picture, .size = size_of, .name = name_of, .folder = d->members->path },
        .m = d->members,
        .member = member,
        .masks = masks
    };
    deep bits = { 0 };
    OT_TRY(look_at(s, n, &bits, err));
    if (!say_deep(d, &bits)) return ot_fail(err, OT_E_NOMEM, "%s: no memory", d->name);
    s->colours = s->base.channels;
    if (masks) s->base.channels = 1;
    x->source = &s->base;
    x->mapped = true;
    x->picture = !masks;
    x->t.dtype = OT_U8;
    x->t.rank = 4;
    memcpy(x->t.dim, (int64_t[]){ n, 0, 0, s->base.channels }, 4 * sizeof(int64_t));
    for (int64_t i = 0; i < n; i++) {
        const ot_packed_file *f = &s->m->list[member[i]];
        d->mapped_hash = ot_hash(d->mapped_hash, f->name, strlen(f->name));
        d->mapped_hash = ot_hash(d->mapped_hash, &(int64_t[3]){ f->size, f->at, (int64_t)f->crc }, 3 * sizeof(int64_t));
    }
    return OT_OK;
}

const ot_array *ot_pictures_of_masks(const ot_array *masks, ot_arena *arena)
{
    ot_array *a = ot_arena_copy(arena, masks, sizeof *masks);
    picture_source *s = ot_arena_copy(arena, masks->source, sizeof *s);
    if (!a || !s) return NULL;
    s->masks = false;
    s->base.channels = s->colours;
    a->source = &s->base;
    a->picture = true;
    a->t.dim[3] = s->colours;
    return a;
}

ot_status ot_pictures_open(ot_members *m, ot_split split, ot_dataset *d, bool *there, ot_error *err)
{
    found f;
    const char *part;
    size_t length, first;
    d->members = m;
    OT_TRY(find_pictures(m, d->arena, &f, err));
    prefer_sounds(m, &f);
    if (!f.n)
        return ot_fail(
            err, OT_E_DATA,
            "%s: no images or recordings found%s%s%s; supported images: JPEG, PNG, WebP, BMP, PNM, TIFF, JPEG 2000; "
            "supported recordings: .wav, .flac",
            m->path, f.others ? " (first other file: " : "", f.others ? f.other : "", f.others ? ")" : "");
    find_layout(&f);
    bool masks = false;
    if (!of_sounds(&f)) OT_TRY(ot_masks_open(d, f.member, f.n, f.skip, split, &masks, there, err));
    if (masks) return OT_OK;
    OT_TRY(check_parts(&f, err));
    d->lacks = parts_without(&f);
    *there = take_part(&f, split, &part, &length);
    if (!*there) return OT_OK;
    OT_TRY(check_empty(&f, part, length, err));
    class_at(&f, 0, &first);
    bool beside = false;
    if (!first) OT_TRY(ot_beside_open(d, f.member, f.n, &beside, err));
    if (beside) f.others -= f.n;
    else if (first || !(d->options && d->options->unlabelled)) OT_TRY(add_target(&f, d, err));
    ot_array *x = ot_dataset_add(d, "");
    if (!x) return ot_fail(err, OT_E_NOMEM, "%s: no memory", m->path);
    d->mapped_hash = 2;
    OT_TRY(of_sounds(&f) ? ot_sounds_array(d, x, f.member, f.n, err)
                         : ot_pictures_array(d, x, f.member, f.n, false, err));
    return describe(d, &f, part, length, err);
}

static ot_status not_opened(const char *path, ot_error *err)
{
    int number = errno;
    return ot_fail(err, number == ENOMEM ? OT_E_NOMEM : OT_E_IO, "%s: cannot be opened: %s", path,
                   strerror_r(number, (char[128]){ 0 }, 128));
}

/* Links are followed: the user has named this file. */
ot_status ot_picture_open(const char *path, ot_dataset *d, ot_error *err)
{
    OT_TRY(ot_dataset_note(d, path, err));
    if (!d->options->unlabelled)
        return ot_fail(err, OT_E_DATA,
                       "%s: one image has no label; expected a folder of class folders, or a table that names images "
                       "(predict and run take one image)",
                       path);
    char real[PATH_MAX], *slash;
    int64_t *member = ot_arena_alloc(d->arena, sizeof *member);
    if (!member) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    if (!realpath(path, real) || !(slash = strrchr(real, '/'))) return not_opened(path, err);
    *slash = '\0';
    OT_TRY(ot_members_beside(slash > real ? real : "/", &d->members, err));
    if (!ot_members_take(d->members, slash + 1, member)) return not_opened(path, err);
    ot_array *x = ot_dataset_add(d, "");
    if (!x) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    d->mapped_hash = 2;
    return ot_pictures_array(d, x, member, 1, false, err);
}
