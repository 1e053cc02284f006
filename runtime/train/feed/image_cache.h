/* image_cache.h - decoded images of one feeder, in memory for the epochs that follow, as far as a budget allows.
 *
 * Threads  _find, _room and _put may be called by any thread.  An image that was put never changes and is never dropped. */
#ifndef OT_IMAGE_CACHE_H
#define OT_IMAGE_CACHE_H

#include "runtime/base/base.h"
#include "runtime/picture/image.h"

typedef struct ot_image_cache ot_image_cache;

/* Rows without gaps. */
typedef struct ot_kept {
    ot_image image;
    int64_t height, width; /* of the file's image, before it was resized */
} ot_kept;

/* budget: bytes that may be allocated, and are taken from it; shared by caches, and outlives them.  Errors: OT_E_NOMEM. */
ot_status ot_image_cache_new(int64_t samples, int64_t *budget, ot_image_cache **out, ot_error *err);
void ot_image_cache_free(ot_image_cache *c); /* NULL is allowed */

/* What a cache of so many images of so many bytes each takes from its budget; INT64_MAX: more than can be counted. */
int64_t ot_image_cache_bytes(int64_t samples, int64_t bytes);

const ot_kept *ot_image_cache_find(const ot_image_cache *c,
                                   int64_t sample); /* NULL: it is not there; c NULL: none is */

/* Room for an image, whose bytes the caller fills in before it puts it; NULL: the cache is full, or c is NULL. */
ot_kept *ot_image_cache_room(ot_image_cache *c, int64_t height, int64_t width, int channels);
void ot_image_cache_put(ot_image_cache *c, int64_t sample, ot_kept *k);

#endif
