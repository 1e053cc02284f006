/* registry.h - named choices of users (optimizers, losses, schedules, data formats ...), and the keys of each.
 *
 * A registry is the only place that lists its names: the grammar, the help, the tables of the documents and error
 * messages are generated from it. */
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
    const char *dflt;    /* the default, as a user would write it; NULL: none */
    const char *without; /* dflt NULL: a description of the default; NULL too: the key is required */
    const char *meaning; /* one line */
    ot_key_kind kind;
    ot_key_count count;
    const char *words; /* WORD: separated by blanks; TEXT: "CxHxW" */
    double least, most;
    bool above, below; /* the bounds themselves are excluded */
    const char *also;  /* numbers: a word that the value may be instead; NULL: none */
} ot_key;

#define OT_KEYS_END              { .name = NULL }
#define OT_KEY_EXACT             0x1p53 /* whole numbers up to this are exact in a double */
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
    const char *sort;               /* "optimizer": what an entry is called */
    const char *meaning;            /* one line */
    const ot_entry *const *entries; /* ended by NULL */
} ot_registry;

const ot_entry *ot_registry_find(const ot_registry *r, const char *name); /* NULL: no such entry */
const ot_key *ot_entry_key(const ot_entry *e, const char *name);          /* NULL: it has no such key */

/* "sgd, adam, adamw", in the arena; "" without memory. */
const char *ot_registry_names(const ot_registry *r, ot_arena *a);
const char *ot_entry_key_names(const ot_entry *e, ot_arena *a); /* "lr momentum": separated by blanks */

/* Reports an unknown entry: the nearest name, if one is near, and all names.  what: "optimizer", "new: kind".
 * Returns OT_E_USAGE. */
ot_status ot_registry_unknown(const ot_registry *r, const char *what, const char *name, ot_arena *a, ot_error *err);

/* ---- one that was chosen: name:key=value,key=[1,2] ------------------------------------------ */

typedef struct ot_param {
    const char *key;
    const char *text; /* the value as written */
    double num;       /* the value as a number, NaN if it is none; true/false are 1/0 */
    int n;            /* elements of a list; 0: not a list */
    const double *list;
} ot_param;

typedef struct ot_spec {
    const char *output; /* losses: "cls=..."; NULL: the only one */
    const char *name;
    int n;
    const ot_param *param;
    const ot_entry *entry; /* its defaults apply; NULL: the name has not been looked up yet */
} ot_spec;

const ot_param *ot_spec_find(const ot_spec *t, const char *key); /* NULL: not given */

/* The given value, else the key's default.  Without either: NaN, false, NULL.  The entry must have the key. */
double ot_spec_num(const ot_spec *t, const char *key);
bool ot_spec_flag(const ot_spec *t, const char *key);
const char *ot_spec_text(const ot_spec *t, const char *key);
bool ot_spec_shares(const ot_spec *a, const ot_spec *b);              /* are they of the same output? */
bool ot_spec_is(const ot_spec *t, const char *key, const char *word); /* is the text equal to this word? */

/* ---- values ----------------------------------------------------------------------------------- */

double ot_key_number(const char *text); /* "1.5" -> 1.5, "true" -> 1; NaN: a word */

bool ot_key_fits(const ot_key *k, const ot_param *p);

/* A description of valid values ("a number above 0"), in the arena; NULL: no memory. */
const char *ot_key_wants(const ot_key *k, ot_arena *a);

/* The number of insertions, deletions, replacements and swaps that change a to b, at most `limit` + 1. */
int ot_edit_distance(const char *a, const char *b, int limit);

#endif
