/* predict.c - the command predict: what a model answers for each sample, as classes with probabilities or as values.
 *
 * Outputs    scores of classes become the class of the largest and its probability (the softmax of logits; what stands behind a
 *            Softmax, LogSoftmax or Sigmoid as it is), for a sample or for each of its places, such as the words of a text; one
 *            score per sample is that of class 1.  Others are values.  predict_outputs.c decides what an output is.
 * Formats    CSV (the default), JSON or JSON lines, NPZ (the outputs themselves), a PNG of classes for each image, or the image
 *            that is the output (a folder); by the name of -o. */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "runtime/losses/loss.h"
#include "runtime/train/commands/predict.h"
#include "runtime/train/commands/predict_outputs.h"
#include "runtime/train/feed/bind_inputs.h"
#include "runtime/train/run/files.h"
#include "runtime/train/run/trainer.h"

typedef struct job {
    ot_trainer *t;
    ot_arena *a;
    ot_prediction_form form;
    ot_prediction_lines lines;
    bool runs; /* the command is run */
    int64_t written;
    int64_t odd, first_odd; /* samples whose classes have no probability, because a score is not finite */
    ot_mask_form mask;      /* of the first of list */
    bool painted;           /* images: it is known how their values become bytes */
    const char *folder;     /* of masks */
    ot_mask_parts parts;
} job;

/* ---- options --------------------------------------------------------------------------- */

static ot_prediction_form form_of(const ot_options *o)
{
    const char *to = ot_options_get(o, "o");
    if (!to) return ot_options_flag(o, "json") ? OT_FORM_JSON : OT_FORM_CSV;
    struct stat st;
    if (ot_ends_in(to, "/") || (!stat(to, &st) && S_ISDIR(st.st_mode))) return OT_FORM_MASKS;
    return ot_ends_in(to, ".npz")     ? OT_FORM_NPZ
           : ot_ends_in(to, ".jsonl") ? OT_FORM_LINES
           : ot_ends_in(to, ".json")  ? OT_FORM_JSON
                                      : OT_FORM_CSV;
}

/* Refuses a name with the ending of another format. */
static ot_status check_form(const ot_options *o, ot_prediction_form f, ot_error *err)
{
    static const char *const others[] = {
        "xlsx", "xls",    "ods",  "parquet", "feather",     "arrow",  "orc",      "avro",  "npy",  "h5",  "hdf5", "mat",
        "pkl",  "pickle", "pt",   "pth",     "safetensors", "xml",    "yaml",     "yml",   "html", "htm", "pdf",  "svg",
        "png",  "jpg",    "jpeg", "bmp",     "tif",         "tiff",   "webp",     "tsv",   "tab",  "gz",  "bz2",  "xz",
        "zst",  "zip",    "tar",  "tgz",     "db",          "sqlite", "tfrecord", "conll", "bio",  "iob", "iob2"
    };
    if (ot_options_count(o, "copy") && (f == OT_FORM_NPZ || f == OT_FORM_MASKS))
        return ot_fail(err, OT_E_USAGE, "--copy: columns are written to .csv, .json and .jsonl only");
    const char *to = ot_options_get(o, "o"), *dot = to && f == OT_FORM_CSV ? strrchr(to, '.') : NULL;
    for (int i = 0; dot && i < OT_LEN(others); i++)
        if (!strcasecmp(dot + 1, others[i]))
            return ot_fail(err, OT_E_USAGE,
                           "-o %s: predictions are not written in this format; use a name with .csv, .json, .jsonl or "
                           ".npz, or a folder (masks/) for an image of each mask",
                           to);
    return OT_OK;
}

/* ---- one sample ------------------------------------------------------------------------------ */

/* Element k of sample i of the batch. */
static int64_t place(const ot_prediction *a, const ot_shape *s, int64_t i, int64_t k)
{
    int64_t inner = 1;
    for (int d = a->axis + 1; d < s->rank; d++) inner *= s->dim[d];
    int64_t rows = a->axis ? 1 : a->shape.dim[0] / a->samples; /* of the first axis for each sample */
    if (rows > 1) return i * a->each + k;
    return k / inner * inner * s->dim[a->axis] + i * inner + k % inner;
}

