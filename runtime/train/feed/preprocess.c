/* preprocess.c - writes and reads the JSON record of how inputs are made from files. */
#include "runtime/train/feed/preprocess.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"

static json_t *list_of(const double *v, int n, double otherwise)
{
    json_t *list = json_array();
    for (int i = 0; i < (n ? n : 1); i++) ot_json_add(&list, json_real(n ? v[i] : otherwise));
    return list;
}

static json_t *audio(const ot_feeder *f)
{
    const char *layout = f->sample.rank < 2 ? "NT" : f->to.channels_last ? "NTC" : "NCT";
    return json_pack("{s:s, s:i, s:I, s:I, s:s}", "kind", "audio", "rate", f->src->source->rate, "channels",
                     (json_int_t)f->to.c, "length", (json_int_t)f->to.w, "layout", layout);
}

static json_t *image(const ot_feeder *f)
{
    if (ot_array_is_sound(f->src)) return audio(f);
    const ot_normalize *z = &f->normalize;
    bool given = z->kind == OT_NORMALIZE_GIVEN, scaled = f->gather.scale && z->kind != OT_NORMALIZE_NONE;
    int n = given ? z->channels : 0;
    json_t *o =
        json_pack("{s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:f}", "kind", "image", "height", (json_int_t)f->to.h, "width",
                  (json_int_t)f->to.w, "channels", (json_int_t)f->to.c, "layout", f->to.channels_last ? "NHWC" : "NCHW",
                  "resize", "cover", "interpolation", "bilinear", "scale", scaled ? 1 / 255. : 1.);
    if (f->bgr) ot_json_set(&o, "color", json_string("BGR"));
    ot_json_set(&o, "mean", list_of(z->mean, n, 0));
    ot_json_set(&o, "std", list_of(z->std, n, 1));
    return o;
}

/* What is recorded of an input of a table stays; of images, the column of the table. */
static json_t *with_column(json_t *o, const json_t *before)
{
    const char *column = json_string_value(json_object_get(before, "column"));
    if (column) ot_json_set(&o, "column", json_string(column));
    return o;
}

/* Was the scaling of the array measured (--normalize auto)? */
static bool is_measured(const ot_feeder *f) { return !f->target && !f->src->source && f->normalize.automatic; }

/* What was chosen for an array: its scaling, the order of its axes. */
static json_t *array(const ot_feeder *f)
{
    const ot_normalize *z = &f->normalize;
    json_t *o = json_pack("{s:s}", "kind", "array"), *axes = f->axes ? json_array() : NULL;
    for (int i = 0; i < f->axes; i++) ot_json_add(&axes, json_integer(f->axis[i]));
    if (f->axes) ot_json_set(&o, "permute", axes); /* NULL: no memory, which is kept in o */
    if (!is_measured(f)) return o;
    ot_json_set(&o, "scale", json_real(z->plain || z->kind == OT_NORMALIZE_NONE ? 1. : 1 / 255.));
    ot_json_set(&o, "mean", list_of(z->mean, z->channels, 0));
    ot_json_set(&o, "std", list_of(z->std, z->channels, 1));
    return o;
}

static bool is_scaled_target(const ot_feeder *f) { return f->target && !f->as_input && f->gather.scale; }

/* Was the scaling of the target measured? */
static bool is_measured_target(const ot_feeder *f) { return is_scaled_target(f) && f->normalize.automatic; }

static json_t *targets(const ot_feeders *fs)
{
    json_t *all = NULL;
    for (int i = 0; i < fs->n; i++) {
        const ot_feeder *f = &fs->f[i];
        const ot_normalize *z = &f->normalize;
        if (!is_scaled_target(f) || !f->output) continue;
        json_t *o = json_object();
        ot_json_set(&o, "mean", list_of(z->mean, z->channels, 0));
        ot_json_set(&o, "std", list_of(z->std, z->channels, 1));
        if (!all) all = json_object();
        ot_json_set(&all, f->output, o);
    }
    return all;
}

