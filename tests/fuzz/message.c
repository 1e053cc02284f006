/* message.c - protobuf-c messages changed by their descriptors. */
#include "tests/fuzz/message.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/mutate.h"

enum { MOST_TEXT = 256 };

typedef ProtobufCFieldDescriptor field;

static void *at(ProtobufCMessage *m, const field *f) { return (char *)m + f->offset; }
static size_t *count(ProtobufCMessage *m, const field *f) { return (size_t *)((char *)m + f->quantifier_offset); }
static bool has_flag(const field *f, uint32_t flag) { return (f->flags & flag) != 0; }

static size_t size_of(const field *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    default: return 4;
    }
}

/* The message in a field that is not repeated; NULL: none. */
static ProtobufCMessage *single(ProtobufCMessage *m, const field *f)
{
    if (has_flag(f, PROTOBUF_C_FIELD_FLAG_ONEOF) && *(uint32_t *)((char *)m + f->quantifier_offset) != f->id)
        return NULL;
    return *(ProtobufCMessage **)at(m, f);
}

void message_walk(messages *all, ProtobufCMessage *root)
{
    if (all->n == MOST_MESSAGES) return;
    all->m[all->n++] = root;
    for (unsigned i = 0; i < root->descriptor->n_fields; i++) {
        const field *f = &root->descriptor->fields[i];
        if (f->type != PROTOBUF_C_TYPE_MESSAGE) continue;
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            ProtobufCMessage **list = *(ProtobufCMessage ***)at(root, f);
            for (size_t k = 0; k < *count(root, f); k++) message_walk(all, list[k]);
        } else if (single(root, f)) {
            message_walk(all, single(root, f));
        }
    }
}

ProtobufCMessage *message_pick(const messages *all, const ProtobufCMessageDescriptor *d)
{
    ProtobufCMessage *found = NULL;
    size_t seen = 0;
    for (int i = 0; i < all->n; i++)
        if (all->m[i]->descriptor == d && mutate_below(++seen) == 0) found = all->m[i];
    return found;
}

ProtobufCMessage *message_clone(const ProtobufCMessage *m)
{
    size_t n = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = malloc(n + 1);
    if (!bytes) return NULL;
    protobuf_c_message_pack(m, bytes);
    ProtobufCMessage *copy = protobuf_c_message_unpack(m->descriptor, NULL, n, bytes);
    free(bytes);
    return copy;
}

void message_text(char **to, const char *text)
{
    char *copy = strdup(text);
    if (!copy) return;
    if (*to != protobuf_c_empty_string) free(*to);
    *to = copy;
}

/* ---- repeated fields ------------------------------------------------------------ */

static void release(const field *f, char *element)
{
    if (f->type == PROTOBUF_C_TYPE_STRING) free(*(char **)element);
    if (f->type == PROTOBUF_C_TYPE_BYTES) free(((ProtobufCBinaryData *)element)->data);
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) protobuf_c_message_free_unpacked(*(ProtobufCMessage **)element, NULL);
}

static bool append(ProtobufCMessage *m, const field *f, const void *element)
{
    size_t n = *count(m, f), size = size_of(f);
    char *list = realloc(*(char **)at(m, f), (n + 1) * size);
    if (!list) return false;
    memcpy(list + n * size, element, size);
    *(char **)at(m, f) = list;
    *count(m, f) = n + 1;
    return true;
}

static void drop(ProtobufCMessage *m, const field *f, size_t i)
{
    size_t n = *count(m, f), size = size_of(f);
    char *list = *(char **)at(m, f);
    release(f, list + i * size);
    memmove(list + i * size, list + (i + 1) * size, (n - i - 1) * size);
    if (--*count(m, f) == 0) free(list), *(char **)at(m, f) = NULL;
}

void message_append(ProtobufCMessage *m, const char *name, void *element)
{
    const field *f = protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name);
    char room[sizeof(ProtobufCBinaryData)];
    memcpy(room, &element, sizeof element);
    if (!append(m, f, room)) release(f, room);
}

void message_remove(ProtobufCMessage *m, const char *name, size_t i)
{
    drop(m, protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name), i);
}

/* ---- any field ------------------------------------------------------------------- */

static char *changed_text(const char *text)
{
    char *room = calloc(1, MOST_TEXT + 1);
    size_t n = text ? strnlen(text, MOST_TEXT) : 0;
    if (room && n) memcpy(room, text, n);
    if (room) room[mutate_bytes((uint8_t *)room, n, MOST_TEXT)] = 0;
    return room;
}

static void change_bytes(ProtobufCBinaryData *b)
{
    size_t most = b->len + 16;
    uint8_t *p = calloc(1, most);
    if (!p) return;
    if (b->len) memcpy(p, b->data, b->len);
    size_t n = mutate_bytes(p, b->len, most);
    free(b->data);
    *b = (ProtobufCBinaryData){ n, p };
}

