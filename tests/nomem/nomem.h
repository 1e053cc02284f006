/* nomem.h - injects failures of allocations, and the paths that are run with them. */
#ifndef OT_TESTS_NOMEM_H
#define OT_TESTS_NOMEM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/base.h"

/* ---- allocations (allocations.c) ------------------------------------------------ */

void allocations_open(void); /* once, before anything is allocated */

/* Until allocations_end(): allocation number `at` (from 0) fails, and all later ones if `after`; -1: none. */
void allocations_begin(long at, bool after);
long allocations_end(void);    /* the number of allocations; from here on nothing fails */
bool allocations_failed(void); /* one has, since allocations_begin() */
void allocations_show(void);   /* the stack of the first that failed, on stderr */

/* Numbers of the allocations of the last span that began without a failure which have a call stack
 * that no earlier one of it had: one for every place and way to it.  Returns how many. */
long allocations_different(long **at);

/* ---- inputs (inputs.c) ----------------------------------------------------------- */

#define FIXTURES OT_SOURCE_ROOT "/tests/data/fixtures/"

enum { SAMPLES = 6, PIXELS = 28 * 28 };

ot_status put_file(const char *path, const void *p, size_t n, ot_error *err);
ot_status write_pictures(const char *path, int n, bool targets, ot_error *err);

/* Each is the `prepare` of a way. */
ot_status pictures(ot_error *err);      /* train.npz, val.npz, inputs.npz */
ot_status byte_pictures(ot_error *err); /* train.npz in bytes */
ot_status part_files(ot_error *err);    /* x.npz, y.npz */
ot_status image_list(ot_error *err);    /* list.csv and its images */
ot_status masks(ot_error *err);         /* the same images with masks.csv, and the folder set */
ot_status recordings(ot_error *err);    /* the folder spoken */
ot_status vocabularies(ot_error *err);  /* the folders word, bert and gpt */
ot_status tables(
    ot_error *err); /* table.csv, mixed.csv, texts.jsonl, tags.jsonl, tags.conll, run.conf, and pictures() */

/* ---- ways (ways.c) --------------------------------------------------------------- */

/* One way through the library, from files in the current folder to files in it and a text.  It may return early and
 * late, but what it made must be gone when it does. */
typedef struct way {
    const char *name;
    ot_status (*prepare)(ot_error *err);         /* makes what it reads; NULL: nothing */
    ot_status (*go)(char **text, ot_error *err); /* *text: from malloc, or NULL */
    const char *out;                             /* a file that it overwrites; NULL: none */
    bool varies;                                 /* its text may differ from one run to the next, or say less */
} way;

extern const way ways[];
extern const int n_ways;

#endif