/* The outputs whose target is an input of images; NULL: none. */
static json_t *image_outputs(const ot_feeders *fs)
{
    json_t *all = NULL;
    for (int i = 0; i < fs->n; i++) {
        const ot_feeder *f = &fs->f[i];
        if (!f->target || !f->as_input || !f->output || f->sample.rank != 3) continue;
        if (!all) all = json_array();
        ot_json_add(&all, json_string(f->output));
    }
    return all;
}

static bool is_recorded_array(const ot_feeder *f) { return is_measured(f) || (!f->target && f->axes); }

/* Is there anything to record of the inputs? */
static bool any_input(const ot_feeders *fs)
{
    for (int i = 0; i < fs->n; i++)
        if (is_recorded_array(&fs->f[i]) || (!fs->f[i].target && fs->f[i].src->source)) return true;
    return false;
}

static bool any_measured_target(const ot_feeders *fs)
{
    for (int i = 0; i < fs->n; i++)
        if (is_measured_target(&fs->f[i])) return true;
    return false;
}

static ot_status parse(const char *text, json_t **out, ot_error *err)
{
    *out = NULL;
    if (text && ot_json_parse(text, strlen(text), out)) return ot_fail(err, OT_E_NOMEM, "no memory for the metadata");
    if (json_is_object(*out)) return OT_OK;
    json_decref(*out);
    *out = json_object();
    return OT_OK;
}

ot_status ot_preprocess_text(const ot_feeders *fs, const char *table, const char *model, ot_arena *a, const char **out,
                             json_t **record, ot_error *err)
{
    json_t *all, *y = NULL;
    bool any = any_input(fs);
    *out = NULL;
    *record = NULL;
    OT_TRY(parse(table || any ? table : model, &all, err));
    json_t *before = json_object_get(all, "inputs"), *inputs = before ? json_copy(before) : json_object();
    for (int i = 0; i < fs->n; i++) {
        const ot_feeder *f = &fs->f[i];
        if (is_recorded_array(f)) ot_json_set(&inputs, f->name, array(f));
        if (!f->target && f->src->source)
            ot_json_set(&inputs, f->name, with_column(image(f), json_object_get(before, f->name)));
    }
    if (before || any) ot_json_set(&all, "inputs", inputs);
    else json_decref(inputs);
    y = targets(fs);
    const json_t *known = json_object_get(all, "targets"); /* a new record has none yet */
    any |= any_measured_target(fs) || !y != !known || (y && !json_equal(y, known));
    json_t *images = image_outputs(fs), *given = json_object_get(all, "images");
    any |= !images != !given || (images && !json_equal(images, given));
    json_object_del(all, "images");
    if (images) ot_json_set(&all, "images", images);
    json_object_del(all, "targets");
    if (y) ot_json_set(&all, "targets", y);
    char *text = any ? ot_json_dump(all, JSON_COMPACT) : NULL;
    *out = text ? ot_arena_strdup(a, text) : NULL;
    free(text);
    if (*out) *record = all;
    else json_decref(all);
    return *out || !any ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the metadata");
}

static bool numbers(const json_t *list, double *v, int *n)
{
    *n = (int)json_array_size(list);
    if (*n < 1 || *n > OT_MAX_CHANNELS) return false;
    for (int i = 0; i < *n; i++) {
        const json_t *one = json_array_get(list, (size_t)i);
        v[i] = json_number_value(one);
        if (!json_is_number(one) || !isfinite(v[i])) return false;
    }
    return true;
}

