/* mutate_picture.c - bytes, and words of the target; the checksums of a PNG are made right again, or nothing behind
 * its first chunk would be read. */
#include "tests/fuzz/mutate.h"

#include <string.h>
#include <zlib.h>

static uint32_t big(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

size_t LLVMFuzzerCustomMutator(uint8_t *p, size_t n, size_t most, unsigned seed)
{
    mutate_seed(seed);
    n = mutate_bytes(p, n, most);
    if (n < 8 || memcmp(p, "\x89PNG\r\n\x1a\n", 8) != 0 || mutate_chance(10)) return n;
    for (size_t at = 8; n - at >= 12 && big(p + at) <= n - at - 12; at += 12 + big(p + at)) {
        uint32_t size = big(p + at), sum = (uint32_t)crc32(0, p + at + 4, size + 4);
        for (int i = 0; i < 4; i++) p[at + 8 + size + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
    }
    return n;
}
