/* predict_masks.c - predict -o FOLDER/: the class of each pixel as a PNG for each image, named as the image. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/picture/picture.h"
#include "runtime/train/commands/predict.h"

enum { MOST_CLASSES = 256 };

/* Are h x w as wide for their height as the images? */
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

/* Class of pixel i; of equal scores the first. */
static uint8_t class_at(const ot_mask_form *m, const double *v, int64_t i)
{
    int64_t pixels = m->h * m->w, best = 0;
    if (m->numbers) return v[i] >= 0 && v[i] < MOST_CLASSES ? (uint8_t)v[i] : MOST_CLASSES - 1;
    if (m->classes == 1) return v[i] > m->above;
    for (int64_t c = 1; c < m->classes; c++) {
        double one = m->last ? v[i * m->classes + c] : v[c * pixels + i];
        if (one > (m->last ? v[i * m->classes + best] : v[best * pixels + i])) best = c;
    }
    return (uint8_t)best;
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

ot_status ot_mask_names(int64_t n, const char *(*file)(const void *user, int64_t i), const void *user,
                        const char *images, const char *folder, ot_error *err)
{
    char name[PATH_MAX], from[2 * PATH_MAX], to[2 * PATH_MAX];
    char **list = calloc((size_t)n + 1, sizeof *list);
    ot_status s = list ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for names");
    for (int64_t i = 0; i < n && !s; i++) {
        const char *of = file(user, i);
        if (!name_of(of, i, name, sizeof name))
            s = ot_fail(err, OT_E_DATA, "-o %s: no file can have the name of the image '%s'", folder, of);
        else if (!(list[i] = strdup(name))) s = ot_fail(err, OT_E_NOMEM, "no memory for names");
        snprintf(from, sizeof from, "%s/%s", images, of ? of : "");
        snprintf(to, sizeof to, "%s/%s", folder, name);
        if (!s && of && !access(to, F_OK) && ot_path_same(from, to))
            s = ot_fail(err, OT_E_USAGE, "-o %s: the mask of %s would replace the image; choose another folder", folder,
                        of);
    }
    if (!s) qsort(list, (size_t)n, sizeof *list, by_name);
    for (int64_t i = 1; i < n && !s; i++)
        if (!strcmp(list[i - 1], list[i]))
            s = ot_fail(err, OT_E_USAGE,
                        "-o %s: two images would have the mask %s: their names differ by the ending alone", folder,
                        list[i]);
    for (int64_t i = 0; list && i < n; i++) free(list[i]);
    free(list);
    return s;
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

ot_status ot_mask_write(const ot_mask_form *m, const double *v, uint8_t *pixels, const char *folder, const char *file,
                        int64_t sample, ot_error *err)
{
    char name[PATH_MAX], path[2 * PATH_MAX];
    uint8_t *bytes = NULL;
    size_t n = 0;
    for (int64_t i = 0; i < m->h * m->w; i++) pixels[i] = class_at(m, v, i);
    if (!name_of(file, sample, name, sizeof name) || snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_MAX)
        return ot_fail(err, OT_E_IO, "-o %s: the name of the image '%s' is too long", folder, file ? file : "");
    OT_TRY(make_folders(path, err));
    OT_TRY(ot_picture_png(pixels, m->w, m->h, 0, &bytes, &n, err));
    ot_status s = ot_replace_file(AT_FDCWD, NULL, path, bytes, n, err);
    free(bytes);
    return s;
}
