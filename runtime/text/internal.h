/* internal.h - what the files of this folder share. */
#ifndef OT_TEXT_INTERNAL_H
#define OT_TEXT_INTERNAL_H

#include "runtime/base/keyed_hash.h"
#include "runtime/text/text.h"

/* ---- table.c: hash tables that only grow ------------------------------------------------------ */

typedef struct ot_string_table {
    struct ot_string {
        const char *p; /* borrowed; NULL: free */
        uint32_t n;
        int32_t value;
    } *slot;
    size_t room, used;
    ot_hash_key key;
} ot_string_table;

int32_t ot_string_table_get(const ot_string_table *s, const char *p, size_t n); /* -1: not in it */
bool ot_string_table_put(ot_string_table *s, const char *p, size_t n,
                         int32_t value); /* false: no memory; keeps a value that is there */

typedef struct ot_pairs {
    struct ot_pair {
        uint64_t key; /* left << 32 | right; all ones: free */
        int32_t rank, made;
    } *slot;
    size_t room, used;
} ot_pairs;

const struct ot_pair *ot_pairs_get(const ot_pairs *s, int32_t left, int32_t right); /* NULL: not in it */
bool ot_pairs_put(ot_pairs *s, int32_t left, int32_t right, int32_t rank, int32_t made);

/* ---- unicode.c -------------------------------------------------------------------------------- */

bool ot_is_letter(uint32_t c);
bool ot_is_digit(uint32_t c);       /* category N */
bool ot_is_blank(uint32_t c);       /* White_Space */
bool ot_is_mark(uint32_t c);        /* category Mn */
bool ot_is_accent(uint32_t c);      /* category M */
bool ot_is_control(uint32_t c);     /* categories Cc, Cf, Cs, Co, but for tab and line ends */
bool ot_is_punctuation(uint32_t c); /* as BERT has it */
bool ot_is_word(uint32_t c);        /* \w: letters, marks, digits, connectors */
bool ot_is_joiner(uint32_t c);      /* U+200C, U+200D: which some count as \w */
int ot_category(uint32_t c);        /* the number that utf8proc gives it, 0 to 29 */
uint32_t ot_to_lower(uint32_t c);
uint32_t ot_to_upper(uint32_t c);

size_t ot_character(const char *p, size_t left); /* bytes of the character at p, at most `left`; left > 0 */
const char *ot_skip_blanks(const char *p, const char *end);
const char *ot_back_over_blanks(const char *from, const char *p); /* from its end p */

/* Bytes that grow. */
typedef struct ot_bytes_buffer {
    char *p;
    size_t n, room;
} ot_buffer;
bool ot_buffer_add(ot_buffer *b, const char *p, size_t n);
bool ot_buffer_char(ot_buffer *b, uint32_t c);

typedef enum ot_normal { OT_NFC, OT_NFD, OT_NFKC, OT_NFKD } ot_normal;
bool ot_normal_form(ot_normal form, const char *p, size_t n, ot_buffer *out); /* false: no memory */
bool ot_lower_case(const char *p, size_t n, ot_buffer *out);
size_t ot_grapheme(const char *p, size_t left); /* bytes of the extended grapheme cluster at p; left > 0 */
extern const bool ot_has_unicode;               /* the library was there at build */

/* ---- words.c ---------------------------------------------------------------------------------- */

/* The end of the word that begins at p; p < end, all of it UTF-8. */
typedef const char *(*ot_word)(const char *p, const char *end);

ot_word ot_pattern(const char *regex); /* NULL: not known */
const char *ot_word_gpt2(const char *p, const char *end);

const char *ot_word_plain(const char *p, const char *end); /* \w+|[^\w\s]+ ; p itself at a blank */

/* ---- regex.c ------------------------------------------------------------------------------------- */

typedef struct ot_regex ot_regex;

/* In the arena; `text` is borrowed.  Errors: OT_E_DATA: not supported, with the reason; OT_E_NOMEM. */
ot_status ot_regex_new(const char *text, const char *name, ot_arena *a, ot_regex **out, ot_error *err);
const char *ot_regex_match(ot_regex *r, const char *p, const char *end); /* the end of the match at p; NULL: none */
bool ot_regex_tired(
    const ot_regex *r); /* it has given up: texts take it the square of their length; matches are lost */

