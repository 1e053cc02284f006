/* svg.c - line charts as SVG text. */

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/train/run/svg.h"

enum { WIDTH = 640, HEIGHT = 300, LEFT = 64, RIGHT = 14, TOP = 46, BOTTOM = 40, TICKS = 5 };

typedef struct frame {
    double x0, x1, y0, y1; /* the data's extents; of log_x, of the logarithms */
    bool log_x;
} frame;

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
    long long tenths = (long long)floor(v * 10 + 0.5);
    fprintf(f, "%s%lld.%lld", tenths < 0 ? "-" : "", (tenths < 0 ? -tenths : tenths) / 10,
            (tenths < 0 ? -tenths : tenths) % 10);
}

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

/* 1, 2 or 5 times a power of ten, about a TICKS-th of the range. */
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

static bool find_frame(const ot_svg_chart *c, frame *r)
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
    return any && isfinite(r->x1 - r->x0) && isfinite(r->y1 - r->y0);
}

static void print_label(double x, double y, const char *anchor, const char *text, FILE *f)
{
    fputs("<text x=\"", f), print_number(x, f), fputs("\" y=\"", f), print_number(y, f);
    fprintf(f, "\" text-anchor=\"%s\">", anchor);
    ot_html_text(text, f);
    fputs("</text>\n", f);
}

static void print_rule(double x1, double y1, double x2, double y2, FILE *f)
{
    fputs("<path d=\"M", f), print_number(x1, f), fputc(' ', f), print_number(y1, f);
    fputs("L", f), print_number(x2, f), fputc(' ', f), print_number(y2, f);
    fputs("\" stroke=\"#8884\" fill=\"none\"/>\n", f);
}

static void print_x_tick(double at, const char *text, FILE *f)
{
    print_rule(at, TOP, at, HEIGHT - BOTTOM, f);
    print_label(at, HEIGHT - BOTTOM + 16, "middle", text, f);
}

/* Powers of ten, as many as there is room for. */
static void print_decades(const frame *r, FILE *f)
{
    char text[32];
    double step = ceil((r->x1 - r->x0) / (2 * TICKS));
    for (double v = ceil(r->x0); v <= r->x1; v += step < 1 ? 1 : step) {
        snprintf(text, sizeof text, "%g", pow(10, v));
        print_x_tick(at_x(r, pow(10, v)), text, f);
    }
}

/* As many digits as tell neighbours apart. */
static int digits_of(double low, double high, double step)
{
    double most = fmax(fabs(low), fabs(high)), digits = ceil(log10(most / step) + 0.001) + 1,
           whole = floor(log10(most)) + 1; /* 12000, not 1.2e+04 */
    if (whole > digits && whole <= 7) digits = whole;
    return !(digits > 4) ? 4 : digits > 12 ? 12 : (int)digits;
}

static void print_axes(const frame *r, FILE *f)
{
    char text[32];
    double step = tick_step(r->y1 - r->y0);
    int digits = digits_of(r->y0, r->y1, step);
    for (int i = 0; i < 3 * TICKS; i++) {
        double v = (ceil(r->y0 / step) + i) * step;
        if (v > r->y1 + step / 1000) break;
        print_rule(LEFT, at_y(r, v), WIDTH - RIGHT, at_y(r, v), f);
        snprintf(text, sizeof text, "%.*g", digits, fabs(v) < step / 1000 ? 0 : v);
        print_label(LEFT - 6, at_y(r, v) + 4, "end", text, f);
    }
    if (r->log_x) {
        print_decades(r, f);
        return;
    }
    step = tick_step(r->x1 - r->x0);
    for (int i = 0; i < 3 * TICKS; i++) {
        double v = (ceil(r->x0 / step) + i) * step;
        if (v > r->x1 + step / 1000) break;
        snprintf(text, sizeof text, "%.6g", fabs(v) < step / 1000 ? 0 : v);
        print_x_tick(at_x(r, v), text, f);
    }
}

static void print_line(const frame *r, const ot_svg_line *l, FILE *f)
{
    bool first = true;
    fprintf(f, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" d=\"", l->colour);
    for (int i = 0; i < l->n; i++) {
        if (!isfinite(l->x[i]) || !isfinite(l->y[i])) continue;
        fputc(first ? 'M' : 'L', f);
        print_number(at_x(r, l->x[i]), f), fputc(' ', f), print_number(at_y(r, l->y[i]), f);
        first = false;
    }
    fputs("\"/>\n", f);
    for (int i = 0; i < l->n && l->points; i++) {
        if (!isfinite(l->x[i]) || !isfinite(l->y[i])) continue;
        fputs("<circle cx=\"", f), print_number(at_x(r, l->x[i]), f), fputs("\" cy=\"", f);
        print_number(at_y(r, l->y[i]), f), fprintf(f, "\" r=\"2.5\" fill=\"%s\"/>\n", l->colour);
    }
}

/* Each text on a line of its own, left of the mark where there is no room at its right. */
static void print_mark(const frame *r, const ot_svg_mark *m, int row, FILE *f)
{
    double x = at_x(r, m->x);
    bool left = x + 6 * (double)strlen(m->text) > WIDTH - RIGHT;
    fputs("<path d=\"M", f), print_number(x, f), fprintf(f, " %dL", TOP), print_number(x, f);
    fprintf(f, " %d\" stroke=\"%s\" stroke-dasharray=\"4 3\" fill=\"none\"/>\n", HEIGHT - BOTTOM, m->colour);
    fputs("<g stroke=\"white\" stroke-width=\"3\" paint-order=\"stroke\">", f); /* readable over a curve */
    print_label(left ? x - 5 : x + 5, TOP + 12 + 15 * row, left ? "end" : "start", m->text, f);
    fputs("</g>\n", f);
}

void ot_svg_print(const ot_svg_chart *c, FILE *f)
{
    frame r = { .log_x = c->log_x };
    bool any = find_frame(c, &r);
    fprintf(f,
            "<svg %sviewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"11\" fill=\"currentColor\">\n",
            c->file ? "xmlns=\"http://www.w3.org/2000/svg\" " : "", WIDTH, HEIGHT, WIDTH, HEIGHT);
    if (c->file) fprintf(f, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", WIDTH, HEIGHT);
    fprintf(f, "<text x=\"%d\" y=\"18\" font-size=\"14\" font-weight=\"bold\">", LEFT);
    ot_html_text(c->title, f);
    fputs("</text>\n", f);
    if (any) print_axes(&r, f);
    else print_label(WIDTH / 2, HEIGHT / 2, "middle", "no values yet", f);
    print_label(WIDTH - RIGHT, HEIGHT - 6, "end", c->x_name, f);
    for (int k = 0, x = LEFT; k < c->n && any; k++) {
        const ot_svg_line *l = &c->line[k];
        print_line(&r, l, f);
        fprintf(f, "<rect x=\"%d\" y=\"28\" width=\"10\" height=\"10\" fill=\"%s\"/>\n", x, l->colour);
        print_label(x + 14, 37, "start", l->name, f);
        x += 30 + 7 * (int)strlen(l->name);
    }
    for (int k = 0; k < c->n_marks && any; k++) print_mark(&r, &c->mark[k], k, f);
    fputs("</svg>\n", f);
}
