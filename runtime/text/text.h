/* text.h - tokenizers: text to numbers of tokens and back, as Hugging Face's tokenizers library does it. */
#ifndef OT_TEXT_H
#define OT_TEXT_H

#include <jansson.h>

#include "runtime/base/base.h"

typedef struct ot_tokenizer ot_tokenizer;

/* Numbers of tokens, in order. */
typedef struct ot_ids {
    int32_t *id; /* malloc'ed; the caller frees it */
    int64_t n, room;
} ot_ids;

/* The tokenizer of a file (tokenizer.json, vocab.txt of BERT, vocab.json with merges.txt beside it) or of a folder with one of
 * these, as JSON in the form of tokenizer.json.  The caller releases *out.  Errors: OT_E_DATA, OT_E_IO, OT_E_NOMEM. */
ot_status ot_tokenizer_load(const char *path, json_t **out, ot_error *err);

/* A tokenizer from such JSON; `name` is for messages.  Errors: OT_E_DATA: malformed, or a part that is not supported, by
 * name; OT_E_NOMEM. */
ot_status ot_tokenizer_new(const json_t *config, const char *name, ot_tokenizer **out, ot_error *err);
void ot_tokenizer_free(ot_tokenizer *t); /* NULL is allowed */

/* One more than the largest number of a token. */
int64_t ot_tokenizer_size(const ot_tokenizer *t);

/* Appends the tokens of n bytes of text; specials: with those that the tokenizer puts around a text ([CLS] ... [SEP]).
 * Errors: OT_E_DATA: no UTF-8, with the byte; OT_E_NOMEM. */
ot_status ot_tokenizer_encode(ot_tokenizer *t, const char *text, size_t n, bool specials, ot_ids *out, ot_error *err);

/* The same of a word of a list of words.  Where words are bytes, it begins with a blank, as with add_prefix_space: so does what is
 * between added tokens in it. */
ot_status ot_tokenizer_word(ot_tokenizer *t, const char *word, size_t n, ot_ids *out, ot_error *err);

/* The tokens that are put around a text, those in front first; borrowed.  *front, *behind: how many. */
const int32_t *ot_tokenizer_around(const ot_tokenizer *t, int *front, int *behind);

/* A part of what two texts become. */
enum { OT_FIRST_TEXT = -1, OT_SECOND_TEXT = -2 };
typedef struct ot_text_part {
    int32_t id; /* of a token, or one of these */
    int type;   /* token_type_ids of its tokens */
} ot_text_part;

/* The parts of two texts, in order, each text once; borrowed.  *n 0: the tokenizer says nothing of two texts that is supported. */
const ot_text_part *ot_tokenizer_pair(const ot_tokenizer *t, int *n);

/* The bytes of a token, as they stand in a text; NULL: there is no such token.  *special: it is no text. */
const char *ot_tokenizer_token(const ot_tokenizer *t, int64_t id, size_t *n, bool *special);

/* The same without marks inside of words; *blank: a blank is in front of it, unless the text begins with it. */
const char *ot_tokenizer_piece(const ot_tokenizer *t, int64_t id, size_t *n, bool *blank, bool *special);

int64_t ot_tokenizer_mask(const ot_tokenizer *t); /* the token that replaces a masked one; -1: none */
int64_t ot_tokenizer_pad(const ot_tokenizer *t);  /* the token that fills up short texts; -1: none */

#endif
