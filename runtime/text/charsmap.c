/* charsmap.c - SentencePiece's tables of normalisation: what strings become, as a double-array trie (darts-clone) and the
 * 0-terminated strings that its values are offsets into. */
#include <string.h>

#include "runtime/text/internal.h"

enum { MOST_RULE = 1024 };

/* Into the arena; NULL: no base64, or no memory. */
static uint8_t *from_base64(const char *s, size_t *n, ot_arena *a)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t size = strlen(s);
    uint8_t *out = ot_arena_alloc(a, size / 4 * 3 + 4);
    uint32_t v = 0;
    *n = 0;
    for (size_t i = 0; out && i < size && s[i] != '='; i++) {
        const char *d = strchr(digits, s[i]);
        if (!d) return NULL;
        v = v << 6 | (uint32_t)(d - digits);
        if (i % 4) out[(*n)++] = (uint8_t)(v >> (6 - 2 * (i % 4)));
    }
    return out;
}

static uint32_t little(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

ot_status ot_charsmap_read(const char *base64, const char *name, ot_arena *a, ot_charsmap *m, ot_error *err)
{
    size_t n = 0;
    const uint8_t *p = from_base64(base64, &n, a);
    uint64_t size = p && n >= 4 ? little(p) : 0;
    if (!size || size % 4 || size + 4 >= n || p[n - 1])
        return ot_fail(err, OT_E_DATA, "%s: its table of normalisation is malformed", name);
    *m = (ot_charsmap){ .trie = p + 4,
                        .units = (uint32_t)(size / 4),
                        .texts = (const char *)p + 4 + size,
                        .n_texts = n - 4 - (size_t)size };
    for (const char *q = m->texts; q < m->texts + m->n_texts; q += strlen(q) + 1)
        if (strlen(q) > MOST_RULE)
            return ot_fail(err, OT_E_DATA, "%s: its table of normalisation makes more than %d bytes of one character",
                           name, MOST_RULE);
    return OT_OK;
}

static uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 1u << 9) >> 6); }

size_t ot_charsmap_find(const ot_charsmap *m, const char *p, const char *end, bool longest, const char **to)
{
    size_t best = 0;
    if (!m->trie) return 0;
    uint32_t at = offset_of(little(m->trie));
    for (size_t i = 0; p + i < end && (longest || !best); i++) {
        unsigned char c = (unsigned char)p[i];
        at ^= c;
        if (at >= m->units) break;
        uint32_t unit = little(m->trie + 4 * (size_t)at);
        if ((unit & (1u << 31 | 0xFF)) != c) break;
        at ^= offset_of(unit);
        if (at >= m->units) break;
        uint32_t value = little(m->trie + 4 * (size_t)at) & 0x7FFFFFFF;
        if (!(unit >> 8 & 1) || value >= m->n_texts) continue;
        best = i + 1;
        *to = m->texts + value;
    }
    return best;
}
