/* registry.h - what users choose by name (optimizers, losses, schedules, data formats ...), and the keys that each takes.
 *
 * A registry is the only place that lists its names: the grammar, the help, the tables of the documents and the texts of
 * errors are made from it. */
#ifndef OT_REGISTRY_H
#define OT_REGISTRY_H

#include <math.h>

#include "runtime/base/base.h"

typedef enum ot_key_kind {
    OT_KEY_FLAG,
    OT_KEY_WORD, /* one of `words` */
    OT_KEY_WHOLE,
    OT_KEY_NUMBER,
    OT_KEY_OUTPUT, /* the name of an output of the model */
    OT_KEY_TEXT    /* of the form `words` */
} ot_key_kind;

typedef enum ot_key_count {
    OT_KEY_ONE,
    OT_KEY_LIST,
    OT_KEY_EITHER, /* one or a list */
    OT_KEY_RISING  /* one or a list in ascending order */
} ot_key_count;

typedef struct ot_key {
    const char *name;
    const char *dflt;    /* its value where it is not given, as a user would write it; NULL: none */
    const char *without; /* dflt NULL: what stands for it, in words; NULL too: it must be given */
    const char *meaning; /* one line */
    ot_key_kind kind;
    ot_key_count count;
    const char *words; /* WORD: separated by blanks; TEXT: "CxHxW" */
    double least, most;
    bool above, below; /* least, most themselves are not possible */
} ot_key;

#define OT_KEYS_END              { .name = NULL }
#define OT_KEY_EXACT             0x1p53 /* whole numbers up to here are exact in a double */
#define OT_KEY_AT_LEAST(v)       .least = (v), .most = INFINITY
#define OT_KEY_ABOVE(v)          .least = (v), .most = INFINITY, .above = true
#define OT_KEY_FROM(v, w)        .least = (v), .most = (w)
#define OT_KEY_FROM_BELOW(v, w)  .least = (v), .most = (w), .below = true
#define OT_KEY_ANY               .least = -INFINITY, .most = INFINITY
#define OT_KEY_COUNT_FROM(v)     .least = (v), .most = OT_KEY_EXACT /* whole numbers */

typedef struct ot_entry {
    const char *name;
    const char *meaning; /* one line */
    const ot_key *keys;  /* ended by OT_KEYS_END; NULL: none */
} ot_entry;

typedef struct ot_registry {
    const char *sort;               /* "optimizer": what one of them is called */
    const char *meaning;            /* one line */
    const ot_entry *const *entries; /* ended by NULL */
} ot_registry;

const ot_entry *ot_registry_find(const ot_registry *r, const char *name); /* NULL: no such entry */
const ot_key *ot_entry_key(const ot_entry *e, const char *name);          /* NULL: it has no such key */

/* "sgd, adam, adamw", in the arena; "" without memory. */
const char *ot_registry_names(const ot_registry *r, ot_arena *a);
const char *ot_entry_key_names(const ot_entry *e, ot_arena *a); /* "lr momentum": separated by blanks */

/* Says that there is no such entry: the nearest name, where one is near, and all of them.  what: "optimizer", "new: kind".
 * Returns OT_E_USAGE. */
ot_status ot_registry_unknown(const ot_registry *r, const char *what, const char *name, ot_arena *a, ot_error *err);

/* ---- one that was chosen: name:key=value,key=[1,2] ------------------------------------------ */

typedef struct ot_param {
    const char *key;
    const char *text; /* the value as written */
    double num;       /* the value as a number, NaN if it is none; true/false are 1/0 */
    int n;            /* elements of a list; 0: no list */
    const double *list;
} ot_param;

typedef struct ot_spec {
    const char *output; /* losses: "cls=..."; NULL: the only one */
    const char *name;
    int n;
    const ot_param *param;
    const ot_entry *entry; /* whose defaults hold; NULL: nobody has looked the name up yet */
} ot_spec;

const ot_param *ot_spec_find(const ot_spec *t, const char *key); /* NULL: not given */

/* As given, else the key's default.  Without either: NaN, false, NULL.  A number is asked of a key that the entry has. */
double ot_spec_num(const ot_spec *t, const char *key);
bool ot_spec_flag(const ot_spec *t, const char *key);
const char *ot_spec_text(const ot_spec *t, const char *key);
bool ot_spec_is(const ot_spec *t, const char *key, const char *word); /* is the text this word? */

/* ---- values ----------------------------------------------------------------------------------- */

double ot_key_number(const char *text); /* "1.5" -> 1.5, "true" -> 1; NaN: a word */

bool ot_key_fits(const ot_key *k, const ot_param *p);

/* What values must be, in words ("a number above 0"), in the arena; NULL: no memory. */
const char *ot_key_wants(const ot_key *k, ot_arena *a);

/* Insertions, deletions, replacements and swaps that make b of a, at most `limit` + 1. */
int ot_edit_distance(const char *a, const char *b, int limit);

#endif
