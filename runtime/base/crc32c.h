/* crc32c.h - CRC-32C (Castagnoli) as TensorFlow's files have it: masked. */
#ifndef OT_CRC32C_H
#define OT_CRC32C_H

#include "runtime/base/base.h"

typedef struct ot_crc32c {
    uint32_t table[8][256];
} ot_crc32c;

void ot_crc32c_init(ot_crc32c *c);
uint32_t ot_crc32c_masked(const ot_crc32c *c, const void *p, size_t n);

#endif