static double changed_real(double v)
{
    static const double some[] = { 0, -0.0, 1, -1, 0.5, 2, 1e-45, 1e38, 3.5e38, 1e300, -1e9, 1.0 / 3 };
    if (mutate_chance(15)) return mutate_chance(50) ? 0.0 / (v - v + 0.0) : 1.0 / (v - v);
    return mutate_chance(50) ? some[mutate_below(sizeof some / sizeof *some)] : v * (double)mutate_below(5) - 1;
}

/* The scalar at p. */
static void change_scalar(const field *f, void *p)
{
    float r;
    double d;
    int64_t i;
    int32_t k;
    const ProtobufCEnumDescriptor *e = f->descriptor;
    switch (f->type) {
    case PROTOBUF_C_TYPE_FLOAT:
        memcpy(&r, p, 4), d = changed_real(r), r = d > 3e38 || d < -3e38 ? 3e38f : (float)d, memcpy(p, &r, 4);
        return;
    case PROTOBUF_C_TYPE_DOUBLE: memcpy(&d, p, 8), d = changed_real(d), memcpy(p, &d, 8); return;
    case PROTOBUF_C_TYPE_STRING: {
        char *text = changed_text(*(char **)p);
        if (text) message_text(p, text);
        free(text);
        return;
    }
    case PROTOBUF_C_TYPE_BYTES: change_bytes(p); return;
    case PROTOBUF_C_TYPE_MESSAGE: return;
    case PROTOBUF_C_TYPE_ENUM:
        k = mutate_chance(90) ? e->values[mutate_below(e->n_values)].value : (int32_t)mutate_integer(0);
        memcpy(p, &k, 4);
        return;
    default:
        if (size_of(f) == 8) memcpy(&i, p, 8), i = mutate_integer(i), memcpy(p, &i, 8);
        else memcpy(&k, p, 4), k = (int32_t)mutate_integer(k), memcpy(p, &k, 4);
    }
}

static void change_list(const messages *all, ProtobufCMessage *m, const field *f)
{
    size_t n = *count(m, f), size = size_of(f), i = n ? mutate_below(n) : 0, k = n ? mutate_below(n) : 0;
    char *list = *(char **)at(m, f), room[sizeof(ProtobufCBinaryData)] = { 0 };
    switch (mutate_below(n ? 5 : 1)) {
    case 0: /* one more: of a message a copy of any such, of the rest something new */
        if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
            ProtobufCMessage *other = message_pick(all, f->descriptor), *copy = other ? message_clone(other) : NULL;
            if (copy && !append(m, f, &copy)) protobuf_c_message_free_unpacked(copy, NULL);
            return;
        }
        change_scalar(f, room);
        if (f->type == PROTOBUF_C_TYPE_STRING && !*(char **)(void *)room) return;
        if (!append(m, f, room)) release(f, room);
        return;
    case 1: drop(m, f, i); return;
    case 2: /* two change places */
        memcpy(room, list + i * size, size);
        memmove(list + i * size, list + k * size, size);
        memcpy(list + k * size, room, size);
        return;
    default: change_scalar(f, list + i * size); return;
    }
}

static void change_single(const messages *all, ProtobufCMessage *m, const field *f)
{
    void *p = at(m, f);
    if (has_flag(f, PROTOBUF_C_FIELD_FLAG_ONEOF)) return; /* the case and the value go together */
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        ProtobufCMessage *other = message_pick(all, f->descriptor),
                         *copy = other && mutate_chance(70) ? message_clone(other) : NULL, **here = p;
        if (*here) protobuf_c_message_free_unpacked(*here, NULL);
        *here = copy;
        return;
    }
    if (f->type == PROTOBUF_C_TYPE_STRING && mutate_chance(20)) {
        if (*(char **)p != protobuf_c_empty_string) free(*(char **)p);
        *(char **)p = NULL;
        return;
    }
    if (f->type != PROTOBUF_C_TYPE_STRING && f->label == PROTOBUF_C_LABEL_OPTIONAL)
        *(protobuf_c_boolean *)((char *)m + f->quantifier_offset) = !mutate_chance(15);
    change_scalar(f, p);
}

void message_change_any(const messages *all)
{
    ProtobufCMessage *m = all->m[mutate_below((size_t)all->n)];
    if (!m->descriptor->n_fields) return;
    const field *f = &m->descriptor->fields[mutate_below(m->descriptor->n_fields)];
    if (f->label == PROTOBUF_C_LABEL_REPEATED) change_list(all, m, f);
    else change_single(all, m, f);
}
