/* table.h - tables in parts: kinds of columns, the words of a column, and how columns become inputs.
 *
 *   file ─table_columns.c→ columns and their kinds ─table_targets.c table_inputs.c→ fields of every input
 *        ─table_arrays.c→ arrays ─table_fit.c→ standardised
 *        ─texts.c→ a column of texts as numbers of tokens ─tags.c→ a column of tags as a class for each token
 *
 * A field is a column in one input.  table_record.c writes fields as JSON (ot_dataset.preprocess) and reads them. */
#ifndef OT_TABLE_H
#define OT_TABLE_H

#include <locale.h>

#include "runtime/base/json.h"
#include "runtime/base/keyed_hash.h"
#include "runtime/data/rows.h"

/* ---- cells: cells.c ---------------------------------------------------------------------- */

typedef enum ot_cell {
    OT_CELL_MISSING, /* nothing, ? or NA */
    OT_CELL_NAN,     /* a number that is none: nan */
    OT_CELL_NULL,    /* null, None, N/A ...; None may be a class of a target */
    OT_CELL_NUMBER,
    OT_CELL_CODE, /* a number with zeros in front: 007 */
    OT_CELL_BOOLEAN,
    OT_CELL_DATE,
    OT_CELL_TIME, /* with a time of day */
    OT_CELL_TEXT,
    OT_CELLS
} ot_cell;

/* What a cell holds; *v: the number, 0 or 1, or the days since 1970-01-01 (UTC).  point: numbers with a decimal point. */
ot_cell ot_cell_of(const char *text, locale_t point, double *v);

/* Is it a number as tables have always had them (also nan and inf)?  */
bool ot_cell_number(const char *text, locale_t point, double *v);

/* Is it a whole number, also one such as 4.0, and was it written as one? */
bool ot_is_whole(double v);
bool ot_cell_whole(const char *text, double v);

/* Whether a number is written with one comma where others have a point: 1,5 or 1.268,5.  With three digits behind it, as in 1,234, it may
 * separate thousands. */
typedef enum ot_comma { OT_COMMA_NONE, OT_COMMA_DECIMAL, OT_COMMA_THOUSAND, OT_COMMAS } ot_comma;
ot_comma ot_cell_comma(const char *text);

/* May its points separate thousands: 1.268, 12.500.000, 1.268,5? */
bool ot_cell_grouped(const char *text);

/* Year, month, day, weekday (0 is Monday), hours since midnight. */
enum { OT_DATE_PARTS = 4, OT_TIME_PARTS = 5 };
void ot_date_parts(double days, double part[OT_TIME_PARTS]);
extern const char *const ot_date_part[OT_TIME_PARTS];

/* ---- words: words.c ---------------------------------------------------------------------- */

/* The distinct texts of a column.  Until they are sorted a word's number is the order of its first appearance. */
typedef struct ot_words {
    int n;
    bool full;         /* there were more than `most` */
    const char **word; /* in the arena */
    int *slot;         /* open addressing: number + 1; 0: free */
    ot_hash_key key;
    size_t slots;
    int64_t bytes;
} ot_words;

/* Adds a word if it is new; its text is copied.  Errors: OT_E_NOMEM. */
ot_status ot_words_add(ot_words *w, const char *text, int most, ot_arena *a, const char *path, ot_error *err);
int ot_words_find(const ot_words *w, const char *text); /* -1: it is none of them */
void ot_words_sort(ot_words *w);                        /* whole numbers by size, others by bytes */
void ot_words_free(ot_words *w);                        /* the slots; words are the arena's */

/* ---- columns ----------------------------------------------------------------------------- */

typedef enum ot_kind {
    OT_KIND_NUMBER,
    OT_KIND_CATEGORY,
    OT_KIND_BOOLEAN,
    OT_KIND_DATE,
    OT_KIND_TIME,
    OT_KIND_LABEL, /* texts that all differ: an identifier */
    OT_KIND_EMPTY,
    OT_KIND_IMAGE, /* names of image files */
    OT_KINDS
} ot_kind;

extern const char *const ot_kind_name[OT_KINDS];

