/* exif.c - reads the orientation from EXIF.
 *
 * Spec  EXIF 2.32: a TIFF header, then a directory of 12-byte entries; the orientation is tag 0x0112. */
#include "runtime/picture/internal.h"

#include <string.h>

int ot_exif_orientation(const uint8_t *p, size_t n)
{
    if (n >= 6 && !memcmp(p, "Exif\0\0", 6)) p += 6, n -= 6;
    if (n < 8 || (memcmp(p, "II*\0", 4) != 0 && memcmp(p, "MM\0*", 4) != 0)) return 1;
    bool big = p[0] == 'M';
    size_t at = big ? ot_be32(p + 4) : ot_le32(p + 4);
    if (at > n - 2) return 1;
    size_t entries = big ? ot_be16(p + at) : ot_le16(p + at);
    for (at += 2; entries && n - at >= 12; entries--, at += 12) {
        uint32_t tag = big ? ot_be16(p + at) : ot_le16(p + at), kind = big ? ot_be16(p + at + 2) : ot_le16(p + at + 2);
        uint32_t value = big ? ot_be16(p + at + 8) : ot_le16(p + at + 8);
        if (tag == 0x0112) return kind == 3 && value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}
