/* guard.c - walks a message before it is unpacked, and unpacks it within a budget.
 *
 * protobuf-c recurses once per nested message and allocates as it goes, so a small file could
 * exhaust the stack or the memory.  The walk below needs neither: it keeps a fixed stack of open
 * messages and adds up what unpacking would allocate.
 *
 * Memory  The heap that is allowed is 256 MiB plus four times the file: real files need at most
 *         five times the size of their structure plus once their payload.
 * Source  Protocol buffers, encoding; protobuf-c 1.4, protobuf_c_message_unpack. */
#include <stdlib.h>
#include <string.h>

#include "importer/internal.h"

enum {
    TAG_BYTES = 5, /* protobuf-c reads no longer tags */
    VARINT_BYTES = 10,
    BLOCK = 32,        /* the heap's own cost of one allocation, and ours */
    FREE_MEMBERS = 16, /* fields of one message that protobuf-c keeps on its stack */
    MEMBER = 96,       /* what every further one costs while the message is unpacked */
    HEADER = 16        /* before every block: its size; keeps 16-byte alignment */
};

#define HEAP_ALLOWED(n) (((size_t)256 << 20) + 4 * (size_t)(n))

typedef struct open_message {
    const ProtobufCMessageDescriptor *d;
    size_t end;    /* offset after its last byte */
    uint64_t seen; /* singular messages met, by index of the field */
    size_t members;
} open_message;

typedef struct scan {
    const uint8_t *p;
    size_t at, n, heap;
    const char *what;
    ot_error *err;
    ot_payloads *payloads; /* or NULL */
    int depth;
    open_message stack[OT_DEEPEST];
} scan;

#define REFUSE(s, ...) ot_fail((s)->err, OT_E_MODEL, __VA_ARGS__)

/* A varint of at most `most` bytes that ends before `end`. */
static ot_status read_varint(scan *s, size_t end, int most, uint64_t *out)
{
    uint64_t v = 0;
    size_t start = s->at;
    for (int i = 0; i < most && s->at < end; i++) {
        uint8_t byte = s->p[s->at++];
        v |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (!(byte & 0x80)) {
            *out = v;
            return OT_OK;
        }
    }
    if (s->at >= end && s->at - start < (size_t)most)
        return REFUSE(s, "%s: byte %zu: truncated number", s->what, start);
    return REFUSE(s, "%s: byte %zu: number of more than %d bytes", s->what, start, most);
}

static size_t scalar_size(ProtobufCType t)
{
    switch (t) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return 8;
    default: return 4;
    }
}

/* The wire type of a field outside packed lists. */
static unsigned wire_of(ProtobufCType t)
{
    switch (t) {
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32: return 5;
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64: return 1;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return 2;
    default: return 0;
    }
}

/* The elements of a packed list, from s->at to end. */
static ot_status walk_packed(scan *s, const ProtobufCFieldDescriptor *f, size_t end)
{
    size_t bytes = end - s->at, n = 0;
    unsigned wire = wire_of(f->type);
    if (wire) {
        size_t size = wire == 5 ? 4 : 8;
        if (bytes % size)
            return REFUSE(s, "%s: byte %zu: field '%s' has %zu bytes, expected a multiple of %zu", s->what, s->at,
                          f->name, bytes, size);
        n = bytes / size;
        s->at = end;
    } else {
        for (uint64_t unused; s->at < end; n++) OT_TRY(read_varint(s, end, VARINT_BYTES, &unused));
    }
    s->heap += n * scalar_size(f->type) + BLOCK;
    return OT_OK;
}

static ot_status enter(scan *s, const ProtobufCFieldDescriptor *f, size_t end)
{
    open_message *top = &s->stack[s->depth - 1];
    if (f->label != PROTOBUF_C_LABEL_REPEATED) {
        uint64_t bit = 1ull << ((f - top->d->fields) & 63);
        if (top->seen & bit)
            return REFUSE(s, "%s: byte %zu: duplicate field '%s' in %s", s->what, s->at, f->name, top->d->short_name);
        top->seen |= bit;
    }
    if (s->depth == OT_DEEPEST)
        return REFUSE(s, "%s: byte %zu: messages are nested deeper than %d", s->what, s->at, OT_DEEPEST);
    const ProtobufCMessageDescriptor *d = f->descriptor;
    s->heap += d->sizeof_message + sizeof(void *) + BLOCK;
    s->stack[s->depth++] = (open_message){ d, end, 0, 0 };
    return OT_OK;
}

/* A field with a length: text, bytes, a message, a packed list, or one we do not know. */
static ot_status walk_long(scan *s, const ProtobufCFieldDescriptor *f, size_t outer)
{
    uint64_t len;
    size_t start = s->at;
    OT_TRY(read_varint(s, outer, VARINT_BYTES, &len));
    if (len > outer - s->at)
        return REFUSE(s, "%s: byte %zu: field of %llu bytes, but only %zu are left", s->what, start,
                      (unsigned long long)len, outer - s->at);
    size_t end = s->at + (size_t)len;
    if (f && f->type == PROTOBUF_C_TYPE_MESSAGE) return enter(s, f, end);
    if (f && wire_of(f->type) != 2) return walk_packed(s, f, end);
    if (f && f->type == PROTOBUF_C_TYPE_STRING && len && memchr(s->p + s->at, 0, (size_t)len))
        return REFUSE(s, "%s: byte %zu: '%s' contains a zero byte; expected text", s->what, start, f->name);
    if (s->payloads && f && f->type == PROTOBUF_C_TYPE_BYTES && f->label != PROTOBUF_C_LABEL_REPEATED)
        ot_payloads_add(s->payloads, s->at, (size_t)len);
    s->heap += (size_t)len + 1 + BLOCK + (f ? sizeof(ProtobufCBinaryData) : 0);
    s->at = end;
    return OT_OK;
}

