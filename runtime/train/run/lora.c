/* lora.c - --lora: adapters of low rank train beside frozen weights; the file gets their sum.
 *
 * As in PEFT, A starts uniform in ±1/sqrt(in) (kaiming_uniform with a = sqrt(5)), B at 0: the first step sees the file's outputs.
 *
 * Numerics  merging in double; at B = 0 the file keeps its bytes. */
#include "runtime/train/run/lora.h"

#include <math.h>
#include <string.h>

#include "exporter/classifier.h"
#include "runtime/base/random.h"
#include "runtime/passes/lora.h"

static ot_status no_memory(ot_error *err) { return ot_fail(err, OT_E_NOMEM, "no memory for --lora"); }

static double scale_of(const ot_trainer *t)
{
    double rank = ot_spec_num(&t->s.lora, "rank"), alpha = ot_spec_num(&t->s.lora, "alpha");
    return isnan(alpha) ? 1 : alpha / rank;
}

/* ---- what trains --------------------------------------------------------------------------- */

/* The names of the weights that train besides the adapters (--train, new last layers); the list has room for the adapters'. */
static const char **chosen(ot_trainer *t, int most, int *n)
{
    const char **name =
        ot_arena_alloc(t->a, sizeof *name * (size_t)(t->s.options.n_only + 2 * t->classifiers.n + most + 1));
    *n = 0;
    for (int i = 0; name && i < t->s.options.n_only; i++) name[(*n)++] = t->s.options.only[i];
    for (int i = 0; name && i < t->classifiers.n && t->classifiers.replaced && !t->s.freeze_backbone; i++) {
        const ot_classifier *c = &t->classifiers.list[i];
        if (c->now == c->classes) continue;
        name[(*n)++] = c->weight;
        if (c->bias) name[(*n)++] = c->bias;
    }
    return name;
}

/* Whether the tensor is one weight.  A tensor of a function that is called twice is two, but the file can store one. */
static bool has_one_place(const ot_imported *f, int source)
{
    for (int i = 0; i < f->n_sources; i++)
        if (i != source && f->sources[i].order == f->sources[source].order) return false;
    return f->sources[source].order >= 0;
}

/* Appends the tensors of the adapters, with their initial values, to the tensors of the file. */
static ot_source *with_adapters(ot_trainer *t, const char **name, int *n_names, ot_error *err)
{
    const ot_imported *f = t->m->file;
    ot_source *s = ot_arena_alloc(t->a, sizeof *s * (size_t)(f->n_sources + OT_LORA_PARTS * t->lora.n + 1));
    if (!s) return no_memory(err), NULL;
    if (f->n_sources) memcpy(s, f->sources, sizeof *s * (size_t)f->n_sources);
    for (int i = 0; i < t->lora.n; i++) {
        ot_lora *l = &t->lora.adapter[i];
        l->first = f->n_sources + OT_LORA_PARTS * i;
        for (int k = 0; k < OT_LORA_PARTS; k++) {
            const char *text = ot_arena_printf(t->a, "%s/%s", l->name, ot_lora_part[k]);
            void *bytes = ot_shape_fits(&l->shape[k], l->dtype)
                              ? ot_arena_alloc(t->a, ot_bytes(&l->shape[k], l->dtype) + 1)
                              : NULL;
            if (!text || !bytes) return no_memory(err), NULL;
            if (k == OT_LORA_A)
                ot_fill_uniform(bytes, l->dtype, ot_numel(&l->shape[k]), 1 / sqrt((double)l->in), t->s.seed, text);
            l->start[k] = bytes;
            name[(*n_names)++] = text;
            s[l->first + k] =
                (ot_source){ .name = text, .dtype = l->dtype, .shape = l->shape[k], .data = bytes, .order = -1 };
        }
    }
    return s;
}

