/* sound.c - recordings as inputs: the shape of a sample, and how it is drawn. */
#include "runtime/train/feed/sound.h"

#include "runtime/data/sound.h"
#include "runtime/train/feed/augmenting.h"
#include "runtime/train/feed/preprocess.h"

/* The longest sample of an open length without --length: a longer one would take minutes and gigabytes to plan. */
enum { LONGEST = 1 << 22 };

static bool may_be_channels(int64_t n) { return n >= 1 && n <= OT_SOUND_CHANNELS; }

/* Where channels and values are in the shape of an input; -1: it says neither.  false: it takes no waveforms. */
static bool geometry(const ot_shape *s, bool *last, int64_t *channels, int64_t *length)
{
    *last = false;
    *channels = 1;
    *length = -1;
    if (s->rank < 0) return true;
    if (s->rank == 2) *length = s->dim[1];
    if (s->rank == 2) return true;
    if (s->rank != 3) return false;
    int64_t a = s->dim[1], b = s->dim[2];
    *last = may_be_channels(b) && !may_be_channels(a);
    *channels = *last ? b : a;
    *length = *last ? a : b;
    return *channels < 0 || may_be_channels(*channels);
}

static ot_status check_rate(const ot_adapt_env *e, const ot_value *v, const ot_array *a, int recorded, ot_error *err)
{
    if (!recorded || recorded == a->source->rate) return OT_OK;
    if (!e->measure && !e->beside)
        return ot_fail_more(
            err, OT_E_DATA,
            "input '%s': the recordings in %s have a sample rate of %d Hz, but the model was trained on %d "
            "Hz; convert them, for example with: sox IN -r %d OUT",
            v->name, a->source->folder, a->source->rate, recorded, recorded);
    if (e->measure)
        ot_adapt_note(e, "input '%s': the model was trained on recordings of %d Hz before; these have %d Hz", v->name,
                      recorded, a->source->rate);
    return OT_OK;
}

ot_status ot_sound_adapt(const ot_adapt_env *e, const ot_value *v, const ot_array *a, ot_feeder *f, ot_error *err)
{
    char text[128];
    bool last;
    int64_t channels, length, recorded_length = 0;
    int rate = 0;
    if (!geometry(&v->shape, &last, &channels, &length))
        return ot_fail_more(
            err, OT_E_DATA,
            "input '%s' is %s; recordings are waveforms, [N,T], [N,C,T] or [N,T,C] with up to %d channels", v->name,
            ot_shape_text(&v->shape, text), OT_SOUND_CHANNELS);
    f->dtype = v->dtype == OT_UNDEFINED ? OT_F32 : v->dtype;
    if (!ot_is_float(f->dtype))
        return ot_fail_more(err, OT_E_DATA, "input '%s' is %s; recordings are floats", v->name,
                            ot_dtype_name(f->dtype));
    (void)ot_preprocess_sound(e->preprocess, v->name, &rate, &recorded_length);
    OT_TRY(check_rate(e, v, a, rate, err));
    if (length >= 0 && e->s->length && e->s->length != length)
        return ot_fail_more(err, OT_E_USAGE, "--length %lld: input '%s' is %s, its length is fixed",
                            (long long)e->s->length, v->name, ot_shape_text(&v->shape, text));
    const ot_feeder *like = ot_adapt_like(e, v->name);
    if (like) recorded_length = like->to.w;
    bool open = length < 0, again = !e->measure && recorded_length > 0;
    if (open) length = e->s->length ? e->s->length : again ? recorded_length : a->frames;
    if (channels < 0) channels = a->source->channels;
    if (open && !e->s->length && length > LONGEST)
        return ot_fail_more(
            err, OT_E_DATA,
            "input '%s' leaves the length open, and the longest recording has %lld values per channel (%.0f "
            "s); --length N says how many a sample has",
            v->name, (long long)length, (double)length / a->source->rate);
    f->src = a;
    f->to = f->from = (ot_picture){ .h = 1, .w = length, .c = channels, .channels_last = last };
    f->sample = v->shape.rank == 3 ? (ot_shape){ 2, { last ? length : channels, last ? channels : length } }
                                   : (ot_shape){ 1, { length } };
    if (length < 1 || !ot_shape_fits(&f->sample, OT_F64))
        return ot_fail_more(err, OT_E_DATA, "input '%s': a length of %lld is %s", v->name, (long long)length,
                            length < 1 ? "too short" : "too long; --length N limits it");
    f->redraw = true;
    f->gather = (ot_gather){ .src = a, .dtype = f->dtype, .elements = length * channels, .channels = 1, .inner = 1 };
    ot_adapt_note(e,
                  "input '%s': recordings of %d Hz become %lld x %lld values (%.3g s)%s; of longer ones the middle is "
                  "taken, shorter ones end with zeros",
                  v->name, a->source->rate, (long long)channels, (long long)length,
                  (double)length / (double)a->source->rate,
                  !open          ? ""
                  : e->s->length ? ""
                  : again        ? ", as in the training"
                                 : ", the longest (change with --length)");
    return OT_OK;
}

ot_status ot_sound_draw(const ot_feeder *f, int64_t given, int64_t sample, ot_draw_room *room, uint8_t *to,
                        ot_error *err)
{
    const ot_array *a = f->src;
    const ot_augmenting *g = given >= 0 ? f->augment : NULL;
    ot_sound_want want = {
        .channels = (int)f->to.c, .last = f->to.channels_last, .length = f->to.w, .place = -1, .rate = a->source->rate
    };
    if (g && g->later) {
        uint32_t r[4];
        ot_augment_key key = { g->seed, (uint64_t)(given / g->samples), (uint64_t)sample };
        ot_augment_bits(&key, UINT64_MAX, r);
        want.place = r[0] * 0x1p-32;
    }
    return a->source->read_sound(a->source, a->row ? a->row[sample] : sample, &want, &room->source, (float *)(void *)to,
                                 err);
}
