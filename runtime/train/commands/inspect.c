/* inspect.c - the commands inspect, ops and env. */

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "ops/kernels/host.h"
#include "importer/import.h"
#include "ops/kernel.h"
#include "runtime/data/fetch.h"
#include "runtime/data/sound.h"
#include "runtime/picture/draw.h"
#include "runtime/picture/picture.h"
#include "runtime/train/options/cpus.h"
#include "runtime/train/commands/inspect.h"
#include "runtime/train/run/dry_run.h"
#include "runtime/train/run/file_training.h"
#include "runtime/train/run/log.h"

/* ---- pages ----------------------------------------------------------------------- */

ot_status ot_page_open(ot_page *p, bool json, ot_error *err)
{
    *p = (ot_page){ 0 };
    if (json) p->json = json_object();
    else p->f = open_memstream(&p->text, &p->size);
    return p->f || p->json ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the text");
}

ot_status ot_page_close(ot_page *p, char **text, ot_error *err)
{
    *text = NULL;
    if (!p->f) {
        char *body = p->lost ? NULL : ot_json_dump(p->json, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
        json_decref(p->json);
        if (body && asprintf(text, "%s\n", body) < 0) *text = NULL;
        free(body);
    } else if (ot_memstream_close(p->f) && !p->lost) {
        *text = p->text;
    } else {
        free(p->text);
    }
    *p = (ot_page){ 0 };
    return *text ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the text");
}

json_t *ot_json_lines(const char *lines)
{
    json_t *list = json_array();
    while (lines && *lines) {
        size_t n = strcspn(lines, "\n");
        char *line = strndup(lines, n);
        ot_json_add(&list, line ? ot_json_text(line) : NULL);
        free(line);
        lines += n + (lines[n] == '\n');
    }
    return list;
}

/* ---- inspect ------------------------------------------------------------------------ */

static const char *role_name(const ot_value *v)
{
    return v->role == OT_WEIGHT ? "trains" : v->role == OT_STATE ? "statistic" : "constant";
}

const char *ot_symbolic_shape(const ot_value *v, char buf[256])
{
    char *p = buf, *end = buf + 255;
    if (v->shape.rank < 0) return strcpy(buf, "[...]");
    *p++ = '[';
    for (int d = 0; d < v->shape.rank && p < end - 24; d++) {
        const char *name = v->dim_names ? v->dim_names[d] : NULL;
        if (v->shape.dim[d] >= 0)
            p += snprintf(p, (size_t)(end - p), "%s%lld", d ? "," : "", (long long)v->shape.dim[d]);
        else p += snprintf(p, (size_t)(end - p), "%s%.20s", d ? "," : "", name && *name ? name : "?");
    }
    *p++ = ']';
    *p = '\0';
    return buf;
}

static bool is_input(const ot_graph *g, const ot_value *v)
{
    return v->role == OT_INPUT && !v->data && v != g->seed && v != g->counter;
}

static void inspect_value(ot_page *p, const char *what, const char *name, const ot_value *v, json_t **list)
{
    char shape[256], type[64];
    ot_symbolic_shape(v, shape);
    snprintf(type, sizeof type, "%s%s%s", v->list & OT_INPUT_OPTIONAL ? "optional " : "",
             v->list & OT_INPUT_LIST ? "sequence of " : "", v->dtype ? ot_dtype_name(v->dtype) : "?");
    if (p->f) ot_print(p->f, "%-7s %-32s %-9s %s\n", what, name, type, shape);
    else
        ot_json_add(
            list, json_pack("{s:o, s:s, s:o}", "name", ot_json_text(name), "type", type, "shape", ot_json_text(shape)));
}

/* The name of the open batch: that of the first input with a named one. */
static const char *batch_name(const ot_graph *g)
{
    for (int i = 0; i < g->n_inputs; i++) {
        const ot_value *v = g->inputs[i];
        if (v->shape.rank > 0 && v->shape.dim[0] < 0 && v->dim_names && v->dim_names[0] && *v->dim_names[0])
            return v->dim_names[0];
    }
    return "?";
}

/* shaped: the file's graph with shapes in which open sizes are `open`, or NULL. */
static void inspect_ends(ot_page *p, const ot_model *m, const ot_graph *shaped, int64_t open)
{
    const ot_graph *g = m->file->graph;
    const char *batch[OT_MAX_RANK];
    json_t *in = p->f ? NULL : json_array(), *out = p->f ? NULL : json_array();
    for (int d = 0; d < OT_MAX_RANK; d++) batch[d] = batch_name(g);
    for (int i = 0; i < g->n_inputs; i++)
        if (is_input(g, g->inputs[i])) inspect_value(p, "input", g->inputs[i]->name, g->inputs[i], &in);
    for (int i = 0; i < g->n_outputs; i++) {
        ot_value v = *(shaped ? shaped->outputs[i] : g->outputs[i]);
        if (shaped) v.dim_names = batch;
        inspect_value(p, "output", m->outputs[i], &v, &out);
    }
    if (p->f && shaped && ot_leaves_open(g))
        ot_print(p->f,
                 "        (unknown sizes other than the batch are taken as "
                 "%lld)\n",
                 (long long)open);
    if (p->f) return;
    ot_json_set(&p->json, "inputs", in);
    ot_json_set(&p->json, "outputs", out);
}

static void inspect_tensor(ot_page *p, const ot_model *m, const ot_value *v, json_t **list)
{
    char shape[128];
    const char *name = m->file->sources[v->source].name, *why = v->why ? v->why : "";
    const char *type = ot_dtype_name(m->file->sources[v->source].dtype);
    ot_shape_text(&v->shape, shape);
    if (p->f) ot_print(p->f, "%-40s %-9s %-18s %-9s %s\n", name, type, shape, role_name(v), why);
    else
        ot_json_add(list, json_pack("{s:o, s:s, s:s, s:s, s:o}", "name", ot_json_text(name), "type", type, "shape",
                                    shape, "role", role_name(v), "why", ot_json_text(why)));
}

static void inspect_tensors(ot_page *p, const ot_model *m, const ot_graph *g)
{
    json_t *list = p->f ? NULL : json_array();
    int64_t trained = 0, all = 0;
    if (p->f && g->n_values) fputc('\n', p->f);
    for (int i = 0; i < g->n_values; i++) {
        const ot_value *v = g->values[i];
        if (v->source < 0 || v->source >= m->file->n_sources) continue;
        inspect_tensor(p, m, v, &list);
        if (ot_is_float(v->dtype)) all += ot_numel(&v->shape);
        if (v->role == OT_WEIGHT) trained += ot_numel(&v->shape);
    }
    if (p->f) {
        ot_print(p->f, "\n%lld of %lld float parameters train\n", (long long)trained, (long long)all);
        return;
    }
    ot_json_set(&p->json, "initializers", list);
    ot_json_set(&p->json, "parameters", json_integer(all));
    ot_json_set(&p->json, "trained", json_integer(trained));
}

static void inspect_head(ot_page *p, const ot_model *m)
{
    const ot_imported *f = m->file;
    if (p->f) {
        ot_print(p->f, "%s: opset %lld, IR %lld, %d nodes%s%s\n", f->path, (long long)f->opset,
                 (long long)f->ir_version, f->graph->n_nodes, *f->producer ? ", by " : "", f->producer);
        return;
    }
    ot_json_set(&p->json, "model", ot_json_text(f->path));
    ot_json_set(&p->json, "opset", json_integer(f->opset));
    ot_json_set(&p->json, "ir_version", json_integer(f->ir_version));
    ot_json_set(&p->json, "producer", ot_json_text(f->producer));
    ot_json_set(&p->json, "nodes", json_integer(f->graph->n_nodes));
}

static void inspect_findings(ot_page *p, const ot_model *m, ot_graph *classified, ot_arena *a)
{
    ot_findings f = { .a = a };
    bool *unread = ot_arena_alloc(a, (size_t)m->file->n_sources + 1);
    ot_review r = { .findings = &f, .unread = unread };
    if (!unread) {
        p->lost = true;
        return;
    }
    for (int i = 0; i < m->file->n_sources; i++) unread[i] = m->file->sources[i].external; /* a file of any size */
    ot_find_lines(&f, OT_FINDING_NOTE, m->file->notes);
    ot_review_graph(classified, m->file->producer, &r);
    json_t *all = p->f ? NULL : json_array();
    for (int s = OT_FINDING_ERROR; s <= OT_FINDING_NOTE; s++)
        for (int i = 0; i < f.n; i++) {
            if (f.list[i].severity != (ot_severity)s) continue;
            const char *line = ot_finding_line(&f.list[i], a);
            if (line && p->f) ot_print(p->f, "%s: %s\n", ot_severity_name((ot_severity)s), line);
            if (!line) p->lost = true;
            else if (!p->f) ot_json_add(&all, ot_json_text(line));
        }
    p->lost |= f.lost;
    if (!p->f) ot_json_set(&p->json, "notes", all);
}

/* Writes the training algorithm in the file. */
static void inspect_training(ot_page *p, const ot_model *m, ot_arena *a)
{
    const char *text = m->file->training ? ot_file_training_text(m, a) : NULL;
    if (!m->file->training) return;
    p->lost |= !text;
    if (text && p->f) ot_print(p->f, "training: algorithm in the file (TrainingInfoProto): %s\n", text);
    else if (text)
        ot_json_set(&p->json, "training_info",
                    json_pack("{s:b, s:o}", "followed", !m->file->training->why, "what", ot_json_text(text)));
}

static ot_status inspect(const ot_model *m, const ot_settings *s, ot_arena *a, char **text, ot_error *err)
{
    ot_plan p;
    ot_page page;
    int64_t open = 0;
    ot_error none = { 0 }; /* a model that cannot run can still be looked at */
    ot_graph *shaped = ot_dry_run_shapes(m, &open, &none);
    const ot_graph *shown = shaped ? shaped : m->file->graph;
    ot_status r = OT_OK;
    if (s->graph && !s->json) {
        *text = ot_graph_text(shown);
        if (shaped) ot_graph_free(shaped);
        return *text ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the text");
    }
    ot_model own = *m; /* what its own algorithm makes of it */
    const ot_training *x = m->file->training;
    if (x && !x->why) r = ot_file_training_model(m, a, &own, err);
    if (!r) r = ot_classified(&own, s, &p, err);
    if (!r) r = ot_page_open(&page, s->json, err);
    if (!r) {
        inspect_head(&page, m);
        inspect_ends(&page, m, shaped, open);
        inspect_training(&page, m, a);
        inspect_tensors(&page, m, p.graph);
        inspect_findings(&page, m, p.graph, a);
        char *graph = s->graph ? ot_graph_text(shown) : NULL;
        if (s->graph) ot_json_set(&page.json, "graph", graph ? ot_json_text(graph) : NULL);
        free(graph);
        r = ot_page_close(&page, text, err);
    }
    if (shaped) ot_graph_free(shaped);
    if (p.graph) ot_graph_free(p.graph);
    return r;
}

ot_status ot_inspect_text(const ot_model *m, const ot_options *o, char **text, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(text);
    OT_GIVEN(m);
    OT_GIVEN(o);
    ot_settings s;
    ot_arena *a = ot_arena_new();
    *text = NULL;
    if (!a) return ot_fail(err, OT_E_NOMEM, "no memory for the text");
    ot_status r = ot_settings_read(o, m->outputs, a, &s, err);
    if (!r) r = inspect(m, &s, a, text, err);
    ot_arena_free(a);
    return r;
}

/* ---- ops ---------------------------------------------------------------------------- */

static const char *gradient_of(const ot_op *op)
{
    return op->lower                ? "lowered"
           : op->grad               ? "yes"
           : op->grad_zero          ? "zero"
           : op->flags & OT_SPELLED ? "spelled out"
                                    : "no";
}

static int wider(int width, const char *domain, const char *name)
{
    int n = (int)(strlen(domain) + (*domain != '\0') + strlen(name));
    return n > width ? n : width;
}

/* The length of the longest name, with its domain. */
static int width_of_ops(void)
{
    const char *name, *domain;
    const ot_op *op;
    int width = 0;
    for (int i = 0; (op = ot_op_at(i)); i++) width = wider(width, op->domain ? op->domain : "", op->name);
    for (int i = 0; (name = ot_import_rewritten(i, &domain)); i++) width = wider(width, domain, name);
    return width;
}

static void print_op(ot_page *p, int width, const char *domain, const char *name, const char *since,
                     const char *gradient, const char *kernels)
{
    const char *dot = *domain ? "." : "";
    ot_print(p->f, "%s%s%-*s %-6s %-11s %s\n", domain, dot, width - (int)(strlen(domain) + strlen(dot)), name, since,
             gradient, *kernels ? kernels : "-");
}

/* Lists the operators that the importer replaces by others.  Returns the number of ONNX operators; *others: of other domains. */
static int list_rewritten(ot_page *p, int width, json_t **list, int *others)
{
    const char *name, *domain;
    int onnx = 0;
    for (int i = 0; (name = ot_import_rewritten(i, &domain)); i++) {
        *(*domain ? others : &onnx) += 1;
        if (p->f) print_op(p, width, domain, name, "-", "rewritten", "");
        else
            ot_json_add(list, json_pack("{s:s, s:s, s:i, s:b, s:s, s:s}", "name", name, "domain", domain, "since", 1,
                                        "internal", false, "gradient", "rewritten", "kernels", ""));
    }
    return onnx;
}

ot_status ot_ops_text(const ot_options *o, char **text, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(text);
    OT_GIVEN(o);
    ot_page p;
    const ot_op *op;
    int onnx = 0, own = 0, others = 0, width = width_of_ops();
    OT_TRY(ot_page_open(&p, ot_options_flag(o, "json"), err));
    json_t *list = p.f ? NULL : json_array();
    if (p.f) print_op(&p, width, "", "operator", "since", "gradient", "kernels");
    for (int i = 0; (op = ot_op_at(i)); i++) {
        char kernels[128] = "", since[16] = "-";
        const ot_kernel *const *k = ot_kernels(op, NULL);
        for (; *k; k++)
            snprintf(kernels + strlen(kernels), sizeof kernels - strlen(kernels), "%s%s", *kernels ? " " : "",
                     (*k)->name);
        bool internal = op->flags & OT_INTERNAL;
        const char *domain = op->domain ? op->domain : "";
        if (!internal) snprintf(since, sizeof since, "%d", op->since);
        onnx += !internal;
        own += internal;
        if (p.f) print_op(&p, width, domain, op->name, since, gradient_of(op), kernels);
        else
            ot_json_add(&list,
                        json_pack("{s:s, s:s, s:i, s:b, s:s, s:s}", "name", op->name, "domain", domain, "since",
                                  op->since, "internal", internal, "gradient", gradient_of(op), "kernels", kernels));
    }
    onnx += list_rewritten(&p, width, &list, &others);
    if (p.f)
        ot_print(p.f,
                 "\n"
                 "%d ONNX operators, %d of other domains, %d internal kernels\n",
                 onnx, others, own);
    else ot_json_set(&p.json, "operators", list);
    return ot_page_close(&p, text, err);
}

/* ---- env ------------------------------------------------------------------------------ */

/* The value of a line "key : value" or "key: value" of a file of /proc; "" if there is none. */
static void proc_value(const char *path, const char *key, char *out, size_t n)
{
    char line[512];
    FILE *f = fopen(path, "r");
    *out = '\0';
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) || !colon) continue;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(out, n, "%s", colon);
        break;
    }
    if (f) fclose(f);
}

