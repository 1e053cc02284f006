/* bind_inputs.c - matches the arrays of a data set to the inputs of a graph.
 *
 * Named arrays (NPZ) go to the inputs of their names and are fed as they are.  Pictures take the
 * shape the input wants: planes or channels last, flat, padded or resized, grey or colour; a
 * note tells what was done.  targets.c does the same for what is predicted. */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/train/feed/augmenting.h"
#include "runtime/train/feed/declared.h"
#include "runtime/train/feed/draw.h"
#include "runtime/train/feed/masks.h"
#include "runtime/train/feed/match.h"
#include "runtime/train/feed/preprocess.h"
#include "runtime/train/feed/sound.h"

/* ---- small tools ---------------------------------------------------------------- */

void ot_adapt_note(const ot_adapt_env *e, const char *fmt, ...)
{
    va_list ap;
    if (!e->notes) return;
    va_start(ap, fmt);
    (void)ot_arena_line(e->a, e->notes, fmt, ap);
    va_end(ap);
}

static ot_shape array_shape(const ot_array *a)
{
    ot_shape s = { .rank = a->t.rank };
    for (int i = 0; i < s.rank; i++) s.dim[i] = a->t.dim[i];
    return s;
}

static ot_shape sample_shape(const ot_array *a)
{
    ot_shape s = { .rank = a->t.rank - 1 };
    for (int i = 0; i < s.rank; i++) s.dim[i] = a->t.dim[i + 1];
    return s;
}

bool ot_shape_agrees(const ot_shape *want, const ot_shape *s, int first)
{
    if (want->rank < 0) return true;
    if (want->rank != s->rank) return false;
    for (int i = first; i < s->rank; i++)
        if (want->dim[i] >= 0 && want->dim[i] != s->dim[i]) return false;
    return true;
}

bool ot_input_is_fed(const ot_graph *g, const ot_value *v)
{
    return v->role == OT_INPUT && !v->data && v != g->seed && v != g->counter;
}

/* Arrays of files store bfloat16 and 8-bit floats as unsigned integers of their size. */
static bool raw_bits(ot_dtype want, ot_dtype have)
{
    if (want == OT_BF16) return have == OT_U16;
    return want >= OT_F8E4M3FN && want <= OT_F8E5M2FNUZ ? have == OT_U8 : want == OT_F8E8M0 && have == OT_U8;
}

/* The element types go together, and if not by nature then by their values. */
static ot_status set_dtype(ot_feeder *f, const ot_array *a, ot_dtype want, ot_error *err)
{
    ot_dtype have = a->t.dtype;
    f->dtype = want == OT_UNDEFINED ? have : want;
    f->src = a;
    if (raw_bits(f->dtype, have)) {
        f->own = *a;
        f->own.t.dtype = f->dtype;
        f->src = &f->own;
        return OT_OK;
    }
    if (f->dtype == have) return OT_OK;
    if (f->dtype == OT_STRING || have == OT_STRING)
        return ot_fail_more(err, OT_E_DATA, "%s%s%s is %s, but input '%s' is %s", *a->t.name ? "array '" : "the array",
                            a->t.name, *a->t.name ? "'" : "", ot_dtype_name(have), f->name, ot_dtype_name(f->dtype));
    ot_error e = { 0 };
    if (ot_array_fits(a, f->dtype, &e)) return ot_fail_more(err, e.status, "input '%s': %-s", f->name, e.text);
    return OT_OK;
}

static void set_gather(ot_feeder *f)
{
    f->gather =
        (ot_gather){ .src = f->src, .dtype = f->dtype, .elements = ot_numel(&f->sample), .channels = 1, .inner = 1 };
}

/* ---- pictures --------------------------------------------------------------------- */

typedef enum place { FLAT, PLANES, LAST, GREY } place; /* (N,CHW) (N,C,H,W) (N,H,W,C) (N,H,W) */

static int64_t known(int64_t want, int64_t dflt) { return want >= 0 ? want : dflt; }

static bool may_be_channels(int64_t dim, const ot_picture *p, bool alpha)
{
    return dim == p->c || dim == 1 || dim == 3 || (alpha && dim == 4);
}

/* The side of a square image of n elements; 0: none. */
static int64_t side_of(int64_t n, int64_t c)
{
    int64_t s = 1;
    if (c <= 0 || n % c) return 0;
    while (s < 1 << 20 && s * s < n / c) s++;
    return s * s == n / c ? s : 0;
}

