/* import.c - ONNX file -> graph: header, bodies, and what is reported at the end.
 *
 * Memory  Values borrow their bytes from the ot_file, which lives as long as the ot_imported. */
#include <stdio.h>
#include <stdlib.h>

#include "importer/build.h"

enum { INLINED_NODES = 200000, NEWEST_IR = 14, NEWEST_OPSET = 28, LISTED = 3000 };

/* The opset of a file that gives none: the newest one when its IR version was current. */
static int64_t opset_of_ir(int64_t ir)
{
    static const int64_t newest[] = { 1, 1, 1, 8, 9, 10, 11, 14, 18, 20, 22, 23, 24, 25, NEWEST_OPSET };
    return ir < 0 ? 1 : ir < OT_LEN(newest) ? newest[ir] : NEWEST_OPSET;
}

static void read_header(ot_job *j)
{
    const Onnx__ModelProto *m = j->f->model;
    ot_imported *o = j->m;
    o->ir_version = m->has_ir_version ? m->ir_version : 0;
    o->producer = ot_text(m->producer_name);
    o->path = j->f->path;
    o->opset = 0;
    for (size_t i = 0; i < m->n_opset_import; i++)
        if (!*ot_domain(m->opset_import[i]->domain)) o->opset = m->opset_import[i]->version;
    if (!o->opset) {
        o->opset = opset_of_ir(o->ir_version);
        ot_note(j, "the file has no opset_import; opset %lld is assumed from IR version %lld", (long long)o->opset,
                (long long)o->ir_version);
    }
    if (o->opset > NEWEST_OPSET)
        ot_note(j, "opset %lld is newer than the supported %d; operators are read as in opset %d", (long long)o->opset,
                NEWEST_OPSET, NEWEST_OPSET);
    if (o->ir_version > NEWEST_IR)
        ot_note(j, "IR version %lld is newer than the supported %d; new fields are ignored", (long long)o->ir_version,
                NEWEST_IR);
    int listed = 0;
    ot_table inputs = { .arena = j->f->arena };
    for (size_t i = 0; i < m->graph->n_input; i++)
        if (!ot_table_set(&inputs, ot_text(m->graph->input[i]->name), m)) {
            ot_fail_more(j->found, OT_E_NOMEM, "no memory");
            return;
        }
    for (size_t i = 0; i < m->graph->n_initializer; i++)
        listed += ot_table_find(&inputs, ot_text(m->graph->initializer[i]->name)) != NULL;
    if (listed && o->ir_version >= 4)
        ot_note(j, "%d initializer%s also graph inputs; they keep the values of the file", listed,
                listed > 1 ? "s are" : " is");
}

/* Is there an output that needs none of the operators that are not supported? */
static void mark_unsupported(ot_graph *g)
{
    for (ot_node *n = g->first; n; n = n->next) {
        n->mark = n->op == &ot_op_Unsupported;
        for (int i = 0; ot_subgraph(n, i); i++) mark_unsupported(ot_subgraph(n, i));
    }
}

static bool some_output_without(ot_graph *g)
{
    bool some = false;
    mark_unsupported(g);
    ot_graph_mark_behind(g);
    for (int i = 0; i < g->n_outputs; i++) some |= !g->outputs[i]->mark;
    ot_hints_clear(g);
    return some;
}

/* "3 operators are not supported: Crop (1 node, first 'crop'), …" */
static void report_unsupported(ot_job *j, ot_error *err)
{
    char text[LISTED + 400] = "", why[300] = "";
    size_t n = 0, total = j->unsupported.n, told = 0;
    const char *foreign = NULL; /* all operators of the standard are supported, up to NEWEST_OPSET */
    for (const ot_unsupported *u = j->first_unsupported; u && !foreign; u = u->next)
        if (!*u->domain && j->m->opset <= NEWEST_OPSET) foreign = u->op;
    if (foreign)
        snprintf(why, sizeof why,
                 "; ONNX has no operator %.60s: the exporter left what its framework has, and other runtimes refuse "
                 "the file too; use operations that it converts, or compute this part before the model",
                 foreign);
    for (const ot_unsupported *u = j->first_unsupported; u && n < LISTED; u = u->next, told++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.60s%s%.60s (%d node%s, first '%.100s')", told ? ", " : "",
                              u->domain, *u->domain ? "." : "", u->op, u->nodes, u->nodes > 1 ? "s" : "", u->first);
    if (!total) return;
    if (told < total) snprintf(text + n, sizeof text - n, ", and %zu more", total - told);
    if (j->found->status == OT_OK && some_output_without(j->graph)) {
        ot_note(j, "%zu operator%s not supported: %s; outputs that depend on %s are omitted", total,
                total > 1 ? "s are" : " is", text, total > 1 ? "them" : "it");
        return;
    }
    ot_fail(err, OT_E_MODEL, "%s: %zu operator%s not supported: %s%s", j->f->path, total, total > 1 ? "s are" : " is",
            text, why);
}