/* The probabilities of n scores at one position.  NaN if a score is infinite or NaN: for classes, all of them. */
static void to_probabilities(const ot_prediction *a, double *v, int64_t n)
{
    double most = -INFINITY, sum = 0;
    bool one = n == 1 || a->task == OT_TASK_LABELS, scores = a->tail == OT_TAIL_NONE && !one, odd = false;
    for (int64_t k = 0; k < n; k++) {
        most = fmax(most, v[k]);
        odd |= isnan(v[k]) || (scores && v[k] == (double)INFINITY);
    }
    odd |= scores && most == -(double)INFINITY;
    for (int64_t k = 0; k < n; k++) {
        if (odd && a->task == OT_TASK_CLASSES) v[k] = NAN;
        else if (a->tail == OT_TAIL_LOG_SOFTMAX) v[k] = exp(v[k]);
        else if (a->tail == OT_TAIL_NONE && one) v[k] = 1 / (1 + exp(-v[k]));
        else if (a->tail == OT_TAIL_NONE) sum += v[k] = exp(v[k] - most);
    }
    for (int64_t k = 0; k < n && sum > 0; k++) v[k] /= sum;
}

/* Index in v of element k of a sample. */
static int64_t by_place(const ot_prediction *a, int64_t k)
{
    if (a->task != OT_TASK_CLASSES) return k;
    int64_t inner = k % a->inner, c = k / a->inner % a->classes, outer = k / a->inner / a->classes;
    return (outer * a->inner + inner) * a->classes + c;
}

static void read_sample(ot_prediction *a, const ot_shape *s, int64_t i)
{
    for (int64_t k = 0; k < a->each; k++) a->v[by_place(a, k)] = ot_get_f64(a->bytes, a->dtype, place(a, s, i, k));
    for (int64_t k = 0; a->whole && k < a->each; k++) a->whole[k] = ot_get_i64(a->bytes, a->dtype, place(a, s, i, k));
    if (a->task == OT_TASK_LABELS) to_probabilities(a, a->v, a->each);
    for (int64_t p = 0; a->task == OT_TASK_CLASSES && p < a->places; p++)
        to_probabilities(a, a->v + p * a->classes, a->classes);
    for (int64_t k = 0, n = a->unit.channels; n && k < a->each; k++)
        a->v[k] = a->v[k] * a->unit.std[k % n] + a->unit.mean[k % n];
}

/* ---- all samples ---------------------------------------------------------------------------------- */

/* The line of the table that a sample is on; 0: it is no table, or its rows are on consecutive lines. */
static int64_t line_of(const job *j, int64_t sample)
{
    const ot_dataset *d = j->t->eval.data;
    return ot_dataset_has_gaps(d) ? ot_dataset_line(d, sample) : 0;
}

/* The file that a sample is in, below the folder or archive of the data; NULL: samples are not files. */
static const char *file_of(const job *j, int64_t sample)
{
    const ot_feeders *fs = &j->t->eval.fs;
    for (int i = 0; i < fs->n; i++) {
        const ot_array *a = fs->f[i].src;
        if (a->source && a->source->name && !fs->f[i].target)
            return a->source->name(a->source, a->row ? a->row[sample] : sample);
    }
    return NULL;
}

/* Masks are of images, of which several samples may be parts. */
static int64_t count_images(const job *j)
{
    const ot_image_part *t = j->t->eval.data->tile;
    int64_t n = j->t->eval.fs.samples;
    return t && n ? t[n - 1].image + 1 : n;
}

/* Its file; i: the number of an image, and at most that of its first sample. */
static const char *mask_file(const void *user, int64_t i)
{
    const job *j = user;
    const ot_image_part *t = j->t->eval.data->tile;
    int64_t low = i, high = j->t->eval.fs.samples - 1;
    while (t && low < high) {
        int64_t middle = low + (high - low) / 2;
        if (t[middle].image < i) low = middle + 1;
        else high = middle;
    }
    return file_of(j, low);
}