/* The layout and size of an image for an input of that shape; alpha: it may have a fourth channel.  false: an image does not fit. */
static bool geometry(const ot_shape *want, const ot_picture *p, bool alpha, place *where, ot_picture *to)
{
    const int64_t *d = want->dim;
    *to = (ot_picture){ p->h, p->w, p->c, false };
    switch (want->rank) {
    case -1: *where = PLANES; return true;
    case 2:
        *where = FLAT;
        if (d[1] < 0 || d[1] == p->h * p->w * p->c) return true;
        for (int64_t c = 1; c <= 3; c += 2)
            if ((to->h = to->w = side_of(d[1], c)) > 0) {
                to->c = c;
                return true;
            }
        return false;
    case 3:
        *where = GREY;
        *to = (ot_picture){ known(d[1], p->h), known(d[2], p->w), 1, false };
        return true;
    case 4:
        if (d[1] < 0 ? !(d[3] >= 0 && may_be_channels(d[3], p, alpha)) : may_be_channels(d[1], p, alpha)) {
            *where = PLANES;
            *to = (ot_picture){ known(d[2], p->h), known(d[3], p->w), known(d[1], p->c), false };
            return may_be_channels(to->c, p, alpha);
        }
        *where = LAST;
        *to = (ot_picture){ known(d[1], p->h), known(d[2], p->w), known(d[3], p->c), true };
        return may_be_channels(to->c, p, alpha);
    default: return false;
    }
}

static void say_picture(const ot_adapt_env *e, const ot_feeder *f, place where)
{
    static const char *const as[] = { "flat", "planes (C,H,W)", "channels last (H,W,C)", "planes (H,W)" };
    const ot_picture *p = &f->from, *q = &f->to;
    bool size = p->h != q->h || p->w != q->w;
    char text[200] = "";
    if (size)
        snprintf(text, sizeof text, ", %s from %lldx%lld to %lldx%lld",
                 ot_is_pad(p, q) ? "padded with zeros" : "resized", (long long)p->h, (long long)p->w, (long long)q->h,
                 (long long)q->w);
    ot_adapt_note(e, "images of %lldx%lldx%lld are fed to '%s' as %s%s%s", (long long)p->h, (long long)p->w,
                  (long long)p->c, f->name, as[where], text,
                  p->c == q->c ? ""
                  : p->c == 1  ? ", channel repeated"
                               : ", converted to grey");
}

enum { MEASURED = 2000 };

/* --normalize mean,std of images in files: of so many, spread over the set, as the model gets them. */
static ot_status measure_source(const ot_adapt_env *e, const ot_feeder *f, ot_error *err)
{
    const ot_array *a = f->src;
    int64_t n = a->t.dim[0], some = n < MEASURED ? n : MEASURED, left = e->s->skip_bad;
    ot_array one = { .t = { .dtype = OT_U8, .rank = 4, .dim = { 1, f->to.h, f->to.w, f->to.c } } };
    ot_draw_room room = { 0 };
    ot_pixel_counts *counts = ot_pixel_counts_new(f->to.c);
    one.t.data = ot_arena_alloc(e->a, (size_t)ot_feeder_drawn_bytes(f));
    ot_status s = counts && one.t.data ? OT_OK : ot_fail(err, OT_E_NOMEM, "--normalize mean,std: no memory");
    for (int64_t i = 0; i < some && !s; i++) {
        ot_error bad = { 0 };
        s = ot_feeder_draw(f, OT_NOT_AUGMENTED, i * n / some, &room, one.t.data, &bad);
        if (!s) ot_pixel_counts_add(counts, one.t.data, f->to.h * f->to.w, f->to.c);
        else if (s != OT_E_NOMEM && left-- > 0) s = OT_OK;
        else ot_fail(err, s, "%s", bad.text);
    }
    if (!s) s = ot_normalize_counted(e->normalize, counts, err);
    if (!s && some < n)
        ot_adapt_note(e, "--normalize mean,std: measured on %lld of %lld images, evenly spaced", (long long)some,
                      (long long)n);
    ot_pixel_counts_free(counts);
    ot_draw_room_free(&room);
    return s;
}

/* How the training that made the model scaled this input, if it is recorded and no option says otherwise; plain: of floats. */
static bool recorded_scaling(const ot_adapt_env *e, const ot_array *a, ot_feeder *f, bool plain)
{
    ot_normalize z;
    if (e->s->normalize && !(e->normalize->automatic && !e->measure)) return false;
    if (!ot_preprocess_normalize(e->preprocess, f->name, &z)) return false;
    if (!plain && z.plain && z.channels == 1 && z.mean[0] == 0 && z.std[0] == 1) /* bytes that stay 0..255 */
        z = (ot_normalize){ .kind = OT_NORMALIZE_NONE, .automatic = true };
    if (z.plain != plain) return false;
    if (!a->source && !z.automatic) return false; /* of images in files: arrays may be scaled already */
    f->normalize = z;
    return true;
}

/* Reverses scaling by channel from red first to blue first. */
static void turn_round(ot_normalize *z)
{
    double mean = z->mean[0], std = z->std[0];
    z->mean[0] = z->mean[2], z->std[0] = z->std[2];
    z->mean[2] = mean, z->std[2] = std;
}

