/* normalize.c - --normalize: scales bytes of pixels.
 *
 * Numerics  With mean m and deviation s of pixels in [0,1]: y = (x / 255 - m) / s, written as x * mul + add.  Sums over
 *           a training set are exact integers, so that mean and deviation do not depend on the order of pixels or on
 *           threads. */
#include "runtime/data/data.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST 1e18 /* a scaled pixel: its square is a float too */

bool ot_picture_of(const ot_array *a, ot_picture *out)
{
    const int64_t *d = a->t.dim;
    if (a->t.dtype != OT_U8) return false;
    if (a->t.rank == 2) {
        *out = (ot_picture){ .h = 1, .w = d[1], .c = 1 };
        return true;
    }
    if (a->t.rank == 3) {
        *out = (ot_picture){ .h = d[1], .w = d[2], .c = 1 };
        return true;
    }
    if (a->t.rank != 4) return false;
    bool first = d[1] == 1 || d[1] == 3 || d[1] == 4, last = d[3] == 1 || d[3] == 3 || d[3] == 4;
    if (last && !first) *out = (ot_picture){ .h = d[1], .w = d[2], .c = d[3], .channels_last = d[3] > 1 };
    else *out = (ot_picture){ .h = d[2], .w = d[3], .c = d[1] };
    return true;
}

/* One number, or a list [a,b,c]; *n is its length.  NULL: neither; else the rest of the text. */
static const char *numbers(const char *p, double *v, int *n)
{
    bool list = *p == '[';
    *n = 0;
    p += list;
    do {
        char one[64];
        size_t k = strcspn(p, ",]");
        if (*n == OT_MAX_CHANNELS || k >= sizeof one) return NULL;
        memcpy(one, p, k);
        one[k] = 0;
        if (!ot_number(one, &v[*n])) return NULL;
        ++*n;
        p += k;
    } while (list && *p++ == ',');
    if (!list) return p;
    return p[-1] == ']' ? p : NULL;
}

bool ot_normalize_usable(const ot_normalize *z)
{
    const double most = z->plain ? (double)FLT_MAX : LARGEST;
    for (int i = 0; i < z->channels; i++)
        if (!(z->std[i] > 0) || !(1 / z->std[i] <= most) || !(fabs(z->mean[i] / z->std[i]) <= most)) return false;
    return true;
}

static bool given(const char *text, ot_normalize *z)
{
    int means, deviations;
    const char *p = numbers(text, z->mean, &means);
    if (!p || *p++ != ',') return false;
    p = numbers(p, z->std, &deviations);
    if (!p || *p || means != deviations) return false;
    z->kind = OT_NORMALIZE_GIVEN;
    z->channels = means;
    return ot_normalize_usable(z);
}

ot_status ot_normalize_parse(const char *text, ot_normalize *out, ot_error *err)
{
    *out = (ot_normalize){ .kind = OT_NORMALIZE_UNIT };
    if (!text || !*text || !strcmp(text, "1/255")) return OT_OK;
    if (!strcmp(text, "none")) out->kind = OT_NORMALIZE_NONE;
    else if (!strcmp(text, "mean,std")) out->kind = OT_NORMALIZE_MEASURE;
    else if (!strcmp(text, "auto")) *out = (ot_normalize){ .kind = OT_NORMALIZE_MEASURE, .automatic = true };
    else if (!strcmp(text, "imagenet"))
        *out = (ot_normalize){
            .kind = OT_NORMALIZE_GIVEN, .channels = 3, .mean = { 0.485, 0.456, 0.406 }, .std = { 0.229, 0.224, 0.225 }
        };
    else if (!given(text, out))
        return ot_fail(err, OT_E_USAGE,
                       "--normalize: invalid value '%s'; expected 1/255, mean,std, imagenet, none, auto, or mean and "
                       "standard deviation such as 0.13,0.31 or [0.5,0.5,0.5],[0.2,0.2,0.2]",
                       text);
    return OT_OK;
}

struct ot_pixel_counts {
    int64_t channels, pixels;
    int64_t n[OT_MAX_CHANNELS][256];
};

ot_pixel_counts *ot_pixel_counts_new(int64_t channels)
{
    ot_pixel_counts *n = channels >= 1 && channels <= OT_MAX_CHANNELS ? calloc(1, sizeof *n) : NULL;
    if (n) n->channels = channels;
    return n;
}

void ot_pixel_counts_free(ot_pixel_counts *n) { free(n); }

void ot_pixel_counts_add(ot_pixel_counts *n, const uint8_t *x, int64_t pixels, int64_t channels)
{
    n->pixels += pixels;
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t c = 0; c < channels; c++) n->n[c][*x++]++;
}

/* The values of an array in memory, per channel. */
static void count(const ot_array *a, const ot_picture *q, ot_pixel_counts *n)
{
    int64_t plane = q->h * q->w;
    for (int64_t s = 0; s < a->t.dim[0]; s++) {
        const uint8_t *x = (const uint8_t *)a->t.data + ot_array_at(a, s * plane * q->c);
        if (q->channels_last) {
            ot_pixel_counts_add(n, x, plane, q->c);
            continue;
        }
        for (int64_t c = 0; c < q->c; c++)
            for (int64_t i = 0; i < plane; i++) n->n[c][*x++]++;
        n->pixels += plane;
    }
}

