/* open.c - opens a data set: named sets in the folders that are searched, files by content. */
#include "runtime/data/internal.h"
#include "runtime/data/members.h"
#include "runtime/data/sound.h"
#include "runtime/data/table.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifndef OT_DATADIR
#define OT_DATADIR "/usr/local/share/onnxtrain"
#endif
#ifndef OT_SOURCE_DATADIR
#define OT_SOURCE_DATADIR ""
#endif

enum { MOST_ROOTS = 32 };

/* ---- named sets -------------------------------------------------------------- */

typedef struct named {
    ot_entry entry;
    const char *folder[3]; /* below a root: this program's folder, then torchvision's */
    const char *system;    /* the folder of a system package, or NULL */
    bool idx;              /* else CIFAR's binary batches */
    int n_classes;
    const char *const *class_name; /* or NULL */
    const char *how;               /* command that installs it */
} named;

static const char *const digit[] = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9" };
static const char *const garment[] = { "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                       "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot" };
static const char *const kuzushiji[] = { "o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo" };
static const char *const thing[] = { "airplane", "automobile", "bird",  "cat",  "deer",
                                     "dog",      "frog",       "horse", "ship", "truck" };

/* Each is a row of SETS. */
static const named set_mnist = { { "mnist", "28x28 digits, 10 classes; comes with onnxtrain", NULL },
                                 { "mnist", "MNIST/raw" },
                                 NULL,
                                 true,
                                 10,
                                 digit,
                                 "onnxtrain data fetch mnist; it is also included in onnxtrain (models/data/mnist)" };
static const named set_fashion_mnist = {
    { "fashion-mnist", "28x28 garments, 10 classes", NULL },
    { "fashion-mnist", "FashionMNIST/raw" },
    "/usr/share/datasets/fashion-mnist",
    true,
    10,
    garment,
    "onnxtrain data fetch fashion-mnist; or apt-get install dataset-fashion-mnist, or put the four files of "
    "https://github.com/zalandoresearch/fashion-mnist into <folder>/fashion-mnist"
};
static const named set_kmnist = {
    { "kmnist", "28x28 Japanese characters, 10 classes", NULL },
    { "kmnist", "KMNIST/raw" },
    NULL,
    true,
    10,
    kuzushiji,
    "onnxtrain data fetch kmnist; or put the four files of http://codh.rois.ac.jp/kmnist into <folder>/kmnist"
};
static const named set_cifar10 = { { "cifar10", "32x32 photographs in colour, 10 classes", NULL },
                                   { "cifar10", "cifar-10-batches-bin" },
                                   NULL,
                                   false,
                                   10,
                                   thing,
                                   "unpack the binary version of https://www.cs.toronto.edu/~kriz/cifar.html into "
                                   "<folder>/cifar10" };
static const named set_cifar100 = { { "cifar100", "32x32 photographs in colour, 100 classes", NULL },
                                    { "cifar100", "cifar-100-binary" },
                                    NULL,
                                    false,
                                    100,
                                    NULL,
                                    "unpack the binary version of https://www.cs.toronto.edu/~kriz/cifar.html into "
                                    "<folder>/cifar100" };

#define SETS(X) X(mnist) X(fashion_mnist) X(kmnist) X(cifar10) X(cifar100)

static const named *const sets[] = {
#define X(name) &set_##name,
    SETS(X)
#undef X
};

static const named *named_find(const char *spec)
{
    for (int i = 0; i < OT_LEN(sets); i++)
        if (!strcmp(sets[i]->entry.name, spec)) return sets[i];
    return NULL;
}

bool ot_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The folders searched for named sets, in order. */
static int roots(const ot_dataset *d, const char *root[MOST_ROOTS])
{
    int n = 0;
    ot_arena *a = d->arena;
    const char *const *search = d->options->search;
    const char *data = getenv("ONNXTRAIN_DATA"), *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    for (; search && *search && n < MOST_ROOTS - 8; search++) root[n++] = *search;
    if (data && *data) root[n++] = data;
    root[n++] = "./data";
    if (xdg && *xdg) root[n++] = ot_arena_printf(a, "%s/onnxtrain", xdg);
    else if (home && *home) root[n++] = ot_arena_printf(a, "%s/.local/share/onnxtrain", home);
    root[n++] = OT_DATADIR;
    if (*OT_SOURCE_DATADIR && ot_is_folder(OT_SOURCE_DATADIR)) root[n++] = OT_SOURCE_DATADIR;
    return n;
}

/* Reads the part of a set in `folder`; *found: it exists. */
static ot_status read_folder(const char *folder, bool idx, ot_split split, ot_dataset *d, bool *found, ot_error *err)
{
    if (idx) return ot_idx_folder(folder, split == OT_SPLIT_TRAIN ? "train" : "t10k", d, found, err);
    return ot_cifar_folder(folder, split, d, found, err);
}

/* Is the training part in `folder`?  It determines the folder of the set, so that training and test part belong
 * together. */
static bool holds(const char *folder, bool idx)
{
    static const char *const first[2][4] = {
        { "data_batch_1.bin", "train.bin", "test_batch.bin", "test.bin" },
        { "train-images-idx3-ubyte", "train-images-idx3-ubyte.gz", "train-images.idx3-ubyte",
          "train-images.idx3-ubyte.gz" },
    };
    for (int i = 0; i < 4; i++) {
        char path[PATH_MAX]; /* a failed allocation here could lead to another folder */
        struct stat st;
        if (snprintf(path, sizeof path, "%s/%s", folder, first[idx][i]) < PATH_MAX && stat(path, &st) == 0) return true;
    }
    return false;
}

static ot_status open_named(const named *s, ot_split split, ot_dataset *d, bool *found, ot_error *err)
{
    const char *root[MOST_ROOTS], *folder[3 * MOST_ROOTS];
    int n = 0, n_roots = roots(d, root);
    for (int i = 0; i < n_roots; i++) {
        for (int k = 0; k < OT_LEN(s->folder) && s->folder[k]; k++) {
            folder[n] = root[i] ? ot_arena_printf(d->arena, "%s/%s", root[i], s->folder[k]) : NULL;
            if (!folder[n++]) return ot_fail(err, OT_E_NOMEM, "%s: no memory", s->entry.name);
        }
    }
    if (s->system) folder[n++] = s->system;
    for (int i = 0; i < n; i++) {
        if (!holds(folder[i], s->idx)) continue;
        d->n_classes = s->n_classes;
        d->class_name = s->class_name;
        return read_folder(folder[i], s->idx, split, d, found, err);
    }
    if (ot_is_folder(s->entry.name) && holds(s->entry.name, s->idx))
        return read_folder(s->entry.name, s->idx, split, d, found, err);
    ot_fail(err, OT_E_DATA, "%s: the data set was not found in any of these folders:", s->entry.name);
    for (int i = 0; i < n; i++) ot_fail_more(err, OT_E_DATA, "  %s", folder[i]);
    if (ot_is_folder(s->entry.name))
        ot_fail_more(err, OT_E_DATA, "the folder %s here has other files: to open it as it is, write ./%s",
                     s->entry.name, s->entry.name);
    return ot_fail_more(err, OT_E_DATA, "to get it: %s; <folder> is a folder named in ONNXTRAIN_DATA", s->how);
}

/* ---- paths ------------------------------------------------------------------- */

static ot_status open_npy(const char *path, ot_dataset *d, ot_error *err)
{
    ot_stream s;
    bool found = false;
    if (!d->several) OT_TRY(ot_npy_tokens(path, d, &found, err));
    if (!found) OT_TRY(ot_npy_map(path, d, &found, err));
    if (found) return OT_OK;
    ot_array *a = ot_dataset_add(d, "");
    if (!a) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    OT_TRY(ot_stream_open(&s, path, err));
    ot_status status = ot_npy_read(&s, d, a, err);
    ot_stream_close(&s);
    return status;
}

/* A text is one sequence, except for models that were trained on labelled texts. */
static ot_status open_text(const char *path, ot_dataset *d, ot_error *err)
{
    if (d->options->alone && ot_table_recorded(d->options))
        return ot_fail(err, OT_E_DATA,
                       "%s: is a text, but the model was trained on a table; expected .csv, .tsv or .jsonl", path);
    return ot_texts_known(d->options) ? ot_csv_open(path, d, err) : ot_corpus_open(path, d, err);
}

/* File formats, recognised by their first twelve bytes (zeros behind the end of a file of at least four); csv, jsonl, conll,
 * tokens and text have no signature and are recognised by the file name. */
static bool is_npy(const char *path, const unsigned char *head)
{
    (void)path;
    return head && !memcmp(head, "\x93NUM", 4);
}

static bool is_npz(const char *path, const unsigned char *head)
{
    (void)path;
    return head && !memcmp(head, "PK", 2);
}

static bool is_csv(const char *path, const unsigned char *head)
{
    (void)head;
    static const char *const name[] = { ".csv", ".tsv", ".tab" }, *const packed[] = { "", ".gz", ".zst" };
    char end[16];
    for (int i = 0; i < OT_LEN(name); i++)
        for (int k = 0; k < OT_LEN(packed); k++)
            if (snprintf(end, sizeof end, "%s%s", name[i], packed[k]) && ot_ends_in(path, end)) return true;
    return false;
}

static bool is_jsonl(const char *path, const unsigned char *head)
{
    (void)head;
    return ot_rows_mark(path) == OT_ROWS_JSON;
}

static bool is_conll(const char *path, const unsigned char *head)
{
    (void)head;
    return ot_rows_mark(path) == OT_ROWS_CONLL;
}

static bool is_tokens(const char *path, const unsigned char *head)
{
    (void)head;
    return ot_ends_in(path, ".bin");
}

static bool is_text(const char *path, const unsigned char *head)
{
    (void)head;
    return ot_ends_in(path, ".txt");
}

static bool is_idx(const char *path, const unsigned char *head)
{
    (void)path;
    return head && !head[0] && !head[1] && head[2] >= 8 && head[2] <= 14 && head[3];
}

/* A header of less than 16 MiB, which is a JSON object. */
static bool is_safetensors(const char *path, const unsigned char *head)
{
    (void)path;
    return head && !head[3] && !head[4] && !head[5] && !head[6] && !head[7] && head[8] == '{';
}

/* By the checksum of the first record's length; where that is wrong, by its name. */
static bool is_tfrecord(const char *path, const unsigned char *head)
{
    return (head && ot_is_tfrecord(head)) || strcasestr(path, ".tfrecord");
}

/* By the first bytes; where these are wrong, by its name. */
static bool is_audio(const char *path, const unsigned char *head)
{
    bool wav = head && !memcmp(head, "RIFF", 4) && !memcmp(head + 8, "WAVE", 4);
    return wav || (head && !memcmp(head, "fLaC", 4)) || ot_sound_name(path);
}

/* X(name, reader, meaning); the first match is used. */
#define FORMATS(X) \
    X(audio, ot_sound_open, "a recording (.wav, .flac), for a prediction; many are class folders, or a column of a table") \
    X(tfrecord, ot_tfrecord_open, "records of TensorFlow with tf.Example, plain or .gz: encoded images, bytes, floats, integers (NAME-00000-of-00010: all ten files)") \
    X(npy, open_npy, "one array (.npy, .npy.gz): for a model of one input, without a target") \
    X(npz, ot_npz_open, "arrays (.npz), named as the model's inputs; the target is target, or target_OUTPUT") \
    X(safetensors, ot_safetensors_open, "named tensors (.safetensors), as the arrays of an .npz") \
    X(csv, ot_csv_open, "a table (.csv, .tsv, also .gz and .zst) whose first line has the column names; the target is the column called target, else the last one (--target chooses); a column may contain paths of image or audio files, relative to the folder of the table") \
    X(jsonl, ot_csv_open, "a table as JSON lines (.jsonl, .ndjson, also .gz and .zst): an object in each line, whose members are the columns") \
    X(conll, ot_csv_open, "words with tags in the format of CoNLL (.conll, .bio, .iob, .iob2, also .gz and .zst), for classes at each word: a word on each line, its tag in the last column, an empty line between sentences (--tokenizer)") \
    X(tokens, ot_tokens_open, "tokens for a language model (.bin, unsigned numbers of 16 or 32 bits, or the format of llm.c; a .npy of one dimension does too): samples are windows, the target is the next token (--length, --stride)") \
    X(text, open_text, "a text (.txt) for a language model, as bytes or characters (--text) or with --tokenizer; a model that was trained on a table's column of text takes each line as a sample") \
    X(idx, ot_idx_open, "MNIST's format (plain or .gz): images, with the labels in a file beside it")

/* Archives that are compressed as a whole, and compressions that are not read.  OT_OK: it is none. */
static ot_status refuse_packed(const char *path, const unsigned char *head, ot_error *err)
{
    bool xz = head && !memcmp(head,
                              "\xfd"
                              "7zXZ",
                              5),
         bzip2 = head && !memcmp(head, "BZh", 3);
    bool other = head && (!memcmp(head, "7z\xbc\xaf", 4) || !memcmp(head, "Rar!", 4));
    bool tar =
        strcasestr(path, ".tar.") || ot_ends_in(path, ".tgz") || ot_ends_in(path, ".tbz2") || ot_ends_in(path, ".txz");
    if (tar)
        return ot_fail(err, OT_E_DATA,
                       "%s: is a compressed archive, of which no file can be read without those before it: unpack it "
                       "('tar -xf') and name the folder, or pack it as .tar or .zip",
                       path);
    if (!xz && !bzip2 && !other) return OT_OK;
    return ot_fail(err, OT_E_DATA, "%s: is compressed by %s, which is not supported: unpack it first%s", path,
                   xz      ? "xz"
                   : bzip2 ? "bzip2"
                           : "7-Zip or RAR",
                   other ? ", and name the folder" : ", or compress it with gzip or zstd");
}

ot_status ot_dataset_file(const char *path, ot_dataset *d, ot_error *err)
{
    static const struct {
        const char *name;
        bool (*is)(const char *, const unsigned char *);
        ot_status (*open)(const char *, ot_dataset *, ot_error *);
    } format[] = {
#define X(name, open, meaning) { #name, is_##name, open },
        FORMATS(X)
#undef X
    };
    ot_stream s;
    char known[200] = "";
    unsigned char head[12] = { 0 };
    OT_TRY(ot_dataset_note(d, path, err));
    OT_TRY(ot_stream_open(&s, path, err));
    int64_t got = s.read(&s, head, sizeof head, err);
    ot_stream_close(&s);
    if (got < 0) return err ? err->status : OT_E_DATA;
    for (int i = 0; i < OT_LEN(format); i++) {
        if (format[i].is(path, got >= 4 ? head : NULL)) return format[i].open(path, d, err);
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s, ", format[i].name);
    }
    if (got >= 8 && !memcmp(head, "\x89HDF\r\n\x1a\n", 8))
        return ot_fail(
            err, OT_E_DATA,
            "%s: is an HDF5 file, which is not supported: save its data sets as .npz, for example with "
            "numpy.savez('data.npz', x=h5py.File(...)['x'][:]); large ones with numpy.save as .npy, which is mapped",
            path);
    if (got >= 4 && !memcmp(head, "PAR1", 4))
        return ot_fail(err, OT_E_DATA,
                       "%s: is a Parquet file, which is not supported: save the table as .csv, for example with "
                       "pandas.read_parquet(...).to_csv('table.csv', index=False)",
                       path);
    if (got >= 4 && (!memcmp(head, "\x89PNG", 4) || !memcmp(head, "\xff\xd8\xff", 3)))
        return ot_fail(
            err, OT_E_DATA,
            "%s: is an image, and data of several images are a folder, an archive (.tar, .zip) or a table with "
            "a column of paths: name one of those",
            path);
    if (got >= 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5)
        return ot_fail(err, OT_E_DATA,
                       "%s: is a pickle of Python objects, which is not supported: save its arrays with "
                       "numpy.savez('data.npz', x=..., target=...)",
                       path);
    if (ot_ends_in(path, ".json"))
        return ot_fail(err, OT_E_DATA,
                       "%s: a table in JSON has an object in each line and the name .jsonl; pandas writes it with "
                       "to_json('table.jsonl', orient='records', lines=True)",
                       path);
    OT_TRY(refuse_packed(path, got >= 6 ? head : NULL, err));
    return ot_fail(err, OT_E_DATA,
                   "%s: unknown file format; supported: %star, zip, or a folder (of class folders with images or "
                   "recordings, or with the MNIST or CIFAR binary files)",
                   path, known);
}

/* n tar files as one set. */
static ot_status open_shards(const char *const *path, int n, ot_split split, ot_dataset *d, bool *found, ot_error *err)
{
    ot_members *m;
    for (int i = 0; i < n; i++) OT_TRY(ot_dataset_note(d, path[i], err));
    OT_TRY(ot_members_tars(d->name, path, n, &m, err));
    return ot_pictures_open(m, split, d, found, err);
}

/* A folder of nothing but tar files; m is its list. */
static ot_status open_folder_of_tars(const char *folder, ot_members *m, ot_split split, ot_dataset *d, bool *found,
                                     ot_error *err)
{
    const char **path = ot_arena_alloc(d->arena, sizeof *path * (size_t)m->n);
    int n = m->n < INT_MAX ? (int)m->n : 0;
    bool all = path;
    for (int i = 0; i < n && all; i++)
        all = (path[i] = ot_arena_printf(d->arena, "%s/%s", folder, m->list[i].name)) != NULL;
    ot_members_free(m);
    return all ? open_shards(path, n, split, d, found, err) : ot_fail(err, OT_E_NOMEM, "%s: no memory", folder);
}

static ot_status open_folder(const char *path, ot_split split, ot_dataset *d, bool *found, ot_error *err)
{
    ot_members *m;
    for (int idx = 1; idx >= 0; idx--)
        if (holds(path, idx)) return split == OT_SPLIT_VAL ? OT_OK : read_folder(path, idx, split, d, found, err);
    if (d->options->tokenizer || d->options->text || ot_texts_known(d->options)) { /* files of text */
        *found = split == OT_SPLIT_TRAIN;
        return *found ? ot_csv_open(path, d, err) : OT_OK;
    }
    OT_TRY(ot_members_folder(path, &m, err));
    bool tars = m->n > 0;
    for (int64_t i = 0; i < m->n; i++) tars = tars && m->list[i].size >= 0 && ot_ends_in(m->list[i].name, ".tar");
    if (tars) return open_folder_of_tars(path, m, split, d, found, err);
    if (m->n) return ot_pictures_open(m, split, d, found, err);
    ot_members_free(m);
    return ot_fail(
        err, OT_E_DATA,
        "%s: the folder is empty; expected class folders with images or recordings, idx files (train-images-idx3-ubyte …) "
        "or CIFAR binary files (data_batch_1.bin …)",
        path);
}

/* ---- archives of images ---------------------------------------------------------- */

/* X(name, how its members are found, meaning) */
#define ARCHIVES(X) \
    X(tar, ot_members_tar, "images or recordings in class folders, in an archive (.tar) that is read without unpacking it") \
    X(zip, ot_members_zip, "the same (.zip)")

static ot_status open_archive(const char *path, ot_split split, ot_dataset *d, bool *is, bool *found, ot_error *err)
{
    static const struct {
        const char *end;
        ot_status (*open)(const char *, ot_members **, ot_error *);
    } archive[] = {
#define X(name, open, meaning) { "." #name, open },
        ARCHIVES(X)
#undef X
    };
    for (int i = 0; i < OT_LEN(archive); i++) {
        ot_members *m;
        if (!ot_ends_in(path, archive[i].end)) continue;
        *is = true;
        OT_TRY(ot_dataset_note(d, path, err));
        OT_TRY(archive[i].open(path, &m, err));
        if (!m->n || ot_ends_in(m->list[0].name, ".npy")) { /* arrays of an .npz that is called otherwise */
            ot_members_free(m);
            *is = false;
            return OT_OK;
        }
        return ot_pictures_open(m, split, d, found, err);
    }
    return OT_OK;
}

/* Several files, each given with --data, if all are tar files. */
static ot_status open_tars(const char *spec, ot_split split, ot_dataset *d, bool *are, bool *found, ot_error *err)
{
    int n = 0;
    char *parts = ot_arena_strdup(d->arena, spec);
    const char **path = ot_arena_alloc(d->arena, sizeof *path * (strlen(spec) + 1)), *all = NULL;
    if (!parts || !path) return ot_fail(err, OT_E_NOMEM, "%s: no memory", spec);
    *are = true;
    for (char *p = parts, *next; p; p = next) {
        if ((next = strchr(p, '\n'))) *next++ = '\0';
        *are = *are && ot_data_path(p) == p && ot_ends_in(p, ".tar");
        path[n++] = p;
    }
    *are = *are && n > 1;
    if (!*are) return OT_OK;
    for (int i = 0; i < n; i++) {
        all = all ? ot_arena_printf(d->arena, "%s + %s", all, path[i]) : path[i];
        if (!all) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path[i]);
    }
    d->name = all;
    return open_shards(path, n, split, d, found, err);
}