/* ---- normalizer.c, cutter.c ---------------------------------------------------------------------- */

const char *ot_config_text(const json_t *v, const char *key); /* NULL: there is none */
bool ot_config_flag(const json_t *v, const char *key, bool dflt);
ot_status ot_text_unsupported(const char *name, const char *what, const char *which, ot_error *err);

/* A "normalizer" and a "pre_tokenizer" of tokenizer.json (NULL and null: none); in the arena but for what _free frees, also
 * after an error (NULL is allowed).  Errors: OT_E_DATA: not supported, by its name; OT_E_NOMEM. */
typedef struct ot_normalizer ot_normalizer;
ot_status ot_normalizer_new(const json_t *v, const char *name, ot_arena *a, ot_normalizer **out, ot_error *err);
void ot_normalizer_free(ot_normalizer *z);
bool ot_normalizer_run(ot_normalizer *z, const char **p, size_t *n); /* valid until the next run; false: no memory */
bool ot_normalizer_tired(const ot_normalizer *z);                    /* one of its expressions has given up; NULL: no */

typedef struct ot_cutter ot_cutter;
typedef bool ot_word_taker(void *user, const char *p, size_t n); /* false: no memory */
ot_status ot_cutter_new(const json_t *v, const char *name, ot_arena *a, ot_cutter **out, ot_error *err);
void ot_cutter_free(ot_cutter *c);
bool ot_cutter_is_byte_level(
    const ot_cutter *c); /* its words are bytes, those of the vocabulary GPT-2's characters for them */

/* Every word of a part of a text; first: the text begins with it. */
bool ot_cutter_run(ot_cutter *c, const char *p, size_t n, bool first, ot_word_taker *take, void *user);
bool ot_cutter_tired(const ot_cutter *c); /* as ot_normalizer_tired */

/* ---- decoder.c ------------------------------------------------------------------------------------ */

/* A "decoder" of tokenizer.json; without one (NULL, null) that of byte-level words where `bytes`, else blanks between tokens.
 * suffix: that ends a word in the vocabulary and is a blank in a text; NULL: none.  In the arena but for what _free frees,
 * also after an error (NULL is allowed).  Errors: OT_E_DATA: not supported, by its name; OT_E_NOMEM. */
typedef struct ot_decoder ot_decoder;
ot_status ot_decoder_new(const json_t *v, const char *suffix, bool bytes, const char *name, ot_arena *a,
                         ot_decoder **out, ot_error *err);
void ot_decoder_free(ot_decoder *d);
bool ot_decoder_run(ot_decoder *d, const char **p, size_t *n); /* valid until the next run; false: no memory */

/* Of a token's text the part that is put into a text; *blank: with a blank in front, unless the text begins with it. */
const char *ot_decoder_piece(const ot_decoder *d, const char *p, size_t *n, bool *blank);

/* The bytes that GPT-2's characters stand for, at most n; false: there are other characters. */
bool ot_bytes_of(const char *key, size_t n, char *to, size_t *size);

/* ---- template.c ------------------------------------------------------------------------------------ */

enum { OT_MOST_SPECIALS = 16 };

typedef struct ot_template {
    const char *name;
    int64_t size;                         /* tokens */
    int32_t around[2 * OT_MOST_SPECIALS]; /* those in front of a text, then those behind it */
    int n_front, n_behind;
    ot_text_part pair[2 * OT_MOST_SPECIALS];
    int n_pair;
    bool given;
} ot_template;

/* A "post_processor" of tokenizer.json (NULL, null: none), of a vocabulary of `size`.  Errors: OT_E_DATA: not supported, by its
 * name, or a token that is not there. */
ot_status ot_template_read(ot_template *t, const json_t *v, const char *name, int64_t size, ot_error *err);

/* ---- models ----------------------------------------------------------------------------------- */

typedef struct ot_bpe {
    ot_pairs merges;
    int32_t byte[256];           /* tokens of single bytes, as they are or as <0x41>; -1: none */
    bool by_byte;                /* a word is cut into bytes, else into characters */
    bool whole;                  /* a word that is a token stays one */
    bool fallback, fuse;         /* an unknown character becomes bytes; unknown ones in a row are one */
    int32_t unknown;             /* -1: unknown characters are skipped */
    const char *prefix, *suffix; /* of all but the first, of the last character of a word */
    size_t prefix_n, suffix_n;
    ot_buffer piece;
    int32_t n; /* symbols */
    struct ot_symbol *symbol;
    struct ot_merge *heap;
    size_t room, heap_room;
} ot_bpe;

