/* pnm.c - PBM, PGM, PPM, as text or bytes, and PAM.
 *
 * Spec  netpbm's: "P1" to "P6", width, height, largest value (none in PBM, where 1 is black), one space, the pixels;
 *       values above 255 are two bytes, the high one first.  "P7" has a line for each number and a name for the type of
 *       tuples. */
#include "runtime/picture/internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct pnm {
    ot_reading *r;
    size_t at;
    char kind; /* '1' … '7' */
    int64_t width, height, most, depth;
    bool bits; /* of PBM: 8 per byte, or digits without spaces */
} pnm;

static bool is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static ot_status ends(const pnm *f, const char *where)
{
    return ot_picture_bad(f->r, "truncated after %zu bytes, in %s", f->r->n, where);
}

/* Skips spaces and comments. */
static void to_word(pnm *f)
{
    const ot_reading *r = f->r;
    while (f->at < r->n && (is_space(r->p[f->at]) || r->p[f->at] == '#')) {
        if (r->p[f->at] == '#')
            while (f->at < r->n && r->p[f->at] != '\n') f->at++;
        else f->at++;
    }
}

static ot_status number(pnm *f, const char *where, int64_t *v)
{
    const ot_reading *r = f->r;
    to_word(f);
    if (f->at == r->n) return ends(f, where);
    *v = 0;
    if (r->p[f->at] < '0' || r->p[f->at] > '9')
        return ot_picture_bad(r, "byte %zu is not a digit, in %s", f->at, where);
    for (; f->at < r->n && r->p[f->at] >= '0' && r->p[f->at] <= '9'; f->at++) {
        *v = 10 * *v + r->p[f->at] - '0';
        if (*v > INT32_MAX) return ot_picture_bad(r, "a number above 2147483647 in %s", where);
    }
    return OT_OK;
}

/* Lines "WORD value" up to ENDHDR. */
static ot_status read_pam(pnm *f)
{
    static const char *const words[] = { "WIDTH", "HEIGHT", "DEPTH", "MAXVAL" };
    int64_t *const to[] = { &f->width, &f->height, &f->depth, &f->most };
    const ot_reading *r = f->r;
    for (;;) {
        to_word(f);
        size_t from = f->at, n;
        int k = 0;
        while (f->at < r->n && !is_space(r->p[f->at])) f->at++;
        if (f->at == r->n) return ends(f, "the header");
        n = f->at - from;
        if (n == 6 && !memcmp(r->p + from, "ENDHDR", 6)) {
            f->at++;
            return OT_OK;
        }
        while (k < OT_LEN(words) && (strlen(words[k]) != n || memcmp(r->p + from, words[k], n) != 0)) k++;
        if (k < OT_LEN(words)) OT_TRY(number(f, "the header", to[k]));
        else
            while (f->at < r->n && r->p[f->at] != '\n') f->at++; /* TUPLTYPE: the depth implies it */
    }
}

static ot_status read_header(pnm *f)
{
    f->kind = (char)f->r->p[1];
    f->at = 2;
    f->most = 1;
    f->depth = f->kind == '3' || f->kind == '6' ? 3 : 1;
    f->bits = f->kind == '1' || f->kind == '4';
    if (f->kind == '7') {
        f->depth = f->most = f->width = f->height = 0;
        OT_TRY(read_pam(f));
    } else {
        OT_TRY(number(f, "the header", &f->width));
        OT_TRY(number(f, "the header", &f->height));
        if (!f->bits) OT_TRY(number(f, "the header", &f->most));
        if (f->at == f->r->n) return ends(f, "the header");
        if (!is_space(f->r->p[f->at])) return ot_picture_bad(f->r, "the header does not end in a space");
        f->at++;
    }
    if (f->most < 1 || f->most > 65535)
        return ot_picture_bad(f->r, "the maximum value is %lld; expected 1 to 65535", (long long)f->most);
    if (f->depth < 1 || f->depth > 4)
        return ot_picture_bad(f->r, "%lld values per pixel; supported are 1 to 4", (long long)f->depth);
    return OT_OK;
}

/* Is there a byte for every value, or two?  Text has at least one per value. */
static ot_status check_size(const pnm *f)
{
    int64_t row, all;
    if (!ot_mul(f->width, f->depth, &row)) row = INT64_MAX;
    if (f->kind == '4') row = (f->width + 7) / 8;
    else if (f->most > 255 && f->kind > '4' && !ot_mul(row, 2, &row)) row = INT64_MAX;
    if (!ot_mul(row, f->height, &all) || (uint64_t)all > f->r->n - f->at) return ends(f, "the pixels");
    return OT_OK;
}

static ot_status value(pnm *f, int64_t i, int64_t *v)
{
    const uint8_t *p = f->r->p + f->at;
    if (f->kind == '2' || f->kind == '3') return number(f, "the pixels", v);
    if (f->kind == '1') {
        to_word(f);
        if (f->at == f->r->n) return ends(f, "the pixels");
        *v = '1' - f->r->p[f->at++];
        return *v == 0 || *v == 1 ? OT_OK : ot_picture_bad(f->r, "byte %zu is neither 0 nor 1", f->at - 1);
    }
    if (f->kind == '4') *v = !(p[i / f->width * ((f->width + 7) / 8) + i % f->width / 8] >> (7 - i % f->width % 8) & 1);
    else *v = f->most > 255 ? (int64_t)ot_be16(p + 2 * i) : p[i];
    return OT_OK;
}

ot_status ot_pnm_read(ot_reading *r)
{
    pnm f = { .r = r };
    int64_t v = 0;
    OT_TRY(read_header(&f));
    OT_TRY(check_size(&f));
    OT_TRY(ot_picture_begin(r, f.width, f.height, (int)f.depth, f.most > 255 ? 16 : 8));
    if (!r->out->data) return OT_OK;
    int64_t full = f.most > 255 ? 65535 : 255, n = f.width * f.height * f.depth;
    for (int64_t i = 0; i < n; i++) {
        OT_TRY(value(&f, i, &v));
        if (v > f.most)
            return ot_picture_bad(r, "a value is %lld, above the maximum of %lld", (long long)v, (long long)f.most);
        v = (v * full + f.most / 2) / f.most;
        if (full == 255) ((uint8_t *)r->out->data)[i] = (uint8_t)v;
        else ((uint16_t *)r->out->data)[i] = (uint16_t)v;
    }
    return OT_OK;
}