/* What --normalize makes of the bytes of `a`, c channels with `inner` elements of a sample each. */
static ot_status normalized(const ot_adapt_env *e, ot_feeder *f, const ot_array *a, int64_t c, int64_t inner,
                            ot_error *err)
{
    char line[256];
    ot_error bad = { 0 };
    bool recorded = recorded_scaling(e, a, f, false);
    if (!recorded && e->normalize->kind == OT_NORMALIZE_MEASURE) {
        if (!e->measure)
            return ot_fail_more(err, OT_E_USAGE,
                                "--normalize mean,std needs the training set, which is not loaded here; pass the "
                                "values that the training printed: --normalize MEANS,STDS");
        if (a->source ? measure_source(e, f, &bad) : ot_normalize_fit(e->normalize, a, &bad))
            return ot_fail_more(err, bad.status, "%s", bad.text);
    }
    if (!recorded) f->normalize = *e->normalize;
    if (!recorded && !a->source && e->measure && e->s->normalize) f->normalize.automatic = true;
    if (!recorded && f->bgr && e->s->normalize && !strcmp(e->s->normalize, "imagenet")) turn_round(&f->normalize);
    if (!recorded && !e->s->normalize) (void)ot_scaling_default(e, f->name, c, &f->normalize);
    if (ot_normalize_apply(&f->normalize, c, &f->gather, line, &bad))
        return ot_fail_more(err, bad.status, "input '%s': %s", f->name, bad.text);
    f->gather.inner = inner > 0 ? inner : 1;
    ot_adapt_note(e, "input '%s': %s%s", f->name, line,
                  recorded ? ", as the model's metadata say (change with --normalize)" : "");
    return OT_OK;
}

const ot_feeder *ot_adapt_like(const ot_adapt_env *e, const char *input)
{
    for (int i = 0; e->training && i < e->training->n; i++)
        if (!strcmp(e->training->f[i].name, input) && e->training->f[i].src->source) return &e->training->f[i];
    return NULL;
}

enum { USUAL_SIDE = 224 };
static const char SIZE_OPTION[] = "--image-size";

/* What is known of images in files: the size in the model's metadata (*key says where), or one that all that were looked at have. */
static bool source_picture(const ot_adapt_env *e, const char *input, const ot_image_source *s, ot_picture *out,
                           const char **key)
{
    bool same = s->height > 0;
    *out = (ot_picture){ same ? s->height : USUAL_SIDE, same ? s->width : USUAL_SIDE, s->channels, s->channels > 1 };
    const ot_feeder *like = ot_adapt_like(e, input);
    if (like) out->h = like->to.h, out->w = like->to.w;
    else if (e->s->image_height) out->h = e->s->image_height, out->w = e->s->image_width, *key = SIZE_OPTION;
    else if (ot_preprocess_size(e->preprocess, input, &out->h, &out->w)) *key = "onnxtrain.preprocess";
    else if (!ot_declared_size(e->file, &out->h, &out->w, key)) *key = NULL;
    return true;
}

static void say_source(const ot_adapt_env *e, const ot_value *v, const ot_feeder *f, const char *key)
{
    const ot_image_source *s = f->src->source;
    const ot_picture *q = &f->to;
    bool open = false, same = s->height == q->h && s->width == q->w;
    for (int i = 1; i < v->shape.rank; i++) open |= v->shape.dim[i] < 0;
    ot_adapt_note(e, "input '%s': images are decoded to %lldx%lldx%lld%s%s%s", f->name, (long long)q->h,
                  (long long)q->w, (long long)q->c, q->c == 4 ? " (the fourth channel is alpha)" : "",
                  same ? "" : ": resized until they cover it (bilinear, antialiased), and the middle is cut out",
                  !open                ? ""
                  : key == SIZE_OPTION ? ", as --image-size says"
                  : key                ? "; the model leaves the size open, and its metadata say this one"
                  : same               ? "; the model leaves the size open, and the images have this one"
                                       : "; the model leaves the size open, and the images have several");
    if (f->bgr)
        ot_adapt_note(e, "input '%s': blue comes first, as Image.BitmapPixelFormat of the model's metadata says",
                      f->name);
}

