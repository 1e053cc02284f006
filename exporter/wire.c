/* wire.c - the protobuf wire format, read and written in place.
 *
 * Source  Protocol buffers, encoding. */
#include "exporter/wire.h"

#include <string.h>

uint64_t ot_varint_read(const uint8_t *p, size_t *at, size_t end)
{
    uint64_t v = 0;
    for (unsigned shift = 0; *at < end; shift += 7) {
        uint8_t byte = p[(*at)++];
        if (shift < 64) v |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) break;
    }
    return v;
}

size_t ot_varint_size(uint64_t v)
{
    size_t n = 1;
    for (; v > 0x7F; v >>= 7) n++;
    return n;
}

size_t ot_varint_write(uint8_t *out, uint64_t v)
{
    size_t n = 0;
    for (; v > 0x7F; v >>= 7, n++)
        if (out) out[n] = (uint8_t)(v | 0x80);
    if (out) out[n] = (uint8_t)v;
    return n + 1;
}

bool ot_field_next(const uint8_t *p, size_t *at, size_t end, ot_field *f)
{
    if (*at >= end) return false;
    *f = (ot_field){ .at = *at };
    uint64_t tag = ot_varint_read(p, at, end);
    f->number = (uint32_t)(tag >> 3);
    f->wire = (unsigned)(tag & 7);
    f->len_at = f->body = *at;
    uint64_t n = 0;
    switch (f->wire) {
    case 0:
        ot_varint_read(p, at, end);
        n = *at - f->body;
        break;
    case 1: n = 8; break;
    case 2:
        n = ot_varint_read(p, at, end);
        f->body = *at;
        break;
    case 5: n = 4; break;
    default: return false;
    }
    if (n > end - f->body) return false;
    *at = f->end = f->body + (size_t)n;
    return true;
}

static size_t put_text(uint8_t *out, uint32_t number, const char *text, size_t n)
{
    size_t at = ot_varint_write(out, number << 3 | 2);
    at += ot_varint_write(out + at, n);
    memcpy(out + at, text, n);
    return at + n;
}

const uint8_t *ot_entry_bytes(ot_arena *a, uint32_t number, const char *key, const char *value, size_t *n)
{
    size_t k = strlen(key), v = strlen(value);
    size_t body = 1 + ot_varint_size(k) + k + 1 + ot_varint_size(v) + v;
    uint8_t *out = ot_arena_alloc(a, ot_varint_size(number << 3 | 2) + ot_varint_size(body) + body);
    if (!out) return NULL;
    *n = ot_varint_write(out, number << 3 | 2);
    *n += ot_varint_write(out + *n, body);
    *n += put_text(out + *n, OT_ENTRY_KEY, key, k);
    *n += put_text(out + *n, OT_ENTRY_VALUE, value, v);
    return out;
}
