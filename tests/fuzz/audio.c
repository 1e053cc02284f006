/* audio.c - one recording: opened as a set, then decoded in several forms, twice the same. */
#include "tests/fuzz/arrays.h"

#include <stdlib.h>

#include "runtime/data/sound.h"

const char *const fuzz_words[] = {
    "RIFF", "WAVE", "fmt ", "data", "LIST", "fact", "fLaC", "\xff\xf8", "\xff\xff\xff\xff", NULL
};

enum { LENGTH = 500 };

static uint64_t hear(const ot_array *a, int channels, double place)
{
    ot_image_room room = { 0 };
    ot_error e = { 0 };
    float *x = malloc(sizeof *x * LENGTH * (size_t)channels);
    ot_sound_want w = {
        .channels = channels, .length = LENGTH, .place = place, .rate = a->source->rate, .last = place > 0
    };
    if (!x) abort();
    ot_status s = fuzz_status("hear", a->source->read_sound(a->source, 0, &w, &room, x, &e), &e);
    uint64_t h = s ? (uint64_t)s : ot_hash(0, x, sizeof *x * LENGTH * (size_t)channels);
    for (int i = 0; !s && i < LENGTH * channels; i++) FUZZ_HOLD(x[i] - x[i] == 0, "value %d is not finite", i);
    ot_image_room_free(&room);
    free(x);
    return h;
}

void ot_fuzz(const uint8_t *p, size_t n)
{
    ot_dataset *d = fuzz_open(fuzz_write("x.wav", p, n), OT_SPLIT_TRAIN);
    for (int i = 0; d && i < d->n; i++)
        for (int c = 1; ot_array_is_sound(&d->array[i]) && c <= 2; c++)
            for (int k = -1; k < 2; k++)
                FUZZ_HOLD(hear(&d->array[i], c, k * 0.5) == hear(&d->array[i], c, k * 0.5), "heard twice, it differs");
    ot_dataset_free(d);
}