/* Whether the output is an image, by what was asked, else by what the model records of its training, else by its end.  *unsure: by
 * nothing of these. */
static bool is_image(const job *j, const ot_prediction *a, ot_task asked, bool *unsure)
{
    ot_normalize z;
    const ot_mask_form *m = &j->mask;
    const ot_spec *loss = ot_loss_on(j->t, a->name);
    *unsure = false;
    if (m->numbers || (m->classes != 1 && m->classes != 3)) return false;
    if (asked != OT_TASK_AUTO) return asked == OT_TASK_VALUES;
    if (ot_preprocess_is_image(j->t->record, a->name) || ot_preprocess_target(j->t->record, a->name, &z)) return true;
    if (loss) return ot_loss_find(loss->name)->distance;
    if (a->class_name || a->tail == OT_TAIL_SOFTMAX || a->tail == OT_TAIL_LOG_SOFTMAX) return false;
    *unsure = true;
    return a->tail == OT_TAIL_SIGMOID && m->classes == 3; /* as classes these would exclude each other */
}

/* How the values of an image become bytes.  Those of a model that was trained to give its input back are scaled as the input is,
 * others are 0..1, or 0..255: `far` ones. */
static void find_bytes(job *j, const ot_prediction *a, bool far)
{
    ot_mask_form *m = &j->mask;
    const ot_feeder *f = ot_prediction_images(j->t);
    bool as_input = f && ot_preprocess_is_image(j->t->record, a->name);
    const ot_normalize *z = f ? &f->normalize : NULL;
    bool scaled = f && f->gather.scale && z->kind != OT_NORMALIZE_NONE;
    bool given = as_input && scaled && z->kind == OT_NORMALIZE_GIVEN;
    double unit = (as_input ? scaled : !far) ? 255 : 1;
    for (int c = 0; c < m->classes; c++) {
        int k = given && z->channels > 1 ? c : 0;
        m->times[c] = given ? z->std[k] * 255 : unit;
        m->plus[c] = given ? z->mean[k] * 255 : 0;
    }
    m->bgr = as_input && f->bgr && m->classes == 3;
    j->painted = true;
}

/* Are the values of the first image 0..255, not 0..1? */
static bool are_far(const ot_prediction *a)
{
    double most = 0;
    for (int64_t k = 0; k < a->each; k++)
        if (isfinite(a->v[k])) most = fmax(most, fabs(a->v[k]));
    return most > 4;
}

static ot_status choose_image(job *j, ot_task asked, ot_error *err)
{
    ot_prediction *a = j->lines.list;
    bool unsure;
    j->mask.image = is_image(j, a, asked, &unsure);
    if (asked == OT_TASK_VALUES && !j->mask.image)
        return ot_fail(err, OT_E_USAGE,
                       "--task values: an image in a folder has 1 or 3 channels of floats, but output '%s' has %lld%s; "
                       "write the values with -o FILE.npz",
                       a->name, (long long)j->mask.classes, j->mask.numbers ? " of integers" : "");
    a->task = OT_TASK_VALUES;
    if (j->mask.image) ot_prediction_find_unit(j->t, false, a);
    if (unsure)
        ot_trainer_say(j->t, OT_INFO, "output '%s' has %lld channel%s, and the model records no loss: %s", a->name,
                       (long long)j->mask.classes, j->mask.classes == 1 ? "" : "s",
                       j->mask.image ? "it is written as an image; for classes use --task classes"
                                     : "it is written as the class of each pixel; for an image use --task values");
    return OT_OK;
}