/* The first cell of a column that is ..., by its line; 0: there is none. */
typedef struct ot_first {
    int64_t line;
    const char *text;
} ot_first;

typedef struct ot_column {
    const char *name;
    int64_t count[OT_CELLS];
    int64_t bytes;  /* of all cells */
    int64_t whole;  /* numbers that are written as whole ones */
    int64_t exact;  /* whole numbers, however they are written */
    int64_t beyond; /* numbers other than 0 and 1 */
    int64_t commas[OT_COMMAS];
    int64_t points;   /* numbers with a decimal point that separates no thousands */
    int64_t grouped;  /* points may separate thousands */
    int64_t texts;    /* no numbers, with comma or point; not missing */
    int64_t listed;   /* lists of JSON lines */
    bool strings;     /* some of them are of strings */
    int64_t nones;    /* None, which may be a class of a target */
    ot_first lost;    /* missing, and not None */
    ot_first none;    /* None */
    ot_first odd;     /* neither a number nor missing */
    ot_first undated; /* neither a date nor missing */
    int64_t cells;    /* counted so far */
    double first;     /* its first cell, a number, and */
    int64_t counted;  /* cells that count on from it: 0, 1, 2 ... */
    ot_kind kind;
    bool named;     /* a category by --categories, or a target recorded as one, whatever it holds */
    bool passed;    /* not standardised, by --passthrough */
    ot_words words; /* of a category, and of a target of texts */
} ot_column;

typedef enum ot_column_form {
    OT_FORM_VALUE,
    OT_FORM_ID,
    OT_FORM_ONE_HOT,
    OT_FORM_PARTS, /* of a date */
    OT_FORM_TEXT,
    OT_FORM_IMAGE,
    OT_FORMS
} ot_column_form;

extern const char *const ot_column_form_name[OT_FORMS];

typedef struct ot_column_field {
    int column; /* of the file */
    const char *name;
    ot_kind kind;
    ot_column_form form;
    int at, width;   /* elements of a row of the input */
    ot_words *words; /* ID, ONE_HOT */
    bool own;        /* missing values are a category of their own, the last */
    bool measured;   /* fill, mean and std are known */
    bool scaled;     /* standardised, when they are */
    double fill[OT_TIME_PARTS], mean[OT_TIME_PARTS], std[OT_TIME_PARTS];
    int64_t missing, unknown; /* cells of the file */
    int64_t missing_line, unknown_line;
    const char *unknown_word;
} ot_column_field;

typedef struct ot_table_input {
    const char *name; /* of the array; "": the only one */
    const char *of;   /* of the model's input; "": not known */
    ot_dtype dtype;   /* of the array: float32, int64 or string */
    ot_shape shape;   /* of a sample */
    bool gaps;        /* the model fills in missing values */
    bool scales;      /* the model begins with a scaler of it */
    int n, array;
    ot_column_field *field;
    int64_t *member; /* of images: by row, the number of the file in d->members; field is the column; else NULL */
} ot_table_input;

typedef struct ot_texts ot_texts;

typedef struct ot_goal {
    const char *name; /* of the array */
    int n, array;
    int *column;
    bool text;
    bool tags;       /* each cell is a list: a class for each word of the text (tags.c) */
    int64_t *member; /* of masks, as in ot_table_input; else NULL */
} ot_goal;

/* Samples that are windows of rows.  length 0: samples are rows. */
typedef struct ot_row_windows {
    int64_t length, stride, ahead; /* rows; ahead: from the last one to that of the target */
} ot_row_windows;

/* Rows of one time series among those of a table: --group. */
typedef struct ot_row_series {
    int64_t first, rows;
    int64_t samples; /* windows that lie in it */
} ot_row_series;

