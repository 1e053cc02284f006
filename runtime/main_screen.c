/* main_screen.c - progress: on a terminal a bar within its width and a table of epochs, else lines. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "runtime/main_screen.h"

enum { MOST = 400, BAR = 30, LEAST_BAR = 8 };

const char *shown(const char *text)
{
    static char kept[4][8192];
    static int at;
    at = (at + 1) % 4;
    return ot_shown(text, kept[at], sizeof *kept);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void screen_open(screen *s, bool quiet, bool verbose, const char *log_every)
{
    const char *term = getenv("TERM"), *none = getenv("NO_COLOR");
    *s = (screen){ .quiet = quiet, .verbose = verbose, .shown = now() };
    s->terminal = isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
    s->colour = s->terminal && !(none && *none);
    s->every = log_every ? (long long)strtod(log_every, NULL) : 0;
}

void screen_clear(screen *s)
{
    if (s->line) fputs("\r\033[K", stderr);
    s->line = false;
}

void screen_message(void *user, ot_level level, const char *text)
{
    screen *s = user;
    if (s->quiet && level != OT_WARNING) return;
    if (level == OT_DETAIL && !s->verbose) return;
    screen_clear(s);
    bool yellow = level == OT_WARNING && s->colour;
    fprintf(stderr, "%s%s%s%s\n", yellow ? "\033[33m" : "", level == OT_WARNING ? "warning: " : "",
            yellow ? "\033[0m" : "", text);
}

/* Columns of the terminal: its own answer, else COLUMNS, else 80. */
static int width(void)
{
    struct winsize w;
    const char *columns = getenv("COLUMNS");
    int n = !ioctl(STDERR_FILENO, TIOCGWINSZ, &w) ? w.ws_col : 0;
    if (n <= 0 && columns) n = atoi(columns);
    return n <= 0 ? 80 : n > MOST ? MOST : n;
}

static const char *time_text(double seconds, char buf[32])
{
    long n = seconds > 0 && seconds < 1e9 ? (long)(seconds + 0.5) : 0;
    if (n >= 3600) snprintf(buf, 32, "%ldh%02ldm", n / 3600, n / 60 % 60);
    else if (n >= 60) snprintf(buf, 32, "%ldm%02lds", n / 60, n % 60);
    else snprintf(buf, 32, "%lds", n);
    return buf;
}

const char *screen_rate(double samples, long long tokens, double step, char buf[64])
{
    double each = tokens > 0 ? samples * (double)tokens : samples;
    if (each < 1 && step > 0) snprintf(buf, 64, step < 10 ? "%.2f s per step" : "%.0f s per step", step);
    else snprintf(buf, 64, each < 10 ? "%.2g %s/s" : "%.0f %s/s", each, tokens > 0 ? "tokens" : "samples");
    return buf;
}

/* Resident memory of this process; "": unknown. */
static const char *memory_text(char buf[32])
{
    long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    bool known = f && fscanf(f, "%*d %lld", &pages) == 1;
    if (f) fclose(f);
    double bytes = (double)pages * (double)sysconf(_SC_PAGESIZE);
    if (!known) *buf = '\0';
    else if (bytes < 1e10) snprintf(buf, 32, "%.0f MB", bytes / 1e6);
    else snprintf(buf, 32, "%.1f GB", bytes / 1e9);
    return buf;
}

/* ---- a line ------------------------------------------------------------------------------ */

/* Parts are added while they fit; what does not fit is skipped. */
typedef struct parts {
    char text[MOST + 1];
    int n, room;
} parts;

static void add(parts *l, const char *text)
{
    int n = (int)strlen(text), gap = l->n ? 2 : 0;
    if (!n || l->n + gap + n > l->room) return;
    l->n += sprintf(l->text + l->n, "%*s%s", gap, "", text);
}

/* The most important parts first; what is left of the width is the bar's. */
static void print_bar(screen *s, const ot_progress *p)
{
    char text[128], part[64];
    parts l = { .room = width() - 1 };
    double share = p->of_epoch > 0 ? (double)p->in_epoch / (double)p->of_epoch : 0;
    if (p->file) snprintf(text, sizeof text, "%s", shown(p->file));
    else if (p->evaluating) snprintf(text, sizeof text, "evaluating");
    else snprintf(text, sizeof text, "epoch %lld/%lld", (long long)p->epoch, (long long)p->epochs);
    add(&l, text);
    int bar_at = l.n;
    snprintf(text, sizeof text, "%3.0f %%", 100 * share);
    add(&l, text);
    if (!isnan(p->loss)) snprintf(text, sizeof text, "loss %.4g", p->loss), add(&l, text);
    l.room -= LEAST_BAR + 4;
    double step = p->step > 0 ? p->seconds / (double)p->step : (double)NAN;
    if (!isnan(p->left)) snprintf(text, sizeof text, "%s left", time_text(p->left, part)), add(&l, text);
    if (p->rate > 0) add(&l, screen_rate(p->rate, p->tokens, step, part));
    if (!p->file) add(&l, memory_text(part));
    l.room += LEAST_BAR + 4;
    int bar = l.room - l.n - 4 > BAR ? BAR : l.room - l.n - 4;
    fprintf(stderr, "\r\033[K%.*s", bar_at, l.text);
    if (bar >= LEAST_BAR) {
        fputs("  [", stderr);
        for (int i = 0; i < bar; i++) fputc(i < (int)(share * bar) ? '=' : i == (int)(share * bar) ? '>' : ' ', stderr);
        fputc(']', stderr);
    }
    fputs(l.text + bar_at, stderr);
    s->line = true;
    fflush(stderr);
}