typedef struct ot_wordpiece {
    const char *prefix;
    size_t prefix_n;
    int32_t unknown;
    int64_t longest; /* characters */
    ot_buffer piece;
} ot_wordpiece;

/* ---- unigram.c ---- */

typedef struct ot_text_piece {
    const char *p;
    uint32_t n;
    int32_t id;
} ot_text_piece;

typedef struct ot_pieces {
    ot_text_piece *list; /* in ot_piece_order */
    int32_t n;
} ot_pieces;

typedef struct ot_piece_range { /* of pieces that begin with the same bytes */
    int32_t low, high;
} ot_piece_range;

int ot_piece_order(const void *a, const void *b); /* by their bytes, for qsort */

/* The part of r whose byte `depth` is c. */
ot_piece_range ot_pieces_narrow(const ot_pieces *s, ot_piece_range r, uint32_t depth, unsigned char c);
int32_t ot_pieces_exact(const ot_pieces *s, ot_piece_range r, size_t n); /* the one of n bytes; -1: none */

typedef struct ot_unigram {
    ot_pieces pieces;
    const double *score; /* by number; -INFINITY: the piece is not used */
    double unknown_score;
    int32_t unknown; /* what a character becomes that is no piece */
    bool single;     /* sums are f32 */
    struct ot_ending *best;
    size_t room;
} ot_unigram;

/* Each piece of the best way over a text, in order; false: no memory. */
typedef bool ot_piece_taker(void *user, int32_t id, const char *p, size_t n);
bool ot_unigram_run(ot_unigram *u, const char *text, size_t n, ot_piece_taker *take, void *user);

/* ---- charsmap.c ---- */

typedef struct ot_charsmap {
    const uint8_t *trie; /* NULL: there are no rules */
    uint32_t units;
    const char *texts;
    size_t n_texts;
} ot_charsmap;

/* From base64, in the arena.  Errors: OT_E_DATA, OT_E_NOMEM. */
ot_status ot_charsmap_read(const char *base64, const char *name, ot_arena *a, ot_charsmap *m, ot_error *err);

/* Bytes of the longest (else the shortest) rule for what begins at p; 0: none.  *to: its replacement, 0-terminated. */
size_t ot_charsmap_find(const ot_charsmap *m, const char *p, const char *end, bool longest, const char **to);

/* ---- sentencepiece.c ---- */

typedef struct ot_sentencepiece ot_sentencepiece;

/* The n bytes of a .model file as JSON: {"model": {"type": "SentencePiece", ...}}; scores are the bits of their f32, which no
 * printing changes.  Errors: OT_E_DATA, OT_E_NOMEM. */
ot_status ot_sentencepiece_load(const char *path, const void *bytes, size_t n, json_t **out, ot_error *err);

/* From the member "model" of such JSON; in the arena but for what ot_sentencepiece_free frees (also after an error; NULL is
 * allowed). */
ot_status ot_sentencepiece_new(const json_t *m, const char *name, ot_arena *a, ot_sentencepiece **out, ot_error *err);
void ot_sentencepiece_free(ot_sentencepiece *s);
int32_t ot_sentencepiece_size(const ot_sentencepiece *s);
const char *ot_sentencepiece_piece(const ot_sentencepiece *s, int32_t i, size_t *n, bool *special);
int ot_sentencepiece_byte(const char *p, size_t n);                                      /* of <0x41>; -1: it is none */
bool ot_sentencepiece_encode(ot_sentencepiece *s, const char *p, size_t n, ot_ids *out); /* false: no memory */

bool ot_ids_add(ot_ids *out, int32_t id);
bool ot_bpe_word(ot_bpe *m, const ot_string_table *vocab, const char *p, size_t n, ot_ids *out); /* false: no memory */
bool ot_wordpiece_word(ot_wordpiece *m, const ot_string_table *vocab, const char *p, size_t n, ot_ids *out);

#endif
