/* mutate_record.c - changes the messages of TFRecord files, and corrects lengths and checksums. */
#include <string.h>

#include "runtime/base/crc32c.h"
#include "tests/fuzz/mutate.h"

enum { HEAD = 12, TAIL = 4 };

static void put(uint8_t *p, uint64_t v, int n)
{
    for (int i = 0; i < n; i++) p[i] = (uint8_t)(v >> 8 * i);
}

size_t LLVMFuzzerCustomMutator(uint8_t *p, size_t n, size_t most, unsigned seed)
{
    ot_crc32c crc;
    size_t at = 0, of = 0, length = 0;
    mutate_seed(seed);
    if (mutate_chance(25) || most < n + HEAD + TAIL) return mutate_bytes(p, n, most);
    for (int records = 0; at + HEAD + TAIL <= n;) { /* one of them */
        size_t m = p[at] | (size_t)p[at + 1] << 8 | (size_t)p[at + 2] << 16;
        if (m > n - at - HEAD - TAIL) break;
        if (!mutate_below((size_t)++records)) of = at, length = m;
        at += HEAD + m + TAIL;
    }
    if (!at) return mutate_bytes(p, n, most);
    size_t behind = n - of - HEAD - length - TAIL, room = most - n + length;
    uint8_t *message = p + of + HEAD;
    memmove(p + most - behind, message + length + TAIL, behind);
    size_t now = mutate_bytes(message, length, room);
    ot_crc32c_init(&crc);
    put(p + of, now, 8);
    put(p + of + 8, ot_crc32c_masked(&crc, p + of, 8), 4);
    put(message + now, ot_crc32c_masked(&crc, message, now), 4);
    memmove(message + now + TAIL, p + most - behind, behind);
    return of + HEAD + now + TAIL + behind;
}
