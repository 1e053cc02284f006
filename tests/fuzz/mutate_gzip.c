/* mutate_gzip.c - bytes; those of a gzip stream are changed unpacked, and packed again with the right checksum. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tests/fuzz/mutate.h"

enum { MOST = 1 << 16 };

/* Unpacked bytes in a buffer of MOST, or NULL. */
static uint8_t *unpack(const uint8_t *p, size_t n, size_t *out)
{
    uint8_t *to = malloc(MOST);
    z_stream z = { .next_in = (uint8_t *)(uintptr_t)p, .avail_in = (unsigned)n, .next_out = to, .avail_out = MOST };
    if (!to || inflateInit2(&z, 15 + 16)) {
        free(to);
        return NULL;
    }
    int s = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    *out = z.total_out;
    if (s == Z_STREAM_END) return to;
    free(to);
    return NULL;
}

static size_t pack(const uint8_t *p, size_t n, uint8_t *to, size_t most)
{
    z_stream z = {
        .next_in = (uint8_t *)(uintptr_t)p, .avail_in = (unsigned)n, .next_out = to, .avail_out = (unsigned)most
    };
    if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY)) return 0;
    int s = deflate(&z, Z_FINISH);
    deflateEnd(&z);
    return s == Z_STREAM_END ? z.total_out : 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *p, size_t n, size_t most, unsigned seed)
{
    size_t inside = 0;
    mutate_seed(seed);
    uint8_t *q = n > 2 && p[0] == 0x1f && p[1] == 0x8b && mutate_chance(75) ? unpack(p, n, &inside) : NULL;
    if (!q) return mutate_bytes(p, n, most);
    inside = mutate_bytes(q, inside, MOST);
    size_t packed = pack(q, inside, p, most);
    free(q);
    return packed ? packed : LLVMFuzzerMutate(p, n, most);
}
