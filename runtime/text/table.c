/* table.c - hash tables of strings and of pairs of numbers; open addressing, at most half full. */
#include <stdlib.h>
#include <string.h>

#include "runtime/text/internal.h"

static uint64_t mix(uint64_t h)
{
    h = (h ^ h >> 32) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

static struct ot_string *place(const ot_string_table *s, const char *p, size_t n)
{
    size_t i = ot_keyed_hash(&s->key, p, n) & (s->room - 1);
    while (s->slot[i].p && (s->slot[i].n != n || memcmp(s->slot[i].p, p, n))) i = (i + 1) & (s->room - 1);
    return &s->slot[i];
}

int32_t ot_string_table_get(const ot_string_table *s, const char *p, size_t n)
{
    const struct ot_string *x = s->room ? place(s, p, n) : NULL;
    return x && x->p ? x->value : -1;
}

static bool grow_strings(ot_string_table *s)
{
    ot_string_table wide = { .room = s->room ? 2 * s->room : 1024, .key = s->room ? s->key : ot_hash_key_new() };
    if (!(wide.slot = calloc(wide.room, sizeof *wide.slot))) return false;
    for (size_t i = 0; i < s->room; i++)
        if (s->slot[i].p) *place(&wide, s->slot[i].p, s->slot[i].n) = s->slot[i];
    wide.used = s->used;
    free(s->slot);
    *s = wide;
    return true;
}

bool ot_string_table_put(ot_string_table *s, const char *p, size_t n, int32_t value)
{
    if (n > UINT32_MAX || (2 * s->used >= s->room && !grow_strings(s))) return false;
    struct ot_string *x = place(s, p, n);
    if (x->p) return true;
    *x = (struct ot_string){ p, (uint32_t)n, value };
    s->used++;
    return true;
}

static struct ot_pair *place_pair(const ot_pairs *s, uint64_t key)
{
    size_t i = mix(key) & (s->room - 1);
    while (s->slot[i].key != UINT64_MAX && s->slot[i].key != key) i = (i + 1) & (s->room - 1);
    return &s->slot[i];
}

static uint64_t key_of(int32_t left, int32_t right) { return (uint64_t)(uint32_t)left << 32 | (uint32_t)right; }

const struct ot_pair *ot_pairs_get(const ot_pairs *s, int32_t left, int32_t right)
{
    if (!s->room || left < 0 || right < 0) return NULL;
    const struct ot_pair *x = place_pair(s, key_of(left, right));
    return x->key == UINT64_MAX ? NULL : x;
}

bool ot_pairs_put(ot_pairs *s, int32_t left, int32_t right, int32_t rank, int32_t made)
{
    if (2 * s->used >= s->room) {
        ot_pairs wide = { .room = s->room ? 2 * s->room : 1024, .used = s->used };
        if (!(wide.slot = malloc(wide.room * sizeof *wide.slot))) return false;
        memset(wide.slot, 0xFF, wide.room * sizeof *wide.slot);
        for (size_t i = 0; i < s->room; i++)
            if (s->slot[i].key != UINT64_MAX) *place_pair(&wide, s->slot[i].key) = s->slot[i];
        free(s->slot);
        *s = wide;
    }
    struct ot_pair *x = place_pair(s, key_of(left, right));
    s->used += x->key == UINT64_MAX;
    *x = (struct ot_pair){ key_of(left, right), rank, made };
    return true;
}