/* Counts of the 256 values per channel: the sums follow exactly. */
ot_status ot_normalize_counted(ot_normalize *z, const ot_pixel_counts *n, ot_error *err)
{
    if (!n->pixels) return ot_fail(err, OT_E_DATA, "--normalize mean,std: there is no image to measure");
    for (int c = 0; c < n->channels; c++) {
        double sum = 0, deviation = 0;
        for (int v = 0; v < 256; v++) sum += (double)n->n[c][v] * v;
        double mean = sum / (double)n->pixels;
        for (int v = 0; v < 256; v++) deviation += (double)n->n[c][v] * (v - mean) * (v - mean);
        z->mean[c] = mean / 255;
        z->std[c] = sqrt(deviation / (double)n->pixels) / 255;
        if (!(z->std[c] > 0)) z->std[c] = 1; /* a constant channel becomes zeros */
    }
    z->channels = (int)n->channels;
    z->kind = OT_NORMALIZE_GIVEN;
    return OT_OK;
}

ot_status ot_normalize_fit(ot_normalize *z, const ot_array *train, ot_error *err)
{
    ot_picture q;
    if (z->kind != OT_NORMALIZE_MEASURE) return OT_OK;
    if (!ot_picture_of(train, &q) || q.c < 1 || q.c > OT_MAX_CHANNELS || train->t.dim[0] == 0 || q.h * q.w == 0)
        return ot_fail(err, OT_E_DATA, "--normalize mean,std: needs uint8 images with 1 to %d channels",
                       OT_MAX_CHANNELS);
    ot_pixel_counts *n = ot_pixel_counts_new(q.c);
    if (!n) return ot_fail(err, OT_E_NOMEM, "--normalize mean,std: no memory");
    count(train, &q, n);
    ot_status s = ot_normalize_counted(z, n, err);
    ot_pixel_counts_free(n);
    return s;
}

ot_status ot_normalize_values(ot_normalize *z, const ot_array *train, int channels, int64_t inner, ot_error *err)
{
    int64_t each = 1, samples = train->t.dim[0], n = 0;
    for (int i = 1; i < train->t.rank; i++) each *= train->t.dim[i];
    *z = (ot_normalize){ .kind = OT_NORMALIZE_GIVEN, .automatic = true, .plain = true, .channels = channels };
    double sum[OT_MAX_CHANNELS] = { 0 };
    for (int pass = 0; pass < 2; pass++) {
        if (pass)
            for (int c = 0; c < channels; c++) z->mean[c] = sum[c] / (double)n, sum[c] = 0;
        n = samples * each / channels;
        if (n < 1) return ot_fail(err, OT_E_DATA, "--normalize auto: array '%s' is empty", train->t.name);
        for (int64_t s = 0; s < samples; s++) {
            int64_t at = ot_array_at(train, s * each);
            for (int64_t i = 0; i < each; i++) {
                int c = (int)(i / inner % channels);
                double v = ot_get_f64(train->t.data, train->t.dtype, at + i);
                sum[c] += pass ? (v - z->mean[c]) * (v - z->mean[c]) : v;
            }
        }
    }
    for (int c = 0; c < channels; c++) {
        z->std[c] = sqrt(sum[c] / (double)n);
        if (!isfinite(z->std[c]))
            return ot_fail(err, OT_E_DATA, "--normalize auto: array '%s' contains NaN or infinity", train->t.name);
        if (!(z->std[c] > 0)) z->std[c] = 1; /* a constant column becomes zeros */
    }
    return OT_OK;
}

static void describe(const double *v, int n, char *buf, size_t cap)
{
    size_t len = 0;
    for (int i = 0; i < n && len < cap; i++)
        len += (size_t)snprintf(buf + len, cap - len, "%s%.4g", i ? "," : n > 1 ? "[" : "", v[i]);
    if (n > 1 && len < cap) snprintf(buf + len, cap - len, "]");
}

ot_status ot_normalize_apply(const ot_normalize *z, int64_t c, ot_gather *g, char line[256], ot_error *err)
{
    char mean[96], std[96];
    g->channels = 1;
    g->scale = z->kind != OT_NORMALIZE_NONE;
    g->mul[0] = 1;
    g->add[0] = 0;
    switch (z->kind) {
    case OT_NORMALIZE_NONE: strcpy(line, "pixels stay 0..255"); return OT_OK;
    case OT_NORMALIZE_UNIT:
        g->mul[0] = 1 / 255.f;
        strcpy(line, "pixels 0..255 are scaled to 0..1 (x/255)");
        return OT_OK;
    case OT_NORMALIZE_MEASURE:
        return ot_fail(err, OT_E_INTERNAL, "--normalize mean,std: the training set was not measured");
    case OT_NORMALIZE_GIVEN: break;
    }
    if (z->channels != 1 && z->channels != c)
        return ot_fail(err, OT_E_DATA, "--normalize: has values for %d channels, but the images have %lld", z->channels,
                       (long long)c);
    if (!ot_normalize_usable(z))
        return ot_fail(err, OT_E_DATA,
                       "--normalize: a deviation is too small to divide by: scale the values, or use --normalize none");
    g->channels = z->channels;
    for (int i = 0; i < z->channels; i++) {
        g->mul[i] = (float)(1 / ((z->plain ? 1 : 255) * z->std[i]));
        g->add[i] = (float)(-z->mean[i] / z->std[i]);
    }
    describe(z->mean, z->channels, mean, sizeof mean);
    describe(z->std, z->channels, std, sizeof std);
    if (z->plain) snprintf(line, 256, "values are standardised to (x - mean)/std with mean %s, std %s", mean, std);
    else snprintf(line, 256, "pixels are scaled to (x/255 - mean)/std with mean %s, std %s", mean, std);
    return OT_OK;
}
