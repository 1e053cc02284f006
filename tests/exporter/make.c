/* make.c - folders and ONNX files for the tests of the exporter. */
#include "test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

int folder_make(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/onnxtrain-export-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static void empty(const char *path)
{
    char sub[600];
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(sub, sizeof sub, "%.300s/%s", path, e->d_name);
        if (unlink(sub)) {
            empty(sub);
            rmdir(sub);
        }
    }
    if (d) closedir(d);
}

int folder_remove(void **state)
{
    (void)state;
    empty(folder);
    return rmdir(folder);
}

void folder_empty(void) { empty(folder); }

int folder_count(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    if (d) closedir(d);
    return n;
}

const char *in_folder(const char *name)
{
    static char path[4][256];
    static int turn;
    char *p = path[turn = (turn + 1) % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

void file_put(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

unsigned char *file_get(const char *path, size_t *n)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &st), 0);
    *n = (size_t)st.st_size;
    unsigned char *p = malloc(*n + 1);
    assert_non_null(p);
    assert_int_equal(fread(p, 1, *n, f), *n);
    fclose(f);
    return p;
}

void assert_file_is(const char *path, const void *p, size_t n)
{
    size_t is;
    unsigned char *q = file_get(path, &is);
    assert_int_equal(is, n);
    assert_memory_equal(q, p, n);
    free(q);
}

/* ---- wire format ------------------------------------------------------------------ */

void put_bytes(bytes *o, const void *p, size_t n)
{
    assert_true(o->n + n <= sizeof o->b);
    if (n) memcpy(o->b + o->n, p, n);
    o->n += n;
}

void put_long_varint(bytes *o, uint64_t v, size_t width)
{
    for (size_t i = 0; i < width || v; i++, v >>= 7) {
        unsigned char c = (v & 0x7F) | (i + 1 < width || v >> 7 ? 0x80 : 0);
        put_bytes(o, &c, 1);
    }
}

void put_varint(bytes *o, uint64_t v) { put_long_varint(o, v, 1); }

void put_int(bytes *o, int field, uint64_t v)
{
    put_varint(o, (uint64_t)field << 3);
    put_varint(o, v);
}

void put_text(bytes *o, int field, const char *s)
{
    put_varint(o, (uint64_t)field << 3 | 2);
    put_varint(o, strlen(s));
    put_bytes(o, s, strlen(s));
}

void put_long_message(bytes *o, int field, const bytes *m, size_t width)
{
    put_varint(o, (uint64_t)field << 3 | 2);
    put_long_varint(o, m->n, width);
    put_bytes(o, m->b, m->n);
}

void put_message(bytes *o, int field, const bytes *m) { put_long_message(o, field, m, 1); }

void put_f32(bytes *o, int field, float v)
{
    put_varint(o, (uint64_t)field << 3 | 5);
    put_bytes(o, &v, 4);
}

void put_f64(bytes *o, int field, double v)
{
    put_varint(o, (uint64_t)field << 3 | 1);
    put_bytes(o, &v, 8);
}

void put_unknown(bytes *o)
{
    put_int(o, 3000, 12345);
    put_text(o, 3001, "nobody knows this");
    put_f32(o, 3002, 1.5f);
    put_f64(o, 3003, 2.5);
}

/* ---- ONNX --------------------------------------------------------------------------- */

void put_head(bytes *t, const char *name, ot_dtype type, int rank, const int64_t *dim)
{
    for (int i = 0; i < rank; i++) put_int(t, 1, (uint64_t)dim[i]);
    put_int(t, 2, type);
    put_text(t, 8, name);
}

void put_external(bytes *t, const char *key, const char *value)
{
    bytes *e = calloc(1, sizeof *e);
    put_text(e, 1, key);
    put_text(e, 2, value);
    put_message(t, 13, e);
    free(e);
}

/* A ValueInfoProto: f32, (4). */
static void put_value(bytes *graph, int field, const char *name)
{
    bytes *m = calloc(5, sizeof *m);
    put_int(&m[0], 1, 4);
    put_message(&m[1], 1, &m[0]); /* dim */
    put_int(&m[2], 1, OT_F32);
    put_message(&m[2], 2, &m[1]); /* shape */
    put_message(&m[3], 1, &m[2]); /* tensor_type */
    put_text(&m[4], 1, name);
    put_message(&m[4], 2, &m[3]);
    put_message(graph, field, &m[4]);
    free(m);
}

void put_model(bytes *model, const bytes *graph_extra)
{
    bytes *m = calloc(3, sizeof *m);
    put_text(&m[0], 1, "x");
    put_text(&m[0], 2, "y");
    put_text(&m[0], 4, "Relu");
    put_message(&m[1], 1, &m[0]);
    put_text(&m[1], 2, "graph");
    put_unknown(&m[1]);
    put_value(&m[1], 11, "x");
    put_bytes(&m[1], graph_extra->b, graph_extra->n);
    put_value(&m[1], 12, "y");
    put_int(model, 1, 8);
    put_text(model, 2, "by hand");
    put_unknown(model);
    put_long_message(model, 7, &m[1], 5);
    put_text(&m[2], 1, "");
    put_int(&m[2], 2, 17);
    put_message(model, 8, &m[2]);
    put_unknown(model);
    free(m);
}

int source_of(const ot_imported *m, const char *name)
{
    for (int i = 0; i < m->n_sources; i++)
        if (!strcmp(m->sources[i].name, name)) return i;
    fail_msg("no source is called %s", name);
    return -1;
}