static void cpu_features(char *out, size_t n)
{
    *out = '\0';
#if defined(__x86_64__) || defined(__i386__)
#define HAS(name)                                                                                  \
    if (__builtin_cpu_supports(name))                                                              \
        snprintf(out + strlen(out), n - strlen(out), "%s%s", *out ? " " : "", name);
    HAS("sse4.2")
    HAS("avx")
    HAS("avx2")
    HAS("fma")
    HAS("avx512f")
    HAS("avx512bw")
    HAS("avx512vnni")
    HAS("avx512bf16")
#ifndef __clang__ /* version 14 knows no such name */
    HAS("amx-bf16")
#endif
#undef HAS
#endif
    (void)n;
}

/* A line for each device of --device cuda, or why there is none; without the last line break. */
static const char *cuda_devices(ot_arena *a)
{
    ot_error why = { 0 };
    const char *all = "";
    const ot_backend *b = ot_backend_usable(&why);
    int n = b ? b->count(&why) : 0;
    for (int i = 0; i < n && all; i++) {
        ot_device *d;
        ot_device_info info;
        ot_error e = { 0 };
        if (b->open(i, NULL, &d, &e)) {
            all = ot_arena_printf(a, "%s%scuda:%d cannot be used: %s", all, i ? "\n" : "", i, e.text);
            continue;
        }
        b->info(d, &info);
        all = ot_arena_printf(a, "%s%scuda:%d %s, %.1f GiB, %.1f free, %d multiprocessors; %s", all, i ? "\n" : "", i,
                              info.name, (double)info.memory / (1 << 30), (double)info.free / (1 << 30), info.units,
                              info.libraries);
        b->close(d);
    }
    if (!n) all = ot_arena_printf(a, "no CUDA: %s", why.text);
    return all;
}

