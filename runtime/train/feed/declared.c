/* declared.c - a model's metadata about its images and classes, as other tools write them: what is unambiguous is used.
 *
 * Source  Image.*: onnx/onnx, docs/MetadataProps.md; names, imgsz, task: Ultralytics' exporter; pretrained_cfg: timm;
 *         image_mean, image_std: preprocessor_config.json of transformers; standardization_mean: Deepness (QGIS).
 * Format  numbers and names as JSON or as Python prints lists, tuples and dictionaries. */
#include "runtime/train/feed/declared.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MOST_SIDE = 1 << 12, NAME = 512 };

static const char *metadata(const ot_imported *file, const char *key)
{
    return file ? ot_import_metadata(file, key) : NULL;
}

/* ---- numbers ----------------------------------------------------------------------------- */

/* Reads numbers, in brackets or without; *n: their number.  false: the text is something else. */
static bool numbers(const char *p, double *v, int most, int *n)
{
    static const char between[] = " \t\r\n,";
    const char *end = "";
    *n = 0;
    p += strspn(p, between);
    if (*p == '[' || *p == '(') end = *p++ == '[' ? "]" : ")";
    for (p += strspn(p, between); *p && *p != *end; p += strspn(p, between)) {
        char one[64];
        size_t k = strcspn(p, " \t\r\n,])");
        if (*n == most || !k || k >= sizeof one) return false;
        memcpy(one, p, k);
        one[k] = 0;
        if (!ot_number(one, &v[*n])) return false;
        ++*n;
        p += k;
    }
    return *n > 0 && (!*end || *p == *end);
}

/* The text after "key": in a dictionary; NULL: it has no such key. */
static const char *value_of(const char *dict, const char *key)
{
    size_t n = strlen(key);
    for (const char *p = dict; (p = strstr(p, key)); p += n) {
        if (p == dict || (p[-1] != '"' && p[-1] != '\'') || p[n] != p[-1]) continue;
        const char *q = p + n + 1 + strspn(p + n + 1, " \t\r\n");
        if (*q == ':') return q + 1 + strspn(q + 1, " \t\r\n");
    }
    return NULL;
}

/* ---- pixels --------------------------------------------------------------------------------- */

bool ot_declared_range(const ot_adapt_env *e, const char *input, ot_normalize *out)
{
    static const struct {
        const char *name;
        ot_normalize z;
    } range[] = {
        { "NominalRange_0_255", { .kind = OT_NORMALIZE_NONE } },
        { "Normalized_0_1", { .kind = OT_NORMALIZE_UNIT } },
        { "Normalized_1_1", { .kind = OT_NORMALIZE_GIVEN, .channels = 1, .mean = { 0.5 }, .std = { 0.5 } } },
        { "NominalRange_16_235",
          { .kind = OT_NORMALIZE_GIVEN, .channels = 1, .mean = { -16 / 219. }, .std = { 1 / 219. } } },
    };
    const char *is = e->file ? ot_import_metadata_folded(e->file, "Image.NominalPixelRange") : NULL;
    for (int i = 0; is && i < OT_LEN(range); i++) {
        if (strcasecmp(is, range[i].name)) continue;
        *out = range[i].z;
        ot_adapt_note(e, "input '%s': the model's metadata say Image.NominalPixelRange %s (change with --normalize)",
                      input, range[i].name);
        return true;
    }
    return false;
}

bool ot_declared_bgr(const ot_imported *file)
{
    const char *is = file ? ot_import_metadata_folded(file, "Image.BitmapPixelFormat") : NULL;
    return is && !strcasecmp(is, "Bgr8");
}

typedef struct place {
    const char *key, *mean, *std; /* key NULL: mean and std are keys of the metadata, else of what that key holds */
    bool unit;                    /* they are of pixels from 0 to 1, whatever they are */
} place;

/* Mean and deviation of pixels from 0 to 1; false: nothing tells whether they are, or of 0..255. */
static bool to_unit(const place *p, ot_normalize *z)
{
    bool small = true, large = true, nothing = true;
    for (int i = 0; i < z->channels; i++) {
        small &= z->mean[i] >= -1 && z->mean[i] <= 1 && z->std[i] <= 1;
        large &= z->std[i] > 1;
        nothing &= z->mean[i] == 0 && z->std[i] == 1;
    }
    if (p->unit || (small && !nothing)) return true;
    for (int i = 0; i < z->channels; i++) z->mean[i] /= 255, z->std[i] /= 255;
    return large;
}

