/* inspect.h - functions that inspect, check, plan, ops and env share: pages of text or JSON. */
#ifndef OT_INSPECT_H
#define OT_INSPECT_H

#include <jansson.h>
#include <stdio.h>

#include "runtime/train/run/dry_run.h"

/* A page that is being written: text, or with --json a JSON object. */
typedef struct ot_page {
    FILE *f;      /* NULL: JSON */
    json_t *json; /* NULL: text, or memory ran out (ot_json_set), which ot_page_close reports */
    bool lost;    /* memory ran out before the page was written to */
    char *text;
    size_t size;
} ot_page;

ot_status ot_page_open(ot_page *p, bool json, ot_error *err);
ot_status ot_page_close(ot_page *p, char **text, ot_error *err); /* caller frees *text with free() */

/* "[N,1,28,28]", with symbolic names where the file has them. */
const char *ot_symbolic_shape(const ot_value *v, char buf[256]);

json_t *ot_json_lines(const char *lines); /* an array of strings */

#endif