static ot_status walk_field(scan *s)
{
    open_message *top = &s->stack[s->depth - 1];
    size_t start = s->at;
    uint64_t tag, unused;
    OT_TRY(read_varint(s, top->end, TAG_BYTES, &tag));
    unsigned wire = tag & 7;
    if (tag > UINT32_MAX || tag >> 3 == 0)
        return REFUSE(s, "%s: byte %zu: invalid field number %llu", s->what, start, (unsigned long long)(tag >> 3));
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(top->d, (unsigned)(tag >> 3));
    bool list = f && f->label == PROTOBUF_C_LABEL_REPEATED && wire_of(f->type) != 2;
    if (f && wire != wire_of(f->type) && !(list && wire == 2))
        return REFUSE(s, "%s: byte %zu: '%s' of %s has wire type %u, expected %u", s->what, start, f->name,
                      top->d->short_name, wire, wire_of(f->type));
    if (++top->members > FREE_MEMBERS) s->heap += MEMBER;
    if (!f) s->heap += sizeof(ProtobufCMessageUnknownField) + BLOCK;
    else if (list && wire != 2) s->heap += scalar_size(f->type);
    size_t width = wire == 1 ? 8 : 4;
    switch (wire) {
    case 0: return read_varint(s, top->end, VARINT_BYTES, &unused);
    case 2: return walk_long(s, f, top->end);
    case 1:
    case 5:
        if (top->end - s->at < width) return REFUSE(s, "%s: byte %zu: truncated", s->what, start);
        s->at += width;
        return OT_OK;
    default: return REFUSE(s, "%s: byte %zu: unknown wire type %u", s->what, start, wire);
    }
}

static ot_status walk(const ProtobufCMessageDescriptor *d, const uint8_t *bytes, size_t n, const char *what,
                      ot_payloads *payloads, ot_error *err)
{
    if (n > OT_LARGEST_FILE)
        return ot_fail(err, OT_E_MODEL, "%s: has %zu bytes; a message has at most %zu", what, n, OT_LARGEST_FILE);
    scan s = {
        .p = bytes, .n = n, .heap = d->sizeof_message, .what = what, .err = err, .payloads = payloads, .depth = 1
    };
    s.stack[0] = (open_message){ d, n, 0, 0 };
    while (s.depth) {
        if (s.at == s.stack[s.depth - 1].end) {
            s.depth--;
            continue;
        }
        OT_TRY(walk_field(&s));
        if (s.heap > HEAP_ALLOWED(n))
            return ot_fail(err, OT_E_MODEL, "%s: byte %zu: %zu bytes would unpack to more than %zu MiB", what, s.at, n,
                           HEAP_ALLOWED(n) >> 20);
    }
    return OT_OK;
}

ot_status ot_guard_scan(const ProtobufCMessageDescriptor *d, const uint8_t *bytes, size_t n, const char *what,
                        ot_error *err)
{
    return walk(d, bytes, n, what, NULL, err);
}

/* ---- unpacking ----------------------------------------------------------------- */

static void *budget_alloc(void *data, size_t n)
{
    ot_budget *b = data;
    if (n > SIZE_MAX - HEADER || n + HEADER > b->limit - b->used) {
        b->hit = true;
        return NULL;
    }
    unsigned char *p = malloc(n + HEADER);
    if (!p) return NULL;
    memcpy(p, &n, sizeof n);
    b->used += n + HEADER;
    if (b->payloads) ot_payloads_alloc(b->payloads, p + HEADER, n);
    return p + HEADER;
}

static void budget_free(void *data, void *p)
{
    ot_budget *b = data;
    if (!p) return;
    unsigned char *block = (unsigned char *)p - HEADER;
    size_t n;
    memcpy(&n, block, sizeof n);
    b->used -= n + HEADER;
    if (b->payloads) ot_payloads_free(b->payloads, p, n);
    free(block);
}

ot_status ot_guard_unpack(const ProtobufCMessageDescriptor *d, const uint8_t *bytes, size_t n, const char *what,
                          ot_payloads *payloads, ot_budget *b, ProtobufCMessage **out, ot_error *err)
{
    *out = NULL;
    OT_TRY(walk(d, bytes, n, what, payloads, err));
    *b = (ot_budget){ .limit = HEAP_ALLOWED(n), .payloads = payloads };
    ProtobufCAllocator a = { budget_alloc, budget_free, b };
    *out = protobuf_c_message_unpack(d, &a, n, bytes);
    b->payloads = NULL;
    if (payloads) ot_payloads_end(payloads);
    if (*out) return OT_OK;
    if (b->hit) return ot_fail(err, OT_E_MODEL, "%s: would unpack to more than %zu MiB", what, b->limit >> 20);
    /* The walk accepts what protobuf-c accepts, so memory is the only other reason. */
    return ot_fail(err, OT_E_NOMEM, "%s: no memory for its %zu bytes", what, n);
}

void ot_guard_free(ProtobufCMessage *m, ot_budget *b)
{
    ProtobufCAllocator a = { budget_alloc, budget_free, b };
    if (m) protobuf_c_message_free_unpacked(m, &a);
}
