/* wire.h - the protobuf wire format, read and written in place. */
#ifndef OT_WIRE_H
#define OT_WIRE_H

#include "runtime/base/base.h"

/* One field on the wire.  body..end: its payload; for a length-delimited one without the length. */
typedef struct ot_field {
    uint32_t number;
    unsigned wire; /* 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes */
    size_t at;     /* its tag */
    size_t len_at; /* wire 2: the varint of its length */
    size_t body, end;
} ot_field;

/* The next field of [*at, end); false: there is none.  The bytes must have passed the importer's guard. */
bool ot_field_next(const uint8_t *p, size_t *at, size_t end, ot_field *f);
uint64_t ot_varint_read(const uint8_t *p, size_t *at, size_t end);
size_t ot_varint_size(uint64_t v);
size_t ot_varint_write(uint8_t *out, uint64_t v); /* bytes written; out NULL: only counts */
/* A StringStringEntryProto as field `number`, in the arena; NULL: no memory. */
const uint8_t *ot_entry_bytes(ot_arena *a, uint32_t number, const char *key, const char *value, size_t *n);

#endif
