/* wire.c - the fields of a protobuf message, one after the other.
 *
 * Source  protobuf.dev/programming-guides/encoding. */
#include "runtime/data/wire.h"

bool ot_wire_varint(ot_wire *w, uint64_t *out)
{
    *out = 0;
    if (w->p == w->end) return false;
    for (int shift = 0; shift < 64 && w->p < w->end; shift += 7) {
        uint8_t b = *w->p++;
        *out |= (uint64_t)(b & 127) << shift;
        if (!(b & 128)) return true;
    }
    w->bad = true;
    return false;
}

bool ot_wire_next(ot_wire *w, ot_wire_field *out)
{
    uint64_t tag, n = 0;
    if (!ot_wire_varint(w, &tag)) return false;
    *out = (ot_wire_field){ .number = (uint32_t)(tag >> 3), .type = (ot_wire_type)(tag & 7) };
    bool good = tag >> 3 > 0 && tag >> 3 < 1u << 29;
    switch (tag & 7) {
    case OT_WIRE_VARINT: good &= ot_wire_varint(w, &out->value); break;
    case OT_WIRE_64: n = 8; break;
    case OT_WIRE_32: n = 4; break;
    case OT_WIRE_BYTES: good &= ot_wire_varint(w, &n); break;
    default: good = false; /* groups are no longer in use */
    }
    if (!good || n > (uint64_t)(w->end - w->p)) {
        w->bad = true;
        return false;
    }
    out->bytes = (ot_wire){ w->p, w->p + n, false };
    w->p += n;
    return true;
}