static ot_status adapt_picture(const ot_adapt_env *e, const ot_value *v, const ot_array *a, ot_feeder *f, ot_error *err)
{
    char buf[128];
    place where;
    ot_shape have = array_shape(a);
    const char *key = NULL;
    int rate;
    int64_t length;
    if (a->source && !e->measure && ot_preprocess_sound(e->preprocess, v->name, &rate, &length))
        return ot_fail_more(err, OT_E_DATA, "input '%s': the model was trained on recordings, and the data are images",
                            v->name);
    bool is = a->source ? source_picture(e, v->name, a->source, &f->from, &key) : ot_picture_of(a, &f->from);
    const ot_feeder *like = ot_adapt_like(e, v->name);
    bool recorded = (like && like->to.c == 4) || ot_preprocess_alpha(e->preprocess, v->name);
    bool alpha = a->source && (a->source->alpha || recorded);
    bool fits = is && geometry(&v->shape, &f->from, alpha, &where, &f->to);
    if (!fits && a->source && v->shape.rank == 4)
        return ot_fail_more(
            err, OT_E_DATA,
            "input '%s' is %s, but images in files have 1 or 3 channels, or 4 if some have transparency, "
            "as [N,C,H,W] or [N,H,W,C]; save images of other channels as an array (.npz)",
            v->name, ot_shape_text(&v->shape, buf));
    if (!fits || f->to.h <= 0 || f->to.w <= 0)
        return ot_fail_more(err, OT_E_DATA, "input '%s' is %s; images of %lldx%lldx%lld cannot be converted to that",
                            v->name, ot_shape_text(&v->shape, buf), (long long)f->from.h, (long long)f->from.w,
                            (long long)f->from.c);
    const ot_picture *p = &f->from, *q = &f->to;
    if (!a->source && p->c != q->c && p->c != 1 && !(p->c == 3 && q->c == 1))
        return ot_fail_more(err, OT_E_DATA, "input '%s' needs %lld channels; the images are %s", v->name,
                            (long long)q->c, ot_shape_text(&have, buf));
    if (key == SIZE_OPTION && (q->h != p->h || q->w != p->w))
        return ot_fail_more(
            err, OT_E_USAGE,
            "--image-size %lldx%lld: input '%s' is %s, whose size is fixed; omit the option, or export the model "
            "with dynamic height and width",
            (long long)p->h, (long long)p->w, v->name, ot_shape_text(&v->shape, buf));
    switch (where) {
    case FLAT: f->sample = (ot_shape){ 1, { q->c * q->h * q->w } }; break;
    case GREY: f->sample = (ot_shape){ 2, { q->h, q->w } }; break;
    case PLANES: f->sample = (ot_shape){ 3, { q->c, q->h, q->w } }; break;
    case LAST: f->sample = (ot_shape){ 3, { q->h, q->w, q->c } }; break;
    }
    if (!ot_shape_fits(&f->sample, OT_F64))
        return ot_fail_more(err, OT_E_DATA, "input '%s': the image is too large", v->name);
    f->dtype = v->dtype == OT_UNDEFINED ? OT_F32 : v->dtype;
    f->src = a;
    set_gather(f);
    f->redraw = a->source || p->h != q->h || p->w != q->w || p->c != q->c;
    f->fit = (ot_fit){ .mode = OT_FIT_CROP, .filter = OT_BILINEAR };
    bool planes = a->source ? q->c == 1 : f->redraw || !p->channels_last;
    if (where == LAST && planes && q->c > 1)
        memcpy(f->gather.permute, (int64_t[]){ q->c, 1, q->h * q->w }, sizeof f->gather.permute);
    if (where != LAST && !planes) memcpy(f->gather.permute, (int64_t[]){ q->h, q->w, q->c }, sizeof f->gather.permute);
    f->bgr = a->source && q->c == 3 && ot_declared_bgr(e->file);
    if (a->source) say_source(e, v, f, key);
    else if (where != PLANES || f->redraw || p->c > 1) say_picture(e, f, where);
    if (!ot_is_float(f->dtype)) return OT_OK;

    return normalized(e, f, a, q->c, where == LAST ? 1 : q->h * q->w, err);
}

/* Arrays with names are fed as they are.  Bytes, which may be pictures or numbers, are scaled if --normalize asks for it; else a note
 * tells that they are not scaled. */
static ot_status adapt_bytes(const ot_adapt_env *e, const ot_array *a, ot_feeder *f, ot_error *err)
{
    ot_picture q;
    if (a->t.dtype != OT_U8 || a->t.rank < 2 || !ot_is_float(f->dtype) || f->src == &f->own) return OT_OK;
    if (!e->s->normalize && !recorded_scaling(e, a, f, false)) {
        ot_adapt_note(e, "uint8 array '%s' is fed as 0..255; use --normalize 1/255 to scale it", a->t.name);
        return OT_OK;
    }
    if (!ot_picture_of(a, &q)) q = (ot_picture){ .h = 1, .w = 1, .c = 1 };
    if (a->t.rank == 2 && e->normalize->channels > 1) return OT_OK; /* no picture of several channels */
    bool last = q.channels_last != (f->gather.permute[2] > 0);      /* in the result */
    return normalized(e, f, a, q.c, last ? 1 : q.h * q.w, err);
}