static void print_line(screen *s, const ot_progress *p)
{
    char part[64], left[32];
    double step = p->step > 0 ? p->seconds / (double)p->step : (double)NAN;
    const char *rate = screen_rate(p->rate, p->tokens, step, part);
    screen_clear(s);
    if (p->file) {
        fprintf(stderr, "%s: %lld of %lld bytes", shown(p->file), (long long)p->step, (long long)p->steps);
        if (!isnan(p->left)) fprintf(stderr, ", %s left", time_text(p->left, left));
        fputc('\n', stderr);
        return;
    }
    if (p->evaluating) {
        fprintf(stderr, "evaluating: batch %lld/%lld  %s", (long long)p->step, (long long)p->steps, rate);
        if (!isnan(p->left)) fprintf(stderr, "  %s left", time_text(p->left, left));
        fputc('\n', stderr);
        return;
    }
    fprintf(stderr, "epoch %lld/%lld  step %lld/%lld  loss %.5g", (long long)p->epoch, (long long)p->epochs,
            (long long)p->step, (long long)p->steps, p->loss);
    if (p->losses) fprintf(stderr, " (%s)", shown(p->losses));
    if (!isnan(p->accuracy)) fprintf(stderr, "  accuracy %.2f %%", 100 * p->accuracy);
    fprintf(stderr, "  %s  %s", rate, time_text(p->seconds, left));
    if (p->step < p->steps && !isnan(p->left)) fprintf(stderr, ", %s left", time_text(p->left, left));
    fputc('\n', stderr);
    fflush(stderr);
}

/* On a terminal the bar, at most ten times a second.  Else, and with --log-every, lines: of each so many updates, or of
 * each epoch, and every ten seconds within long ones. */
void screen_progress(void *user, const ot_progress *p)
{
    screen *s = user;
    if (s->quiet) return;
    double t = now();
    if (s->every && !p->evaluating && !p->file && p->step % s->every == 0) {
        print_line(s, p);
        s->shown = t;
        return;
    }
    if (s->terminal) {
        if (!p->epoch_ends && t - s->shown < 0.1) return;
        s->shown = t;
        print_bar(s, p);
        return;
    }
    if (!p->epoch_ends && (s->every || t - s->shown < 10)) return;
    if (p->epoch_ends && p->step < p->steps && t - s->shown < 0.5) return;
    s->shown = t;
    print_line(s, p);
}

/* ---- the table of epochs -------------------------------------------------------------------- */

static const char *number(double v, char buf[32])
{
    if (isnan(v)) *buf = '\0';
    else snprintf(buf, 32, "%.4g", v);
    return buf;
}

void screen_epoch(void *user, const ot_epoch *e)
{
    screen *s = user;
    char epoch[48], lr[32], train[32], loss[32], accuracy[32] = "", took[32], name[32] = "", other[48] = "",
                                                 watched[48] = "";
    if (s->quiet) return;
    screen_clear(s);
    if (e->split) snprintf(name, sizeof name, "%.12s loss", e->split);
    if (e->metric) snprintf(other, sizeof other, "%10s ", e->metric);
    if (e->metric) snprintf(watched, sizeof watched, "%10s ", number(e->value, lr));
    if (!s->headed)
        fprintf(stderr, "%s%7s %9s %10s %10s %9s %s%7s%s\n", s->colour ? "\033[1m" : "", "epoch", "lr", "train loss",
                name, isnan(e->accuracy) ? "" : "accuracy", other, "time", s->colour ? "\033[0m" : "");
    s->headed = true;
    snprintf(epoch, sizeof epoch, "%lld/%lld", (long long)e->epoch, (long long)e->epochs);
    if (!isnan(e->accuracy)) snprintf(accuracy, sizeof accuracy, "%.2f %%", 100 * e->accuracy);
    if (e->seconds < 10) snprintf(took, sizeof took, "%.1fs", e->seconds);
    else time_text(e->seconds, took);
    fprintf(stderr, "%7s %9s %10s %10s %9s %s%7s%s\n", epoch, number(e->lr, lr), number(e->train_loss, train),
            number(e->loss, loss), accuracy, watched, took,
            !e->best    ? ""
            : s->colour ? " \033[32m*\033[0m"
                        : " *");
    fflush(stderr);
}
