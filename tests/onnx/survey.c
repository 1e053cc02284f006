/* survey.c - which operators a model needs, and whether its inputs and outputs are tensors. */
#include "tests/onnx/onnx_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/op.h"
#include "proto/onnx.pb-c.h"
#include "runtime/base/io.h"

static const char *text(const char *s) { return s ? s : ""; }

static bool is_function(const Onnx__ModelProto *m, const char *domain, const char *name)
{
    for (size_t i = 0; i < m->n_functions; i++)
        if (!strcmp(text(m->functions[i]->name), name) && !strcmp(text(m->functions[i]->domain), domain)) return true;
    return false;
}

static void note_missing(ot_survey *out, const char *domain, const char *name)
{
    char word[128];
    out->supported = false;
    snprintf(word, sizeof word, "%s%s%s", domain, *domain ? "." : "", name);
    for (char *at = out->missing; (at = strstr(at, word)); at += strlen(word)) {
        char end = at[strlen(word)];
        if ((at == out->missing || at[-1] == ' ') && (end == ' ' || end == 0)) return;
    }
    size_t used = strlen(out->missing);
    snprintf(out->missing + used, sizeof out->missing - used, "%s%s", used ? " " : "", word);
}

static void survey_nodes(const Onnx__ModelProto *m, Onnx__NodeProto *const *node, size_t n, ot_survey *out)
{
    for (size_t i = 0; i < n; i++) {
        const char *name = text(node[i]->op_type), *domain = text(node[i]->domain);
        if (!strcmp(domain, "ai.onnx")) domain = "";
        const ot_op *op = ot_find_op(domain, name);
        bool constant = !*domain && !strcmp(name, "Constant"); /* a value, not an operator */
        if (op && op->flags & OT_RANDOM) out->random = true;
        if (!op && !constant && !is_function(m, domain, name)) note_missing(out, domain, name);
        for (size_t k = 0; k < node[i]->n_attribute; k++) {
            const Onnx__AttributeProto *a = node[i]->attribute[k];
            if (a->g) survey_nodes(m, a->g->node, a->g->n_node, out);
            for (size_t j = 0; j < a->n_graphs; j++) survey_nodes(m, a->graphs[j]->node, a->graphs[j]->n_node, out);
        }
    }
}

static bool all_tensors(Onnx__ValueInfoProto *const *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!v[i]->type || v[i]->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) return false;
    return true;
}

void ot_survey_model(const char *path, ot_survey *out)
{
    *out = (ot_survey){ .supported = true };
    void *bytes;
    size_t n;
    if (ot_read_file(path, 1u << 30, &bytes, &n, NULL)) return;
    Onnx__ModelProto *m = onnx__model_proto__unpack(NULL, n, bytes);
    free(bytes);
    if (!m) return;
    if (m->graph) {
        out->readable = true;
        out->tensors =
            all_tensors(m->graph->input, m->graph->n_input) && all_tensors(m->graph->output, m->graph->n_output);
        survey_nodes(m, m->graph->node, m->graph->n_node, out);
        for (size_t i = 0; i < m->n_functions; i++)
            survey_nodes(m, m->functions[i]->node, m->functions[i]->n_node, out);
    }
    onnx__model_proto__free_unpacked(m, NULL);
}
