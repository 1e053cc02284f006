/* svg.c - charts as SVG text, and their files. */

#include <math.h>
#include <stdlib.h>

#include "runtime/base/io.h"
#include "runtime/picture/draw.h"

typedef struct svg {
    ot_draw draw;
    FILE *f;
    bool first; /* of the points of a line */
} svg;

void ot_html_text(const char *s, FILE *f)
{
    for (; *s; s++) {
        if (*s == '&') fputs("&amp;", f);
        else if (*s == '<') fputs("&lt;", f);
        else if (*s == '>') fputs("&gt;", f);
        else if (*s == '"') fputs("&quot;", f);
        else if ((unsigned char)*s < 32 && *s != '\n' && *s != '\t') fputs("&#xFFFD;", f);
        else fputc(*s, f);
    }
}

/* Numbers of SVG have a point, whatever the locale. */
static void print_number(double v, FILE *f)
{
    const double most = 1e9; /* far outside of any chart */
    v = isfinite(v) ? fmax(-most, fmin(v, most)) : 0;
    long long tenths = (long long)floor(v * 10 + 0.5), size = tenths < 0 ? -tenths : tenths;
    fprintf(f, "%s%lld", tenths < 0 ? "-" : "", size / 10);
    if (size % 10) fprintf(f, ".%lld", size % 10);
}

static void print_key(const char *key, double v, FILE *f)
{
    fprintf(f, " %s=\"", key), print_number(v, f), fputc('"', f);
}

static void line_begin(ot_draw *d, const ot_stroke *s)
{
    svg *x = (svg *)d;
    fprintf(x->f, "<path fill=\"none\" stroke=\"%s\"", s->colour);
    if (s->width != 1) print_key("stroke-width", s->width, x->f);
    fprintf(x->f, "%s d=\"", s->dashed ? " stroke-dasharray=\"4 3\"" : "");
    x->first = true;
}

static void line_to(ot_draw *d, double px, double py)
{
    svg *x = (svg *)d;
    fputc(x->first ? 'M' : 'L', x->f), print_number(px, x->f), fputc(' ', x->f), print_number(py, x->f);
    x->first = false;
}

static void line_end(ot_draw *d) { fputs("\"/>\n", ((svg *)d)->f); }

static void box(ot_draw *d, const double at[4], const char *colour, double opacity, const char *hint)
{
    static const char *const key[] = { "x", "y", "width", "height" };
    FILE *f = ((svg *)d)->f;
    int thousandths = (int)floor(opacity * 1000 + 0.5);
    fputs("<rect", f);
    for (int i = 0; i < 4; i++) print_key(key[i], at[i], f);
    fprintf(f, " fill=\"%s\"", colour);
    if (thousandths < 1000) fprintf(f, " fill-opacity=\"0.%03d\"", thousandths > 0 ? thousandths : 0);
    if (hint) fputs("><title>", f), ot_html_text(hint, f), fputs("</title></rect>\n", f);
    else fputs("/>\n", f);
}

static void dot(ot_draw *d, double x, double y, double radius, const char *colour)
{
    FILE *f = ((svg *)d)->f;
    fputs("<circle", f), print_key("cx", x, f), print_key("cy", y, f), print_key("r", radius, f);
    fprintf(f, " fill=\"%s\"/>\n", colour);
}

static void text(ot_draw *d, double x, double y, const ot_lettering *how, const char *text)
{
    static const char *const anchor[] = { "start", "middle", "end" };
    FILE *f = ((svg *)d)->f;
    fputs("<text", f);
    if (how->upright) {
        fputs(" transform=\"translate(", f), print_number(x, f), fputc(' ', f), print_number(y, f);
        fputs(") rotate(-90)\"", f);
    } else {
        print_key("x", x, f), print_key("y", y, f);
    }
    if (how->anchor != OT_ANCHOR_START) fprintf(f, " text-anchor=\"%s\"", anchor[how->anchor]);
    if (how->size > 0) print_key("font-size", how->size, f);
    if (how->bold) fputs(" font-weight=\"bold\"", f);
    if (how->outlined) fputs(" stroke=\"white\" stroke-width=\"3\" paint-order=\"stroke\"", f);
    if (how->passive) fputs(" pointer-events=\"none\"", f);
    fputc('>', f), ot_html_text(text, f), fputs("</text>\n", f);
}

void ot_sketch_svg(const ot_sketch *s, bool file, FILE *f)
{
    svg x = { .draw = { line_begin, line_to, line_end, box, dot, text }, .f = f };
    fprintf(f,
            "<svg %sviewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"11\" "
            "stroke-linejoin=\"round\" fill=\"currentColor\">\n",
            file ? "xmlns=\"http://www.w3.org/2000/svg\" " : "", s->width, s->height, s->width, s->height);
    if (file) box(&x.draw, (double[]){ 0, 0, s->width, s->height }, "#ffffff", 1, NULL);
    s->draw(s->of, &x.draw);
    fputs("</svg>\n", f);
}

static ot_status svg_bytes(const ot_sketch *s, uint8_t **out, size_t *n, ot_error *err)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, n);
    if (f) ot_sketch_svg(s, true, f);
    bool whole = f && ot_memstream_close(f);
    *out = (uint8_t *)text;
    return whole ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for a chart");
}

ot_status ot_sketch_write(const ot_sketch *s, double scale, int folder, const char *shown, const char *name,
                          ot_error *err)
{
    uint8_t *bytes = NULL;
    size_t n = 0;
    ot_status r = scale > 0 ? ot_sketch_png(s, scale, &bytes, &n, err) : svg_bytes(s, &bytes, &n, err);
    if (!r) r = ot_replace_file(folder, shown, name, bytes, n, err);
    free(bytes);
    return r;
}