/* The channels of an array of floats, each with a mean of its own: of images those of 1, 3 or 4, of rows the columns, of series
 * those along axis `features` (-1: none).  *inner: elements of a channel in a row; 0: in the result too they are as in the array. */
static int float_channels(const ot_array *a, int features, int64_t *inner, bool *last)
{
    const int64_t *d = a->t.dim;
    *inner = 1;
    *last = true;
    if (a->t.rank == 2 && d[1] >= 1 && d[1] <= OT_MAX_CHANNELS) return (int)d[1];
    if (a->t.rank == 3 && features > 0 && d[features] >= 1 && d[features] <= OT_MAX_CHANNELS) {
        *inner = features == 1 ? d[2] : 1;
        return (int)d[features];
    }
    if (a->t.rank != 4) return 1;
    bool first = d[1] == 1 || d[1] == 3 || d[1] == 4;
    *last = !first && (d[3] == 1 || d[3] == 3 || d[3] == 4);
    if (!first && !*last) return 1;
    *inner = *last ? 1 : d[2] * d[3];
    return (int)(*last ? d[3] : d[1]);
}

/* --normalize auto, or what was recorded of it: floats are standardised. */
static ot_status adapt_floats(const ot_adapt_env *e, const ot_dataset *d, const ot_value *v, const ot_array *a,
                              ot_feeder *f, ot_error *err)
{
    ot_error bad = { 0 };
    char line[256];
    int64_t inner;
    bool last, wanted = e->normalize && e->normalize->automatic;
    if (!ot_is_float(a->t.dtype) || !ot_is_float(f->dtype) || f->whole || f->src == &f->own || d->table || a->gaps ||
        a->t.rank < 1)
        return OT_OK;
    bool recorded = recorded_scaling(e, a, f, true);
    if (!recorded && !wanted) return OT_OK;
    int features = f->gather.permute[2] > 0 ? -1 : ot_adapt_features(e->graph, v);
    int channels = float_channels(a, features, &inner, &last);
    if (!recorded && !e->measure)
        return ot_fail_more(err, OT_E_USAGE,
                            "--normalize auto: the model has no record of how input '%s' was scaled; train it with "
                            "--normalize auto",
                            f->name);
    if (!recorded && ot_normalize_values(&f->normalize, a, channels, inner, &bad))
        return ot_fail_more(err, bad.status, "%s", bad.text);
    if (ot_normalize_apply(&f->normalize, channels, &f->gather, line, &bad))
        return ot_fail_more(err, bad.status, "input '%s': %s", f->name, bad.text);
    bool turned = f->gather.permute[2] > 0;
    if (a->t.rank == 3 && channels > 1) f->gather.inner = inner;
    if (a->t.rank == 4 && channels > 1) f->gather.inner = last != turned ? 1 : ot_numel(&f->sample) / channels;
    bool any = !recorded && a->t.rank == 3 && channels == 1 && a->t.dim[1] > 1 && a->t.dim[2] > 1;
    ot_adapt_note(
        e, "input '%s': %s%s%s", f->name, line,
        recorded ? ", as the model's metadata say (change with --normalize)" : ", measured on the training set",
        any ? "; the layers that read it do not show which axis has the features, so all values have the same "
              "mean and deviation: if features have different units, scale them in the data"
            : "");
    return OT_OK;
}

/* ---- inputs ------------------------------------------------------------------------- */

/* A hint about a target of several numbers for each sample that was saved with rank 1; "": there is none. */
static const char *flat_target(const ot_dataset *d, int64_t samples, char buf[160])
{
    *buf = '\0';
    for (int i = 0; i < d->n && samples > 0; i++) {
        const ot_array *t = &d->array[i];
        if (t->role != OT_ARRAY_TARGET || t->t.rank != 1 || t->t.dim[0] <= samples || t->t.dim[0] % samples) continue;
        snprintf(buf, 160, "; '%.40s' has %lld for each of %lld samples: save as [%lld,%lld]", t->t.name,
                 (long long)(t->t.dim[0] / samples), (long long)samples, (long long)samples,
                 (long long)(t->t.dim[0] / samples));
    }
    return buf;
}

/* The name of the target, whose first dimension is the number of samples; NULL: the set has none. */
static const char *counts(const ot_dataset *d)
{
    for (int i = 0; i < d->n; i++)
        if (d->array[i].role == OT_ARRAY_TARGET && d->array[i].t.rank && d->array[i].t.dim[0] == d->samples)
            return d->array[i].t.name;
    return NULL;
}

