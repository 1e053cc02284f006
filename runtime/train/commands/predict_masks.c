/* predict_masks.c - predict -o FOLDER/: the class of each pixel as a PNG for each image, named as the image and of its size; or the
 * image itself, of a model whose output is one.
 *
 * The scores of an output are interpolated linearly (pixel centres aligned, edges repeated, as PyTorch's interpolate with
 * align_corners=False), where parts of an image overlap their mean is taken, and then the class of the largest; class numbers
 * are those of the nearest pixel, of the part whose middle is nearest.  The channels of an image are interpolated as scores are. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/picture/picture.h"
#include "runtime/train/commands/predict.h"

enum { MOST_CLASSES = 256 };

/* Does h x w have the proportions of the images?  p NULL: any. */
static bool fits(const ot_picture *p, int64_t h, int64_t w) { return !p || (h > 0 && w > 0 && h * p->w == w * p->h); }

bool ot_mask_form_of(const ot_shape *s, ot_dtype type, ot_tail_kind tail, const ot_picture *images, ot_mask_form *out)
{
    const int64_t *d = s->dim;
    *out = (ot_mask_form){ .above = tail == OT_TAIL_SIGMOID ? 0.5 : 0, .numbers = !ot_is_float(type) };
    if (s->rank == 3 && fits(images, d[1], d[2])) out->classes = 1, out->h = d[1], out->w = d[2];
    else if (s->rank == 4 && fits(images, d[2], d[3])) out->classes = d[1], out->h = d[2], out->w = d[3];
    else if (s->rank == 4 && fits(images, d[1], d[2]))
        out->classes = d[3], out->h = d[1], out->w = d[2], out->last = true;
    else return false;
    if (out->numbers && out->classes > 1) return false;
    return out->classes >= 1 && out->classes <= MOST_CLASSES && out->h > 1 && out->w > 1 && out->h <= INT_MAX &&
           out->w <= INT_MAX;
}

/* ---- names ------------------------------------------------------------------------------------ */

