/* signature.c - reads which tensors are parameters and which are buffers, where the exporting program wrote it into
 * the file.
 *
 * Source  torch.onnx.export(dynamo=True) keeps the signature of the ExportedProgram in the graph's metadata_props, a
 *         line for each input: "p_fc_weight: PARAMETER target='fc.weight'", "b_mask: BUFFER target='mask'
 *         persistent=True", "c_mean: CONSTANT_TENSOR target='mean'". */
#include <string.h>

#include "importer/build.h"

static const char key[] = "pkg.torch.export.ExportedProgram.graph_signature";

/* The text between the quotes behind "target=", in the arena.  NULL: there is none, or no memory. */
static const char *target_of(ot_job *j, const char *line, size_t n)
{
    static const char mark[] = " target='";
    const char *from = memmem(line, n, mark, sizeof mark - 1), *end;
    if (!from) return NULL;
    from += sizeof mark - 1;
    end = memchr(from, '\'', n - (size_t)(from - line));
    return end ? ot_arena_printf(j->f->arena, "%.*s", (int)(end - from), from) : NULL;
}

/* Quantisers put integers of another name in a tensor's place, and name them after it. */
static bool quantised(ot_job *j, const ot_scope *s, const char *target)
{
    static const char *const ends[] = { "_quantized", "_DequantizeLinear_Output", "_Q4", "_Q8", "_Q4G32" };
    for (int i = 0; i < OT_LEN(ends); i++) {
        const char *name = ot_arena_printf(j->f->arena, "%s%s", target, ends[i]);
        if (name && ot_table_find(&s->values, name)) return true;
    }
    return false;
}

typedef struct missing {
    int n;
    const char *first;
    bool biases;
} missing;

/* By the last part of a parameter's name: "norm.weight" scales, and is never added. */
static bool scales(const char *target)
{
    static const char *const words[] = { "weight", "scale", "gamma" };
    const char *dot = strrchr(target, '.'), *last = dot ? dot + 1 : target;
    for (int i = 0; i < OT_LEN(words); i++)
        if (!strcmp(last, words[i])) return true;
    return false;
}

static void read_line(ot_job *j, const ot_scope *s, const char *line, size_t n, missing *m)
{
    static const struct {
        const char *mark;
        ot_said said;
    } kinds[] = { { ": PARAMETER ", OT_SAID_PARAMETER },
                  { ": BUFFER ", OT_SAID_BUFFER },
                  { ": CONSTANT_TENSOR ", OT_SAID_BUFFER } }; /* an attribute of a module that is neither */
    for (int i = 0; i < OT_LEN(kinds); i++) {
        if (!memmem(line, n, kinds[i].mark, strlen(kinds[i].mark))) continue;
        const char *target = target_of(j, line, n);
        ot_value *v = target ? ot_table_find(&s->values, target) : NULL;
        if (v && v->source >= 0) {
            v->said = kinds[i].said;
            s->graph->listed |= v->said == OT_SAID_PARAMETER;
        } else if (target && kinds[i].said == OT_SAID_PARAMETER && !quantised(j, s, target)) {
            if (!m->n++) m->first = target;
            m->biases |= !scales(target);
        }
    }
}

void ot_signature_read(ot_job *j, const ot_scope *s, const Onnx__GraphProto *g)
{
    missing m = { 0 };
    for (size_t i = 0; i < g->n_metadata_props; i++) {
        if (strcmp(ot_text(g->metadata_props[i]->key), key) != 0) continue;
        for (const char *p = ot_text(g->metadata_props[i]->value); *p;) {
            size_t n = strcspn(p, "\n");
            read_line(j, s, p, n, &m);
            p += n + (p[n] == '\n');
        }
    }
    s->graph->lost_parameters = m.n;
    s->graph->lost_biases = m.biases;
    if (m.n)
        ot_note(
            j,
            "%d parameter%s of the PyTorch model %s not in the file by name (first: '%s'): the exporter transposed, folded or merged %s (export with "
            "optimize=False), or the model does not use %s",
            m.n, m.n > 1 ? "s" : "", m.n > 1 ? "are" : "is", m.first, m.n > 1 ? "them" : "it", m.n > 1 ? "them" : "it");
}