bool ot_declared_scaling(const ot_adapt_env *e, const char *input, int64_t c, ot_normalize *out)
{
    static const place places[] = {
        { "pretrained_cfg", "mean", "std", true },
        { "default_cfg", "mean", "std", true },
        { "preprocessor_config", "image_mean", "image_std", false },
        { "preprocessor_config.json", "image_mean", "image_std", false },
        { NULL, "image_mean", "image_std", false },
        { NULL, "standardization_mean", "standardization_std", true },
        { NULL, "mean", "std", false },
    };
    for (int i = 0; i < OT_LEN(places); i++) {
        const place *p = &places[i];
        const char *in = p->key ? metadata(e->file, p->key) : NULL;
        const char *mean = p->key ? in ? value_of(in, p->mean) : NULL : metadata(e->file, p->mean);
        const char *std = p->key ? in ? value_of(in, p->std) : NULL : metadata(e->file, p->std);
        ot_normalize z = { .kind = OT_NORMALIZE_GIVEN };
        int deviations;
        if (!mean || !std) continue;
        bool good = numbers(mean, z.mean, OT_MAX_CHANNELS, &z.channels) &&
                    numbers(std, z.std, OT_MAX_CHANNELS, &deviations) && z.channels == deviations &&
                    (z.channels == 1 || z.channels == c);
        bool usable = good && ot_normalize_usable(&z);
        const char *of = p->key ? p->key : p->mean, *and = p->key ? "" : " and ", *other = p->key ? "" : p->std;
        if (usable && to_unit(p, &z) && ot_normalize_usable(&z)) {
            ot_adapt_note(e,
                          "input '%s': mean and deviation are those of %s%s%s in the model's metadata (change with "
                          "--normalize)",
                          input, of, and, other);
            *out = z;
            return true;
        }
        ot_adapt_note(e, "input '%s': %s%s%s in the model's metadata are not used: %s; set --normalize", input, of, and,
                      other,
                      usable ? "they may be of pixels from 0 to 1 or to 255"
                      : good ? "a deviation is not positive, or too small to divide by"
                             : "they are not numbers, one for each channel");
        return false;
    }
    return false;
}

bool ot_declared_size(const ot_imported *file, int64_t *height, int64_t *width, const char **key)
{
    static const char *const cfg[] = { "pretrained_cfg", "default_cfg" };
    double v[3];
    int n;
    const char *size = metadata(file, *key = "imgsz");
    if (size && numbers(size, v, 2, &n)) {
        if (n == 1) v[1] = v[0];
    } else {
        size = NULL;
        for (int i = 0; i < OT_LEN(cfg) && !size; i++)
            if ((size = metadata(file, *key = cfg[i]))) size = value_of(size, "input_size");
        if (!size || !numbers(size, v, 3, &n) || n != 3) return false;
        v[0] = v[1];
        v[1] = v[2];
    }
    if (!(v[0] >= 1 && v[0] <= MOST_SIDE && v[1] >= 1 && v[1] <= MOST_SIDE)) return false;
    *height = (int64_t)v[0];
    *width = (int64_t)v[1];
    return true;
}

/* ---- classes --------------------------------------------------------------------------------- */

/* Reads a string in quotes; returns the text after it.  NULL: it is not a string, or has an unknown escape. */
static const char *quoted(const char *p, char to[NAME])
{
    char quote = *p++;
    int n = 0;
    if (quote != '"' && quote != '\'') return NULL;
    for (; *p && *p != quote; p++) {
        if (*p == '\\' && !strchr("\\'\"", *++p)) return NULL;
        if (!*p || n == NAME - 1) return NULL;
        to[n++] = *p;
    }
    to[n] = 0;
    return *p && n ? p + 1 : NULL;
}

/* {0: 'cat', 1: 'dog'}, keys as numbers or strings, in order: name is called for each.  How many; 0: it is something else. */
static int read_names(const char *p, ot_arena *a, const char **list)
{
    static const char space[] = " \t\r\n";
    char key[NAME], name[NAME];
    int n = 0;
    p += strspn(p, space);
    if (*p++ != '{') return 0;
    for (p += strspn(p, space); *p != '}'; n++) {
        double number;
        size_t k = strspn(p, "0123456789");
        snprintf(key, sizeof key, "%.*s", k < 9 ? (int)k : 0, p);
        p = k ? p + k : quoted(p, key);
        if (!p || !ot_number(key, &number) || number != n || n == OT_MOST_CLASSES) return 0;
        p += strspn(p, space);
        if (*p++ != ':') return 0;
        if (!(p = quoted(p + strspn(p, space), name))) return 0;
        if (list && !(list[n] = ot_arena_strdup(a, name))) return -1;
        p += strspn(p, space);
        if (*p == ',') p += 1 + strspn(p + 1, space);
        else if (*p != '}') return 0;
    }
    return n;
}

ot_status ot_declared_classes(const ot_imported *file, ot_arena *a, const char *const **out, int *n, ot_error *err)
{
    const char *text = metadata(file, "names"), *task = metadata(file, "task"), **list;
    *n = text && task && !strcmp(task, "classify") ? read_names(text, a, NULL) : 0;
    if (*n < 1) return *n = 0, OT_OK;
    list = ot_arena_alloc(a, (size_t)*n * sizeof *list);
    if (!list || read_names(text, a, list) < 0) return ot_fail(err, OT_E_NOMEM, "no memory for the names of classes");
    *out = list;
    return OT_OK;
}