/* ": 12 elements per sample, expected 16" if both are known and differ; else "". */
static const char *elements(const ot_value *v, const ot_array *a, char buf[100])
{
    ot_shape want = v->shape, have = sample_shape(a);
    *buf = '\0';
    if (want.rank < 1) return buf;
    memmove(want.dim, want.dim + 1, sizeof want.dim - sizeof *want.dim);
    want.rank--;
    for (int i = 0; i < want.rank; i++)
        if (want.dim[i] < 0) return buf;
    if (ot_shape_fits(&want, OT_U8) && ot_numel(&want) != ot_numel(&have))
        snprintf(buf, 100, ": %lld elements per sample, expected %lld", (long long)ot_numel(&have),
                 (long long)ot_numel(&want));
    return buf;
}

/* The name of an array in messages; formats without names, such as .csv and .npy, have one array for all inputs. */
static const char *title(const ot_array *a, char buf[300])
{
    if (*a->t.name) snprintf(buf, 300, "array '%.280s'", a->t.name);
    return *a->t.name ? buf : "the data without the target";
}

/* f->sample of an array that is fed whole. */
static ot_status fit_whole(const ot_adapt_env *e, const ot_dataset *d, const ot_value *v, const ot_array *a,
                           ot_feeder *f, ot_error *err)
{
    char x[128], y[128], z[300], hint[160], turn[300], more[400] = "";
    ot_error bad = { 0 };
    ot_shape have = array_shape(a);
    ot_array all = *a;
    all.mapped = false; /* it is read whole, so all of it is checked here */
    if (a->mapped && !e->as_is && ot_array_check(&all, &bad)) return ot_fail_more(err, bad.status, "%s", bad.text);
    f->sample = have;
    /* `run` accepts a batch of another size than the file's. */
    if (ot_shape_agrees(&v->shape, &have, e->as_is ? 1 : 0)) return OT_OK;
    const char *of = counts(d);
    if (!e->as_is && of && have.rank)
        snprintf(more, sizeof more, ", %lld samples (target '%.280s' has %lld)", (long long)have.dim[0], of,
                 (long long)d->samples);
    else if (!e->as_is) snprintf(more, sizeof more, " and its first dimension is not the number of samples");
    return ot_fail_more(err, OT_E_DATA, "input '%s' is %s, but %s is %s%s%s%s", v->name, ot_shape_text(&v->shape, x),
                        title(a, z), ot_shape_text(&have, y), more,
                        e->as_is ? "" : flat_target(d, have.rank ? have.dim[0] : 0, hint),
                        e->as_is ? "" : ot_match_channels(v, a, turn));
}

/* Checks f->sample, whose axes ot_match_axes has permuted. */
static ot_status check_permuted(const ot_value *v, const ot_array *a, const ot_feeder *f, ot_error *err)
{
    char x[128], y[128], z[300];
    ot_shape whole = { .rank = f->sample.rank + 1, .dim = { a->t.dim[0] } };
    memcpy(whole.dim + 1, f->sample.dim, sizeof *whole.dim * (size_t)f->sample.rank);
    if (ot_shape_agrees(&v->shape, &whole, 1)) return OT_OK;
    return ot_fail_more(err, OT_E_DATA, "input '%s' is %s, but %s with the axes of --permute is %s", v->name,
                        ot_shape_text(&v->shape, x), title(a, z), ot_shape_text(&whole, y));
}

/* f->sample of an array of another shape: samples with as many elements get the input's shape.  An array that was found by its
 * name must have the shape of the input. */
static ot_status reshape_samples(const ot_adapt_env *e, const ot_value *v, const ot_array *a, bool named, ot_feeder *f,
                                 ot_error *err)
{
    char x[128], y[128], z[300], turn[300], more[100];
    ot_shape want = v->shape, one = sample_shape(a), have = array_shape(a);
    bool all = want.rank > 0;
    for (int i = 1; i < want.rank; i++) all &= want.dim[i] >= 0;
    memmove(want.dim, want.dim + 1, sizeof want.dim - sizeof *want.dim);
    want.rank--;
    if ((named && !a->flat) || !all || !ot_shape_fits(&want, f->dtype) || ot_numel(&want) != ot_numel(&one))
        return ot_fail_more(err, OT_E_DATA, "input '%s' is %s, but %s is %s%s%s", v->name, ot_shape_text(&v->shape, x),
                            title(a, z), ot_shape_text(&have, y), elements(v, a, more), ot_match_channels(v, a, turn));
    f->sample = want;
    ot_adapt_note(e, "samples of shape %s are fed to '%s' as %s%s", ot_shape_text(&one, x), v->name,
                  ot_shape_text(&want, y), ot_match_row(v, a, turn));
    return OT_OK;
}

