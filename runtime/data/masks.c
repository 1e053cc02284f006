/* masks.c - images and their masks in two folders, matched by the names of the files without their endings.
 *
 * Layout  images/1.jpg masks/1.png; with folders of parts above or below: train/images/1.jpg, images/train/1.jpg. A mask may also
 *         be called 1_mask.png. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/data/internal.h"
#include "runtime/data/members.h"

enum { IMAGE, MASK };

typedef struct entry {
    int kind, part; /* part -1: it is in none */
    int64_t member;
    const char *stem; /* its name below those folders, without the ending */
    size_t length;
} entry;

static int kind_of(const char *name, size_t n)
{
    static const char *const images[] = { "images", "image", "imgs", "img", "jpegimages", "photos", "pictures" };
    static const char *const masks[] = { "masks",  "mask",       "segmentationclass", "annotations",
                                         "labels", "labelmasks", "segmentations",     "gt" };
    for (int i = 0; i < OT_LEN(images); i++)
        if (strlen(images[i]) == n && !strncasecmp(images[i], name, n)) return IMAGE;
    for (int i = 0; i < OT_LEN(masks); i++)
        if (strlen(masks[i]) == n && !strncasecmp(masks[i], name, n)) return MASK;
    return -1;
}

/* false: the file is in neither folder. */
static bool place(const char *p, int64_t member, entry *out)
{
    *out = (entry){ .kind = -1, .part = -1, .member = member };
    for (const char *end; (end = strchr(p, '/')); p = end + 1) {
        size_t n = (size_t)(end - p);
        int kind = out->kind < 0 ? kind_of(p, n) : -1, part = out->part < 0 ? ot_picture_part(p, n) : -1;
        if (kind < 0 && part < 0) break;
        if (kind >= 0) out->kind = kind;
        else out->part = part;
    }
    const char *dot = strrchr(p, '.');
    out->stem = p;
    out->length = dot && dot > p && !strchr(dot, '/') ? (size_t)(dot - p) : strlen(p);
    return out->kind >= 0;
}

static int by_stem(const void *x, const void *y)
{
    const entry *a = x, *b = y;
    size_t n = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->stem, b->stem, n);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

static const char *name_of(const ot_dataset *d, const entry *e) { return d->members->list[e->member].name; }

static ot_status twice(const ot_dataset *d, const entry *e, int64_t n, ot_error *err)
{
    for (int64_t i = 1; i < n; i++)
        if (!by_stem(&e[i - 1], &e[i]))
            return ot_fail(err, OT_E_DATA, "%s: %s and %s have the same name without the ending", d->name,
                           name_of(d, &e[i - 1]), name_of(d, &e[i]));
    return OT_OK;
}

static const entry *find_mask(const entry *mask, int64_t n, const entry *image)
{
    const entry *found = bsearch(image, mask, (size_t)n, sizeof *mask, by_stem);
    char other[300];
    if (found || image->length > sizeof other - 6) return found;
    memcpy(other, image->stem, image->length);
    memcpy(other + image->length, "_mask", 5);
    return bsearch(&(entry){ .stem = other, .length = image->length + 5 }, mask, (size_t)n, sizeof *mask, by_stem);
}

/* image and mask: sorted by their stems. */
static ot_status pair(ot_dataset *d, const entry *image, int64_t n, const entry *mask, int64_t n_masks, ot_error *err)
{
    bool labels = n_masks || !(d->options && d->options->unlabelled);
    int64_t *member = ot_arena_alloc(d->arena, ((size_t)n + 1) * sizeof *member);
    int64_t *of = ot_arena_alloc(d->arena, ((size_t)n + 1) * sizeof *of);
    if (!member || !of || (labels && !ot_dataset_add(d, "target")) || !ot_dataset_add(d, ""))
        return ot_fail(err, OT_E_NOMEM, "%s: no memory", d->name);
    OT_TRY(twice(d, image, n, err));
    OT_TRY(twice(d, mask, n_masks, err));
    for (int64_t i = 0; i < n; i++) {
        const entry *m = labels ? find_mask(mask, n_masks, &image[i]) : NULL;
        member[i] = image[i].member;
        if (labels && !m)
            return ot_fail(err, OT_E_DATA, "%s/%s: has no mask; expected a file %.*s.png beside the other masks",
                           d->name, name_of(d, &image[i]), (int)image[i].length, image[i].stem);
        of[i] = m ? m->member : 0;
    }
    d->mapped_hash = 2;
    OT_TRY(ot_pictures_array(d, &d->array[d->n - 1], member, n, false, err));
    if (!labels) return OT_OK;
    d->array[0].role = OT_ARRAY_TARGET;
    OT_TRY(ot_pictures_array(d, &d->array[0], of, n, true, err));
    if (n_masks > n)
        OT_TRY(ot_dataset_tell(d, err, "%s: %lld masks are not used: they have no image", d->name,
                               (long long)(n_masks - n)));
    return ot_dataset_tell(d, err, "%s: %lld images with masks", d->name, (long long)n);
}

/* Moves what is of this part to the front, images before masks, each sorted. */
static void take_part(entry *e, int64_t n, int part, int64_t *images, int64_t *masks)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (part < 0 || e[i].part == part) e[kept++] = e[i];
    *images = 0;
    for (int64_t i = 0; i < kept; i++)
        if (e[i].kind == IMAGE) {
            entry first = e[*images];
            e[(*images)++] = e[i];
            e[i] = first;
        }
    *masks = kept - *images;
    qsort(e, (size_t)*images, sizeof *e, by_stem);
    qsort(e + *images, (size_t)*masks, sizeof *e, by_stem);
}

ot_status ot_masks_open(ot_dataset *d, const int64_t *list, int64_t n, size_t skip, ot_split split, bool *is,
                        bool *found, ot_error *err)
{
    int64_t of[2] = { 0 }, parts = 0, images, masks;
    entry *e = NULL, one;
    *is = true;
    for (int64_t i = 0; i < n && *is; i++) {
        *is = place(d->members->list[list[i]].name + skip, list[i], &one);
        if (*is) of[one.kind]++, parts += one.part >= 0;
    }
    *is = *is && of[IMAGE] && (of[MASK] || (d->options && d->options->unlabelled));
    if (!*is) return OT_OK;
    *found = parts || split == OT_SPLIT_TRAIN;
    if (!*found) return OT_OK;
    if (!(e = malloc((size_t)(n + 1) * sizeof *e))) return ot_fail(err, OT_E_NOMEM, "%s: no memory", d->name);
    for (int64_t i = 0; i < n; i++) (void)place(d->members->list[list[i]].name + skip, list[i], &e[i]);
    take_part(e, n, parts ? (int)split : -1, &images, &masks);
    *found = images > 0;
    ot_status s = *found ? pair(d, e, images, e + images, masks, err) : OT_OK;
    free(e);
    return s;
}
