/* table.c - a hash table with names as keys: open addressing, borrowed keys. */
#include <string.h>

#include "importer/internal.h"

static size_t slot_of(const ot_table *t, const char *key)
{
    size_t i = (size_t)ot_keyed_hash(&t->hash, key, strlen(key)) & (t->cap - 1);
    while (t->key[i] && strcmp(t->key[i], key)) i = (i + 1) & (t->cap - 1);
    return i;
}

void *ot_table_find(const ot_table *t, const char *key)
{
    if (!t->cap) return NULL;
    size_t i = slot_of(t, key);
    return t->key[i] ? (void *)(uintptr_t)t->value[i] : NULL; /* the caller knows whether it may write */
}

static bool grow(ot_table *t)
{
    ot_table wide = { .arena = t->arena,
                      .cap = t->cap ? t->cap * 2 : 16,
                      .hash = t->cap ? t->hash : ot_hash_key_new() };
    wide.key = ot_arena_alloc(t->arena, wide.cap * sizeof *wide.key);
    wide.value = ot_arena_alloc(t->arena, wide.cap * sizeof *wide.value);
    if (!wide.key || !wide.value) return false;
    for (size_t i = 0; i < t->cap; i++)
        if (t->key[i]) ot_table_set(&wide, t->key[i], t->value[i]);
    *t = wide;
    return true;
}

bool ot_table_set(ot_table *t, const char *key, const void *value)
{
    if (2 * t->n >= t->cap && !grow(t)) return false;
    size_t i = slot_of(t, key);
    if (!t->key[i]) t->n++;
    t->key[i] = key;
    t->value[i] = value;
    return true;
}
