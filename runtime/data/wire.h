/* wire.h - walks the fields of a protobuf message in memory; nothing is copied or allocated. */
#ifndef OT_DATA_WIRE_H
#define OT_DATA_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that are left of a message; bad: they were malformed. */
typedef struct ot_wire {
    const uint8_t *p, *end;
    bool bad;
} ot_wire;

typedef enum ot_wire_type { OT_WIRE_VARINT = 0, OT_WIRE_64 = 1, OT_WIRE_BYTES = 2, OT_WIRE_32 = 5 } ot_wire_type;

typedef struct ot_wire_field {
    uint32_t number;
    ot_wire_type type;
    uint64_t value; /* of a VARINT */
    ot_wire bytes;  /* its content otherwise */
} ot_wire_field;

bool ot_wire_varint(ot_wire *w, uint64_t *out);    /* false: the end, or w->bad */
bool ot_wire_next(ot_wire *w, ot_wire_field *out); /* false: the end, or w->bad */

#endif
