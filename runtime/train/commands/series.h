/* series.h - several trainings one after another, each in a folder of its own below the series' folder. */
#ifndef OT_SERIES_H
#define OT_SERIES_H

#include <jansson.h>

#include "runtime/train/options/options.h"

/* One training of a series. */
typedef struct ot_member {
    const char *name; /* of its folder: "fold-1" */
    int n;
    const char *(*pair)[2]; /* options that are its own: name, value */
    /* what came of it */
    const char *state;  /* "finished", "early stop" ...; "failed": no log says; NULL: it has not run */
    const char *metric; /* what decided which epoch is its best: "val accuracy"; NULL: nothing */
    double best;        /* NaN: none */
    int64_t epoch;      /* of the numbers */
    json_t *numbers;    /* the evaluation that counts; NULL: none */
    double seconds;
} ot_member;

/* --grid and --random: the combinations, at most MOST_MEMBERS.  Errors: OT_E_USAGE. */
enum { OT_MOST_MEMBERS = 10000 };
ot_status ot_sweep_members(const ot_options *o, ot_arena *a, ot_member **out, int *n, ot_error *err);

#endif
