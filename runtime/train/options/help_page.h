/* help_page.h - a text that is being printed: help, manual page, completion. */
#ifndef OT_HELP_PAGE_H
#define OT_HELP_PAGE_H

#include <stdio.h>

#include "runtime/base/base.h"

typedef struct ot_help_page {
    FILE *f;
    ot_arena *a; /* for parts of it */
    bool markdown;
    bool lost; /* there was no memory for a part */
    size_t size;
} ot_help_page;

/* Everything is printed between the two; close also after a failed open.  s: what failed in between.  On success *text is
 * the caller's, for free(); else NULL. */
ot_status ot_help_open(ot_help_page *p, char **text, ot_error *err);
ot_status ot_help_close(ot_help_page *p, ot_status s, char **text, ot_error *err);

/* text, of which "" and NULL say that there was no memory for it: noted. */
const char *ot_help_part(ot_help_page *p, const char *text);

#endif
