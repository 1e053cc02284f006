/* specs.h - the grammar of things with parameters: name:key=value,key=[1,2]. */
#ifndef OT_SPECS_H
#define OT_SPECS_H

#include "runtime/passes/passes.h"

/* What a loss takes as a target. */
typedef enum ot_takes {
    OT_TAKES_VALUES,    /* numbers in the shape of the output */
    OT_TAKES_CLASSES,   /* class numbers: that shape without the class axis; or a share for each class: all of it */
    OT_TAKES_NUMBERS,   /* class numbers only */
    OT_TAKES_EITHER,    /* class numbers, or values in the shape of the output */
    OT_TAKES_VECTORS,   /* a number per vector along the last axis of the output */
    OT_TAKES_SEQUENCES, /* class numbers, any number per sample */
    OT_TAKES_NOTHING
} ot_takes;

/* What may stand before the colon, and the keys each of them knows. */
typedef struct ot_spec_kind {
    const char *name;
    const char *keys;   /* separated by blanks */
    const char *common; /* keys of every thing of this sort; may be NULL */
    const char *needs;  /* the keys it cannot do without; may be NULL */
    ot_takes takes;     /* losses */
} ot_spec_kind;

extern const ot_spec_kind ot_losses[], ot_optimizers[], ot_schedules[]; /* ended by a NULL name */

/* Parses text into *out and holds every value against what its key wants; strings and lists go to the arena.
 *   sort     "loss", for messages
 *   known    one of the tables above
 *   outputs  NULL, or names of the model's outputs, NULL-ended: the text may begin with the longest
 * of them that is followed by '=' Errors: OT_E_USAGE (what is wrong and what would be right),
 * OT_E_NOMEM. */
ot_status ot_spec_parse(const char *text, const char *sort, const ot_spec_kind *known,
                         const char *const *outputs, ot_arena *a, ot_spec *out, ot_error *err);

const ot_spec_kind *ot_loss_kind(const ot_spec *loss); /* its row of ot_losses */

/* Adds or replaces a parameter that is one number. */
ot_status ot_spec_set(ot_spec *t, const char *key, double v, ot_arena *a, ot_error *err);

/* What the values of a key must be, in words ("a number above 0"), in the arena; NULL: no such key. */
const char *ot_key_wants(const char *key, ot_arena *a);

/* word is one of the blank-separated words; words may be NULL. */
bool ot_has_word(const char *words, const char *word);

/* Insertions, deletions, replacements and swaps that make b of a, at most `limit` + 1. */
int ot_edit_distance(const char *a, const char *b, int limit);

#endif