static ot_status copy_model(ot_trainer *t, ot_source *sources, ot_error *err)
{
    ot_imported *file = ot_arena_alloc(t->a, sizeof *file);
    ot_model *m = ot_arena_alloc(t->a, sizeof *m);
    ot_error sticky = { 0 };
    if (!file || !m) return no_memory(err);
    *file = *t->m->file;
    *m = *t->m;
    m->file = file;
    file->sources = sources;
    file->n_sources += OT_LORA_PARTS * t->lora.n;
    file->graph = ot_graph_clone(t->m->file->graph, &sticky);
    if (!file->graph) return no_memory(err);
    if (ot_lora_insert(file->graph, t->lora.adapter, t->lora.n, scale_of(t), ot_spec_num(&t->s.lora, "dropout"))) {
        ot_graph_free(file->graph);
        return ot_fail(err, sticky.status, "--lora: %s", sticky.text);
    }
    file->graph->err = NULL; /* it is complete; sticky goes */
    t->lora.graph = file->graph;
    t->m = t->x.model = m;
    return OT_OK;
}

/* ---- which ----------------------------------------------------------------------------------- */

static ot_status choose(ot_trainer *t, const char *const *skip, int n_skip, ot_error *err)
{
    const ot_param *p = ot_spec_find(&t->s.lora, "targets");
    const char *targets = p ? p->text : NULL;
    int n = 0, shared = 0;
    ot_error sticky = { 0 };
    ot_graph *g = ot_graph_clone(t->m->file->graph, &sticky);
    ot_lora *found =
        g ? ot_lora_find(g, targets, skip, n_skip, (int64_t)ot_spec_num(&t->s.lora, "rank"), &n, &shared) : NULL;
    t->lora.adapter = found ? ot_arena_alloc(t->a, sizeof *t->lora.adapter * (size_t)(n + 1)) : NULL;
    t->lora.n = 0;
    for (int i = 0; t->lora.adapter && i < n; i++) {
        if (!has_one_place(t->m->file, found[i].weight)) {
            shared++;
            continue;
        }
        t->lora.adapter[t->lora.n] = found[i];
        t->lora.adapter[t->lora.n].name = ot_arena_strdup(t->a, found[i].name);
        if (!t->lora.adapter[t->lora.n++].name) t->lora.adapter = NULL;
    }
    if (g) ot_graph_free(g);
    if (!t->lora.adapter) return no_memory(err);
    if (!t->lora.n)
        return ot_fail(
            err, OT_E_USAGE, "--lora: no Gemm%s MatMul%s with a float weight that no other node reads%s%s%s%s",
            targets ? "," : " or", targets ? " or Conv" : "", targets ? " matches '" : "", targets ? targets : "",
            targets ? "'" : "; name convolutions with targets=GLOB", shared ? " (some are shared: see --untie)" : "");
    if (shared)
        ot_find(&t->findings, OT_FINDING_WARNING, NULL, "use --untie to give each its own",
                "--lora: %d weight%s other readers, too, and get%s no adapter", shared, shared > 1 ? "s have" : " has",
                shared > 1 ? "" : "s");
    return OT_OK;
}

ot_status ot_trainer_adapt(ot_trainer *t, ot_error *err)
{
    int n = 0;
    long long trained = 0, frozen = 0;
    if (!t->s.lora.name) return OT_OK;
    if (t->s.unfold_bn) return ot_fail(err, OT_E_USAGE, "--lora and --unfold-bn: use one of them");
    const char **skip = chosen(t, 0, &n);
    if (!skip) return no_memory(err);
    OT_TRY(choose(t, skip, n, err));
    const char **name = chosen(t, OT_LORA_PARTS * t->lora.n, &n);
    if (!name) return no_memory(err);
    ot_source *sources = with_adapters(t, name, &n, err);
    if (!sources) return err->status;
    OT_TRY(copy_model(t, sources, err));
    t->s.options.only = name;
    t->s.options.n_only = n;
    for (int i = 0; i < t->lora.n; i++) {
        const ot_lora *l = &t->lora.adapter[i];
        frozen += l->in * l->out;
        for (int k = 0; k < OT_LORA_PARTS; k++) trained += ot_numel(&l->shape[k]);
    }
    ot_find(
        &t->findings, OT_FINDING_NOTE, NULL, NULL,
        "--lora: rank %g, alpha / rank %g, %d weight%s: %lld parameters train in place of %lld; the file gets them merged",
        ot_spec_num(&t->s.lora, "rank"), scale_of(t), t->lora.n, t->lora.n > 1 ? "s" : "", trained, frozen);
    return OT_OK;
}

