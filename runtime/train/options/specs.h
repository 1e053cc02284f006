/* specs.h - the grammar of what has parameters: name:key=value,key=[1,2]. */
#ifndef OT_SPECS_H
#define OT_SPECS_H

#include "runtime/base/registry.h"

/* Parses text into *out and holds every value against what its key wants; strings and lists go to the arena.
 *   known    what may stand before the colon
 *   outputs  NULL, or names of the model's outputs, NULL-ended: the text may begin with the longest of them that is followed
 *            by '='
 * Errors: OT_E_USAGE (what is wrong and what would be right), OT_E_NOMEM. */
ot_status ot_spec_parse(const char *text, const ot_registry *known, const char *const *outputs, ot_arena *a,
                        ot_spec *out, ot_error *err);

/* Adds or replaces a parameter that is one number. */
ot_status ot_spec_set(ot_spec *t, const char *key, double v, ot_arena *a, ot_error *err);

#endif
