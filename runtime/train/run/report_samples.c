/* report_samples.c - the parts of a report about classes and single samples, from the run folder's evaluation.json.
 *
 * The file may have been changed by others: texts are escaped, pictures are shown only where they are base64, and what
 * is missing or of another type is left out. */

#include "runtime/train/run/report_samples.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/train/run/svg.h"

enum { LARGEST = 1 << 26, MOST_CELLS = 64, WITH_COUNTS = 20, MOST_ROWS = 100, MOST_SAMPLES = 100, NAME = 14 };

ot_status ot_samples_read(int folder, const char *shown, json_t **out, ot_error *err)
{
    void *bytes = NULL;
    size_t n = 0;
    ot_error first = { 0 };
    json_error_t why;
    *out = NULL;
    int fd = openat(folder, "evaluation.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return OT_OK;
    ot_status s = ot_read_open(fd, shown, LARGEST, &bytes, &n, &first);
    close(fd);
    if (!s) *out = json_loadb(bytes, n, 0, &why);
    free(bytes);
    if (s == OT_E_NOMEM || (!s && !*out && json_error_code(&why) == json_error_out_of_memory))
        return ot_fail(err, OT_E_NOMEM, "no memory for the report");
    return OT_OK;
}

/* ---- classes ----------------------------------------------------------------------------- */

static int64_t cell(const json_t *matrix, size_t row, size_t column)
{
    return json_integer_value(json_array_get(json_array_get(matrix, row), column));
}

static void name_class(const json_t *e, size_t i, char *buf, size_t n)
{
    const char *name = json_string_value(json_array_get(json_object_get(e, "classes"), i));
    if (name) snprintf(buf, n, "%s", name);
    else snprintf(buf, n, "%zu", i);
}

/* At most NAME characters, of UTF-8. */
static void print_short(const char *name, FILE *f)
{
    char text[4 * NAME + 1];
    size_t n = 0, characters = 0;
    while (name[n] && n < sizeof text - 4) {
        if (((unsigned char)name[n] & 0xc0) != 0x80 && characters++ == NAME) break;
        n++;
    }
    memcpy(text, name, n);
    text[n] = '\0';
    ot_html_text(text, f);
    if (name[n]) fputs("\xe2\x80\xa6", f);
}

typedef struct grid {
    size_t n;
    int cell, left, top;
} grid;

static grid grid_of(const json_t *e, size_t n)
{
    grid g = { .n = n, .cell = n <= 10 ? 44 : n <= WITH_COUNTS ? 34 : n <= 32 ? 18 : 10 };
    size_t longest = 1;
    for (size_t i = 0; i < n; i++) {
        char name[NAME + 2];
        name_class(e, i, name, sizeof name);
        if (strlen(name) > longest) longest = strlen(name);
    }
    g.left = 34 + 7 * (int)longest;
    g.top = 74 + (longest > 3 ? 7 * (int)longest : 14);
    return g;
}

static void print_names(const json_t *e, const grid *g, FILE *f)
{
    bool upright = g->top <= 74 + 21;
    size_t by = g->cell < 14 ? 2 : 1;
    for (size_t i = 0; i < g->n; i += by) {
        char name[200];
        int x = g->left + (int)i * g->cell + g->cell / 2, y = g->top + (int)i * g->cell + g->cell / 2 + 4;
        name_class(e, i, name, sizeof name);
        fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", g->left - 6, y);
        print_short(name, f);
        if (upright) fprintf(f, "</text>\n<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", x, g->top - 6);
        else fprintf(f, "</text>\n<text transform=\"translate(%d %d) rotate(-90)\">", x + 4, g->top - 6);
        print_short(name, f);
        fputs("</text>\n", f);
    }
}

/* Shaded by its share of the row. */
static void print_cell(const json_t *e, const grid *g, size_t i, size_t k, int64_t v, int64_t all, FILE *f)
{
    char true_name[200], other[200];
    int share = all > 0 ? (int)(1000 * v / all) : 0, x = g->left + (int)k * g->cell, y = g->top + (int)i * g->cell;
    name_class(e, i, true_name, sizeof true_name);
    name_class(e, k, other, sizeof other);
    fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\" fill-opacity=\"%d.%03d\"><title>true ",
            x, y, g->cell - 1, g->cell - 1, i == k ? "#2f9e44" : "#e03131", (share + 40) / 1000 ? 1 : 0,
            (share + 40) / 1000 ? 0 : share + 40);
    ot_html_text(true_name, f), fputs(", predicted ", f), ot_html_text(other, f);
    fprintf(f, ": %lld of %lld</title></rect>\n", (long long)v, (long long)all);
    if (g->n <= WITH_COUNTS)
        fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" pointer-events=\"none\">%lld</text>\n",
                x + g->cell / 2, y + g->cell / 2 + 4, (long long)v);
}

bool ot_samples_has_confusion(const json_t *e)
{
    size_t n = json_array_size(json_object_get(e, "confusion"));
    return n > 1 && n <= MOST_CELLS;
}

void ot_samples_confusion(const json_t *e, bool file, FILE *f)
{
    const json_t *matrix = json_object_get(e, "confusion");
    if (!ot_samples_has_confusion(e)) return;
    grid g = grid_of(e, json_array_size(matrix));
    int side = (int)g.n * g.cell, width = g.left + side + 10, height = g.top + side + 10;
    if (width < 300) width = 300; /* the head's */
    fprintf(f,
            "<svg %sviewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"11\" "
            "fill=\"currentColor\">\n",
            file ? "xmlns=\"http://www.w3.org/2000/svg\" " : "", width, height, width, height);
    if (file) fprintf(f, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", width, height);
    fprintf(f, "<text x=\"12\" y=\"18\" font-size=\"14\" font-weight=\"bold\">Confusion matrix</text>\n"
               "<text x=\"12\" y=\"36\">rows: true class, columns: predicted class</text>\n");
    print_names(e, &g, f);
    for (size_t i = 0; i < g.n; i++) {
        int64_t all = 0;
        for (size_t k = 0; k < g.n; k++) all += cell(matrix, i, k);
        for (size_t k = 0; k < g.n; k++)
            if (cell(matrix, i, k) > 0) print_cell(e, &g, i, k, cell(matrix, i, k), all, f);
    }
    fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#8888\"/>\n</svg>\n", g.left,
            g.top, side, side);
}

typedef struct class_row {
    size_t i;
    int64_t is, said, right;
    double f1;
} class_row;

static int by_f1(const void *a, const void *b)
{
    const class_row *x = a, *y = b;
    return x->f1 < y->f1 ? -1 : x->f1 > y->f1 ? 1 : x->i < y->i ? -1 : 1;
}

static int by_number(const void *a, const void *b)
{
    const class_row *x = a, *y = b;
    return x->i < y->i ? -1 : 1;
}

static double part(int64_t v, int64_t of) { return of > 0 ? (double)v / (double)of : 0; }

/* The definitions are those of meter.c. */
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
        row[i].f1 = part(2 * row[i].right, row[i].is + row[i].said);
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
        fprintf(f, "</td><td>%lld</td><td>%.4f</td><td>%.4f</td><td>%.4f</td></tr>\n", (long long)r->is,
                part(r->right, r->said), part(r->right, r->is), r->f1);
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
        fputs("<div>\n", f);
        ot_samples_confusion(e, false, f);
        fputs("</div>\n", f);
    }
    print_worst(e, f);
    print_classes(e, f);
}
