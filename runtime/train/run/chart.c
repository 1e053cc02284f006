/* chart.c - line charts: axes, curves, a legend, marks. */

#include "runtime/train/run/chart.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 640, HEIGHT = 300, LEFT = 64, RIGHT = 20, TOP = 46, BOTTOM = 40, TICKS = 5 };

typedef struct frame {
    double x0, x1, y0, y1; /* the data's extents; of log_x, of the logarithms */
    bool log_x;
} frame;

static double scaled(const frame *r, double x) { return r->log_x ? log10(x) : x; }

static double at_x(const frame *r, double x)
{
    return LEFT + (scaled(r, x) - r->x0) / (r->x1 - r->x0) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const frame *r, double y)
{
    if (y > r->y1) y = r->y1;
    return HEIGHT - BOTTOM - (y - r->y0) / (r->y1 - r->y0) * (HEIGHT - TOP - BOTTOM);
}

/* The distance of ticks: 1, 2 or 5 times a power of ten, near range / TICKS. */
static double tick_step(double range)
{
    double raw = range / TICKS, power = pow(10, floor(log10(raw))), part = raw / power;
    return power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
}

static void widen(double *low, double *high)
{
    if (*high > *low) return;
    double by = *low == 0 ? 1 : fabs(*low) / 10;
    *low -= by;
    *high += by;
}

static bool find_frame(const ot_chart *c, frame *r)
{
    bool any = false;
    for (int k = 0; k < c->n; k++)
        for (int i = 0; i < c->line[k].n; i++) {
            double x = scaled(r, c->line[k].x[i]), y = c->line[k].y[i];
            if (!isfinite(x) || !isfinite(y)) continue;
            if (c->highest > 0 && y > c->highest) y = c->highest;
            if (!any) *r = (frame){ x, x, y, y, r->log_x };
            any = true;
            if (x < r->x0) r->x0 = x;
            if (x > r->x1) r->x1 = x;
            if (y < r->y0) r->y0 = y;
            if (y > r->y1) r->y1 = y;
        }
    if (any && c->most_x > 0) {
        r->x0 = fmin(r->x0, c->least_x);
        r->x1 = fmax(r->x1, c->most_x);
    }
    widen(&r->x0, &r->x1);
    widen(&r->y0, &r->y1);
    double margin = (r->y1 - r->y0) / 20;
    r->y0 -= r->y0 >= 0 && r->y0 < margin ? r->y0 : margin; /* nothing below zero where no value is */
    r->y1 += margin;
    return any && isnormal((r->x1 - r->x0) / 1000) && isnormal((r->y1 - r->y0) / 1000); /* ticks are parts of it */
}

static void draw_label(ot_draw *d, double x, double y, ot_anchor anchor, const char *text)
{
    d->text(d, x, y, &(ot_lettering){ .anchor = anchor }, text);
}

static void draw_line(ot_draw *d, double x1, double y1, double x2, double y2, const ot_stroke *s)
{
    d->line_begin(d, s);
    d->line_to(d, x1, y1);
    d->line_to(d, x2, y2);
    d->line_end(d);
}

static const ot_stroke grid = { "#8884", 1, false };

static void draw_x_tick(ot_draw *d, double at, const char *text)
{
    draw_line(d, at, TOP, at, HEIGHT - BOTTOM, &grid);
    draw_label(d, at, HEIGHT - BOTTOM + 16, OT_ANCHOR_MIDDLE, text);
}

/* Ticks of a logarithmic axis: powers of ten, as many as fit. */
static void draw_decades(ot_draw *d, const frame *r)
{
    char text[32];
    double step = ceil((r->x1 - r->x0) / (2 * TICKS));
    for (double v = ceil(r->x0); v <= r->x1; v += step < 1 ? 1 : step) {
        snprintf(text, sizeof text, "%g", pow(10, v));
        draw_x_tick(d, at_x(r, pow(10, v)), text);
    }
}

