/* dnn_text.c - a descriptor of the emulated cuDNN and all it links to, to text and back: the form of plans on disk.
 *
 *     (type name:type:n=hex name:type:n(...)(...) )
 *
 * Descriptors linked to twice are written twice: tensors are identified by their numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulator/dnn.h"

static void write(FILE *f, const dnn *d)
{
    fprintf(f, "(%d", d->type);
    for (int i = 0; i < d->n; i++) {
        const dnn_value *v = &d->value[i];
        fprintf(f, " %d:%d:%lld", v->name, v->type, (long long)v->n);
        if (v->type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
            for (int64_t k = 0; k < v->n; k++) write(f, ((dnn *const *)v->list)[k]);
            continue;
        }
        int64_t bytes = v->n * (v->type == CUDNN_TYPE_BOOLEAN || v->type == CUDNN_TYPE_CHAR   ? 1
                                : v->type == CUDNN_TYPE_INT64 || v->type == CUDNN_TYPE_DOUBLE ? 8
                                                                                              : 4);
        for (int64_t k = 0; k < bytes; k++) fprintf(f, "%c%02x", k ? ',' : '=', ((const unsigned char *)v->list)[k]);
    }
    fprintf(f, " )");
}

char *dnn_write(const dnn *d)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) return NULL;
    write(f, d);
    fclose(f);
    return text;
}

static bool read_value(const char **text, dnn *d)
{
    unsigned char bytes[4096];
    dnn *list[DNN_OPS];
    int name, type, used = 0;
    long long n;
    if (sscanf(*text, " %d:%d:%lld%n", &name, &type, &n, &used) != 3 || n < 0) return false;
    *text += used;
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        bool ok = n <= DNN_OPS;
        int made = 0;
        while (ok && made < n && (list[made] = dnn_read(text))) made++;
        ok = ok && made == n && dnn_put(d, name, type, n, list);
        while (made) dnn_drop(list[--made]); /* d has its own use of each */
        return ok;
    }
    size_t k = 0;
    unsigned byte;
    while ((**text == '=' || **text == ',') && k < sizeof bytes && sscanf(*text + 1, "%2x", &byte) == 1)
        bytes[k++] = (unsigned char)byte, *text += 3;
    return dnn_put(d, name, type, n, bytes);
}

dnn *dnn_read(const char **text)
{
    int type, used = 0;
    if (sscanf(*text, " (%d%n", &type, &used) != 1) return NULL;
    *text += used;
    dnn *d = dnn_new(type);
    while (d && **text == ' ' && (*text)[1] != ')')
        if (!read_value(text, d)) break;
    if (d && **text == ' ' && (*text)[1] == ')') {
        *text += 2;
        d->final = true;
        return d;
    }
    dnn_drop(d);
    return NULL;
}