/* Keeps the output that has a class for each pixel. */
static ot_status open_masks(job *j, const char *to, ot_task asked, ot_error *err)
{
    int found = -1;
    const ot_feeder *f = ot_prediction_images(j->t);
    for (int i = 0; i < j->lines.n && found < 0; i++)
        if (ot_mask_form_of(&j->lines.list[i].shape, j->lines.list[i].dtype, j->lines.list[i].tail, f ? &f->to : NULL,
                            &j->mask))
            found = i;
    if (found < 0)
        return ot_fail(
            err, OT_E_USAGE,
            "-o %s: is a folder, for a mask of each image, but no output of the model has classes for each pixel "
            "([N,C,H,W] of at most 256 classes); name a file: .csv, .json, .jsonl, .npz",
            to);
    if (j->lines.n > 1)
        ot_trainer_say(j->t, OT_INFO, "the masks are those of output '%s'; other outputs are not written",
                       j->lines.list[found].name);
    j->lines.list[0] = j->lines.list[found];
    j->lines.n = 1;
    OT_TRY(choose_image(j, asked, err));
    size_t n = strlen(to);
    while (n > 1 && to[n - 1] == '/') n--;
    j->folder = ot_arena_printf(j->a, "%.*s", (int)n, to);
    if (!j->folder) return ot_fail(err, OT_E_NOMEM, "no memory for the masks");
    return ot_mask_names(count_images(j), mask_file, j, j->t->eval.data, j->folder, err);
}

static int64_t times(int64_t n, double by) { return by == 1 ? n : (int64_t)fmax(1, floor((double)n * by + 0.5)); }

/* An image is as much larger than that of the input as the output is: by y and x. */
static void enlarge(ot_mask_place *p, double y, double x, int64_t *height, int64_t *width)
{
    p->scale[0] /= y;
    p->scale[1] /= x;
    *height = times(*height, y);
    *width = times(*width, x);
    p->top = (int64_t)((double)p->top * y);
    p->left = (int64_t)((double)p->left * x);
    p->h = times(p->h, y);
    p->w = times(p->w, x);
    if (p->top + p->h > *height) p->h = *height - p->top;
    if (p->left + p->w > *width) p->w = *width - p->left;
}

/* The position of a sample's output in its image, and the size of the image. */
static ot_mask_place place_mask(const job *j, int64_t sample, int64_t *height, int64_t *width)
{
    const ot_mask_form *m = &j->mask;
    const ot_feeder *f = ot_prediction_images(j->t);
    const ot_image_part *t = j->t->eval.data->tile ? &j->t->eval.data->tile[sample] : NULL;
    *height = t ? t->height : !f ? m->h : f->redraw ? f->from.h : f->to.h;
    *width = t ? t->width : !f ? m->w : f->redraw ? f->from.w : f->to.w;
    ot_mask_place p = {
        .h = t ? t->h : *height, .w = t ? t->w : *width, .top = t ? t->top : 0, .left = t ? t->left : 0
    };
    ot_fitted in = { p.h, p.w, 0, 0 }; /* the part as the model's input has it */
    int64_t to_h = f ? f->to.h : p.h, to_w = f ? f->to.w : p.w;
    if (t) in = ot_fit_place(&f->fit, p.h, p.w, to_h, to_w);
    else if (f && f->redraw && ot_is_pad(&f->from, &f->to)) in.top = -((to_h - p.h) / 2), in.left = -((to_w - p.w) / 2);
    else if (f) in = (ot_fitted){ to_h, to_w, 0, 0 };
    const double side[2][4] = { { (double)p.h, (double)in.height, (double)(-in.top), (double)m->h / (double)to_h },
                                { (double)p.w, (double)in.width, (double)(-in.left), (double)m->w / (double)to_w } };
    for (int k = 0; k < 2; k++) {
        p.scale[k] = side[k][1] / side[k][0] * side[k][3];
        p.shift[k] = side[k][2] * side[k][3] - (double)(k ? p.left : p.top) * p.scale[k];
    }
    if (m->image) enlarge(&p, (double)m->h / (double)to_h, (double)m->w / (double)to_w, height, width);
    return p;
}

