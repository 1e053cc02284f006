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
    bool rises;         /* more of that is better */
    double best;        /* NaN: none */
    int64_t epoch;      /* of the numbers */
    json_t *numbers;    /* the evaluation that counts; NULL: none */
    double seconds;
} ot_member;

/* What an option is to several trainings. */
enum {
    OT_SERIES_OWN = 1,        /* the series decides it: no single training gets it */
    OT_SERIES_UNVARIED = 2,   /* --grid cannot vary it */
    OT_SERIES_REFUSED = 4,    /* it is for one training alone */
    OT_SERIES_SHOWS = 8,      /* it says nothing about what comes out */
    OT_SERIES_MAY_CHANGE = 16 /* another value may be given when the series continues */
};
unsigned ot_series_option(const char *name);

/* --grid and --random: the combinations, at most OT_MOST_MEMBERS.  Errors: OT_E_USAGE. */
enum { OT_MOST_MEMBERS = 10000 };
ot_status ot_sweep_members(const ot_options *o, ot_arena *a, ot_member **out, int *n, ot_error *err);

/* The first line of the log of an open folder, if it is that of a series; NULL: it is not, or no memory. */
json_t *ot_series_start(int folder);

/* Whether the process is in the folder that the series was started in: its paths are relative to that. */
bool ot_series_is_here(const json_t *start);

/* Of a command for one training.  Errors: OT_E_USAGE: the folder is that of a series; names those to use instead. */
ot_status ot_series_refuse(const char *run_dir, const char *command, ot_error *err);

/* The run folders of the series at a path that have a log, in their order; *list NULL: it is not the folder of a series.  Names are a's.
 * Errors: OT_E_NOMEM. */
ot_status ot_series_runs(const char *path, ot_arena *a, const char ***list, int *n, ot_error *err);

#endif
