/* chart_png.c - charts as PNG files, drawn by cairo. */

#include "runtime/picture/draw.h"

#define PACKAGE "libcairo2-dev"

ot_status ot_sketch_png_check(const char *what, ot_error *err)
{
    const char *missing = ot_sketch_png_missing();
    return missing
               ? ot_fail(err, OT_E_USAGE,
                         "%s: PNG charts are not supported: built without %s; install it and build again, or use SVG",
                         what, missing)
               : OT_OK;
}

#ifndef OT_HAVE_CAIRO

const char *ot_sketch_png_missing(void) { return PACKAGE; }

ot_status ot_sketch_png(const ot_sketch *s, double scale, uint8_t **out, size_t *n, ot_error *err)
{
    (void)s, (void)scale, (void)n;
    *out = NULL;
    return ot_sketch_png_check("PNG", err);
}

#else

#include <cairo.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/picture/picture.h"

typedef struct raster {
    ot_draw draw;
    cairo_t *c;
} raster;

const char *ot_sketch_png_missing(void) { return NULL; }

static cairo_t *context(ot_draw *d) { return ((raster *)d)->c; }

static double part(const char *digits, int n)
{
    char text[3] = { digits[0], n == 2 ? digits[1] : digits[0], '\0' };
    return (double)strtoul(text, NULL, 16) / 255;
}

static void use_colour(cairo_t *c, const char *colour, double opacity)
{
    int n = strlen(colour) == 7 ? 2 : 1;
    const char *p = colour + 1;
    cairo_set_source_rgba(c, part(p, n), part(p + n, n), part(p + 2 * n, n), n == 1 ? part(p + 3, 1) : opacity);
}

static void line_begin(ot_draw *d, const ot_stroke *s)
{
    cairo_t *c = context(d);
    use_colour(c, s->colour, 1);
    cairo_set_line_width(c, s->width);
    cairo_set_line_join(c, CAIRO_LINE_JOIN_ROUND);
    cairo_set_dash(c, (double[]){ 4, 3 }, s->dashed ? 2 : 0, 0);
    cairo_new_path(c);
}

static void line_to(ot_draw *d, double x, double y) { cairo_line_to(context(d), x, y); } /* the first one moves */

static void line_end(ot_draw *d) { cairo_stroke(context(d)); }

static void box(ot_draw *d, const double at[4], const char *colour, double opacity, const char *hint)
{
    cairo_t *c = context(d);
    (void)hint;
    use_colour(c, colour, opacity);
    cairo_rectangle(c, at[0], at[1], at[2], at[3]);
    cairo_fill(c);
}

static void dot(ot_draw *d, double x, double y, double radius, const char *colour)
{
    cairo_t *c = context(d);
    use_colour(c, colour, 1);
    cairo_arc(c, x, y, radius, 0, 2 * M_PI);
    cairo_fill(c);
}

static void text(ot_draw *d, double x, double y, const ot_lettering *how, const char *text)
{
    cairo_t *c = context(d);
    cairo_text_extents_t size;
    char shown[512]; /* UTF-8, whatever the text is */
    ot_shown(text, shown, sizeof shown);
    cairo_save(c);
    cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           how->bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c, how->size > 0 ? how->size : 11);
    cairo_text_extents(c, shown, &size);
    cairo_translate(c, x, y);
    if (how->upright) cairo_rotate(c, -M_PI / 2);
    cairo_move_to(c, how->anchor == OT_ANCHOR_START ? 0 : -size.x_advance / (how->anchor == OT_ANCHOR_MIDDLE ? 2 : 1),
                  0);
    cairo_text_path(c, shown);
    if (how->outlined) {
        cairo_set_line_width(c, 3);
        cairo_set_dash(c, NULL, 0, 0);
        cairo_set_line_join(c, CAIRO_LINE_JOIN_ROUND);
        cairo_set_source_rgb(c, 1, 1, 1);
        cairo_stroke_preserve(c);
    }
    cairo_set_source_rgb(c, 0.13, 0.15, 0.16);
    cairo_fill(c);
    cairo_restore(c);
}

/* Red, green and blue of the surface, whose pixels are opaque; NULL: no memory. */
static uint8_t *pixels_of(cairo_surface_t *s, int width, int height)
{
    uint8_t *out = malloc((size_t)width * (size_t)height * 3 + 1), *to = out;
    cairo_surface_flush(s);
    const unsigned char *rows = cairo_image_surface_get_data(s);
    int stride = cairo_image_surface_get_stride(s);
    for (int y = 0; out && y < height; y++)
        for (int x = 0; x < width; x++) {
            uint32_t v;
            memcpy(&v, rows + (ptrdiff_t)y * stride + 4 * x, sizeof v);
            *to++ = (uint8_t)(v >> 16), *to++ = (uint8_t)(v >> 8), *to++ = (uint8_t)v;
        }
    return out;
}

ot_status ot_sketch_png(const ot_sketch *s, double scale, uint8_t **out, size_t *n, ot_error *err)
{
    int width = (int)ceil(s->width * scale), height = (int)ceil(s->height * scale);
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
    raster r = { .draw = { line_begin, line_to, line_end, box, dot, text }, .c = cairo_create(surface) };
    *out = NULL;
    cairo_set_source_rgb(r.c, 1, 1, 1);
    cairo_paint(r.c);
    cairo_scale(r.c, scale, scale);
    s->draw(s->of, &r.draw);
    cairo_status_t bad = cairo_status(r.c); /* also the surface's: a context of one that failed has failed */
    uint8_t *pixels = bad ? NULL : pixels_of(surface, width, height);
    cairo_destroy(r.c);
    cairo_surface_destroy(surface);
    ot_status status = OT_OK;
    if (bad && bad != CAIRO_STATUS_NO_MEMORY)
        status = ot_fail(err, OT_E_INTERNAL, "a chart cannot be drawn: %s", cairo_status_to_string(bad));
    else if (!pixels) status = ot_fail(err, OT_E_NOMEM, "no memory for a chart");
    else status = ot_picture_png(pixels, width, height, 3, out, n, err);
    free(pixels);
    return status;
}

#endif
