/* bytes.c - writes messages byte by byte, right or wrong, and imports them. */
#include "bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- wire ------------------------------------------------------------------- */

void bytes_free(bytes *b)
{
    free(b->p);
    *b = (bytes){ 0 };
}

void put(bytes *b, const void *p, size_t n)
{
    if (!n) return;
    if (b->n + n > b->cap) {
        b->cap = 2 * (b->n + n);
        b->p = realloc(b->p, b->cap);
        assert_non_null(b->p);
    }
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

void put_varint(bytes *b, uint64_t v)
{
    do {
        uint8_t byte = (uint8_t)((v & 0x7F) | (v > 0x7F ? 0x80 : 0));
        put(b, &byte, 1);
        v >>= 7;
    } while (v);
}

void put_int(bytes *b, int field, int64_t v)
{
    put_varint(b, (uint64_t)field << 3);
    put_varint(b, (uint64_t)v);
}

void put_float(bytes *b, int field, float v)
{
    put_varint(b, (uint64_t)field << 3 | 5);
    put(b, &v, sizeof v);
}

void put_data(bytes *b, int field, const void *p, size_t n)
{
    put_varint(b, (uint64_t)field << 3 | 2);
    put_varint(b, n);
    put(b, p, n);
}

void put_text(bytes *b, int field, const char *s) { put_data(b, field, s, strlen(s)); }

void put_message(bytes *b, int field, bytes *inner)
{
    put_data(b, field, inner->p, inner->n);
    bytes_free(inner);
}

/* ---- attributes ---------------------------------------------------------------- */

static bytes attribute(const char *name, int type)
{
    bytes a = { 0 };
    put_text(&a, 1, name);
    put_int(&a, 20, type);
    return a;
}

void attr_int(bytes *node, const char *name, int64_t v)
{
    bytes a = attribute(name, 2);
    put_int(&a, 3, v);
    put_message(node, 5, &a);
}

void attr_float(bytes *node, const char *name, float v)
{
    bytes a = attribute(name, 1);
    put_float(&a, 2, v);
    put_message(node, 5, &a);
}

void attr_text(bytes *node, const char *name, const char *v)
{
    bytes a = attribute(name, 3);
    put_text(&a, 4, v);
    put_message(node, 5, &a);
}

void attr_ints(bytes *node, const char *name, int n, const int64_t *v)
{
    bytes a = attribute(name, 7);
    for (int i = 0; i < n; i++) put_int(&a, 8, v[i]);
    put_message(node, 5, &a);
}

void attr_graph(bytes *node, const char *name, bytes *graph)
{
    bytes a = attribute(name, 5);
    put_message(&a, 6, graph);
    put_message(node, 5, &a);
}

void attr_tensor(bytes *node, const char *name, bytes *tensor)
{
    bytes a = attribute(name, 4);
    put_message(&a, 5, tensor);
    put_message(node, 5, &a);
}

void attr_ref(bytes *node, const char *name, int type, const char *to)
{
    bytes a = attribute(name, type);
    put_text(&a, 21, to);
    put_message(node, 5, &a);
}

/* ---- nodes, tensors, graphs -------------------------------------------------------- */

static void put_names(bytes *b, int field, const char *names)
{
    while (*names) {
        size_t n = strcspn(names, " ");
        put_data(b, field, names, n == 1 && *names == '-' ? 0 : n);
        names += n + (names[n] == ' ');
    }
}

bytes node_begin(const char *op, const char *name, const char *in, const char *out)
{
    bytes n = { 0 };
    const char *dot = strrchr(op, '.');
    put_names(&n, 1, in);
    put_names(&n, 2, out);
    if (*name) put_text(&n, 3, name);
    put_text(&n, 4, dot ? dot + 1 : op);
    if (dot) put_data(&n, 7, op, (size_t)(dot - op));
    return n;
}

void graph_node(bytes *graph, bytes node) { put_message(graph, 1, &node); }

void graph_op(bytes *graph, const char *op, const char *name, const char *in, const char *out)
{
    graph_node(graph, node_begin(op, name, in, out));
}

bytes tensor_begin(const char *name, int dtype, int rank, const int64_t *dim)
{
    bytes t = { 0 };
    for (int i = 0; i < rank; i++) put_int(&t, 1, dim[i]);
    put_int(&t, 2, dtype);
    put_text(&t, 8, name);
    return t;
}

void graph_tensor(bytes *graph, bytes tensor) { put_message(graph, 5, &tensor); }

void graph_floats(bytes *graph, const char *name, int n, const float *v)
{
    bytes t = tensor_begin(name, OT_F32, 1, &(int64_t){ n });
    put_data(&t, 9, v, (size_t)n * sizeof *v);
    graph_tensor(graph, t);
}

static void entry(bytes *tensor, const char *key, const char *value)
{
    bytes e = { 0 };
    put_text(&e, 1, key);
    put_text(&e, 2, value);
    put_message(tensor, 13, &e);
}

void tensor_outside(bytes *tensor, const char *location, const char *offset, const char *length)
{
    if (location) entry(tensor, "location", location);
    if (offset) entry(tensor, "offset", offset);
    if (length) entry(tensor, "length", length);
    put_int(tensor, 14, 1);
}

void graph_input(bytes *graph, const char *name, int dtype, int rank, const int64_t *dim)
{
    bytes shape = { 0 }, tensor = { 0 }, type = { 0 }, info = { 0 };
    for (int i = 0; i < rank; i++) {
        bytes d = { 0 };
        if (dim[i] >= 0) put_int(&d, 1, dim[i]);
        else put_text(&d, 2, "batch");
        put_message(&shape, 1, &d);
    }
    put_int(&tensor, 1, dtype);
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_text(&info, 1, name);
    put_message(&info, 2, &type);
    put_message(graph, 11, &info);
}

void graph_output(bytes *graph, const char *name)
{
    bytes info = { 0 };
    put_text(&info, 1, name);
    put_message(graph, 12, &info);
}

void model_opset(bytes *model, const char *domain, int64_t version)
{
    bytes o = { 0 };
    if (*domain) put_text(&o, 1, domain);
    put_int(&o, 2, version);
    put_message(model, 8, &o);
}

bytes model_of(bytes *graph, int64_t ir, int64_t opset)
{
    bytes m = { 0 };
    put_int(&m, 1, ir);
    put_message(&m, 7, graph);
    if (opset) model_opset(&m, "", opset);
    return m;
}

bytes small_graph(void)
{
    bytes g = { 0 };
    graph_op(&g, "Identity", "copy", "x", "y");
    put_text(&g, 2, "small");
    graph_input(&g, "x", OT_F32, 2, (int64_t[]){ 2, 3 });
    graph_output(&g, "y");
    return g;
}

bytes rich_model(void)
{
    bytes g = small_graph(), n = node_begin("Constant", "", "", "c"), m, f = { 0 };
    bytes t = tensor_begin("", OT_F32, 1, (int64_t[]){ 2 });
    put_data(&t, 4, (float[]){ 1, 2 }, 8);
    attr_tensor(&n, "value", &t);
    graph_node(&g, n);
    graph_floats(&g, "w", 3, (float[]){ 1, 2, 3 });
    n = node_begin("Transpose", "t", "x", "z");
    attr_ints(&n, "perm", 2, (int64_t[]){ 1, 0 });
    graph_node(&g, n);
    graph_op(&g, "own.Twice", "call", "z", "zz");
    m = model_of(&g, 8, 17);
    model_opset(&m, "own", 1);
    put_text(&f, 1, "Twice");
    put_text(&f, 4, "a");
    put_text(&f, 5, "b");
    bytes inner = node_begin("Identity", "", "a", "b");
    put_message(&f, 7, &inner);
    put_text(&f, 10, "own");
    put_message(&m, 25, &f);
    return m;
}

/* ---- importing ------------------------------------------------------------------------ */

const char *path_of(const char *name)
{
    static char folder[64], path[8][4400];
    static int next;
    if (!*folder) {
        strcpy(folder, "importer-XXXXXX");
        assert_non_null(mkdtemp(folder));
    }
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s%s%s", folder, *name ? "/" : "", name);
    return p;
}

void write_file(const char *name, const void *p, size_t n)
{
    FILE *f = fopen(path_of(name), "wb");
    assert_non_null(f);
    assert_int_equal(n ? fwrite(p, 1, n, f) : 0, n);
    assert_int_equal(fclose(f), 0);
}

ot_status import_model(const bytes *b, ot_imported **out, ot_error *err)
{
    write_file("m.onnx", b->p, b->n);
    return ot_import(path_of("m.onnx"), out, err);
}

static void check_graph(ot_imported *m)
{
    ot_error err = { 0 };
    if (ot_graph_verify(m->graph, false, &err) != OT_OK) fail_msg("%s", err.text);
}

ot_imported *accepted(bytes *model)
{
    ot_imported *m;
    ot_error err = { 0 };
    if (import_model(model, &m, &err) != OT_OK) fail_msg("refused: %s", err.text);
    bytes_free(model);
    check_graph(m);
    return m;
}

static void check_refusal(ot_status got, const ot_error *err, const char *path, ot_status s, va_list pieces)
{
    if (got != s) fail_msg("status %d instead of %d: %s", got, s, err->text);
    const char *slash = strrchr(path, '/');
    if (!strstr(err->text, slash ? slash + 1 : path)) fail_msg("no file name: %s", err->text);
    for (const char *piece; (piece = va_arg(pieces, const char *));)
        if (!strstr(err->text, piece)) fail_msg("'%s' is missing in: %s", piece, err->text);
}

void refused_file(const char *path, ot_status s, ...)
{
    ot_imported *m;
    ot_error err = { 0 };
    ot_status got = ot_import(path, &m, &err);
    va_list pieces;
    va_start(pieces, s);
    check_refusal(got, &err, path, s, pieces);
    va_end(pieces);
    assert_null(m);
}

void refused(bytes *model, ot_status s, ...)
{
    ot_imported *m;
    ot_error err = { 0 };
    ot_status got = import_model(model, &m, &err);
    va_list pieces;
    bytes_free(model);
    va_start(pieces, s);
    check_refusal(got, &err, "m.onnx", s, pieces);
    va_end(pieces);
    assert_null(m);
}

const ot_node *node_of(const ot_graph *g, const char *op, int nth)
{
    for (const ot_node *n = g->first; n; n = n->next)
        if (!strcmp(n->op->name, op) && !nth--) return n;
    return NULL;
}