struct ot_columns {
    const char *path;
    const char *folder, *real; /* where its images are, as given and without links; NULL: not needed yet */
    int images;                /* columns of them */
    bool sounds;               /* some are of recordings */
    char mark, separator;      /* as it was opened with; as it is, see ot_rows_separator */
    int commas;                /* columns that comma has; 0: not known yet */
    bool *comma;               /* the numbers of the column have a decimal comma; points in them separate thousands */
    bool grouped;              /* some of them have such points */
    bool header, odd_header;   /* the file names the columns; some name is a number */
    int columns;
    int64_t rows, first_line;
    bool regular;  /* row i is on line first_line + i */
    int64_t *line; /* else of each row */
    ot_column *column;
    ot_data_options options; /* as it was opened */
    const char *target;      /* as --target has it; NULL: the rule */
    int n_inputs, n_targets;
    ot_table_input *input;
    ot_goal *wanted;   /* the targets */
    ot_texts *text;    /* NULL: no column goes to the model as tokens */
    bool mapped;       /* some column is more than numbers */
    bool recorded;     /* the fields are those of a trained model */
    ot_split part;     /* of its rows, which are read, if split_column says what part each is of */
    int split_column;  /* -1: all rows are read */
    bool scattered;    /* rows of other parts are between those of a series that are read */
    int group_column;  /* whose cells name the series of each row; -1: all rows are one */
    const char *group; /* its name, also while the columns have none; NULL: neither an option nor the model names one */
    ot_words series;   /* these names, in the order of the file */
    ot_words cut;      /* of those of which a row of another part follows */
    ot_row_series *part_of_rows; /* by number in `series`; NULL: all rows are one series */
    int64_t *place;              /* of row i of the file among those that are read, series by series; NULL: i */
    int *order, n_order; /* columns in the order of a model that takes numbers as they are; NULL: as in the file */
    bool *ordered;       /* of each column: it is one of them; NULL with order */
    bool pending;        /* something has yet to be measured */
    bool scaled;         /* numbers are standardised, for every input */
    ot_row_windows windows;
    const int64_t
        *window; /* of series: the first row of each sample; NULL: a window begins every windows.stride rows */
    bool fitted; /* nothing is left to be measured */
    locale_t point;
};

ot_status ot_table_no_memory(const ot_columns *t, ot_error *err); /* the error of an allocation that fails */

/* ---- samples that are windows of rows: row_windows.c ---- */

#define OT_ROW_WINDOWS_KEY "windows" /* of the record in a trained model: {"length": 12, "stride": 1, "ahead": 1} */

/* Sets t->windows by --length or what the model records, unless --length has another meaning for the table (tokens, recordings), and
 * takes their axis from the shapes of t->options.input.  Errors: OT_E_USAGE: an input takes no windows, or of another length. */
ot_status ot_row_windows_choose(ot_dataset *d, ot_columns *t, ot_error *err);
void ot_row_windows_record(const ot_columns *t, json_t **root);
/* Whether the column of a target is an input, too: its values up to the last row of a window are known. */
bool ot_row_windows_reads_target(const ot_columns *t, const ot_goal *w);
void ot_row_windows_drop_target(ot_dataset *d, ot_columns *t); /* of predictions, where a row has none */
/* Makes the arrays of rows arrays of windows.  Errors: OT_E_DATA: too few rows. */
ot_status ot_row_windows_make(ot_dataset *d, ot_columns *t, ot_error *err);
int64_t ot_row_windows_rows(const ot_columns *t, const ot_array *a);      /* that the samples of an input cover */
int64_t ot_row_windows_last(const ot_columns *t, int64_t sample);         /* the last row of a sample */
const char *ot_row_windows_hint(const ot_data_input *in, char text[128]); /* for tables that do not fit; "": none */

/* ---- several series in one table: row_series.c ---- */

#define OT_ROW_GROUP_KEY "group" /* in the record of windows: the column */

/* Sets t->group_column by --group, or what the model records, and the first row.  *names: it has names.  Errors: OT_E_DATA: there is
 * no such column. */
