/* table_files.c - columns of a table whose cells are names of files of images or recordings: paths relative to its folder.
 *
 * A column is one if the first text in it names a file that is there, or looks like the name of an image and the model has
 * an input for images.  Paths stay below the folder: `..` and links that lead out are refused, absolute paths too unless
 * the file is there. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/members.h"
#include "runtime/data/sound.h"
#include "runtime/data/table.h"

static bool takes(const ot_data_input *in, bool sounds)
{
    int r = in->shape.rank;
    if (sounds) return (ot_is_float(in->dtype) || in->dtype == OT_UNDEFINED) && (r == 2 || r == 3 || r < 0);
    return in->dtype != OT_STRING && (r == 3 || r == 4 || r < 0);
}

bool ot_table_takes_images(const ot_columns *t, const ot_data_input *in) { return takes(in, t->sounds); }

/* Whether the model has an input for such a file; an unknown one has one for recordings. */
static bool wants(const ot_columns *t, const char *name)
{
    bool any = !t->options.n_inputs && ot_sound_name(name);
    for (int i = 0; i < t->options.n_inputs; i++) any |= takes(&t->options.input[i], ot_sound_name(name));
    return any;
}

/* The folder of the table. */
static ot_status open_folder(ot_dataset *d, ot_columns *t, ot_error *err)
{
    if (d->members) return OT_OK;
    const char *slash = strrchr(t->path, '/');
    t->folder = !slash ? "." : ot_arena_printf(d->arena, "%.*s", slash > t->path ? (int)(slash - t->path) : 1, t->path);
    if (!t->folder) return ot_table_no_memory(t, err);
    char *real = realpath(t->folder, NULL);
    t->real = real ? ot_arena_strdup(d->arena, real) : t->folder;
    free(real);
    return t->real ? ot_members_beside(t->folder, &d->members, err) : ot_table_no_memory(t, err);
}

/* What is behind `folder` in an absolute path; NULL: it is elsewhere. */
static const char *below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    if (strncmp(path, folder, n) || (path[n] != '/' && (!n || path[n - 1] != '/'))) return NULL;
    return path + n + strspn(path + n, "/");
}

/* The name of a cell's file in the folder of the table; NULL: it is elsewhere, or there is none, as errno says. */
static const char *name_in(const ot_columns *t, const char *path)
{
    const char *name = path;
    errno = EXDEV;
    if (*path == '/' && !(name = below(path, t->real)) && !(name = below(path, t->folder))) return NULL;
    while (name[0] == '.' && name[1] == '/') name += 2 + strspn(name + 2, "/");
    errno = ENOENT;
    return *name ? name : NULL;
}

/* Adds the file to the list.  false: errno says why not. */
static bool take(ot_dataset *d, const ot_columns *t, const char *path, int64_t *at)
{
    const char *name = name_in(t, path);
    return name && ot_members_take(d->members, name, at);
}

/* The same of a file that is missing: reading it fails, as of a damaged one. */
static ot_status take_missing(ot_dataset *d, const ot_columns *t, const char *path, int64_t *at, ot_error *err)
{
    const char *name = name_in(t, path);
    *at = d->members->n;
    return ot_members_add(d->members, name, strlen(name), &(ot_packed_file){ .packed = -1 }, err);
}

ot_status ot_table_names_image(ot_dataset *d, ot_columns *t, const char *text, bool *is, ot_error *err)
{
    int64_t at;
    *is = false;
    if (!text || !*text || (!ot_picture_name(text) && !wants(t, text))) return OT_OK;
    OT_TRY(open_folder(d, t, err));
    *is = take(d, t, text, &at);
    return !*is && errno == ENOMEM ? ot_table_no_memory(t, err) : OT_OK;
}

ot_status ot_table_find_images(ot_dataset *d, ot_columns *t, ot_error *err)
{
    t->images = 0;
    t->sounds = false;
    for (int i = 0; i < t->columns; i++) {
        ot_column *q = &t->column[i];
        bool is = false;
        if (q->kind != OT_KIND_CATEGORY) continue;
        OT_TRY(ot_table_names_image(d, t, q->odd.text, &is, err));
        bool looks = q->odd.text && (ot_picture_name(q->odd.text) || ot_sound_name(q->odd.text));
        if (!is && !(looks && wants(t, q->odd.text))) continue;
        q->kind = OT_KIND_IMAGE;
        t->sounds |= ot_sound_name(q->odd.text);
        t->images++;
    }
    if (t->images) OT_TRY(open_folder(d, t, err));
    if (d->members) d->members->n = 0;
    return OT_OK;
}

