/* image_targets.c - targets in image files that are images and no masks: of a table whose model computes an image from an image, by a
 * loss of distances.  They are fed as the images of the input are: decoded, resized and scaled alike, to the size of the output. */
#include "runtime/train/feed/image_targets.h"

#include <string.h>

#include "runtime/losses/losses.h"

/* Channels and size of an output that may be an image.  false: it is not an image. */
static bool picture_of(const ot_output *o, ot_picture *out)
{
    const int64_t *d = o->shape.dim;
    if (!ot_is_float(o->dtype) || o->batch_axis > 0 || o->shape.rank != 4) return false;
    bool first = d[1] == 1 || d[1] == 3, last = !first && (d[3] == 1 || d[3] == 3);
    *out = first ? (ot_picture){ d[2], d[3], d[1], false } : (ot_picture){ d[1], d[2], d[3], true };
    return (first || last) && out->h > 0 && out->w > 0;
}

bool ot_target_is_image(const ot_dataset *d, const ot_array *a, const ot_spec *loss, const ot_output *output)
{
    ot_picture p;
    const ot_loss_kind *l = loss ? ot_loss_find(loss->name) : NULL;
    if (!d || !d->table || !a->source || ot_array_is_sound(a) || !l || !output || !picture_of(output, &p)) return false;
    bool values = l->takes == OT_TAKES_VALUES || l->takes == OT_TAKES_EITHER;
    return l->distance || (values && l->shares && p.c == 3);
}

/* The feeder of an input of images. */
static const ot_feeder *input_of(const ot_feeders *fs)
{
    for (int i = 0; i < fs->n; i++)
        if (!fs->f[i].target && fs->f[i].src->source && fs->f[i].src->picture) return &fs->f[i];
    return NULL;
}

/* Scales the target like the input; means and deviations by channel need the same number of channels. */
static ot_status scale_alike(const ot_feeder *in, int64_t inner, ot_feeder *f, ot_error *err)
{
    char line[256];
    ot_error bad = { 0 };
    if (!in->gather.scale) return OT_OK;
    if (f->normalize.channels > 1 && f->normalize.channels != f->to.c)
        return ot_fail_more(
            err, OT_E_USAGE,
            "target '%s': its images have %lld channel%s, but the input is scaled with a mean of each of %d "
            "channels; use --normalize 1/255",
            f->src->t.name, (long long)f->to.c, f->to.c == 1 ? "" : "s", f->normalize.channels);
    if (ot_normalize_apply(&f->normalize, f->to.c, &f->gather, line, &bad))
        return ot_fail_more(err, bad.status, "target '%s': %s", f->src->t.name, bad.text);
    f->gather.inner = inner;
    return OT_OK;
}

ot_status ot_image_target(const ot_adapt_env *e, const ot_feeders *fs, const ot_array *a, const ot_spec *loss,
                          const ot_output *output, const char *name, ot_feeder *f, ot_error *err)
{
    const ot_feeder *in = input_of(fs);
    if (!in)
        return ot_fail_more(err, OT_E_DATA, "target '%s' is images, but no input of the model takes images", a->t.name);
    *f = *in;
    f->src = ot_pictures_of_masks(a, e->a);
    if (!f->src) return ot_fail_more(err, OT_E_NOMEM, "no memory to prepare the data");
    (void)picture_of(output, &f->to);
    f->name = name;
    f->output = output->name;
    f->target = f->as_input = f->others = true;
    f->batch_axis = 0;
    f->dtype = output->dtype;
    f->range = (ot_range){ 0 };
    f->from = f->to;
    f->redraw = true;
    f->bgr = in->bgr && f->to.c == 3;
    f->sample = (ot_shape){ 3, { output->shape.dim[1], output->shape.dim[2], output->shape.dim[3] } };
    if (!ot_shape_fits(&f->sample, f->dtype))
        return ot_fail_more(err, OT_E_DATA, "target '%s' is too large", a->t.name);
    f->gather =
        (ot_gather){ .src = f->src, .dtype = f->dtype, .elements = ot_numel(&f->sample), .channels = 1, .inner = 1 };
    if (!f->to.channels_last && f->to.c > 1)
        memcpy(f->gather.permute, (int64_t[]){ f->to.h, f->to.w, f->to.c }, sizeof f->gather.permute);
    OT_TRY(scale_alike(in, f->to.channels_last ? 1 : f->to.h * f->to.w, f, err));
    if (ot_loss_find(loss->name)->shares && !ot_feeds_shares(f))
        return ot_fail_more(err, OT_E_DATA,
                            "target '%s': loss %s needs values from 0 to 1, which --normalize 1/255 feeds", a->t.name,
                            loss->name);
    ot_adapt_note(e, "target '%s': images are decoded to %lldx%lldx%lld%s (loss %s; masks need a loss of classes)",
                  a->t.name, (long long)f->to.h, (long long)f->to.w, (long long)f->to.c,
                  f->gather.scale ? " and scaled as those of the input" : "", loss->name);
    return OT_OK;
}
