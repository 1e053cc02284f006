/* crc32c.c - CRC-32C, eight bytes at a time (Kounavis and Berry 2005, "slicing by 8").
 *
 * Source  the mask: tensorflow/core/lib/hash/crc32c.h. */
#include "runtime/base/crc32c.h"

void ot_crc32c_init(ot_crc32c *c)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t x = i;
        for (int k = 0; k < 8; k++) x = x & 1 ? x >> 1 ^ 0x82F63B78u : x >> 1;
        c->table[0][i] = x;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++) c->table[k][i] = c->table[0][c->table[k - 1][i] & 255] ^ c->table[k - 1][i] >> 8;
}

uint32_t ot_crc32c_masked(const ot_crc32c *c, const void *p, size_t n)
{
    const uint8_t *b = p;
    uint32_t x = ~0u;
    for (; n >= 8; n -= 8, b += 8) {
        x ^= b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        x = c->table[7][x & 255] ^ c->table[6][x >> 8 & 255] ^ c->table[5][x >> 16 & 255] ^ c->table[4][x >> 24] ^
            c->table[3][b[4]] ^ c->table[2][b[5]] ^ c->table[1][b[6]] ^ c->table[0][b[7]];
    }
    for (; n; n--) x = c->table[0][(x ^ *b++) & 255] ^ x >> 8;
    x = ~x;
    return (x >> 15 | x << 17) + 0xA282EAD8u;
}