ot_status ot_row_series_find(ot_dataset *d, ot_columns *t, const ot_rows *first, bool *names, ot_error *err);
/* Notes of a row which series it is of, and of one of another part that it cuts it.  Errors: OT_E_DATA: it names none. */
ot_status ot_row_series_note(ot_dataset *d, ot_columns *t, const ot_rows *r, bool reads, ot_error *err);
/* Puts the rows of a series together, in the order of the file. */
ot_status ot_row_series_arrange(ot_dataset *d, ot_columns *t, ot_error *err);
/* Sets t->window, and *samples.  need: rows of a window with its target.  Errors: OT_E_DATA: no series has so many. */
ot_status ot_row_series_cut(ot_dataset *d, ot_columns *t, int64_t need, int64_t *samples, ot_error *err);
/* Whether a column only names the series: it is no input unless --inputs names it. */
bool ot_row_series_apart(const ot_columns *t, int column);
/* (*used)[row]: it is in a sample of an input, in d.  NULL: the rows are no series. */
ot_status ot_row_series_used(const ot_dataset *d, const ot_array *a, const bool **used, ot_error *err);
void ot_row_series_forget(ot_columns *t);

/* ---- parts that a column names: table_parts.c ---- */

/* The column of the first row that an option names.  Errors: OT_E_DATA: there is none. */
ot_status ot_table_find_named(const ot_columns *t, const ot_rows *first, const char *name, const char *option,
                              int *column, ot_error *err);

/* Sets t->split_column by --split and the first row, which has names.  Errors: OT_E_DATA: there is no such column. */
ot_status ot_table_find_parts(ot_columns *t, const ot_rows *first, ot_error *err);

/* Is a row of the part that is read?  Errors: OT_E_DATA: it is of none. */
ot_status ot_table_reads_row(const ot_columns *t, const ot_rows *r, bool *reads, ot_error *err);

/* Says that a column whose words are all names of parts is not used so.  Errors: OT_E_NOMEM. */
ot_status ot_table_hint_parts(ot_dataset *d, const ot_columns *t, ot_error *err);

/* Says how many rows are read.  Errors: OT_E_DATA: there are none. */
ot_status ot_table_tell_part(ot_dataset *d, const ot_columns *t, ot_error *err);

/* ---- columns of the file: table_columns.c ---- */

/* Calls f with every row of data, in order.  Errors: those of f and of ot_rows_next; OT_E_IO: the file has changed. */
typedef ot_status ot_row_function(void *user, const ot_rows *r, int64_t row, ot_error *err);
ot_status ot_table_each_row(const ot_columns *t, ot_row_function *f, void *user, ot_error *err);

/* Reads the file for its columns, their kinds and the number of rows.  Errors: those of ot_rows_next; OT_E_DATA: no rows, or a
 * column alone. */
ot_status ot_table_find_columns(ot_dataset *d, ot_columns *t, ot_error *err);

/* Sets t->mapped: the inputs are more than numbers; then numbers with zeros in front are codes. */
void ot_table_find_mapping(ot_columns *t);

/* Reads the categories of inputs, and the classes of targets.  A column of nothing but different texts is an identifier.  Errors:
 * OT_E_DATA: a text is not UTF-8. */
ot_status ot_table_collect_words(ot_dataset *d, ot_columns *t, ot_error *err);

int64_t ot_column_missing(const ot_column *q);             /* cells without a value, None included */
int ot_column_find(const ot_columns *t, const char *name); /* the column of that name; -1: there is none */
bool ot_table_is_target(const ot_columns *t, int column);

/* Refuses a column with a cell of text among numbers or dates, where nine of ten cells are these.  input false: it is a target.  Errors: OT_E_DATA. */
ot_status ot_table_check_stray(const ot_columns *t, const ot_column *q, bool input, ot_error *err);

/* ---- lists of columns, "a,b" and "NAME=a,b;NAME=c": table_lists.c ---- */

/* The columns that a list of names such as "a,b" names; list: room for t->columns.  what: the option, for messages.  Errors:
 * OT_E_DATA: no such column, or more names than columns. */
ot_status ot_table_columns(const ot_columns *t, const char *text, const char *what, int *list, int *n, ot_error *err);

/* The same of text up to `end`; the columns behind a minus are marked in `without`, unless that is NULL. */
ot_status ot_table_read_list(const ot_columns *t, const char *text, const char *end, const char *what, int *list,
                             int *n, bool *without, ot_error *err);

/* The end of the group at p, and where the list behind its name begins: *list is p where it has none. */
const char *ot_table_group_end(const char *p, const char **list);

/* The columns of a list of numbers in JSON lines, name.0, name.1 ...: how many, and from *first on; 0: there is none of that name. */
int ot_table_columns_of_list(const ot_columns *t, const char *name, size_t length, int *first);

