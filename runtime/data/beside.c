/* beside.c - labels in files beside images: 000123.cls or 000123.json for 000123.jpg.
 *
 * Source  the naming of webdataset: a sample is what has the same name up to the first dot. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/data/members.h"
#include "runtime/data/table.h"

enum { MOST_LABEL = 1 << 20, MOST_CLASSES = 1 << 20 };

typedef struct labels {
    ot_dataset *d;
    ot_file_room room;
    ot_words words;
    const char **text; /* of each sample */
    bool numbers;      /* all are whole numbers */
    bool json;         /* some are in files of JSON */
    ot_error *err;
} labels;

/* Length of a name up to the first dot behind the folders. */
static size_t key_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    return (slash ? (size_t)(slash - name) + 1 : 0) + strcspn(slash ? slash + 1 : name, ".");
}

/* The file of the same key with that ending; -1: there is none.  The list is sorted: files of a key are neighbours. */
static int64_t beside(const ot_members *m, int64_t i, const char *end)
{
    const char *key = m->list[i].name;
    size_t n = key_of(key);
    for (int step = -1; step <= 1; step += 2)
        for (int64_t k = i + step; k >= 0 && k < m->n; k += step) {
            const char *name = m->list[k].name;
            if (strncmp(name, key, n) || name[n] != '.') break;
            if (!strcmp(name + n, end)) return k;
        }
    return -1;
}

static ot_status invalid(const labels *x, int64_t at, const char *what)
{
    return ot_fail(x->err, OT_E_DATA, "%s/%s: %s", x->d->members->path, x->d->members->list[at].name, what);
}

/* The label in an object of JSON, as text. */
static ot_status find_label(labels *x, int64_t at, const json_t *root, const char **out)
{
    static const char *const usual[] = { "label", "cls", "class", "target" };
    const char *given = x->d->options ? x->d->options->target : NULL;
    const json_t *v = given ? json_object_get(root, given) : NULL;
    for (int i = 0; i < OT_LEN(usual) && !v && !given; i++) v = json_object_get(root, usual[i]);
    if (!json_is_string(v) && !json_is_integer(v))
        return invalid(x, at,
                       given ? "has no text or whole number of the name that --target gives"
                             : "has no text or whole number called label, cls, class or target (--target NAME)");
    ot_arena *a = x->d->arena;
    *out = json_is_string(v) ? ot_arena_strdup(a, json_string_value(v))
                             : ot_arena_printf(a, "%lld", (long long)json_integer_value(v));
    return *out ? OT_OK : ot_fail(x->err, OT_E_NOMEM, "%s: no memory for labels", x->d->name);
}

/* The label of image i, from the file `at`. */
static ot_status read_label(labels *x, int64_t at, bool json, const char **out)
{
    const ot_members *m = x->d->members;
    json_t *root = NULL;
    int64_t n = m->list[at].size;
    if (n > MOST_LABEL) return invalid(x, at, "is too large for a label");
    OT_TRY(ot_members_read(m, at, &x->room, x->err));
    char *text = (char *)x->room.data;
    if (memchr(text, 0, (size_t)n)) return invalid(x, at, "contains a zero byte");
    if (json) {
        if (ot_json_parse(text, (size_t)n, &root)) return ot_fail(x->err, OT_E_NOMEM, "%s: no memory", x->d->name);
        ot_status s = root ? find_label(x, at, root, out) : invalid(x, at, "is not valid JSON");
        json_decref(root);
        return s;
    }
    while (n && strchr(" \t\r\n", text[n - 1])) n--;
    *out = ot_arena_printf(x->d->arena, "%.*s", (int)n, text);
    return *out ? OT_OK : ot_fail(x->err, OT_E_NOMEM, "%s: no memory for labels", x->d->name);
}

static bool whole(const char *text, int64_t *v)
{
    char *end;
    errno = 0;
    *v = strtoll(text, &end, 10);
    return *text && !*end && !errno;
}

static ot_status take_label(labels *x, int64_t i, int64_t image)
{
    const ot_members *m = x->d->members;
    int64_t v, at = beside(m, image, ".cls");
    bool json = at < 0;
    x->json |= json;
    if (json) at = beside(m, image, ".json");
    if (at < 0) return invalid(x, image, "has no label; expected a file .cls or .json beside it");
    OT_TRY(read_label(x, at, json, &x->text[i]));
    if (!*x->text[i]) return invalid(x, at, "the label is empty");
    x->numbers &= whole(x->text[i], &v);
    return ot_words_add(&x->words, x->text[i], MOST_CLASSES, x->d->arena, x->d->name, x->err);
}

static ot_status read_labels(labels *x, const int64_t *list, int64_t n)
{
    ot_shape shape = { .rank = 1, .dim = { n } };
    ot_dataset *d = x->d;
    if (!(x->text = ot_arena_alloc(d->arena, ((size_t)n + 1) * sizeof *x->text)))
        return ot_fail(x->err, OT_E_NOMEM, "%s: no memory for labels", d->name);
    for (int64_t i = 0; i < n; i++) OT_TRY(take_label(x, i, list[i]));
    ot_array *y = ot_dataset_add(d, "target");
    if (!y) return ot_fail(x->err, OT_E_NOMEM, "%s: no memory", d->name);
    OT_TRY(ot_array_alloc(d, y, OT_I64, &shape, -1, d->name, x->err));
    y->role = OT_ARRAY_TARGET;
    int64_t *to = y->t.data;
    if (x->numbers) {
        for (int64_t i = 0; i < n; i++) (void)whole(x->text[i], &to[i]);
        return OT_OK;
    }
    if (x->words.full) return ot_fail(x->err, OT_E_DATA, "%s: has more than %d classes", d->name, MOST_CLASSES);
    ot_words_sort(&x->words);
    for (int64_t i = 0; i < n; i++) to[i] = ot_words_find(&x->words, x->text[i]);
    d->class_name = x->words.word;
    d->n_classes = x->words.n;
    d->renumbers = true;
    return OT_OK;
}

ot_status ot_beside_open(ot_dataset *d, const int64_t *list, int64_t n, bool *is, ot_error *err)
{
    ot_error own = { 0 };
    labels x = { .d = d, .numbers = true, .err = err ? err : &own };
    *is = beside(d->members, list[0], ".cls") >= 0 || beside(d->members, list[0], ".json") >= 0;
    if (!*is) return OT_OK;
    ot_status s = read_labels(&x, list, n);
    if (!s && x.json && d->options && d->options->target &&
        !(d->column = ot_arena_strdup(d->arena, d->options->target)))
        s = ot_fail(err, OT_E_NOMEM, "%s: no memory", d->name);
    free(x.room.data);
    ot_words_free(&x.words);
    return s;
}
