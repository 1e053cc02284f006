/* json.h - JSON that is built of texts of users and files, where memory may end. */
#ifndef OT_JSON_H
#define OT_JSON_H

#include <jansson.h>

#include "runtime/base/base.h"

/* A text of the user's or of a file; bytes that are no UTF-8, which JSON cannot hold, as escapes.  NULL: no memory. */
json_t *ot_json_text(const char *s);

/* Puts v, which it takes, into an object, and at the end of a list.  Where there is no memory, also for v (NULL), what it
 * should be in is given up: *to becomes NULL, and stays it. */
void ot_json_set(json_t **to, const char *key, json_t *v);
void ot_json_add(json_t **to, json_t *v);

/* The same for a number; one that is none is null and named in the object's "nonfinite". */
void ot_json_real(json_t **to, const char *key, double v);

/* A number; null if it is not finite.  NULL: no memory. */
json_t *ot_json_number(double v);

/* As json_dumps, which leaves out parts of the text where memory ends.  Caller frees; NULL: no memory. */
char *ot_json_dump(const json_t *v, size_t flags);

/* Parses n bytes; *out NULL: they are no JSON, and *why says where.  Errors: OT_E_NOMEM. */
ot_status ot_json_parse(const char *text, size_t n, json_t **out);
ot_status ot_json_parse_or(const char *text, size_t n, json_t **out, json_error_t *why);

/* n bytes as a string.  Errors, without a message: OT_E_DATA (they are no UTF-8), OT_E_NOMEM. */
ot_status ot_json_utf8(const char *text, size_t n, json_t **out);

#endif