/* Names of columns in an error: at most so many of the thousands of a wide table, and a line that says how many more.  OT_E_DATA. */
enum { OT_TABLE_MOST_NAMES = 20 };
ot_status ot_table_list_rest(int n, ot_error *err);
ot_status ot_table_list_columns(const ot_columns *t, ot_error *err);
ot_status ot_table_no_column(const ot_columns *t, const char *text, const char *end, const char *what, ot_error *err);

/* ---- arrays: table_arrays.c ---- */

/* Adds an array for every input and every target that is not tags.  Errors: OT_E_NOMEM. */
ot_status ot_table_add_arrays(ot_dataset *d, ot_columns *t, ot_error *err);

/* Fills these arrays with the rows of the file, and tells missing and unknown values.  Errors, by its line: OT_E_DATA. */
ot_status ot_table_fill(ot_dataset *d, ot_columns *t, ot_error *err);

/* ---- a column of texts as tokens: texts.c ---- */

/* Sets t->text if --tokenizer, --text or what is recorded in the model says that a column of t goes to its input of tokens, and
 * takes that input, and those beside it, from t->options.  Errors: OT_E_DATA: no input takes tokens, or no column is text. */
ot_status ot_texts_find(ot_dataset *d, ot_columns *t, ot_error *err);
bool ot_texts_known(const ot_data_options *o);    /* whether the model that the data are for records such a column */
bool ot_texts_has(const ot_texts *x, int column); /* whether it is one of those that go there */
const char *ot_texts_input(const ot_texts *x);    /* the name of the input of tokens */

/* Adds the arrays: tokens, and masks and positions beside them.  Errors: OT_E_DATA, by its line: a text is not UTF-8, or no list of
 * words where others are. */
ot_status ot_texts_read(ot_dataset *d, ot_columns *t, ot_error *err);
int64_t ot_texts_length(const ot_texts *x);                         /* tokens of each sample, when they are read */
const char *ot_texts_record(const ot_texts *x, const char **input); /* JSON, and the input that it is for */
bool ot_texts_are_words(const ot_texts *x); /* a text is a list of words, each of which is tokenized alone */
/* Where the first token of each word is in sample `row`; -1: it has none, or is behind the last one that has room.  *n: words. */
const int32_t *ot_texts_words(const ot_texts *x, int64_t row, int64_t *n);
void ot_texts_forget(ot_texts *x); /* frees what is not in the arena; NULL is allowed */

/* ---- a column of tags: tags.c ---- */

/* Adds an array (rows, tokens) of each target of tags: the class number where the first token of a word is, OT_IGNORED elsewhere.
 * Errors: OT_E_DATA, by its line: no list, or not as many tags as words. */
ot_status ot_tags_read(ot_dataset *d, ot_columns *t, ot_error *err);

/* ---- columns ---- */

/* The column that element e of a sample of array a comes from; NULL: a is not of one. */
const ot_column *ot_table_column_of(const ot_dataset *d, const ot_array *a, int64_t e);

/* *known: a cell of the first row, which is no number, is the name of a column that the model was trained with, or that an option
 * names, or the row has all names that the model was trained with: then it is a header.  apart: no other row has one of its cells.
 * Errors: OT_E_NOMEM. */
ot_status ot_table_knows_name(const ot_columns *t, const char *const *first, bool apart, bool *known, ot_error *err);

/* Marks the columns of --categories, other than targets, and of --passthrough, or tells that the model records its columns.  Errors:
 * OT_E_DATA: there is none of a name, or a category is of images. */
ot_status ot_table_name_columns(ot_dataset *d, ot_columns *t, ot_error *err);

/* Which columns the targets are, by --target, by what was recorded, or by the rule: `target`, else, of texts, `label`, else the last one. */
ot_status ot_table_choose_targets(ot_dataset *d, ot_columns *t, ot_error *err);

/* The input of a model that is not known (command data). */
extern const ot_data_input ot_table_any_input;

/* *name: one that two columns have; NULL: all differ. */
ot_status ot_table_name_twice(const ot_columns *t, const char **name, ot_error *err);

