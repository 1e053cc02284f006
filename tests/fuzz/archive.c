/* archive.c - images in a tar or a zip: the archive is listed, every file of it is read and decoded, and twice the same. */
#include "tests/fuzz/arrays.h"

const char *const fuzz_words[] = { "a/1.png", "train/", "1.cls", "1.json", "{\"label\":3}",
                                   "images/", "masks/", "ustar", NULL };

static uint64_t read_array(const ot_array *a)
{
    uint64_t h = 0;
    ot_image_room room = { 0 };
    for (int64_t i = 0; a->source && i < a->t.dim[0]; i++) {
        ot_error e = { 0 };
        ot_image x;
        ot_status s = fuzz_status("read", a->source->read(a->source, i, (int)a->t.dim[3], &room, &x, &e), &e);
        h = ot_hash(h, &s, sizeof s);
        for (int64_t k = 0; !s && k < x.height; k++)
            h = ot_hash(h, x.data + k * x.stride, (size_t)(x.width * x.channels));
    }
    ot_image_room_free(&room);
    return h;
}

void ot_fuzz(const uint8_t *p, size_t n)
{
    bool zip = n > 1 && p[0] == 'P' && p[1] == 'K';
    ot_dataset *d = fuzz_open(fuzz_write(zip ? "x.zip" : "x.tar", p, n), OT_SPLIT_TRAIN);
    for (int i = 0; d && i < d->n; i++)
        FUZZ_HOLD(read_array(&d->array[i]) == read_array(&d->array[i]), "read twice, images differ");
    ot_dataset_free(d);
}
