/* image_cache.c - decoded images in memory: blocks that images are laid into, and a table of them by sample.  What does not fit is not
 * kept: nothing is dropped for it, because an epoch takes every sample once. */
#include "runtime/train/feed/image_cache.h"

#include <pthread.h>
#include <stdlib.h>

enum { BLOCK = 4 << 20 };

typedef struct block {
    struct block *before;
} block;

struct ot_image_cache {
    int64_t samples, *budget;
    ot_kept **kept; /* by sample */
    pthread_mutex_t lock;
    block *last;
    char *at; /* what is left of it */
    int64_t left;
};

static int64_t rounded(int64_t n) { return (n + 63) / 64 * 64; }

/* Subtracts bytes from the budget; false: it has fewer. */
static bool take(int64_t *budget, int64_t bytes)
{
    int64_t left = __atomic_load_n(budget, __ATOMIC_RELAXED);
    while (left >= bytes)
        if (__atomic_compare_exchange_n(budget, &left, left - bytes, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return true;
    return false;
}

static int64_t entry_bytes(int64_t bytes) { return rounded(sizeof(ot_kept)) + rounded(bytes); }

int64_t ot_image_cache_bytes(int64_t samples, int64_t bytes)
{
    int64_t one = entry_bytes(bytes), head = rounded(sizeof(block)) + 64, all;
    int64_t size = one + head > BLOCK ? one + head : BLOCK, each = (size - head) / one;
    return ot_mul((samples + each - 1) / each, size, &all) &&
                   ot_add(all, (samples + 1) * (int64_t)sizeof(ot_kept *), &all)
               ? all
               : INT64_MAX;
}

ot_status ot_image_cache_new(int64_t samples, int64_t *budget, ot_image_cache **out, ot_error *err)
{
    int64_t table = (samples + 1) * (int64_t)sizeof(ot_kept *);
    *out = NULL;
    if (!take(budget, table)) return OT_OK;
    ot_image_cache *c = calloc(1, sizeof *c);
    if (c) c->kept = calloc(1, (size_t)table);
    if (!c || !c->kept) {
        free(c);
        return ot_fail(err, OT_E_NOMEM, "no memory to keep images; use --cache none");
    }
    c->samples = samples;
    c->budget = budget;
    pthread_mutex_init(&c->lock, NULL);
    *out = c;
    return OT_OK;
}

void ot_image_cache_free(ot_image_cache *c)
{
    if (!c) return;
    for (block *b = c->last, *before; b; b = before) {
        before = b->before;
        free(b);
    }
    pthread_mutex_destroy(&c->lock);
    free(c->kept);
    free(c);
}

const ot_kept *ot_image_cache_find(const ot_image_cache *c, int64_t sample)
{
    return c && sample >= 0 && sample < c->samples ? __atomic_load_n(&c->kept[sample], __ATOMIC_ACQUIRE) : NULL;
}

/* A block of at least n bytes; without memory for it the cache is full.  Under the lock. */
static bool add_block(ot_image_cache *c, int64_t n)
{
    int64_t head = rounded(sizeof(block)), most = __atomic_load_n(c->budget, __ATOMIC_RELAXED);
    int64_t size = most < BLOCK ? most : BLOCK;
    if (size < n + head + 64) size = n + head + 64;
    if (!take(c->budget, size)) return false;
    block *b = malloc((size_t)size);
    if (!b) return false;
    b->before = c->last;
    c->last = b;
    c->at = (char *)(rounded((int64_t)(uintptr_t)b + (int64_t)sizeof *b) - (int64_t)(uintptr_t)b + (char *)b);
    c->left = size - (c->at - (char *)b);
    return true;
}

ot_kept *ot_image_cache_room(ot_image_cache *c, int64_t height, int64_t width, int channels)
{
    int64_t bytes = entry_bytes(height * width * channels);
    ot_kept *k = NULL;
    if (!c) return NULL;
    pthread_mutex_lock(&c->lock);
    if (bytes <= c->left || add_block(c, bytes)) {
        k = (void *)c->at;
        c->at += bytes;
        c->left -= bytes;
    }
    pthread_mutex_unlock(&c->lock);
    if (k) k->image = (ot_image){ (uint8_t *)k + rounded(sizeof *k), height, width, channels, width * channels };
    return k;
}

void ot_image_cache_put(ot_image_cache *c, int64_t sample, ot_kept *k)
{
    __atomic_store_n(&c->kept[sample], k, __ATOMIC_RELEASE);
}