int64_t ot_table_elements(const ot_data_input *in); /* of a sample that the input takes; -1: any number */

/* The shape of a sample of n elements: the model's where it has as many. */
ot_shape ot_table_sample(const ot_data_input *in, int64_t n);

/* Which columns go to which input of the model, and in which form. */
ot_status ot_table_choose_inputs(ot_dataset *d, ot_columns *t, ot_error *err);

/* The fields that a trained model has recorded, found in t by the names of their columns.  *found false: nothing that is
 * recorded is a table.  Errors: OT_E_DATA: a column is missing. */
ot_status ot_table_recall(ot_dataset *d, ot_columns *t, bool *found, ot_error *err);
/* Says of a training where --inputs replaces the columns of tables that the model records.  Errors: OT_E_NOMEM. */
ot_status ot_table_tell_anew(ot_dataset *d, const ot_columns *t, ot_error *err);
bool ot_table_recorded(
    const ot_data_options *o); /* whether the model that the data are for records columns of a table */
ot_status ot_table_recall_target(const ot_columns *t, ot_arena *a, const char **out, ot_error *err);

/* *is: the numbers of that target are names of classes, by --categories or as the model records.  Errors: OT_E_DATA: --categories
 * names a column that is not there; OT_E_NOMEM. */
ot_status ot_table_names_classes(ot_dataset *d, const ot_columns *t, int column, bool *is, ot_error *err);

/* Sets t->order if the model records columns of numbers that it takes as they are, and the file names one of them at least.
 * Errors: OT_E_DATA: another one is missing, or there twice. */
ot_status ot_table_recall_order(ot_dataset *d, ot_columns *t, ot_error *err);

/* ---- columns of files of images or recordings: table_files.c ------------------------------- */

bool ot_table_takes_images(const ot_columns *t, const ot_data_input *in); /* or recordings, if t->sounds */

/* *is: the text names a file below the folder of the table, which may be an image.  Errors: OT_E_NOMEM, OT_E_IO. */
ot_status ot_table_names_image(ot_dataset *d, ot_columns *t, const char *text, bool *is, ot_error *err);

/* Sets the kind of columns that are names of images, and t->images.  Errors: as above. */
ot_status ot_table_find_images(ot_dataset *d, ot_columns *t, ot_error *err);

/* The file that a cell of r names: its number in d->members.  Errors: OT_E_DATA (there is none, it leads elsewhere), OT_E_IO. */
ot_status ot_table_add_file(ot_dataset *d, const ot_columns *t, const ot_rows *r, int column, int64_t *at,
                            ot_error *err);

/* Makes arrays of the inputs whose files are all added. */
ot_status ot_table_finish_images(ot_dataset *d, ot_columns *t, ot_error *err);

/* The columns that are the target of images where nothing names them: the last of images, which are masks, if they are more than
 * the inputs that take images; else all others if they are numbers and nothing else uses them, else the last; n 0: there is
 * none.  Sets d->column. */
ot_status ot_table_labels(ot_dataset *d, const ot_columns *t, int *list, int *n, ot_error *err);

/* only: the model has no other input. */
ot_status ot_table_image_input(ot_dataset *d, const ot_columns *t, int column, const ot_data_input *of, bool only,
                               ot_table_input *in, ot_error *err);

/* Frees what is not in the arena. */
void ot_table_forget(ot_columns *t);

/* Of a recorded number.  With one more, jansson aborts where it has no memory for the digits (lex_unget_unsave). */
enum { OT_TABLE_DIGITS = 8 };

/* The JSON of t's fields, in d->arena. */
ot_status ot_table_record(const ot_dataset *d, const ot_columns *t, const char **out, ot_error *err);

/* The model's own record with another target.  *out NULL: it has this one. */
ot_status ot_table_record_target(const ot_dataset *d, const ot_columns *t, const char **out, ot_error *err);

/* Of a table of numbers that are taken as they are: the names of its columns, beside what the model records otherwise.  *out NULL:
 * they have no names, or two have the same. */
ot_status ot_table_record_order(const ot_dataset *d, const ot_columns *t, const char **out, ot_error *err);

#endif
