/* chart.h - line charts. */
#ifndef OT_CHART_H
#define OT_CHART_H

#include "runtime/picture/draw.h"

/* A curve: n points; colour "#rrggbb". */
typedef struct ot_chart_line {
    const char *name, *colour;
    const double *x, *y;
    int n;
    bool points; /* marked one by one */
} ot_chart_line;

/* A vertical line at x, with its text beside it. */
typedef struct ot_chart_mark {
    const char *text, *colour;
    double x;
} ot_chart_mark;

typedef struct ot_chart {
    const char *title, *x_name;
    const ot_chart_line *line;
    int n;
    bool log_x;             /* x is above 0, and drawn by its logarithm */
    double highest;         /* values above it are drawn there; 0: none are */
    double least_x, most_x; /* the axis has both at least; most_x 0: it has the points' */
    const ot_chart_mark *mark;
    int n_marks;
} ot_chart;

/* The chart to draw; borrows c.  Points that are not finite are skipped; a chart without points says so. */
ot_sketch ot_chart_sketch(const ot_chart *c);

#endif
