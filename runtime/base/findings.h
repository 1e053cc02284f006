/* findings.h - findings about a model or a run, for the user.
 *
 * Any part of the library adds findings; the caller prints the list in order of importance.  A finding about many
 * nodes is one entry with their number and the first of their names. */
#ifndef OT_FINDINGS_H
#define OT_FINDINGS_H

#include "runtime/base/base.h"

typedef enum ot_severity {                     /* in order of importance */
                           OT_FINDING_ERROR,   /* the model cannot be trained */
                           OT_FINDING_WARNING, /* it can, but the result is probably not as intended */
                           OT_FINDING_NOTE     /* what was decided, and why */
} ot_severity;

enum { OT_FINDING_NAMES = 3 };

typedef struct ot_finding {
    ot_severity severity;
    const char *what;                   /* one line, without names of nodes */
    const char *remedy;                 /* remedy, one line; "": none */
    int n;                              /* number of nodes or tensors; 0: the whole model */
    const char *name[OT_FINDING_NAMES]; /* the first of their names */
} ot_finding;

typedef struct ot_findings {
    ot_arena *a; /* owns everything below */
    int n, cap;
    ot_finding *list;
    bool lost; /* no memory for a finding, or for a part of it */
} ot_findings;

/* Adds a finding about `name` (NULL: the whole model).  If it exists, its number of names grows by one.  Texts are
 * copied.  Without memory f->lost is set; with f NULL nothing is added. */
void ot_find(ot_findings *f, ot_severity s, const char *name, const char *remedy, const char *what, ...)
    OT_PRINTF(5, 6);

void ot_find_all(ot_findings *f, const ot_findings *more);            /* copies those that f does not have */
void ot_find_lines(ot_findings *f, ot_severity s, const char *lines); /* each line a finding; NULL is allowed */

/* The findings of one severity, a line each; "": none; NULL: no memory, now or when one was added.  Belongs to the
 * list's arena. */
const char *ot_findings_text(const ot_findings *f, ot_severity s);

/* "what (3: a, b, c): remedy"; of the arena; NULL: no memory. */
const char *ot_finding_line(const ot_finding *x, ot_arena *a);

const char *ot_severity_name(ot_severity s); /* "error", "warning", "note" */

#endif
