/* sound.h - recordings as waveforms: one file, and the samples of a data set that are such files. */
#ifndef OT_SOUND_H
#define OT_SOUND_H

#include "runtime/data/data.h"

enum { OT_SOUND_CHANNELS = 8 };

typedef struct ot_sound {
    int64_t frames; /* values of each channel */
    int rate;       /* frames per second */
    int channels;
} ot_sound;

/* What the bytes of a WAV or FLAC file say of it.  n: how many of the file's `size` bytes are there; *more: they are too few, and
 * *out is not set.  Errors: OT_E_DATA (another format, damaged, cut off, empty); OT_E_NOMEM. */
ot_status ot_sound_look(const uint8_t *bytes, size_t n, size_t size, ot_sound *out, bool *more, ot_error *err);

/* A part of a whole file: `want->length` values of each channel in [-1, 1], of longer ones those at want->place, of shorter ones
 * zeros behind them.  Errors: as above; the whole file is read where only that shows whether it is damaged. */
ot_status ot_sound_decode(const uint8_t *bytes, size_t n, const ot_sound_want *want, float *to, ot_error *err);

const char *ot_sound_missing(void); /* the library that this build is without; NULL: it has it */

bool ot_sound_name(const char *name); /* it ends as names of WAV and FLAC files do */

/* Makes x an array of n recordings, files of d->members by their numbers, which stay until d is freed.  Errors: OT_E_DATA: two
 * have different sample rates; OT_E_NOMEM; those of the first if none can be read. */
ot_status ot_sounds_array(ot_dataset *d, ot_array *x, const int64_t *member, int64_t n, ot_error *err);

/* One file as a set of one sample, for predictions. */
ot_status ot_sound_open(const char *path, ot_dataset *d, ot_error *err);

/* Makes d, for evaluation, as long as `like`.  Errors: OT_E_DATA: another sample rate. */
ot_status ot_sounds_match(ot_dataset *d, const ot_dataset *like, ot_error *err);

#endif