/* named: the array was found by the input's name. */
static ot_status adapt_array(const ot_adapt_env *e, const ot_dataset *d, const ot_value *v, const ot_array *a,
                             bool named, ot_feeder *f, ot_error *err)
{
    ot_error bad = { 0 };
    bool permuted = false;
    *f = (ot_feeder){ .name = v->name,
                      .whole = a->whole || e->as_is,
                      .as_is = e->as_is,
                      .open = v->shape.rank > 0 && v->shape.dim[0] < 0 };
    if (ot_array_is_sound(a) && !f->whole) return ot_sound_adapt(e, v, a, f, err);
    if (!ot_preprocess_is_valid(e->preprocess, v->name))
        ot_adapt_note(e, "input '%s': the model's metadata onnxtrain.preprocess are invalid and ignored", v->name);
    if (a->picture && !f->whole) return adapt_picture(e, v, a, f, err);
    if (a->source)
        return ot_fail_more(err, OT_E_DATA,
                            "input '%s': 'run' takes arrays (.npz), not images in files; use eval or predict", v->name);
    OT_TRY(set_dtype(f, a, v->dtype, err));
    if (f->src == &f->own && !e->as_is && ot_array_check(&f->own, &bad))
        return ot_fail_more(err, bad.status, "%s", bad.text);

    ot_shape have = array_shape(a);
    if (!f->whole) OT_TRY(ot_match_axes(e, v, a, f, &permuted, err));
    if (f->whole) OT_TRY(fit_whole(e, d, v, a, f, err));
    else if (permuted) OT_TRY(check_permuted(v, a, f, err));
    else if (ot_shape_agrees(&v->shape, &have, 1)) f->sample = sample_shape(a);
    else OT_TRY(reshape_samples(e, v, a, named, f, err));

    ot_gather axes = f->gather;
    set_gather(f);
    memcpy(f->gather.permute, axes.permute, sizeof axes.permute);
    if (f->whole) f->gather.elements = ot_numel(&f->sample);
    OT_TRY(adapt_floats(e, d, v, a, f, err));
    return adapt_bytes(e, a, f, err);
}

/* Refuses --normalize if it applies to no array. */
static ot_status check_normalized(const ot_adapt_env *e, const ot_dataset *d, const ot_feeders *fs, ot_error *err)
{
    if (!e->s->normalize || e->normalize->kind == OT_NORMALIZE_NONE || e->beside || !fs->n) return OT_OK;
    if (d->table && e->normalize->kind == OT_NORMALIZE_MEASURE) return OT_OK; /* done when it was read */
    for (int i = 0; i < fs->n; i++)
        if (fs->f[i].gather.scale) return OT_OK;
    const ot_feeder *f = &fs->f[0];
    const ot_array *a = &d->array[f->array];
    char shape[128];
    ot_shape have = array_shape(a);
    return ot_fail(err, OT_E_USAGE,
                   "--normalize %s does not apply to %s: only uint8 images fed to a float input are scaled; input "
                   "'%s' is %s and its array is %s %s%s",
                   e->s->normalize, d->name, f->name, ot_dtype_name(f->dtype), ot_dtype_name(a->t.dtype),
                   ot_shape_text(&have, shape),
                   d->table ? "; table columns are fed unchanged, or standardised with --normalize mean,std"
                   : ot_is_float(a->t.dtype) ? "; --normalize auto standardises arrays of floats"
                                             : "");
}

/* Refuses --image-size if there are no images. */
static ot_status check_size(const ot_adapt_env *e, const ot_dataset *d, const ot_feeders *fs, ot_error *err)
{
    bool any = !e->s->image_height || e->beside;
    for (int i = 0; i < fs->n; i++) any |= fs->f[i].src->source && !ot_array_is_sound(fs->f[i].src);
    if (any) return OT_OK;
    return ot_fail(err, OT_E_USAGE, "--image-size: applies to images in files; %s has none", d->name);
}

/* Array of feeder f for an input with a batch axis.  like: a feeder of the number of samples that is expected; may be NULL. */
static void say_samples(const ot_dataset *d, const ot_feeder *f, const ot_feeder *like, ot_error *err)
{
    char hint[160];
    int64_t n = f->src->t.rank ? f->src->t.dim[0] : 0;
    const char *of = counts(d), *what = of || !like ? "the target" : "array";
    if (!of && like) of = like->src->t.name;
    ot_fail_more(err, OT_E_DATA, "%s%s%.280s%s has %lld samples, but array '%s' for input '%s' has %lld%s", what,
                 of ? " '" : "", of ? of : "", of ? "'" : "", (long long)d->samples, f->src->t.name, f->name,
                 (long long)n, like ? "" : flat_target(d, n, hint));
}

/* The name that the file gives the first axis of the input called `input`; "" without a name. */
static const char *first_axis(const ot_graph *g, const char *input)
{
    const char *name = NULL;
    for (int i = 0; i < g->n_inputs; i++)
        if (!strcmp(g->inputs[i]->name, input) && g->inputs[i]->dim_names) name = g->inputs[i]->dim_names[0];
    return name ? name : "";
}