/* ---- data sets and formats ----------------------------------------------------- */

#define X(name, open, meaning) static const ot_entry format_##name = { #name, meaning, NULL };
FORMATS(X)
ARCHIVES(X)
#undef X

static const ot_entry *const entries[] = {
#define X(name) &set_##name.entry,
    SETS(X)
#undef X
#define X(name, open, meaning) &format_##name,
        FORMATS(X) ARCHIVES(X)
#undef X
            NULL
};

static const ot_entry *const set_entries[] = {
#define X(name) &set_##name.entry,
    SETS(X)
#undef X
        NULL
};

const ot_registry ot_data_sets = { "data set", "named sets", set_entries };

const ot_registry ot_data_sources = {
    "data",
    "named sets, and formats of files; or a folder: of class folders with images or recordings (train/cat/1.jpg; train, val "
    "and test are used as such), of images and masks with the same names (images/1.jpg and masks/1.png), or with the files of "
    "MNIST or CIFAR (binary); predict and run take one image file too (--data)",
    entries
};

static ot_status open_path(const char *path, ot_split split, ot_dataset *d, bool *found, ot_error *err)
{
    struct stat st;
    if (stat(path, &st)) {
        int number = errno;
        if (strchr(path, '/') || strchr(path, '.'))
            return ot_fail(err, OT_E_IO, "%s: cannot be opened: %s", path, strerror_r(number, (char[128]){ 0 }, 128));
        if (!strcmp(path, "-"))
            return ot_fail(err, OT_E_DATA, "-: standard input cannot be read as data; write it into a file first");
        ot_fail(err, OT_E_DATA, "%s: is neither a file nor a known data set; data sets:", path);
        for (int i = 0; i < OT_LEN(sets); i++) ot_fail_more(err, OT_E_DATA, "  %s", sets[i]->entry.name);
        return OT_E_DATA;
    }
    if (S_ISDIR(st.st_mode)) return open_folder(path, split, d, found, err);
    bool archive = false;
    OT_TRY(open_archive(path, split, d, &archive, found, err));
    if (archive) return OT_OK;
    *found = split == OT_SPLIT_TRAIN || d->options->parts; /* another file is one part: the one for training */
    if (*found && ot_picture_name(path)) return ot_picture_open(path, d, err);
    if (*found) OT_TRY(ot_dataset_file(path, d, err));
    *found = *found && (split == OT_SPLIT_TRAIN || (d->table && d->table->rows));
    return OT_OK;
}

