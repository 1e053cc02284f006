/* draw.h - charts: what they are drawn with, and their files.  svg.c and chart_png.c write what is drawn. */
#ifndef OT_DRAW_H
#define OT_DRAW_H

#include "runtime/base/base.h"

typedef enum ot_anchor { OT_ANCHOR_START, OT_ANCHOR_MIDDLE, OT_ANCHOR_END } ot_anchor;

/* How a text looks; its point is the beginning, the middle or the end of its base line. */
typedef struct ot_lettering {
    ot_anchor anchor;
    double size; /* 0: 11 pixels */
    bool bold;
    bool upright;  /* from bottom to top */
    bool outlined; /* in white: readable over lines */
    bool passive;  /* the hint of what is below shows */
} ot_lettering;

typedef struct ot_stroke {
    const char *colour;
    double width;
    bool dashed;
} ot_stroke;

/* Coordinates are pixels from the top left corner; colours "#rrggbb", or "#rgba" with one digit each.  Texts may be of any
 * bytes. */
typedef struct ot_draw ot_draw;
struct ot_draw {
    void (*line_begin)(ot_draw *d, const ot_stroke *s); /* to its end nothing else is drawn */
    void (*line_to)(ot_draw *d, double x, double y);
    void (*line_end)(ot_draw *d);
    void (*box)(ot_draw *d, const double at[4], const char *colour, double opacity,
                const char *hint); /* at: x, y, width, height; hint: what a pointer at it shows; NULL: nothing */
    void (*dot)(ot_draw *d, double x, double y, double radius, const char *colour);
    void (*text)(ot_draw *d, double x, double y, const ot_lettering *how, const char *text);
};

/* A chart: its size in pixels, and what draws it. */
typedef struct ot_sketch {
    int width, height;
    void (*draw)(const void *of, ot_draw *d);
    const void *of;
} ot_sketch;

/* One <svg> element.  file: with its namespace and a white background; else a part of a page, in the page's colour. */
void ot_sketch_svg(const ot_sketch *s, bool file, FILE *f);

/* The bytes of a PNG file, malloc'ed, of `scale` times the chart's width and height.  Errors: OT_E_USAGE: this build cannot
 * write them; OT_E_NOMEM; OT_E_INTERNAL: what the library says. */
ot_status ot_sketch_png(const ot_sketch *s, double scale, uint8_t **out, size_t *n, ot_error *err);

/* Writes the file as SVG, or with a scale above 0 as PNG; folder, shown, name: as ot_replace_file's. */
ot_status ot_sketch_write(const ot_sketch *s, double scale, int folder, const char *shown, const char *name,
                          ot_error *err);

/* The package that this build has no PNG charts for want of; NULL: it has them. */
const char *ot_sketch_png_missing(void);

/* Fails where this build has no PNG charts; what: the option that asks for one. */
ot_status ot_sketch_png_check(const char *what, ot_error *err);

/* Escaped, for texts and attributes of HTML and XML; control characters as U+FFFD. */
void ot_html_text(const char *s, FILE *f);

#endif