static bool read_scaling(const json_t *o, ot_normalize *z)
{
    int means, deviations;
    double scale = json_number_value(json_object_get(o, "scale"));
    bool plain = true;
    if (!numbers(json_object_get(o, "mean"), z->mean, &means)) return false;
    if (!numbers(json_object_get(o, "std"), z->std, &deviations) || means != deviations) return false;
    for (int i = 0; i < means; i++) plain &= z->mean[i] == 0 && z->std[i] == 1;
    const char *kind = json_string_value(json_object_get(o, "kind"));
    z->channels = means;
    z->automatic = kind && !strcmp(kind, "array");
    z->plain = z->automatic && scale == 1;
    if (!ot_normalize_usable(z)) return false;
    if (z->plain) z->kind = OT_NORMALIZE_GIVEN;
    if (z->plain) return true;
    z->kind = !plain ? OT_NORMALIZE_GIVEN : scale == 1 ? OT_NORMALIZE_NONE : OT_NORMALIZE_UNIT;
    return scale == 1 ? plain : fabs(scale * 255 - 1) < 1e-9;
}

/* The record of an input; NULL: none. */
static const json_t *record_of(const json_t *record, const char *input)
{
    return json_object_get(json_object_get(record, "inputs"), input);
}

/* Two positive numbers of a record of that kind. */
static bool read_pair(const json_t *record, const char *input, const char *kind, const char *first, const char *second,
                      int64_t out[2])
{
    const json_t *o = record_of(record, input);
    const char *is = json_string_value(json_object_get(o, "kind"));
    json_int_t a = json_integer_value(json_object_get(o, first)), b = json_integer_value(json_object_get(o, second));
    bool good = is && !strcmp(is, kind) && a > 0 && b > 0;
    if (good) out[0] = a, out[1] = b;
    return good;
}

bool ot_preprocess_sound(const json_t *record, const char *input, int *rate, int64_t *length)
{
    int64_t v[2];
    if (!read_pair(record, input, "audio", "rate", "length", v) || v[0] > INT_MAX) return false;
    *rate = (int)v[0];
    *length = v[1];
    return true;
}

bool ot_preprocess_size(const json_t *record, const char *input, int64_t *height, int64_t *width)
{
    int64_t v[2];
    if (!read_pair(record, input, "image", "height", "width", v) || v[0] > INT_MAX || v[1] > INT_MAX) return false;
    *height = v[0];
    *width = v[1];
    return true;
}

bool ot_preprocess_alpha(const json_t *record, const char *input)
{
    int64_t v[2];
    return read_pair(record, input, "image", "channels", "height", v) && v[0] == 4;
}

static bool read_target(const json_t *o, ot_normalize *out)
{
    int means, deviations;
    ot_normalize z = { .kind = OT_NORMALIZE_GIVEN, .plain = true };
    bool good = numbers(json_object_get(o, "mean"), z.mean, &means) &&
                numbers(json_object_get(o, "std"), z.std, &deviations) && means == deviations;
    z.channels = good ? means : 0;
    good = good && ot_normalize_usable(&z);
    if (good) *out = z;
    return good;
}

bool ot_preprocess_is_image(const json_t *record, const char *output)
{
    const json_t *list = json_object_get(record, "images");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name && !strcmp(name, output)) return true;
    }
    return false;
}

bool ot_preprocess_target(const json_t *record, const char *output, ot_normalize *out)
{
    return read_target(json_object_get(json_object_get(record, "targets"), output), out);
}

/* The list of an output in "OUTPUT=a,b;OUTPUT=c" or "a,b", and its length; NULL: it has none. */
static const char *target_list(const char *text, const char *output, bool plain, size_t *n)
{
    for (const char *p = text, *end; p && *p; p = *end ? end + 1 : end) {
        end = p + strcspn(p, ";");
        const char *is = memchr(p, '=', (size_t)(end - p)), *list = is ? is + 1 : p;
        *n = (size_t)(end - list);
        size_t k = is ? (size_t)(is - p) : 0;
        if (is ? k == strlen(output) && !memcmp(p, output, k) : plain) return list;
    }
    return NULL;
}