static ot_status put_mask(job *j, int64_t sample, const char *file, ot_error *err)
{
    const ot_image_part *t = j->t->eval.data->tile;
    ot_mask_place at = place_mask(j, sample, &j->parts.height, &j->parts.width);
    if (j->mask.image && !j->painted) find_bytes(j, j->lines.list, are_far(j->lines.list));
    OT_TRY(ot_mask_add(&j->parts, &j->mask, &at, j->lines.list[0].v, err));
    if (t && !t[sample].last) return OT_OK;
    j->written++;
    return ot_mask_write(&j->parts, &j->mask, j->folder, file, t ? t[sample].image : sample, err);
}

static ot_status put_sample(job *j, const ot_slot *q, int64_t i, ot_error *err)
{
    char shown[1024];
    int64_t sample = ot_dataset_origin(j->t->eval.data, j->t->index[i]);
    const char *file = file_of(j, j->t->index[i]);
    int64_t line = line_of(j, j->t->index[i]);
    bool odd = false;
    j->lines.word = ot_dataset_words(j->t->eval.data, j->t->index[i], &j->lines.words);
    for (int k = 0; k < j->lines.n; k++) {
        ot_prediction *a = &j->lines.list[k];
        read_sample(a, &q->plan->graph->outputs[a->output]->shape, i);
        for (int64_t p = 0; a->task == OT_TASK_CLASSES && p < a->places; p++) odd |= isnan(a->v[p * a->classes]);
    }
    if (odd && !j->odd++) j->first_odd = sample;
    if (j->form == OT_FORM_MASKS) return put_mask(j, j->t->index[i], file, err);
    if (j->form == OT_FORM_CSV) {
        fprintf(j->lines.f, "%lld", (long long)sample);
        if (line) fprintf(j->lines.f, ",%lld", (long long)line);
        if (file) {
            fputc(',', j->lines.f);
            ot_csv_text(ot_shown(file, shown, sizeof shown), j->lines.f);
        }
        ot_prediction_row(&j->lines, sample);
        fputc('\n', j->lines.f);
    } else {
        char *text;
        OT_TRY(ot_prediction_json(&j->lines, sample, line, file, &text, err));
        if (j->form == OT_FORM_JSON) fputs(j->written ? ",\n" : "[\n", j->lines.f);
        fprintf(j->lines.f, j->form == OT_FORM_JSON ? "%s" : "%s\n", text);
        free(text);
    }
    j->written++;
    return OT_OK;
}

/* Copies the output of the batch to a->all, from sample `first` on. */
static void keep(const ot_slot *q, ot_prediction *a, int64_t first)
{
    const ot_shape *s = &q->plan->graph->outputs[a->output]->shape;
    int64_t size = ot_dtype_bits(a->dtype) / 8;
    for (int64_t i = 0; i < q->batch; i++)
        for (int64_t k = 0; k < a->each; k++)
            memcpy(a->all + ((first + i) * a->each + k) * size, (char *)a->bytes + place(a, s, i, k) * size,
                   (size_t)size);
}

/* Shapes that depend on data show only now that their first axis had as many elements by chance. */
static ot_status check_samples(const ot_slot *q, const ot_prediction *a, ot_error *err)
{
    const ot_shape *s = &q->plan->graph->outputs[a->output]->shape;
    int64_t rows = a->axis ? 1 : a->shape.dim[0] / a->samples;
    if (ot_numel(s) == q->batch * a->each && s->dim[a->axis] == q->batch * rows) return OT_OK;
    return ot_fail(err, OT_E_MODEL, "output '%s' has no value for each sample: its shape follows from the data",
                   a->name);
}