ot_status ot_dataset_open(const char *spec, ot_split split, const ot_data_options *o, ot_dataset **out, ot_error *err)
{
    static const ot_data_options none = { 0 };
    *out = NULL;
    if (o && o->training && o->training->lacks >> split & 1) return OT_OK; /* its files are not listed once more */
    ot_dataset *d = ot_dataset_new(spec);
    if (!d) return ot_fail(err, OT_E_NOMEM, "%s: no memory", spec);
    d->options = o ? o : &none;
    d->of = split;
    const named *known = named_find(spec);
    bool found = false;
    if (known && split == OT_SPLIT_VAL) {
        ot_dataset_free(d);
        return OT_OK;
    }
    bool several = !known && ot_several(spec), tars = false;
    ot_status s = several ? open_tars(spec, split, d, &tars, &found, err) : OT_OK;
    if (several && !tars) found = split == OT_SPLIT_TRAIN; /* as of one file */
    if (known) s = open_named(known, split, d, &found, err);
    else if (several && !tars && found && !s) s = ot_several_open(spec, d, err);
    else if (!several) s = open_path(spec, split, d, &found, err);
    if (!s && !found && split == OT_SPLIT_TRAIN)
        s = ot_fail(err, OT_E_DATA, "%s: has only a test set, no training set", spec);
    if (!s && found) {
        ot_dataset_arrange(d);
        s = ot_dataset_finish(d, err);
    }
    const char *of_tables = d->options->categories ? "categories"
                            : d->options->passed   ? "passthrough"
                            : d->options->parts    ? "split"
                            : d->options->group    ? "group"
                                                   : NULL;
    if (!s && found && !d->table && of_tables)
        s = ot_fail(err, OT_E_USAGE, "--%s: %s is not a table", of_tables, d->name);
    d->options = NULL;
    if (s || !found) ot_dataset_free(d);
    else *out = d;
    return s;
}