static ot_status bodies_build(ot_job *j, ot_scope *s)
{
    const Onnx__ModelProto *m = j->f->model;
    OT_TRY(ot_tensors_order(j));
    OT_TRY(ot_functions_index(j));
    OT_TRY(ot_graph_build(j, s, m->graph));
    OT_TRY(ot_sources_name(j));
    ot_signature_read(j, s, m->graph);
    ot_traced_notes(j);
    return m->n_training_info && j->found->status == OT_OK ? ot_training_build(j, s) : OT_OK;
}

static ot_status model_build(ot_job *j)
{
    const Onnx__ModelProto *m = j->f->model;
    ot_check_model(m, j->found);
    if (j->found->status != OT_OK) return j->found->status;
    read_header(j);
    j->graph = j->m->graph = ot_graph_new(&j->f->sticky);
    if (!j->graph) return ot_fail_more(j->found, OT_E_NOMEM, "no memory");
    j->graph->name = ot_text(m->graph->name);
    j->graph->made_by = ot_text(m->producer_name);
    ot_scope s = { .graph = j->graph,
                   .values = { .arena = j->f->arena },
                   .prefix = "",
                   .path = "",
                   .opset = m->opset_import,
                   .n_opset = m->n_opset_import };
    ot_status built = bodies_build(j, &s);
    ot_file_missing(j->f, j->found);
    if (j->f->sticky.status != OT_OK) ot_fail_more(j->found, j->f->sticky.status, "%s", j->f->sticky.text);
    if (built != OT_OK && j->found->status == OT_OK) ot_fail_more(j->found, OT_E_NOMEM, "no memory");
    ot_hints_clear(j->graph);
    return j->found->status;
}

/* Where the file comes from. */
typedef struct from {
    const char *path;
    const ot_unnamed *unnamed; /* or NULL */
    const ot_file *again;      /* then with these bytes; or NULL */
    void *bytes;
    size_t n;
} from;

static ot_status open_from(const from *x, ot_file **out, ot_error *err)
{
    return x->again ? ot_file_again(x->again, x->bytes, x->n, out, err) : ot_file_open(x->path, x->unnamed, out, err);
}

static ot_status import(const from *x, ot_imported **out, ot_error *err)
{
    const char *path = x->path;
    ot_error own = { 0 };
    if (!err) err = &own; /* its status is returned */
    *out = NULL;
    ot_imported *m = calloc(1, sizeof *m);
    ot_error *found = calloc(1, sizeof *found);
    ot_file *f = NULL;
    if (m && found) open_from(x, &f, err);
    else {
        free(x->bytes);
        ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    }
    if (f) {
        /* A node takes at least ten bytes: the nodes of the file itself are always within the limit. */
        ot_job j = { .m = m,
                     .f = f,
                     .found = found,
                     .notes = "",
                     .unsupported = { .arena = f->arena },
                     .traced = { .arena = f->arena },
                     .most_nodes = INLINED_NODES + (int64_t)f->n / 10 };
        m->file = f;
        ot_status s = model_build(&j);
        m->bytes = (int64_t)(f->n - f->payloads.released + f->budget.used + ot_arena_used(f->arena) +
                             (m->graph ? ot_arena_used(m->graph->arena) : 0));
        /* What is not supported comes first: a long list of findings must not hide it. */
        if (s != OT_E_NOMEM) report_unsupported(&j, err);
        m->notes = j.notes;
        if (s != OT_OK) ot_fail_more(err, s, "%s: %-s", path, found->text);
    }
    free(found);
    if (err->status == OT_OK) *out = m;
    else ot_import_free(m);
    return err->status;
}

ot_status ot_import(const char *path, ot_imported **out, ot_error *err)
{
    return import(&(from){ .path = path }, out, err);
}

ot_status ot_import_unnamed(const ot_unnamed *u, const char *path, ot_imported **out, ot_error *err)
{
    return import(&(from){ .path = path, .unnamed = u }, out, err);
}

ot_status ot_import_again(const ot_imported *m, void *bytes, size_t n, ot_imported **out, ot_error *err)
{
    return import(&(from){ .path = m->path, .again = m->file, .bytes = bytes, .n = n }, out, err);
}

const char *ot_import_rewritten(int i, const char **domain)
{
    int n = 0, ml = 0, ms = 0, preview = 0;
    while (ot_upgrade_at(n)) n++;
    while (ot_ml_at(ml)) ml++;
    while (ot_microsoft_at(ms)) ms++;
    while (ot_preview_training_at(preview)) preview++;
    *domain = i < n ? "" : i < n + ml ? "ai.onnx.ml" : i < n + ml + ms ? "com.microsoft" : "ai.onnx.preview.training";
    if (i < n) return ot_upgrade_at(i);
    if (i < n + ml) return ot_ml_at(i - n);
    if (i < n + ml + ms) return ot_microsoft_at(i - n - ml)->op;
    return i < n + ml + ms + preview ? ot_preview_training_at(i - n - ml - ms) : NULL;
}

void ot_import_free(ot_imported *m)
{
    if (!m) return;
    if (m->training) {
        ot_graph_free(m->training->graph);
        ot_graph_free(m->training->initialization);
    }
    ot_graph_free(m->graph);
    ot_file_free(m->file);
    free(m);
}
