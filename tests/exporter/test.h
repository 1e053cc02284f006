/* test.h - functions that the files of tests/exporter share: a folder, and ONNX files written byte by byte. */
#ifndef OT_TESTS_EXPORTER_H
#define OT_TESTS_EXPORTER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exporter/export.h"

int ot_test_payloads(void);
int ot_test_external(void);
int ot_test_failures(void);
int ot_test_new(void);

/* ---- a folder of its own for every test ---------------------------------------- */

int folder_make(void **state);
int folder_remove(void **state);
void folder_empty(void);
int folder_count(void);                  /* entries in it */
const char *in_folder(const char *name); /* static; the last four stay valid */
void file_put(const char *path, const void *bytes, size_t n);
unsigned char *file_get(const char *path, size_t *n); /* malloc */
void assert_file_is(const char *path, const void *bytes, size_t n);

/* ---- wire format ------------------------------------------------------------------ */

typedef struct bytes {
    unsigned char b[1 << 16];
    size_t n;
} bytes;

void put_bytes(bytes *o, const void *p, size_t n);
void put_varint(bytes *o, uint64_t v);
void put_long_varint(bytes *o, uint64_t v, size_t width); /* overlong: padded to width */
void put_int(bytes *o, int field, uint64_t v);
void put_text(bytes *o, int field, const char *s);
void put_message(bytes *o, int field, const bytes *m);
void put_long_message(bytes *o, int field, const bytes *m, size_t width); /* overlong length */
void put_f32(bytes *o, int field, float v);                               /* unpacked */
void put_f64(bytes *o, int field, double v);
void put_unknown(bytes *o); /* fields no schema has */

/* A tensor's head: dims, data_type, name. */
void put_head(bytes *t, const char *name, ot_dtype type, int rank, const int64_t *dim);
/* A key and value of external_data. */
void put_external(bytes *t, const char *key, const char *value);
/* y = Relu(x) on (4), and the given initializers: field 5 of the graph, whole. */
void put_model(bytes *model, const bytes *graph_extra);

int source_of(const ot_imported *m, const char *name);

#endif
