/* report_samples.c - the parts of a report about classes and single samples, from the run folder's evaluation.json.
 *
 * Other programs may have changed the file: strings are escaped, images are shown only if they are base64, and values that are
 * missing or have another type are omitted. */

#include "runtime/train/run/report_samples.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/train/run/log.h"
#include "runtime/train/run/meter.h"

enum { LARGEST = 1 << 26, MOST_CELLS = 64, WITH_COUNTS = 20, MOST_ROWS = 100, MOST_SAMPLES = 100, NAME = 14 };

/* As many columns as rows: the size of the file limits their number. */
static bool is_square(const json_t *matrix)
{
    size_t n = json_array_size(matrix);
    for (size_t i = 0; i < n; i++)
        if (json_array_size(json_array_get(matrix, i)) != n) return false;
    return true;
}

ot_status ot_samples_read(int folder, const char *shown, json_t **out, ot_error *err)
{
    void *bytes = NULL;
    size_t n = 0;
    ot_error first = { 0 };
    *out = NULL;
    int fd = openat(folder, "evaluation.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return OT_OK;
    ot_status s = ot_read_open(fd, shown, LARGEST, &bytes, &n, &first);
    close(fd);
    if (!s) s = ot_json_parse(bytes, n, out);
    free(bytes);
    if (s == OT_E_NOMEM) return ot_fail(err, OT_E_NOMEM, "no memory for the report");
    if (!is_square(json_object_get(*out, "confusion"))) (void)json_object_del(*out, "confusion");
    return OT_OK;
}

/* ---- classes ----------------------------------------------------------------------------- */

/* A count; the sum of all of them is an int64_t, too. */
static int64_t cell(const json_t *matrix, size_t row, size_t column)
{
    const json_int_t most = (json_int_t)1 << 36;
    json_int_t v = json_integer_value(json_array_get(json_array_get(matrix, row), column));
    return v < 0 ? 0 : v < most ? v : most;
}

static void name_class(const json_t *e, size_t i, char *buf, size_t n)
{
    const char *name = json_string_value(json_array_get(json_object_get(e, "classes"), i));
    if (name) snprintf(buf, n, "%s", name);
    else snprintf(buf, n, "%zu", i);
}

/* At most NAME characters, of UTF-8. */
static void shorten(char text[200])
{
    size_t n = 0, characters = 0;
    for (; text[n] && n < 4 * NAME; n++)
        if (((unsigned char)text[n] & 0xc0) != 0x80 && characters++ == NAME) break;
    if (text[n]) strcpy(text + n, "\xe2\x80\xa6");
}

static void set_grid(ot_confusion *g)
{
    size_t longest = 1;
    g->cell = g->n <= 10 ? 44 : g->n <= WITH_COUNTS ? 34 : g->n <= 32 ? 18 : 10;
    for (size_t i = 0; i < g->n; i++) {
        char name[NAME + 2];
        name_class(g->of, i, name, sizeof name);
        if (strlen(name) > longest) longest = strlen(name);
    }
    g->left = 34 + 7 * (int)longest;
    g->top = 74 + (longest > 3 ? 7 * (int)longest : 14);
}

static void draw_names(const ot_confusion *g, ot_draw *d)
{
    static const ot_lettering row = { .anchor = OT_ANCHOR_END }, above = { .anchor = OT_ANCHOR_MIDDLE },
                              turned = { .upright = true };
    bool fits = g->top <= 74 + 21;
    size_t by = g->cell < 14 ? 2 : 1;
    for (size_t i = 0; i < g->n; i += by) {
        char name[200];
        int x = g->left + (int)i * g->cell + g->cell / 2, y = g->top + (int)i * g->cell + g->cell / 2 + 4;
        name_class(g->of, i, name, sizeof name);
        shorten(name);
        d->text(d, g->left - 6, y, &row, name);
        if (fits) d->text(d, x, g->top - 6, &above, name);
        else d->text(d, x + 4, g->top - 6, &turned, name);
    }
}

/* Shaded by its share of the row. */
static void draw_cell(const ot_confusion *g, size_t i, size_t k, int64_t v, int64_t all, ot_draw *d)
{
    static const ot_lettering count = { .anchor = OT_ANCHOR_MIDDLE, .passive = true };
    char true_name[200], other[200], text[500];
    double share = all > 0 ? (double)v / (double)all : 0, side = g->cell - 1;
    int x = g->left + (int)k * g->cell, y = g->top + (int)i * g->cell;
    name_class(g->of, i, true_name, sizeof true_name);
    name_class(g->of, k, other, sizeof other);
    snprintf(text, sizeof text, "true %s, predicted %s: %lld of %lld", true_name, other, (long long)v, (long long)all);
    d->box(d, (double[]){ x, y, side, side }, i == k ? "#2f9e44" : "#e03131", share + 0.04 < 1 ? share + 0.04 : 1,
           text);
    snprintf(text, sizeof text, "%lld", (long long)v);
    if (g->n <= WITH_COUNTS) d->text(d, x + g->cell / 2, y + g->cell / 2 + 4, &count, text);
}

static void draw_confusion(const void *of, ot_draw *d)
{
    const ot_confusion *g = of;
    const json_t *matrix = json_object_get(g->of, "confusion");
    double side = (double)g->n * g->cell, x = g->left, y = g->top;
    const double corner[][2] = { { x, y }, { x + side, y }, { x + side, y + side }, { x, y + side }, { x, y } };
    d->text(d, 12, 18, &(ot_lettering){ .size = 14, .bold = true }, "Confusion matrix");
    d->text(d, 12, 36, &(ot_lettering){ 0 }, "rows: true class, columns: predicted class");
    draw_names(g, d);
    for (size_t i = 0; i < g->n; i++) {
        int64_t all = 0;
        for (size_t k = 0; k < g->n; k++) all += cell(matrix, i, k);
        for (size_t k = 0; k < g->n; k++)
            if (cell(matrix, i, k) > 0) draw_cell(g, i, k, cell(matrix, i, k), all, d);
    }
    d->line_begin(d, &(ot_stroke){ "#8888", 1, false });
    for (int i = 0; i < OT_LEN(corner); i++) d->line_to(d, corner[i][0], corner[i][1]);
    d->line_end(d);
}

bool ot_samples_has_confusion(const json_t *e)
{
    size_t n = json_array_size(json_object_get(e, "confusion"));
    return n > 1 && n <= MOST_CELLS;
}

ot_sketch ot_samples_confusion(const json_t *e, ot_confusion *room)
{
    enum { HEAD = 300 }; /* the width of what stands above it */
    *room = (ot_confusion){ .of = e, .n = json_array_size(json_object_get(e, "confusion")) };
    set_grid(room);
    int side = (int)room->n * room->cell, width = room->left + side + 10;
    return (ot_sketch){ width > HEAD ? width : HEAD, room->top + side + 10, draw_confusion, room };
}

typedef struct class_row {
    size_t i;
    int64_t is, said, right;
    double score[3]; /* precision, recall, F1 */
} class_row;

static int by_f1(const void *a, const void *b)
{
    const class_row *x = a, *y = b;
    if (x->score[2] != y->score[2]) return x->score[2] < y->score[2] ? -1 : 1;
    return x->i < y->i ? -1 : 1;
}

static int by_number(const void *a, const void *b)
{
    const class_row *x = a, *y = b;
    return x->i < y->i ? -1 : 1;
}

static void print_classes(const json_t *e, FILE *f)
{
    const json_t *matrix = json_object_get(e, "confusion");
    size_t n = json_array_size(matrix), shown = n < MOST_ROWS ? n : MOST_ROWS;
    class_row *row = n ? calloc(n, sizeof *row) : NULL;
    if (!row) return;
    for (size_t i = 0; i < n; i++) {
        row[i].i = i;
        row[i].right = cell(matrix, i, i);
        for (size_t k = 0; k < n; k++) row[i].is += cell(matrix, i, k), row[i].said += cell(matrix, k, i);
        ot_meter_scores(row[i].right, row[i].said, row[i].is, row[i].score);
    }
    qsort(row, n, sizeof *row, by_f1);
    qsort(row, shown, sizeof *row, by_number);
    fputs("<h2>Classes</h2>\n", f);
    if (shown < n) fprintf(f, "<p>The %zu of %zu classes with the lowest F1.</p>\n", shown, n);
    fputs("<table>\n<tr><th>class</th><th>samples</th><th>precision</th><th>recall</th><th>F1</th></tr>\n", f);
    for (size_t i = 0; i < shown; i++) {
        char name[1000];
        const class_row *r = &row[i];
        name_class(e, r->i, name, sizeof name);
        fputs("<tr><td>", f), ot_html_text(name, f);
        fprintf(f, "</td><td>%lld</td><td>%.4f</td><td>%.4f</td><td>%.4f</td></tr>\n", (long long)r->is, r->score[0],
                r->score[1], r->score[2]);
    }
    fputs("</table>\n", f);
    free(row);
}

/* ---- samples ------------------------------------------------------------------------------ */

static const char *picture_of(const json_t *s)
{
    static const char head[] = "data:image/png;base64,",
                      digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    const char *text = json_string_value(json_object_get(s, "picture"));
    if (!text || strncmp(text, head, sizeof head - 1)) return NULL;
    const char *rest = text + sizeof head - 1;
    return rest[strspn(rest, digits)] ? NULL : text;
}

static void print_number(const json_t *v, FILE *f)
{
    if (json_is_number(v)) fprintf(f, "%.5g", json_number_value(v));
}

/* A class by its name, or a value. */
static void print_answer(const json_t *e, const json_t *v, FILE *f)
{
    char name[1000];
    bool classes = json_is_array(json_object_get(e, "confusion"));
    if (!json_is_number(v)) return;
    if (!classes) {
        print_number(v, f);
        return;
    }
    double at = json_number_value(v);
    if (!(at >= 0 && at < 1e6)) return;
    name_class(e, (size_t)at, name, sizeof name);
    ot_html_text(name, f);
}

static void print_pictures(const json_t *e, const json_t *worst, FILE *f)
{
    size_t i;
    json_t *s;
    fputs("<div class=\"samples\">\n", f);
    json_array_foreach(worst, i, s)
    {
        const char *picture = i < MOST_SAMPLES ? picture_of(s) : NULL;
        if (!picture) continue;
        fprintf(f, "<figure><img alt=\"sample %lld\" src=\"%s\"/><figcaption>",
                (long long)json_integer_value(json_object_get(s, "sample")), picture);
        if (json_is_number(json_object_get(s, "target"))) {
            print_answer(e, json_object_get(s, "target"), f);
            fputs(" <b>\xe2\x86\x92 ", f), print_answer(e, json_object_get(s, "answer"), f), fputs("</b>", f);
            const json_t *p = json_object_get(s, "probability");
            if (json_is_number(p)) fprintf(f, " %.0f\xc2\xa0%%", 100 * json_number_value(p));
            fputs("<br/>", f);
        }
        fputs("loss ", f), print_number(json_object_get(s, "loss"), f);
        fprintf(f, "<br/>sample %lld</figcaption></figure>\n",
                (long long)json_integer_value(json_object_get(s, "sample")));
    }
    fputs("</div>\n", f);
}

static void print_rows(const json_t *e, const json_t *worst, FILE *f)
{
    size_t i, k;
    json_t *s, *v;
    fputs("<table>\n<tr><th>sample</th><th>loss</th><th>true</th><th>predicted</th><th>input</th></tr>\n", f);
    json_array_foreach(worst, i, s)
    {
        if (i >= MOST_SAMPLES) break;
        fprintf(f, "<tr><td>%lld</td><td>", (long long)json_integer_value(json_object_get(s, "sample")));
        print_number(json_object_get(s, "loss"), f), fputs("</td><td>", f);
        print_answer(e, json_object_get(s, "target"), f), fputs("</td><td>", f);
        print_answer(e, json_object_get(s, "answer"), f), fputs("</td><td class=\"values\">", f);
        json_array_foreach(json_object_get(s, "values"), k, v) fputs(k ? ", " : "", f), print_number(v, f);
        fputs("</td></tr>\n", f);
    }
    fputs("</table>\n", f);
}

static void print_worst(const json_t *e, FILE *f)
{
    const json_t *worst = json_object_get(e, "worst");
    const char *kind = json_string_value(json_object_get(e, "kind"));
    if (!json_array_size(worst)) return;
    fputs("<h2>Worst samples</h2>\n<p>Those with the highest ", f);
    fputs(kind && !strcmp(kind, "values") ? "squared error" : "cross-entropy", f);
    fputs(picture_of(json_array_get(worst, 0)) ? ": true class, predicted class and its probability.</p>\n" : ".</p>\n",
          f);
    if (picture_of(json_array_get(worst, 0))) print_pictures(e, worst, f);
    else print_rows(e, worst, f);
}

void ot_samples_print(const json_t *e, FILE *f)
{
    const char *split = json_string_value(json_object_get(e, "split"));
    if (!e) return;
    fputs("<h2>Last evaluation</h2>\n<p>", f), ot_html_text(split ? split : "", f);
    fprintf(f, ", after step %lld</p>\n", (long long)json_integer_value(json_object_get(e, "step")));
    if (ot_samples_has_confusion(e)) {
        ot_confusion room;
        ot_sketch k = ot_samples_confusion(e, &room);
        fputs("<div>\n", f);
        ot_sketch_svg(&k, false, f);
        fputs("</div>\n", f);
    }
    print_worst(e, f);
    print_classes(e, f);
}