ot_status ot_preprocess_target_columns(const json_t *record, const char *output, bool plain, int64_t n, ot_arena *a,
                                       const char *const **out, ot_error *err)
{
    size_t bytes;
    int64_t parts = 1;
    const char *text = json_string_value(json_object_get(record, "target"));
    const char *p = target_list(text, output, plain, &bytes), *end = p ? p + bytes : NULL;
    *out = NULL;
    for (const char *q = p; q && q < end; q++) parts += *q == ',';
    if (!p || parts != n) return OT_OK; /* a name may have a comma */
    const char **name = ot_arena_alloc(a, (size_t)n * sizeof *name);
    for (int64_t i = 0; name && i < n; i++) {
        const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end;
        if (!(name[i] = ot_arena_printf(a, "%.*s", (int)(stop - p), p))) name = NULL;
        p = comma ? comma + 1 : end;
    }
    *out = name;
    return name ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the names of columns");
}

ot_status ot_preprocess_read(const char *text, json_t **out, ot_error *err)
{
    const char *output;
    json_t *target, *targets;
    ot_normalize z;
    *out = NULL;
    if (!text) return OT_OK;
    if (ot_json_parse(text, strlen(text), out)) return ot_fail(err, OT_E_NOMEM, "no memory for the model's metadata");
    if (!*out) *out = json_null();
    targets = json_object_get(*out, "targets");
    json_object_foreach(targets, output, target)
    {
        if (read_target(target, &z)) continue;
        return ot_fail(err, OT_E_MODEL,
                       "onnxtrain.preprocess of the model: the scaling of the target of output '%.200s' is invalid; "
                       "expected as many numbers \"mean\" as positive numbers \"std\"",
                       output);
    }
    return OT_OK;
}

const char *ot_preprocess_unit(const ot_normalize *z, char text[160])
{
    if (z->channels == 1) snprintf(text, 160, "multiply by %.6g and add %.6g", z->std[0], z->mean[0]);
    else snprintf(text, 160, "multiply each column by its std and add its mean, which onnxtrain.preprocess lists");
    return text;
}

bool ot_preprocess_normalize(const json_t *record, const char *input, ot_normalize *out)
{
    ot_normalize z = { 0 };
    const json_t *o = record_of(record, input);
    bool good = json_is_object(o) && read_scaling(o, &z);
    if (good) *out = z;
    return good;
}

bool ot_preprocess_axes(const json_t *record, const char *input, int rank, int *axis)
{
    const json_t *list = json_object_get(record_of(record, input), "permute");
    bool seen[OT_MAX_RANK] = { 0 }, good = rank > 0 && rank <= OT_MAX_RANK && json_array_size(list) == (size_t)rank;
    for (int i = 0; i < rank && good; i++) {
        const json_t *one = json_array_get(list, (size_t)i);
        json_int_t at = json_integer_value(one);
        good = json_is_integer(one) && at >= 0 && at < rank && !seen[at] && (i || !at);
        if (good) seen[axis[i] = (int)at] = true;
    }
    return good;
}

/* An array has a scaling, an order of its axes, or both. */
static bool is_valid_array(const json_t *record, const char *input)
{
    int axis[OT_MAX_RANK];
    ot_normalize z;
    const json_t *o = record_of(record, input), *axes = json_object_get(o, "permute");
    bool scaled = !axes || json_object_get(o, "mean"), ordered = axes != NULL;
    if (ordered && !ot_preprocess_axes(record, input, (int)json_array_size(axes), axis)) return false;
    return !scaled || ot_preprocess_normalize(record, input, &z);
}

bool ot_preprocess_is_valid(const json_t *record, const char *input)
{
    ot_normalize z;
    int rate;
    int64_t v[2];
    const json_t *o = record_of(record, input);
    const char *is = json_string_value(json_object_get(o, "kind"));
    bool object = !record || json_is_object(record), none = object && !o;
    bool array = is && !strcmp(is, "array"), image = is && !strcmp(is, "image"), sound = is && !strcmp(is, "audio");
    bool other = is && (!strcmp(is, "table") || !strcmp(is, "text"));
    if (sound) return ot_preprocess_sound(record, input, &rate, &v[0]);
    if (image) return ot_preprocess_size(record, input, &v[0], &v[1]) && ot_preprocess_normalize(record, input, &z);
    return none || other || (array && is_valid_array(record, input));
}
