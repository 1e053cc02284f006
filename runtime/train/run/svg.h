/* svg.h - line charts as SVG text. */
#ifndef OT_SVG_H
#define OT_SVG_H

#include <stdbool.h>
#include <stdio.h>

/* A curve: n points; colour as in CSS. */
typedef struct ot_svg_line {
    const char *name, *colour;
    const double *x, *y;
    int n;
    bool points; /* marked one by one */
} ot_svg_line;

/* A vertical line at x, with its text beside it. */
typedef struct ot_svg_mark {
    const char *text, *colour;
    double x;
} ot_svg_mark;

typedef struct ot_svg_chart {
    const char *title, *x_name;
    const ot_svg_line *line;
    int n;
    bool file;              /* a file of its own, not a part of a page */
    bool log_x;             /* x is above 0, and drawn by its logarithm */
    double highest;         /* values above it are drawn there; 0: none are */
    double least_x, most_x; /* the axis has both at least; most_x 0: it has the points' */
    const ot_svg_mark *mark;
    int n_marks;
} ot_svg_chart;

/* One <svg> element.  Points that are not finite are skipped; a chart without points says so. */
void ot_svg_print(const ot_svg_chart *c, FILE *f);

void ot_html_text(const char *s,
                  FILE *f); /* escaped, for texts and attributes of HTML and XML; control characters as U+FFFD */

#endif
