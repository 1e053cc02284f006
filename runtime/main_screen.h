/* main_screen.h - what a run shows. */
#ifndef OT_MAIN_SCREEN_H
#define OT_MAIN_SCREEN_H

#include "runtime/onnxtrain.h"

typedef struct screen {
    bool terminal, quiet, verbose, colour;
    bool line;       /* a progress line is not terminated yet */
    bool headed;     /* the table of epochs has its first line */
    bool log_lost;   /* standard output did not accept a line of the log */
    long long every; /* --log-every: a line each so many updates; 0: as it comes */
    double shown;    /* when the last progress line was written */
} screen;

/* Whether stderr is a terminal, and takes colours (NO_COLOR, TERM).  log_every: of --log-every, or NULL. */
void screen_open(screen *s, bool quiet, bool verbose, const char *log_every);

void screen_clear(screen *s); /* removes an unfinished line */

/* For ot_callbacks; user: the screen.  epoch is set on terminals only: elsewhere lines tell it. */
void screen_message(void *user, ot_level level, const char *text);
void screen_progress(void *user, const ot_progress *p);
void screen_epoch(void *user, const ot_epoch *e);

/* "570 samples/s", "8.1e+05 tokens/s", or "2.3 s per step" of slow ones; step: seconds of one, NaN: unknown. */
const char *screen_rate(double samples, long long tokens, double step, char buf[64]);

/* A mapped file that another program cuts ends this one with OT_E_IO and a message, not with a signal; main_bus.c. */
void screen_catch_bus(void);

/* A printable form of the text; the last four stay valid. */
const char *shown(const char *text);

#endif