/* The number of digits with which the labels of neighbouring ticks differ. */
static int digits_of(double low, double high, double step)
{
    double most = fmax(fabs(low), fabs(high)), digits = ceil(log10(most / step) + 0.001) + 1,
           whole = floor(log10(most)) + 1; /* 12000, not 1.2e+04 */
    if (whole > digits && whole <= 7) digits = whole;
    return !(digits > 4) ? 4 : digits > 12 ? 12 : (int)digits;
}

static void draw_axes(ot_draw *d, const frame *r)
{
    char text[32];
    double step = tick_step(r->y1 - r->y0);
    int digits = digits_of(r->y0, r->y1, step);
    for (int i = 0; i < 3 * TICKS; i++) {
        double v = (ceil(r->y0 / step) + i) * step;
        if (v > r->y1 + step / 1000) break;
        draw_line(d, LEFT, at_y(r, v), WIDTH - RIGHT, at_y(r, v), &grid);
        snprintf(text, sizeof text, "%.*g", digits, fabs(v) < step / 1000 ? 0 : v);
        draw_label(d, LEFT - 6, at_y(r, v) + 4, OT_ANCHOR_END, text);
    }
    if (r->log_x) {
        draw_decades(d, r);
        return;
    }
    step = tick_step(r->x1 - r->x0);
    for (int i = 0; i < 3 * TICKS; i++) {
        double v = (ceil(r->x0 / step) + i) * step;
        if (v > r->x1 + step / 1000) break;
        snprintf(text, sizeof text, "%.6g", fabs(v) < step / 1000 ? 0 : v);
        draw_x_tick(d, at_x(r, v), text);
    }
}

static bool has_point(const ot_chart_line *l, int i) { return isfinite(l->x[i]) && isfinite(l->y[i]); }

static void draw_curve(ot_draw *d, const frame *r, const ot_chart_line *l)
{
    d->line_begin(d, &(ot_stroke){ l->colour, 1.6, false });
    for (int i = 0; i < l->n; i++)
        if (has_point(l, i)) d->line_to(d, at_x(r, l->x[i]), at_y(r, l->y[i]));
    d->line_end(d);
    for (int i = 0; i < l->n && l->points; i++)
        if (has_point(l, i)) d->dot(d, at_x(r, l->x[i]), at_y(r, l->y[i]), 2.5, l->colour);
}

/* Prints each label in its own line, to the left of the mark if there is no room to the right. */
static void draw_mark(ot_draw *d, const frame *r, const ot_chart_mark *m, int row)
{
    double x = at_x(r, m->x);
    bool left = x + 6 * (double)strlen(m->text) > WIDTH - RIGHT;
    draw_line(d, x, TOP, x, HEIGHT - BOTTOM, &(ot_stroke){ m->colour, 1, true });
    d->text(d, left ? x - 5 : x + 5, TOP + 12 + 15 * row,
            &(ot_lettering){ .anchor = left ? OT_ANCHOR_END : OT_ANCHOR_START, .outlined = true }, m->text);
}

static void draw(const void *of, ot_draw *d)
{
    const ot_chart *c = of;
    frame r = { .log_x = c->log_x };
    bool any = find_frame(c, &r);
    d->text(d, LEFT, 18, &(ot_lettering){ .size = 14, .bold = true }, c->title);
    if (any) draw_axes(d, &r);
    else draw_label(d, WIDTH / 2, HEIGHT / 2, OT_ANCHOR_MIDDLE, "no values yet");
    draw_label(d, WIDTH - RIGHT, HEIGHT - 6, OT_ANCHOR_END, c->x_name);
    for (int k = 0, x = LEFT; k < c->n && any; k++) {
        const ot_chart_line *l = &c->line[k];
        draw_curve(d, &r, l);
        d->box(d, (double[]){ x, 28, 10, 10 }, l->colour, 1, NULL);
        draw_label(d, x + 14, 37, OT_ANCHOR_START, l->name);
        x += 30 + 7 * (int)strlen(l->name);
    }
    for (int k = 0; k < c->n_marks && any; k++) draw_mark(d, &r, &c->mark[k], k);
}

ot_sketch ot_chart_sketch(const ot_chart *c) { return (ot_sketch){ WIDTH, HEIGHT, draw, c }; }
