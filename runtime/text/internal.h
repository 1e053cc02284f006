/* internal.h - what the files of this folder share. */
#ifndef OT_TEXT_INTERNAL_H
#define OT_TEXT_INTERNAL_H

#include "runtime/text/text.h"

/* ---- table.c: hash tables that only grow ------------------------------------------------------ */

typedef struct ot_string_table {
    struct ot_string {
        const char *p; /* borrowed; NULL: free */
        uint32_t n;
        int32_t value;
    } *slot;
    size_t room, used;
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
bool ot_is_control(uint32_t c);     /* categories Cc, Cf, Cs, Co, but for tab and line ends */
bool ot_is_punctuation(uint32_t c); /* as BERT has it */

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
extern const bool ot_has_unicode; /* the library was there at build */

/* ---- words.c ---------------------------------------------------------------------------------- */

/* The end of the word that begins at p; p < end, all of it UTF-8. */
typedef const char *(*ot_word)(const char *p, const char *end);

ot_word ot_pattern(const char *regex); /* NULL: not known */
const char *ot_word_gpt2(const char *p, const char *end);

/* BERT's: blanks separate words and are none, punctuation is words of one character.  *p: the beginning of the next; false: none. */
bool ot_word_bert(const char **p, const char *end, const char **stop);

/* ---- models ----------------------------------------------------------------------------------- */

typedef struct ot_bpe {
    ot_pairs merges;
    int32_t byte[256]; /* -1: none */
    bool whole;        /* a word that is a token stays one */
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