ot_status ot_table_add_file(ot_dataset *d, const ot_columns *t, const ot_rows *r, int column, int64_t *at,
                            ot_error *err)
{
    const char *path = r->cell[column], *name = t->column[column].name;
    if (take(d, t, path, at)) return OT_OK;
    int number = errno;
    if (number == ENOENT && t->options.skips && name_in(t, path)) return take_missing(d, t, path, at, err);
    ot_status s = number == ENOMEM ? OT_E_NOMEM : number == EACCES || number == EIO ? OT_E_IO : OT_E_DATA;
    if (!*path)
        return ot_fail(err, s, "%s: line %lld, column '%s': the name of a file is missing", t->path, (long long)r->line,
                       name);
    if (number == EXDEV)
        return ot_fail(
            err, s,
            "%s: line %lld, column '%s': '%s' leads out of the folder '%s'; the files must be in the folder of "
            "the table or below",
            t->path, (long long)r->line, name, path, t->folder);
    return ot_fail(
        err, s, "%s: line %lld, column '%s': the %s '%s' cannot be opened: %s%s%s%s", t->path, (long long)r->line, name,
        ot_sound_name(path) || (t->sounds && !ot_picture_name(path)) ? "recording" : "image", path,
        strerror_r(number, (char[128]){ 0 }, 128), number == ENOENT ? "; paths are relative to the folder '" : "",
        number == ENOENT ? t->folder : "", number == ENOENT ? "'" : "");
}

ot_status ot_table_finish_images(ot_dataset *d, ot_columns *t, ot_error *err)
{
    d->mapped_hash = 3;
    for (int i = 0; i < t->n_inputs; i++) {
        const ot_table_input *in = &t->input[i];
        if (!in->member) continue;
        bool sounds = t->rows && ot_sound_name(d->members->list[in->member[0]].name);
        OT_TRY(sounds ? ot_sounds_array(d, &d->array[in->array], in->member, t->rows, err)
                      : ot_pictures_array(d, &d->array[in->array], in->member, t->rows, false, err));
    }
    for (int i = 0; i < t->n_targets; i++) {
        const ot_goal *w = &t->wanted[i];
        if (w->member) OT_TRY(ot_pictures_array(d, &d->array[w->array], w->member, t->rows, true, err));
    }
    return OT_OK;
}

/* ---- targets and inputs ---------------------------------------------------------------------- */

ot_status ot_table_labels(ot_dataset *d, const ot_columns *t, int *list, int *n, ot_error *err)
{
    bool numbers = true;
    const char *all = "";
    int takers = 0;
    *n = 0;
    for (int i = 0; i < t->options.n_inputs; i++) takers += ot_table_takes_images(t, &t->options.input[i]);
    /* Of an unknown model the rule of other tables says whether the last column is what it learns of the images. */
    if (!t->options.n_inputs && t->column[t->columns - 1].kind != OT_KIND_IMAGE) takers = t->images;
    for (int i = t->columns - 1; i >= 0 && t->images > (takers ? takers : 1); i--) {
        if (t->column[i].kind != OT_KIND_IMAGE) continue;
        list[(*n)++] = i;
        d->column = t->column[i].name;
        return OT_OK;
    }
    for (int i = 0; i < t->columns; i++) {
        if (t->column[i].kind == OT_KIND_IMAGE) continue;
        numbers &= t->column[i].kind == OT_KIND_NUMBER;
        all = ot_arena_printf(d->arena, "%s%s%s", all, *n ? "," : "", t->column[i].name);
        if (!all) return ot_table_no_memory(t, err);
        list[(*n)++] = i;
    }
    for (int i = 0; i < t->options.n_inputs; i++) numbers &= ot_table_takes_images(t, &t->options.input[i]);
    if (*n > 1 && !numbers) list[0] = list[*n - 1], *n = 1;
    d->column = *n == 1 ? t->column[list[0]].name : all;
    return OT_OK;
}

ot_status ot_table_image_input(ot_dataset *d, const ot_columns *t, int column, const ot_data_input *of, bool only,
                               ot_table_input *in, ot_error *err)
{
    *in = (ot_table_input){ .name = only ? "" : of->name, .of = of->name, .dtype = OT_U8, .n = 1 };
    in->field = ot_arena_alloc(d->arena, sizeof *in->field);
    in->member = ot_arena_alloc(d->arena, sizeof *in->member * ((size_t)t->rows + 1));
    if (!in->field || !in->member) return ot_table_no_memory(t, err);
    *in->field = (ot_column_field){
        .column = column, .name = t->column[column].name, .kind = OT_KIND_IMAGE, .form = OT_FORM_IMAGE, .measured = true
    };
    return OT_OK;
}