/* ---- back into the file ------------------------------------------------------------------------- */

static const void *bytes_of(const ot_export_tensor *list, int n, int source, const void *otherwise)
{
    for (int i = 0; i < n; i++)
        if (list[i].source == source) return list[i].bytes;
    return otherwise;
}

/* W + s A B, in W's layout. */
static ot_status merge_one(const ot_trainer *t, ot_arena *arena, const ot_lora *l, const ot_export_tensor *list, int n,
                           ot_export_tensor *out, ot_error *err)
{
    const ot_source *w = &t->m->file->sources[l->weight];
    const void *was = bytes_of(list, n, l->weight, w->data),
               *a = bytes_of(list, n, l->first + OT_LORA_A, l->start[OT_LORA_A]),
               *b = bytes_of(list, n, l->first + OT_LORA_B, l->start[OT_LORA_B]);
    int64_t rank = l->shape[OT_LORA_A].dim[l->conv ? 0 : 1];
    double scale = scale_of(t), *column = ot_arena_alloc(arena, sizeof *column * (size_t)(rank + 1));
    void *now = ot_arena_alloc(arena, ot_bytes(&w->shape, w->dtype) + 1);
    if (!now || !column) return no_memory(err);
    for (int64_t o = 0; o < l->out; o++) {
        for (int64_t k = 0; k < rank; k++) column[k] = ot_get_f64(b, l->dtype, l->conv ? o * rank + k : k * l->out + o);
        for (int64_t i = 0; i < l->in; i++) {
            int64_t at = l->turned ? o * l->in + i : i * l->out + o;
            double sum = 0;
            for (int64_t k = 0; k < rank; k++)
                sum += column[k] * ot_get_f64(a, l->dtype, l->conv ? k * l->in + i : i * rank + k);
            ot_set_f64(now, w->dtype, at, ot_get_f64(was, w->dtype, at) + scale * sum);
        }
    }
    *out = (ot_export_tensor){ l->weight, now };
    return OT_OK;
}

ot_status ot_trainer_merge(const ot_trainer *t, ot_arena *a, ot_export_tensor *list, int *n, ot_error *err)
{
    int of_file = t->loaded->file->n_sources, kept = 0;
    if (!t->lora.n) return OT_OK;
    ot_export_tensor *made = ot_arena_alloc(a, sizeof *made * (size_t)(t->lora.n + 1));
    int *merged = ot_arena_alloc(a, sizeof *merged * (size_t)(of_file + 1));
    if (!made || !merged) return no_memory(err);
    for (int i = 0; i < t->lora.n; i++) {
        OT_TRY(merge_one(t, a, &t->lora.adapter[i], list, *n, &made[i], err));
        merged[t->lora.adapter[i].weight] = 1;
    }
    for (int i = 0; i < *n; i++)
        if (list[i].source < of_file && !merged[list[i].source]) list[kept++] = list[i];
    memcpy(list + kept, made, sizeof *made * (size_t)t->lora.n);
    *n = kept + t->lora.n;
    return OT_OK;
}

double ot_trainer_rounding(const ot_trainer *t)
{
    bool half = t->s.options.precision == OT_PREC_BF16, less = t->s.options.precision != OT_FP32;
    for (int i = 0; i < t->lora.n; i++) {
        half |= t->lora.adapter[i].dtype == OT_BF16;
        less |= t->lora.adapter[i].dtype == OT_F16;
    }
    return !t->lora.n ? 1e-3 : half ? 1.0 / 8 : less ? 1.0 / 32 : 1e-3;
}
