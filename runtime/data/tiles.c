/* tiles.c - images as parts that have the proportions of what a model takes, side by side, so that all of an image is seen.
 *
 * Parts are of the image's full height or width and overlap evenly; an image whose proportions are nearly right is one part. */
#include "runtime/data/internal.h"

#include <math.h>
#include <string.h>

enum { MOST_TILES = 256, SPARE = 16 };

typedef struct tiled {
    ot_image_source base;
    const ot_image_source *of;
    const ot_image_part *tile;
    const int64_t *row; /* of `of`, by sample */
} tiled;

static ot_status read_tile(const ot_image_source *s, int64_t row, int channels, ot_image_room *room, ot_image *out,
                           ot_error *err)
{
    const tiled *t = (const tiled *)s;
    const ot_image_part *p = &t->tile[row];
    OT_TRY(t->of->read(t->of, t->row[row], channels, room, out, err));
    if (!p->height) return OT_OK;
    if (out->height != p->height || out->width != p->width)
        return ot_fail(err, OT_E_IO, "%s/%s: changed while it was read", s->folder, s->name(s, row));
    out->data += p->top * out->stride + p->left * out->channels;
    out->height = p->h;
    out->width = p->w;
    return OT_OK;
}

static const char *name_of(const ot_image_source *s, int64_t row)
{
    const tiled *t = (const tiled *)s;
    return t->of->name(t->of, t->row[row]);
}

/* Parts of `side` pixels that cover `all`; what is left over by a sixteenth of a part is none. */
static int64_t count_parts(int64_t all, int64_t side)
{
    return all - side <= side / SPARE ? 1 : (all + side - 1) / side;
}

/* How many parts an image has; p: the first of them. */
static int64_t first_tile(ot_image_part *p, int64_t h, int64_t w)
{
    bool wide = p->width * h > p->height * w;
    double side = wide ? (double)p->height * (double)w / (double)h : (double)p->width * (double)h / (double)w;
    int64_t part = side < 1 ? 1 : llround(side), n = p->height ? count_parts(wide ? p->width : p->height, part) : 1;
    p->h = wide || n == 1 ? p->height : part;
    p->w = !wide || n == 1 ? p->width : part;
    return n;
}

static ot_image_part nth_tile(const ot_image_part *first, int64_t k, int64_t n)
{
    ot_image_part p = *first;
    p.top = n > 1 ? k * (p.height - p.h) / (n - 1) : 0;
    p.left = n > 1 ? k * (p.width - p.w) / (n - 1) : 0;
    p.last = k == n - 1;
    return p;
}

/* The size of an image; 0: it cannot be read, which is reported when it is used.  Errors: OT_E_NOMEM. */
static ot_status size_of(const ot_array *a, int64_t sample, bool decode, ot_image_room *room, ot_image_part *p,
                         ot_error *err)
{
    ot_image x = { 0 };
    ot_error bad = { 0 };
    int64_t row = a->row ? a->row[sample] : sample;
    ot_status s = decode || !a->source->size ? a->source->read(a->source, row, a->source->channels, room, &x, &bad)
                                             : a->source->size(a->source, row, room, &x.height, &x.width, &bad);
    *p = (ot_image_part){ .image = sample, .height = s ? 0 : x.height, .width = s ? 0 : x.width };
    return s == OT_E_NOMEM ? ot_fail(err, s, "%s", bad.text) : OT_OK;
}

static ot_status find_tiles(const ot_dataset *d, const ot_array *a, int64_t h, int64_t w, bool decode,
                            ot_image_part *first, int64_t *all, ot_error *err)
{
    ot_image_room room = { 0 };
    ot_status s = OT_OK;
    *all = 0;
    for (int64_t i = 0; i < d->samples && !s; i++) {
        s = size_of(a, i, decode, &room, &first[i], err);
        int64_t n = s ? 0 : first_tile(&first[i], h, w);
        if (n > MOST_TILES)
            s = ot_fail(
                err, OT_E_DATA,
                "%s/%s: has %lldx%lld pixels, of which the model takes %lldx%lld at a time: expected at most %d such "
                "parts, got %lld; cut the image up",
                a->source->folder, a->source->name(a->source, a->row ? a->row[i] : i), (long long)first[i].height,
                (long long)first[i].width, (long long)first[i].h, (long long)first[i].w, MOST_TILES, (long long)n);
        first[i].parts = n;
        *all += n;
    }
    ot_image_room_free(&room);
    return s;
}

/* Every array gets a row for each part. */
static ot_status repeat_rows(ot_dataset *d, const ot_image_part *tile, int64_t n, ot_error *err)
{
    int64_t *origin = ot_arena_alloc(d->arena, (size_t)n * sizeof *origin);
    if (!origin) return ot_fail(err, OT_E_NOMEM, "%s: no memory for parts of images", d->name);
    for (int64_t i = 0; i < n; i++) origin[i] = ot_dataset_origin(d, tile[i].image);
    for (int k = 0; k < d->n; k++) {
        ot_array *a = &d->array[k];
        if (a->whole || a->same) {
            if (a->same) a->t.dim[0] = n;
            continue;
        }
        int64_t *row = ot_arena_alloc(d->arena, (size_t)n * sizeof *row);
        if (!row) return ot_fail(err, OT_E_NOMEM, "%s: no memory for parts of images", d->name);
        for (int64_t i = 0; i < n; i++) row[i] = a->row ? a->row[tile[i].image] : tile[i].image;
        a->row = row;
        a->t.dim[0] = n;
    }
    d->origin = origin;
    d->samples = n;
    return OT_OK;
}

ot_status ot_dataset_tile(ot_dataset *d, int array, int64_t h, int64_t w, bool decode, ot_error *err)
{
    ot_array *a = &d->array[array];
    int64_t n, at = 0;
    ot_image_part *first = ot_arena_alloc(d->arena, (size_t)(d->samples + 1) * sizeof *first), *tile = NULL;
    tiled *s = ot_arena_alloc(d->arena, sizeof *s);
    if (!first || !s) return ot_fail(err, OT_E_NOMEM, "%s: no memory for parts of images", d->name);
    OT_TRY(find_tiles(d, a, h, w, decode, first, &n, err));
    if (!(tile = ot_arena_alloc(d->arena, (size_t)(n + 1) * sizeof *tile)))
        return ot_fail(err, OT_E_NOMEM, "%s: no memory for parts of images", d->name);
    for (int64_t i = 0; i < d->samples; i++)
        for (int64_t k = 0; k < first[i].parts; k++) tile[at++] = nth_tile(&first[i], k, first[i].parts);
    OT_TRY(repeat_rows(d, tile, n, err));
    *s = (tiled){ .base = *a->source, .of = a->source, .tile = tile, .row = a->row };
    s->base.read = read_tile;
    s->base.name = name_of;
    s->base.size = NULL;
    s->base.height = s->base.width = 0;
    a->source = &s->base;
    a->row = NULL;
    d->tile = tile;
    return OT_OK;
}
