/* tfrecord.c - one file of records; images among them are decoded. */
#include "tests/fuzz/arrays.h"

const char *const fuzz_words[] = { "\x0a\x03", "\x12\x05\x1a\x03\x0a\x01\x07", "image/encoded", "target", "\x08\x01",
                                   NULL };

void ot_fuzz(const uint8_t *p, size_t n)
{
    ot_dataset *d = fuzz_open(fuzz_write("x.tfrecord", p, n), OT_SPLIT_TRAIN);
    ot_image_room room = { 0 };
    for (int k = 0; d && k < d->n; k++) {
        const ot_array *a = &d->array[k];
        for (int64_t i = 0; a->source && i < d->samples && i < 100; i++) {
            ot_image im;
            ot_error e = { 0 };
            fuzz_status("read", a->source->read(a->source, i, 3, &room, &im, &e), &e);
        }
    }
    ot_image_room_free(&room);
    ot_dataset_free(d);
}