/* "a/1.jpg" as "a/1.png".  false: it leads out of the folder, or is too long. */
static bool name_of(const char *file, int64_t sample, char *to, size_t n)
{
    if (!file) return snprintf(to, n, "%06lld.png", (long long)sample) < (int)n;
    const char *slash = strrchr(file, '/'), *dot = strrchr(slash ? slash : file, '.');
    for (const char *p = file; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
        if (*p == '/' || !*p || (p[0] == '.' && p[1] == '.' && (p[2] == '/' || !p[2]))) return false;
    size_t k = dot && dot > (slash ? slash + 1 : file) ? (size_t)(dot - file) : strlen(file);
    return k < INT_MAX && snprintf(to, n, "%.*s.png", (int)k, file) < (int)n;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int by_id(const void *a, const void *b)
{
    const ot_file_id *x = a, *y = b;
    return x->dev != y->dev ? (x->dev > y->dev) - (x->dev < y->dev) : (x->ino > y->ino) - (x->ino < y->ino);
}

/* The files that d reads, sorted.  Listed when the first mask would replace an existing file. */
typedef struct sources {
    ot_file_id *id;
    int64_t n;
} sources;

/* *read: the file at `path`, if there is one, is one of them. */
static ot_status is_read(sources *x, const ot_dataset *d, const char *path, bool *read, ot_error *err)
{
    ot_file_id own;
    *read = false;
    if (!ot_file_of(AT_FDCWD, path, &own)) return OT_OK;
    if (!x->id) {
        int64_t most = ot_dataset_files(d, NULL, 0);
        if (!(x->id = calloc((size_t)most + 1, sizeof *x->id))) return ot_fail(err, OT_E_NOMEM, "no memory for names");
        x->n = ot_dataset_files(d, x->id, most);
        qsort(x->id, (size_t)x->n, sizeof *x->id, by_id);
    }
    *read = bsearch(&own, x->id, (size_t)x->n, sizeof *x->id, by_id) != NULL;
    return OT_OK;
}

static ot_status make_folders(char *path, ot_error *err)
{
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        struct stat st;
        *p = '\0';
        bool bad = mkdir(path, 0777) && (errno != EEXIST || stat(path, &st) || !S_ISDIR(st.st_mode));
        int number = errno;
        if (bad)
            return ot_fail(err, OT_E_IO, "%s: the folder cannot be created: %s", path,
                           strerror_r(number, (char[128]){ 0 }, 128));
        *p = '/';
    }
    return OT_OK;
}

/* No mask replaces an image that is read.  The folder is made first: until it exists, "new/../images" leads nowhere. */
static ot_status check_sources(int64_t n, const char *(*file)(const void *user, int64_t i), const void *user,
                               const ot_dataset *d, const char *folder, ot_error *err)
{
    char name[PATH_MAX], to[2 * PATH_MAX];
    sources read = { 0 };
    bool clash = false;
    snprintf(to, sizeof to, "%s/", folder);
    ot_status s = make_folders(to, err);
    for (int64_t i = 0; i < n && !s; i++) {
        const char *of = file(user, i);
        if (!name_of(of, i, name, sizeof name)) continue;
        snprintf(to, sizeof to, "%s/%s", folder, name);
        s = is_read(&read, d, to, &clash, err);
        if (!s && clash)
            s = ot_fail(err, OT_E_USAGE, "-o %s: the mask of %s would replace %s, which is read; choose another folder",
                        folder, of ? of : name, to);
    }
    free(read.id);
    return s;
}

ot_status ot_mask_names(int64_t n, const char *(*file)(const void *user, int64_t i), const void *user,
                        const ot_dataset *d, const char *folder, ot_error *err)
{
    char name[PATH_MAX];
    char **list = calloc((size_t)n + 1, sizeof *list);
    ot_status s = list ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for names");
    for (int64_t i = 0; i < n && !s; i++) {
        const char *of = file(user, i);
        if (!name_of(of, i, name, sizeof name))
            s = ot_fail(err, OT_E_DATA, "-o %s: no file can have the name of the image '%s'", folder, of);
        else if (!(list[i] = strdup(name))) s = ot_fail(err, OT_E_NOMEM, "no memory for names");
    }
    if (!s) qsort(list, (size_t)n, sizeof *list, by_name);
    for (int64_t i = 1; i < n && !s; i++)
        if (!strcmp(list[i - 1], list[i]))
            s = ot_fail(err, OT_E_USAGE,
                        "-o %s: two images would have the mask %s: their names differ by the ending alone", folder,
                        list[i]);
    for (int64_t i = 0; list && i < n; i++) free(list[i]);
    free(list);
    return s ? s : check_sources(n, file, user, d, folder, err);
}

/* ---- parts ------------------------------------------------------------------------------------ */

ot_status ot_mask_add(ot_mask_parts *p, const ot_mask_form *m, const ot_mask_place *at, const double *v, ot_error *err)
{
    int64_t pixels = m->h * m->w, n = m->numbers ? pixels : pixels * m->classes;
    if (p->n == p->room) {
        int room = p->room ? 2 * p->room : 4;
        ot_mask_place *place = realloc(p->place, (size_t)room * sizeof *place);
        if (place) p->place = place;
        float **more = realloc(p->v, (size_t)room * sizeof *more);
        if (more) {
            p->v = more;
            for (int i = p->room; i < room; i++) p->v[i] = NULL;
        }
        if (!place || !more) return ot_fail(err, OT_E_NOMEM, "no memory for a mask");
        p->room = room;
    }
    if (!p->v[p->n] && !(p->v[p->n] = malloc((size_t)n * sizeof **p->v)))
        return ot_fail(err, OT_E_NOMEM, "no memory for a mask");
    float *to = p->v[p->n];
    for (int64_t c = 0; c < n / pixels; c++) /* planes, whatever the output has */
        for (int64_t i = 0; i < pixels; i++)
            to[c * pixels + i] = (float)(m->last ? v[i * m->classes + c] : v[c * pixels + i]);
    p->place[p->n++] = *at;
    return OT_OK;
}

void ot_mask_parts_free(ot_mask_parts *p)
{
    for (int i = 0; i < p->room; i++) free(p->v[i]);
    free(p->v);
    free(p->place);
    *p = (ot_mask_parts){ 0 };
}

/* Two neighbours along an axis, and the share of the second. */
typedef struct between {
    int64_t a, b;
    float share;
} between;

static between between_of(const ot_mask_place *at, int axis, int64_t i, int64_t n)
{
    double x = ((double)i + 0.5) * at->scale[axis] + at->shift[axis] - 0.5;
    x = fmin(fmax(x, 0), (double)(n - 1));
    int64_t a = (int64_t)x;
    return (between){ a, a + 1 < n ? a + 1 : a, (float)(x - (double)a) };
}

/* Adds the scores of one class at one row of the image; row: room for a row of the output. */
static void add_scores(const ot_mask_form *m, const float *v, const between *y, const between *x, int64_t n, float *row,
                       float *to)
{
    const float *a = v + y->a * m->w, *b = v + y->b * m->w;
    for (int64_t i = 0; i < m->w; i++) row[i] = a[i] + y->share * (b[i] - a[i]);
    for (int64_t i = 0; i < n; i++) to[i] += row[x[i].a] + x[i].share * (row[x[i].b] - row[x[i].a]);
}

/* The distance of a pixel from the edge of a part; negative: outside. */
static int64_t depth(const ot_mask_place *p, int64_t y, int64_t x)
{
    int64_t a = y - p->top < p->top + p->h - 1 - y ? y - p->top : p->top + p->h - 1 - y;
    int64_t b = x - p->left < p->left + p->w - 1 - x ? x - p->left : p->left + p->w - 1 - x;
    return a < b ? a : b;
}

static uint8_t number_at(const ot_mask_parts *p, const ot_mask_form *m, int64_t y, int64_t x)
{
    int best = 0;
    for (int k = 1; k < p->n; k++)
        if (depth(&p->place[k], y, x) > depth(&p->place[best], y, x)) best = k;
    between r = between_of(&p->place[best], 0, y, m->h), c = between_of(&p->place[best], 1, x, m->w);
    float v = p->v[best][(r.share < 0.5F ? r.a : r.b) * m->w + (c.share < 0.5F ? c.a : c.b)];
    return v >= 0 && v < MOST_CLASSES ? (uint8_t)v : MOST_CLASSES - 1;
}

/* Buffers for a row of the mask. */
typedef struct row_room {
    float *sum, *row, *best; /* of one class at the image's width, at the output's, and the largest sums */
    float *count;            /* parts at each pixel */
    between *x;              /* of each part, at the image's width */
} row_room;

/* Sets r->sum to the scores of class or channel c at row y, added over the parts. */
static void sum_row(const ot_mask_parts *p, const ot_mask_form *m, int64_t c, int64_t y, const row_room *r)
{
    memset(r->sum, 0, (size_t)p->width * sizeof *r->sum);
    for (int k = 0; k < p->n; k++) {
        const ot_mask_place *at = &p->place[k];
        if (y < at->top || y >= at->top + at->h) continue;
        between b = between_of(at, 0, y, m->h);
        add_scores(m, p->v[k] + c * m->h * m->w, &b, r->x + k * p->width + at->left, at->w, r->row, r->sum + at->left);
    }
}

/* Row y of an image, in bytes: rounded, and limited to 0..255.  A value that is not finite is black. */
static void paint_row(const ot_mask_parts *p, const ot_mask_form *m, int64_t c, const row_room *r, uint8_t *to)
{
    int64_t at = m->bgr ? m->classes - 1 - c : c;
    for (int64_t i = 0; i < p->width; i++) {
        double v = r->count[i] > 0 ? (double)(r->sum[i] / r->count[i]) * m->times[c] + m->plus[c] : 0;
        to[i * m->classes + at] = v > 0 ? (uint8_t)(fmin(v, 255) + 0.5) : 0;
    }
}

/* Row y by its scores; of equal ones the first class. */
static void classify_row(const ot_mask_parts *p, const ot_mask_form *m, int64_t y, const row_room *r, uint8_t *to)
{
    memset(r->count, 0, (size_t)p->width * sizeof *r->count);
    for (int k = 0; k < p->n; k++) {
        const ot_mask_place *at = &p->place[k];
        for (int64_t i = at->left; y >= at->top && y < at->top + at->h && i < at->left + at->w; i++) r->count[i]++;
    }
    for (int64_t c = 0; c < m->classes; c++) {
        sum_row(p, m, c, y, r);
        if (m->image) {
            paint_row(p, m, c, r, to);
        } else if (m->classes == 1) {
            for (int64_t i = 0; i < p->width; i++) to[i] = r->sum[i] > (float)m->above * r->count[i];
        } else {
            for (int64_t i = 0; i < p->width; i++)
                if (!c || r->sum[i] > r->best[i]) r->best[i] = r->sum[i], to[i] = (uint8_t)c;
        }
    }
}

static ot_status fill_mask(const ot_mask_parts *p, const ot_mask_form *m, uint8_t *pixels, ot_error *err)
{
    int64_t w = p->width;
    for (int64_t i = 0; m->numbers && i < p->height * w; i++) pixels[i] = number_at(p, m, i / w, i % w);
    if (m->numbers) return OT_OK;
    row_room r = { .sum = malloc((size_t)(3 * w + m->w) * sizeof *r.sum),
                   .x = malloc((size_t)(w * p->n) * sizeof *r.x) };
    if (!r.sum || !r.x) {
        free(r.sum);
        free(r.x);
        return ot_fail(err, OT_E_NOMEM, "no memory for a mask");
    }
    r.best = r.sum + w;
    r.count = r.best + w;
    r.row = r.count + w;
    for (int k = 0; k < p->n; k++)
        for (int64_t i = 0; i < w; i++) r.x[k * w + i] = between_of(&p->place[k], 1, i, m->w);
    int64_t line = m->image ? w * m->classes : w;
    for (int64_t y = 0; y < p->height; y++) classify_row(p, m, y, &r, pixels + y * line);
    free(r.sum);
    free(r.x);
    return OT_OK;
}

/* Seen from the folder: a link in it is replaced, since only the folder is the user's choice. */
static ot_status write_into(const char *folder, const char *name, const uint8_t *bytes, size_t n, ot_error *err)
{
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return ot_fail(err, ot_failed_call(errno), "%s: the folder cannot be opened: %s", folder,
                       strerror_r(errno, (char[128]){ 0 }, 128));
    ot_status s = ot_replace_file(at, folder, name, bytes, n, err);
    close(at);
    return s;
}

ot_status ot_mask_write(ot_mask_parts *p, const ot_mask_form *m, const char *folder, const char *file, int64_t sample,
                        ot_error *err)
{
    char name[PATH_MAX], path[2 * PATH_MAX];
    uint8_t *bytes = NULL, *pixels;
    size_t n = 0;
    if (!name_of(file, sample, name, sizeof name) || snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_MAX)
        return ot_fail(err, OT_E_IO, "-o %s: the name of the image '%s' is too long", folder, file ? file : "");
    int channels = m->image ? (int)m->classes : 0; /* 0: class numbers */
    if (!(pixels = malloc((size_t)(p->height * p->width * (channels ? channels : 1)))))
        return ot_fail(err, OT_E_NOMEM, "no memory for a mask");
    ot_status s = fill_mask(p, m, pixels, err);
    if (!s) s = make_folders(path, err);
    if (!s) s = ot_picture_png(pixels, p->width, p->height, channels, &bytes, &n, err);
    if (!s) s = write_into(folder, name, bytes, n, err);
    free(bytes);
    free(pixels);
    p->n = 0;
    return s;
}