static ot_status predict_batch(job *j, int slot, int64_t first, ot_error *err)
{
    ot_trainer *t = j->t;
    ot_numbers ignored;
    const ot_slot *q = &t->x.slot[slot];
    for (int64_t i = 0; i < q->batch; i++) t->index[i] = first + i;
    OT_TRY(ot_session_batch(&t->x, slot, t->index, &ignored, err));
    for (int k = 0; k < j->lines.n; k++) {
        OT_TRY(check_samples(q, &j->lines.list[k], err));
        OT_TRY(ot_exec_read(q->exec, q->plan->graph->outputs[j->lines.list[k].output], j->lines.list[k].bytes, err));
        if (j->form == OT_FORM_NPZ) keep(q, &j->lines.list[k], first);
    }
    for (int64_t i = 0; i < q->batch && j->form != OT_FORM_NPZ; i++)
        if (t->index[i] == first + i) OT_TRY(put_sample(j, q, i, err)); /* else it cannot be read */
    return OT_OK;
}

static ot_status predict_all(job *j, ot_error *err)
{
    ot_trainer *t = j->t;
    int64_t n = t->eval.fs.samples, batch = t->x.slot[t->eval.slot].batch, done = 0;
    double began = ot_seconds();
    if (j->form == OT_FORM_CSV) {
        const char *own[3] = { "sample" };
        int k = 1;
        if (n && line_of(j, 0)) own[k++] = "line";
        if (n && file_of(j, 0)) own[k++] = "file";
        for (int i = 0; i < k; i++) fprintf(j->lines.f, "%s%s", i ? "," : "", own[i]);
        OT_TRY(ot_prediction_name_copies(&j->lines, own, k, j->a, err));
        ot_prediction_head(&j->lines);
        fputc('\n', j->lines.f);
    }
    for (; done + batch <= n && !t->cancelled; done += batch) {
        ot_trainer_report_evaluation(t, &t->eval, done / batch, began);
        OT_TRY(predict_batch(j, t->eval.slot, done, err));
    }
    ot_trainer_report_evaluation(t, &t->eval, done / batch, began);
    if (done < n && t->eval.rest >= 0 && !t->cancelled) OT_TRY(predict_batch(j, t->eval.rest, done, err));
    OT_TRY(ot_import_intact(t->m->file, err)); /* weights that are pages of a file */
    if (j->form == OT_FORM_JSON) fputs(j->written ? "\n]\n" : "[]\n", j->lines.f);
    return OT_OK;
}

/* ---- the file --------------------------------------------------------------------------------------- */

static ot_status write_arrays(const job *j, const char *path, ot_error *err)
{
    ot_tensor *t = ot_arena_alloc(j->a, sizeof *t * (size_t)(j->lines.n + 1));
    if (!t) return ot_fail(err, OT_E_NOMEM, "no memory for the predictions");
    for (int i = 0; i < j->lines.n; i++) {
        const ot_prediction *a = &j->lines.list[i];
        t[i] = (ot_tensor){ .name = a->name, .dtype = a->dtype, .rank = a->shape.rank, .data = a->all };
        memcpy(t[i].dim, a->shape.dim, sizeof t[i].dim);
    }
    return ot_npz_write(path, t, j->lines.n, err);
}

static ot_status write_text(const char *path, const char *text, size_t n, ot_error *err)
{
    ot_replace *r = NULL;
    OT_TRY(ot_replace_begin(path, &r, err));
    ot_status s = ot_replace_write(r, text, n, err);
    if (s) ot_replace_abort(r);
    return s ? s : ot_replace_commit(r, err);
}

/* The text that is printed, or -o. */
static ot_status deliver(job *j, const char *to, char **text, ot_error *err)
{
    size_t n = 0;
    char *all = NULL;
    if (j->form == OT_FORM_NPZ) {
        OT_TRY(predict_all(j, err));
        return write_arrays(j, to, err);
    }
    if (j->form == OT_FORM_MASKS) return predict_all(j, err);
    if (!(j->lines.f = open_memstream(&all, &n))) return ot_fail(err, OT_E_NOMEM, "no memory for the predictions");
    ot_status s = predict_all(j, err);
    if (!ot_memstream_close(j->lines.f) && !s) s = ot_fail(err, OT_E_NOMEM, "no memory for the predictions");
    if (!s && to) s = write_text(to, all, n, err);
    if (!s && !to) *text = all, all = NULL;
    free(all);
    return s;
}

