/* keyed_hash.h - a hash for tables whose keys come from files. */
#ifndef OT_KEYED_HASH_H
#define OT_KEYED_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Each table draws a key of its own: no file can contain names that are known to collide, with which a table of n names takes n^2
 * steps. */
typedef struct ot_hash_key {
    uint64_t k[2];
} ot_hash_key;

ot_hash_key ot_hash_key_new(void);

/* Of n bytes.  Another number with every key: for places in memory, not for what is stored. */
uint64_t ot_keyed_hash(const ot_hash_key *key, const void *p, size_t n);

#endif