/* The image formats that this build reads, and those that it does not. */
static void write_pictures(ot_page *p)
{
    const char *format, *missing;
    ot_print(p->f, "pictures   ");
    for (int i = 0; (format = ot_picture_format(i, &missing)); i++)
        if (!missing) ot_print(p->f, "%s %s", i ? "," : "", format);
    ot_print(p->f, "\n");
    for (int i = 0; (format = ot_picture_format(i, &missing)); i++)
        if (missing) ot_print(p->f, "            %s not supported: built without %s\n", format, missing);
}

static void write_sound(ot_page *p)
{
    const char *missing = ot_sound_missing();
    ot_print(p->f, "sound       %s%s\n", missing ? "not supported: built without " : "WAV, FLAC",
             missing ? missing : "");
}

static void write_download(ot_page *p)
{
    const char *missing = ot_fetch_missing();
    ot_print(p->f, "download    %s%s\n", missing ? "data fetch not supported: built without " : "data fetch",
             missing ? missing : "");
}

static void write_charts(ot_page *p)
{
    const char *missing = ot_sketch_png_missing();
    ot_print(p->f, "charts      SVG%s\n", missing ? "" : ", PNG");
    if (missing) ot_print(p->f, "            PNG not supported: built without %s\n", missing);
}

static json_t *picture_formats(void)
{
    json_t *list = json_array();
    const char *format, *missing;
    for (int i = 0; (format = ot_picture_format(i, &missing)); i++)
        if (!missing) ot_json_add(&list, json_string(format));
    return list;
}