static ot_status predict(job *j, const ot_options *o, char **text, ot_error *err)
{
    const char *to = ot_options_get(o, "o");
    ot_trainer *t = j->t;
    if (j->form == OT_FORM_NPZ && ot_options_int(o, "skip-bad"))
        return ot_fail(err, OT_E_USAGE,
                       "--skip-bad needs -o FILE.csv, .json or .jsonl: an .npz has a row for every sample");
    t->tiles = j->form == OT_FORM_MASKS;
    OT_TRY(ot_trainer_open_prediction(t, err));
    if (to && j->form != OT_FORM_MASKS) {
        ot_inputs in = ot_trainer_inputs(t);
        const char *what = ot_arena_printf(j->a, "-o %s", to);
        if (!what) return ot_fail(err, OT_E_NOMEM, "no memory for a path");
        OT_TRY(ot_output_check(&in, AT_FDCWD, to, j->form == OT_FORM_NPZ ? OT_FILE_ARRAYS : OT_FILE_PREDICTIONS, what,
                               err));
    }
    OT_TRY(ot_predictions_open(t, j->form, o, j->runs, &j->lines, err));
    const char *columns = ot_options_get(o, "copy");
    j->lines.to_file = to != NULL;
    if (columns) OT_TRY(ot_dataset_copy_columns(t->eval.data, columns, j->a, &j->lines.copied, err));
    if (j->form == OT_FORM_MASKS) OT_TRY(open_masks(j, to, ot_task_asked(o), err));
    OT_TRY(deliver(j, to, text, err));
    if (j->odd)
        ot_trainer_say(t, OT_WARNING, "%lld sample%s no probabilities: scores are NaN or infinite (first: sample %lld)",
                       (long long)j->odd, j->odd == 1 ? " has" : "s have", (long long)j->first_odd);
    if (j->form == OT_FORM_MASKS && j->mask.image)
        ot_trainer_say(t, OT_INFO, "%s: %lld image%s, each named as its input image; values %s", j->folder,
                       (long long)j->written, j->written == 1 ? "" : "s",
                       j->mask.plus[0] != 0      ? "have the scaling of the input undone"
                       : j->mask.times[0] == 255 ? "0..1 are written as 0..255"
                                                 : "0..255 are written as they are");
    else if (j->form == OT_FORM_MASKS)
        ot_trainer_say(t, OT_INFO, "%s: mask%s of %lld image%s, each named as its image and of its size", j->folder,
                       j->written == 1 ? "" : "s", (long long)j->written, j->written == 1 ? "" : "s");
    else if (to)
        ot_trainer_say(t, OT_INFO, "%s: predictions for %lld samples", to,
                       (long long)(j->form == OT_FORM_NPZ ? t->eval.fs.samples : j->written));
    return OT_OK;
}

ot_status ot_run_samples(const ot_model *m, const ot_options *o, const ot_callbacks *cb, ot_error *err)
{
    job j = { .form = OT_FORM_NPZ, .runs = true };
    ot_error first = { 0 };
    OT_TRY(ot_trainer_begin(m, o, cb, &j.t, err));
    j.a = j.t->a;
    ot_status s = predict(&j, o, NULL, &first);
    ot_trainer_free(j.t);
    return s ? ot_fail(err, s, "%s", first.text) : OT_OK;
}

ot_status ot_predict_text(const ot_model *m, const ot_options *o, const ot_callbacks *cb, char **text, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(text);
    *text = NULL;
    OT_GIVEN(m);
    OT_GIVEN(o);
    job j = { .form = form_of(o), .lines.top = ot_options_int(o, "top") };
    ot_error first = { 0 };
    OT_TRY(check_form(o, j.form, err));
    OT_TRY(ot_trainer_begin(m, o, cb, &j.t, err));
    j.a = j.t->a;
    ot_status s = predict(&j, o, text, &first);
    ot_mask_parts_free(&j.parts);
    ot_trainer_free(j.t);
    return s ? ot_fail(err, s, "%s", first.text) : OT_OK;
}