/* An open first axis is the batch if the file calls it as it calls that of an input that gets samples (such as "batch"), also
 * if neither has a name, but for a list of numbers (sizes, say).  An array of another size is an error there.  An axis of
 * another name (the edges of a graph, say) has a size of its own, and its array is fed whole. */
static void check_samples(const ot_adapt_env *e, const ot_dataset *d, const ot_feeders *fs, ot_error *err)
{
    for (int i = 0; i < fs->n; i++) {
        const ot_feeder *f = &fs->f[i], *like = NULL;
        const char *axis = first_axis(e->graph, f->name);
        bool sampled = false, may_be = *axis || f->src->t.rank > 1;
        if (!f->whole || !f->open || f->as_is) continue;
        for (int k = 0; k < fs->n; k++) {
            const ot_feeder *other = &fs->f[k];
            sampled |= !other->whole;
            if (may_be && !like && !other->whole && other->open && !strcmp(first_axis(e->graph, other->name), axis))
                like = other;
        }
        if (like) say_samples(d, f, like, err);
        else if (sampled)
            ot_adapt_note(
                e,
                "array '%s' has %lld rows, not %lld as the samples: input '%s' gets all of it with every batch, "
                "because the file does not give its first axis%s%.100s%s the name of the batch",
                f->src->t.name, (long long)f->src->t.dim[0], (long long)d->samples, f->name, *axis ? " '" : "", axis,
                *axis ? "'" : "");
    }
}

ot_status ot_adapt_wanted(const ot_graph *g, ot_arena *a, ot_data_options *o, ot_error *err)
{
    ot_data_input *list = ot_arena_alloc(a, sizeof *list * (size_t)(g->n_inputs + 1));
    if (!list) return ot_fail(err, OT_E_NOMEM, "no memory to prepare the data");
    o->input = list;
    for (int i = 0; i < g->n_inputs; i++) {
        const ot_value *v = g->inputs[i];
        if (ot_input_is_fed(g, v))
            list[o->n_inputs++] = (ot_data_input){
                v->name, v->dtype, v->shape, ot_adapt_rows(g, v), ot_adapt_has_gaps(g, v), ot_adapt_is_scaled(g, v)
            };
    }
    return OT_OK;
}

ot_status ot_adapt_inputs(const ot_adapt_env *e, const ot_dataset *d, ot_feeders *out, ot_error *err)
{
    const ot_graph *g = e->graph;
    int needed = 0;
    for (int i = 0; i < (e->file_training ? e->model_inputs : g->n_inputs); i++)
        needed += ot_input_is_fed(g, g->inputs[i]) && ot_graph_reads(g, g->inputs[i]);
    *out = (ot_feeders){ .data = d, .samples = d->samples };
    out->f = ot_arena_alloc(e->a, sizeof *out->f * (size_t)(g->n_inputs + d->n + 1));
    if (!out->f) return ot_fail(err, OT_E_NOMEM, "no memory to prepare the data");
    OT_TRY(ot_match_check(e, d, err));

    ot_error found = { 0 };
    for (int i = 0; i < g->n_inputs; i++) {
        const ot_value *v = g->inputs[i];
        bool named;
        if (!ot_input_is_fed(g, v)) continue;
        bool read = ot_graph_reads(g, v);
        const ot_array *a =
            ot_match_array(e, d, v, read ? needed : 0, e->file_training && i >= e->model_inputs, &named);
        if (!a && !read) continue; /* its data would have no effect */
        ot_feeder *f = &out->f[out->n];
        if (v->list & OT_INPUT_LIST)
            ot_fail_more(&found, OT_E_MODEL, "input '%s' is a sequence; only 'onnxtrain run' accepts sequences",
                         v->name);
        else if (!a) ot_match_failed(e, d, v, &found);
        else if (!adapt_array(e, d, v, a, named, f, &found)) {
            f->array = (int)(a - d->array);
            out->n++;
        }
    }
    bool cut = e->as_is || !out->n || d->n == 0 || found.status;
    /* A file that leaves the first size open wants samples there; a single "sample" may be an axis in
     * front of the batch, of layers say, and then everything is fed whole. */
    cut |= d->samples == 1;
    for (int i = 0; i < out->n; i++) cut |= !out->f[i].whole || !out->f[i].open;
    if (!cut) say_samples(d, &out->f[0], NULL, &found);
    check_samples(e, d, out, &found);
    if (found.status) return ot_fail(err, found.status, "%s: %-s", d->name, found.text);
    OT_TRY(check_normalized(e, d, out, err));
    OT_TRY(check_size(e, d, out, err));
    if (e->file_training) ot_adapt_idle(e, out);
    return e->as_is ? OT_OK : ot_adapt_lookups(e, out, err);
}
