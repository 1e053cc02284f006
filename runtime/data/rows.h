/* rows.h - rows of text, read one at a time: delimited text, JSON lines, sentences of CoNLL, plain lines.
 *
 * Spec      RFC 4180: quotes, doubled quotes, line ends in quotes, CR LF. Also a semicolon or a tab if the first line has
 *           more of them; spaces around a field; empty lines between rows. Plain, .gz or .zst.
 *           JSON lines: an object in each line; the first row has the names of the first object's members, and a row what each
 *           object has under them; a list of numbers is as many cells, name.0, name.1 ...; another list is one cell (ot_rows_list).
 *           Lines: one cell, "text" is its name.
 *           CoNLL: a word on each line, its columns separated by tabs or, if the first line has none, by blanks; an empty line between
 *           sentences, and lines -DOCSTART-, which are skipped.  A row is a sentence, as the object of lists of strings that JSON lines
 *           have: "tokens", "2", "3" ..., "tags".
 *           A folder: cells "text" and "label"; each file in a class folder is a row, each line of the files beside them too,
 *           whose classes are what differs in their names (reviews.pos, reviews.neg).
 * Memory    A buffer that holds the longest row; the file may be larger than memory. */
#ifndef OT_ROWS_H
#define OT_ROWS_H

#include "runtime/data/internal.h"

enum { OT_MOST_COLUMNS = 1 << 16 };

typedef struct ot_rows {
    char **cell; /* of the current row: trimmed, without quotes, 0-terminated; valid until the next row */
    int n;
    int64_t line; /* the row's first line, from 1 */
    bool names;   /* the first row is names of columns, whatever it looks like */
    const char *path;
    struct ot_rows_state *state;
} ot_rows;

/* What a file is instead of delimited text: marks beside separators.  TAGGED: JSON lines in which a list of whole numbers that is
 * as long as a list of words in the first line is one cell, too: a tag for each word. */
enum { OT_ROWS_JSON = 1, OT_ROWS_LINES = 2, OT_ROWS_FOLDER = 3, OT_ROWS_TAGGED = 4, OT_ROWS_CONLL = 5 };

/* Rows are objects whose members are columns, some of them lists. */
static inline bool ot_rows_has_objects(char mark)
{
    return mark == OT_ROWS_JSON || mark == OT_ROWS_TAGGED || mark == OT_ROWS_CONLL;
}

/* Opens the file at `path` (borrowed); the caller closes r, also after a failure.  mark: the separator; 0: the most frequent
 * of comma, semicolon and tab in the first line.  Errors: OT_E_IO, OT_E_DATA, OT_E_NOMEM. */
ot_status ot_rows_open(ot_rows *r, const char *path, char mark, ot_error *err);

/* The next row that is not empty; *more false: there is none.  Rows may have different numbers of cells.  Errors: OT_E_DATA
 * naming the line (a quote that is not closed, a zero byte, more than OT_MOST_COLUMNS cells), OT_E_IO, OT_E_NOMEM (a packed
 * file that unpacks to far more than it says). */
ot_status ot_rows_next(ot_rows *r, bool *more, ot_error *err);

void ot_rows_close(ot_rows *r);

/* Of an open file: the character between columns; else what it is instead (OT_ROWS_JSON ...). */
char ot_rows_separator(const ot_rows *r);

/* What list a cell of the current row is: without elements, of strings, of whole numbers, of anything. */
typedef enum ot_list { OT_LIST_NONE, OT_LIST_EMPTY, OT_LIST_WORDS, OT_LIST_WHOLE, OT_LIST_OTHER, OT_LISTS } ot_list;
ot_list ot_rows_list(const ot_rows *r, int cell, size_t *n); /* *n: how many elements; NULL is allowed */
const char *ot_rows_word(const ot_rows *r, int cell, size_t i);
int64_t ot_rows_whole(const ot_rows *r, int cell, size_t i);

/* The mark that a file's name tells, also packed: a tab for .tsv and .tab, OT_ROWS_JSON for .jsonl and .ndjson, OT_ROWS_LINES
 * for .txt, OT_ROWS_CONLL for .conll, .bio, .iob and .iob2; else 0. */
char ot_rows_mark(const char *path);

#endif