static void write_env(ot_page *p, const char *cuda)
{
    char cpu[256], features[256], total[64], available[64], granted[96];
    ot_cpus cpus = ot_cpus_read();
    struct utsname u;
    proc_value("/proc/cpuinfo", "model name", cpu, sizeof cpu);
    proc_value("/proc/meminfo", "MemTotal", total, sizeof total);
    proc_value("/proc/meminfo", "MemAvailable", available, sizeof available);
    cpu_features(features, sizeof features);
    if (uname(&u)) memset(&u, 0, sizeof u);
    if (p->json) {
        json_t *devices = json_array(), *more = ot_json_lines(cuda);
        ot_json_add(&devices, json_string("cpu"));
        if (!more || json_array_extend(devices, more)) p->lost = true;
        json_decref(more);
        json_t *all =
            json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:o, s:s}", "version", OT_VERSION, "compiler",
                      __VERSION__, "system", u.release, "machine", u.machine, "cpu", cpu, "threads", cpus.threads,
                      "features", features, "memory", total, "devices", devices, "jansson", jansson_version_str());
        ot_json_set(&all, "pictures", picture_formats());
        ot_json_set(&all, "sound", ot_sound_missing() ? json_array() : json_pack("[s, s]", "wav", "flac"));
        ot_json_set(&all, "charts", json_pack(ot_sketch_png_missing() ? "[s]" : "[s, s]", "svg", "png"));
        ot_json_set(&all, "download", json_boolean(!ot_fetch_missing()));
        ot_json_set(&all, "processors", json_integer(cpus.processors));
        ot_json_set(&all, "cpu_quota", cpus.quota > 0 ? json_real(cpus.quota) : json_null());
        if (!all || json_object_update(p->json, all)) p->lost = true;
        json_decref(all);
        return;
    }
    ot_print(p->f, "onnxtrain   %s, compiler %s\n", OT_VERSION, __VERSION__);
    ot_print(p->f, "system      %s %s, %s\n", u.sysname, u.release, u.machine);
    ot_print(p->f, "processor   %s; %d thread%s%s\n", *cpu ? cpu : "unknown", cpus.threads, cpus.threads > 1 ? "s" : "",
             ot_cpus_text(&cpus, granted));
    ot_print(p->f, "features    %s\n", *features ? features : "unknown");
    ot_print(p->f, "memory      %s, %s available\n", total, available);
    ot_print(p->f, "devices     cpu\n");
    for (const char *line = cuda; *line; line += strcspn(line, "\n") + (line[strcspn(line, "\n")] != 0))
        ot_print(p->f, "            %.*s\n", (int)strcspn(line, "\n"), line);
    ot_print(p->f, "libraries   jansson %s\n", jansson_version_str());
    write_pictures(p);
    write_sound(p);
    write_charts(p);
    write_download(p);
}

ot_status ot_env_text(const ot_options *o, char **text, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(text);
    OT_GIVEN(o);
    ot_page p;
    ot_arena *a = ot_arena_new();
    *text = NULL;
    if (!a) return ot_fail(err, OT_E_NOMEM, "no memory for the text");
    ot_status s = ot_page_open(&p, ot_options_flag(o, "json"), err);
    if (!s) {
        const char *cuda = cuda_devices(a);
        p.lost = !cuda;
        if (cuda) write_env(&p, cuda);
        s = ot_page_close(&p, text, err);
    }
    ot_arena_free(a);
    return s;
}
