/* cifar.c - reads CIFAR-10 and CIFAR-100 in their binary version.
 *
 * Spec    Records of labels and a (3,32,32) image: CIFAR-10 has one label byte and the parts
 *         data_batch_1.bin … data_batch_5.bin, test_batch.bin; CIFAR-100 a coarse and a fine label and
 *         train.bin, test.bin.  The fine label is the target.
 * Source  Alex Krizhevsky: Learning multiple layers of features from tiny images (2009). */
#include "runtime/data/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIDE = 32, PICTURE = 3 * SIDE * SIDE, MOST_PARTS = 5 };

typedef struct part {
    char *path;
    int64_t records;
} part;

/* Adds the file to the list if it exists.  A record is `labels` label bytes and an image. */
static ot_status add_part(ot_dataset *d, const char *folder, const char *name, int labels, part *list, int *n,
                          ot_error *err)
{
    char *path = ot_arena_printf(d->arena, "%s/%s", folder, name);
    struct stat st;
    if (!path) return ot_fail(err, OT_E_NOMEM, "%s: no memory", folder);
    if (stat(path, &st)) return OT_OK;
    if (st.st_size == 0 || st.st_size % (PICTURE + labels))
        return ot_fail(err, OT_E_DATA, "%s: has %lld bytes, expected a multiple of %d", path, (long long)st.st_size,
                       PICTURE + labels);
    OT_TRY(ot_dataset_note(d, path, err));
    list[(*n)++] = (part){ path, st.st_size / (PICTURE + labels) };
    return OT_OK;
}

static ot_status read_part(const part *f, int labels, uint8_t *x, uint8_t *y, ot_error *err)
{
    ot_stream s;
    uint8_t head[2];
    OT_TRY(ot_stream_open(&s, f->path, err));
    ot_status status = OT_OK;
    for (int64_t i = 0; i < f->records && !status; i++, x += PICTURE) {
        status = ot_stream_read(&s, head, labels, "a label", err);
        if (!status) status = ot_stream_read(&s, x, PICTURE, "an image", err);
        *y++ = head[labels - 1];
    }
    if (!status) status = ot_stream_end(&s, err);
    ot_stream_close(&s);
    return status;
}

static ot_status read_parts(const char *folder, const part *list, int n, int labels, ot_dataset *d, ot_error *err)
{
    ot_shape shape = { .rank = 4, .dim = { 0, 3, SIDE, SIDE } }, one = { .rank = 1 };
    for (int i = 0; i < n; i++) shape.dim[0] += list[i].records;
    one.dim[0] = shape.dim[0];
    if (!ot_dataset_add(d, "") || !ot_dataset_add(d, "target"))
        return ot_fail(err, OT_E_NOMEM, "%s: no memory", folder);
    ot_array *x = &d->array[0], *y = &d->array[1];
    x->picture = true;
    y->role = OT_ARRAY_TARGET;
    OT_TRY(ot_array_alloc(d, x, OT_U8, &shape, -1, folder, err));
    OT_TRY(ot_array_alloc(d, y, OT_U8, &one, -1, folder, err));
    uint8_t *to = x->t.data, *label = y->t.data;
    for (int i = 0; i < n; i++) {
        OT_TRY(read_part(&list[i], labels, to, label, err));
        to += list[i].records * PICTURE;
        label += list[i].records;
    }
    return OT_OK;
}

ot_status ot_cifar_folder(const char *folder, ot_split split, ot_dataset *d, bool *found, ot_error *err)
{
    part list[MOST_PARTS];
    int n = 0, labels = 1;
    *found = false;
    if (split == OT_SPLIT_TEST) OT_TRY(add_part(d, folder, "test_batch.bin", labels, list, &n, err));
    for (int i = 1; i <= MOST_PARTS && split == OT_SPLIT_TRAIN; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        OT_TRY(add_part(d, folder, name, labels, list, &n, err));
        if (n == 0) break; /* without the first part there is no such data set */
        if (n < i) break;
    }
    if (n == 0) {
        labels = 2;
        OT_TRY(add_part(d, folder, split == OT_SPLIT_TEST ? "test.bin" : "train.bin", labels, list, &n, err));
    }
    if (n == 0) return OT_OK;
    *found = true;
    d->n_classes = labels == 1 ? 10 : 100;
    return read_parts(folder, list, n, labels, d, err);
}
