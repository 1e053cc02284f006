/* test.h - functions that the files of tests/data share. */
#ifndef OT_TESTS_DATA_H
#define OT_TESTS_DATA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/data/data.h"

#ifndef OT_SOURCE_ROOT
#define OT_SOURCE_ROOT "."
#endif
#define FIXTURES OT_SOURCE_ROOT "/tests/data/fixtures/"

int ot_test_formats(void);
int ot_test_hostile(void);
int ot_test_sets(void);
int ot_test_batches(void);
int ot_test_normalize(void);
int ot_test_csv(void);
int ot_test_archives(void);
int ot_test_split(void);
int ot_test_views(void);
int ot_test_pictures(void);
int ot_test_table(void);
int ot_test_tokens(void);
int ot_test_several(void);
int ot_test_tfrecord(void);
int ot_test_texts(void);
int ot_test_sounds(void);

/* Flipped bits are taken every so many: an odd number, so that each bit of a byte is among them. */
enum { OT_SPARSE_BITS = 2 * OT_SPARSE - 1 };

/* The bytes of a file of fixtures/; malloc. */
unsigned char *ot_fixture_load(const char *name, size_t *n);

/* A file in memory that has a path. */
typedef struct memory_file {
    int fd;
    char path[40];
} memory_file;
void ot_memory_begin(memory_file *m);
void ot_memory_set(const memory_file *m, const void *bytes, size_t n);
void ot_memory_end(memory_file *m);

/* A folder of its own below /tmp for one test; cmocka's set-up and tear-down. */
extern char ot_test_folder[64];
int ot_folder_make(void **state);
int ot_folder_remove(void **state);
void ot_folder_put(const char *name, const void *bytes, size_t n);

#endif
