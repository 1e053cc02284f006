/* fetch.h - downloads named data sets, whose sizes and hashes are known. */
#ifndef OT_DATA_FETCH_H
#define OT_DATA_FETCH_H

#include "runtime/base/base.h"

typedef struct ot_fetch_options {
    const char *to;     /* folder in which the set's folder is; NULL: $ONNXTRAIN_DATA, else the user's data folder */
    const char *mirror; /* https, http or file URL that replaces the address of the set; NULL: none */
    void *user;
    void (*tell)(void *user, const char *line);
    void (*progress)(void *user, const char *file, int64_t done, int64_t all, double seconds); /* bytes */
} ot_fetch_options;

const char *ot_fetch_missing(void); /* the library that this build is without; NULL: it has all */

/* Downloads what the folder of set `name` does not have yet, and checks what it has.  A file appears complete and with the right
 * hash, or not at all.  Errors: OT_E_USAGE (name, mirror), OT_E_IO (network, a size or a hash that differs, folder), OT_E_NOMEM. */
ot_status ot_fetch_set(const char *name, const ot_fetch_options *o, ot_error *err);

#endif
