/* fused.c - Fused: the types and shapes of its results, its operations, and its Map as a chain of functions. */
#include "ops/kernels/fused.h"

#include <string.h>

static ot_status infer(ot_node *n, ot_error *err)
{
    const ot_fused *f = n->attrs;
    for (int p = 0; p < OT_FUSED_PARTS; p++)
        for (int k = 0; k < f->part[p].node->n_out; k++) {
            const ot_value *v = f->part[p].node->out[k];
            if (f->part[p].out[k] < 0) continue;
            if (f->part[p].out[k] >= n->n_out) return ot_node_fail(n, err, "internal error: a part has no output");
            OT_TRY(ot_like(n->out[f->part[p].out[k]], v));
        }
    if (f->mask_out >= 0 && f->mask_out < n->n_out) {
        const ot_value *y = f->part[1].node->out[0];
        return ot_set(n->out[f->mask_out], OT_U8, &(ot_shape){ 1, { (ot_numel(&y->shape) + 7) / 8 } });
    }
    return OT_OK;
}

static double flops(const ot_node *n)
{
    const ot_fused *f = n->attrs;
    double sum = 0;
    for (int p = 0; p < OT_FUSED_PARTS; p++) {
        const ot_node *part = f->part[p].node;
        const ot_op *op = part->op;
        sum += op->flops ? op->flops(part)
                         : (double)(op->flops_each ? op->flops_each : 1) * (double)ot_numel(&part->in[0]->shape);
    }
    return sum;
}

static int64_t inner(const ot_node *n)
{
    const ot_node *op = ot_fused_op(n)->node;
    return op->op->inner ? op->op->inner(op) : 1;
}

static void words(FILE *out, const void *attrs)
{
    const ot_fused *f = attrs;
    for (int p = 0; p < OT_FUSED_PARTS; p++) {
        const ot_node *part = f->part[p].node;
        fprintf(out, " %s", part->op->name);
        if (part->op->words) part->op->words(out, part->attrs);
        for (int i = 0; i < part->n_in; i++) fprintf(out, " %d", f->part[p].in[i]);
    }
    if (f->mask_out >= 0 || f->masked) fputs(" bits", out);
}

static const ot_fused_part *map_at(const ot_node *n, int side)
{
    const ot_fused *f = n->attrs;
    int at = f->op + side;
    return at >= 0 && at < OT_FUSED_PARTS ? &f->part[at] : NULL;
}

const ot_fused_part *ot_fused_before(const ot_node *n) { return map_at(n, -1); }
const ot_fused_part *ot_fused_behind(const ot_node *n) { return map_at(n, 1); }

int ot_fused_between(const ot_node *n)
{
    const ot_fused_part *p = &((const ot_fused *)n->attrs)->part[1];
    for (int i = 0; i < p->node->n_in; i++)
        if (p->in[i] == OT_FUSED_BETWEEN) return i;
    return -1;
}

bool ot_fused_like(const ot_node *map, const ot_value *x, bool any_axes)
{
    for (int i = 0; i <= map->n_in; i++) {
        const ot_value *v = i < map->n_in ? map->in[i] : map->out[0];
        if (v->dtype != x->dtype || v->layout != x->layout || ot_numel(&v->shape) != ot_numel(&x->shape)) return false;
        if (!any_axes && !ot_shape_eq(&v->shape, &x->shape)) return false;
    }
    return true;
}

void ot_fused_call_of(const ot_call *c, ot_fused_call *r)
{
    const ot_fused_part *op = ot_fused_op(c->node), *behind = ot_fused_behind(c->node);
    *r = (ot_fused_call){ .call = *c };
    for (int i = 0; i < op->node->n_in; i++) r->in[i] = op->in[i] < 0 ? NULL : c->in[op->in[i]];
    for (int k = 0; k < op->node->n_out; k++) r->out[k] = op->out[k] < 0 ? NULL : c->out[op->out[k]];
    if (behind && !r->out[0]) r->out[0] = c->out[behind->out[0]];
    r->call.node = op->node;
    r->call.in = r->in;
    r->call.out = r->out;
}

const ot_op *ot_op_of(const ot_node *n) { return n->op == &ot_op_Fused ? ot_fused_op(n)->node->op : n->op; }

const char *ot_node_title(const ot_node *n, char text[48])
{
    const char *name = ot_op_of(n)->name;
    if (n->op != &ot_op_Fused) return name;
    snprintf(text, 48, ot_fused_before(n) ? "Map+%s" : "%s+Map", name);
    return text;
}

/* ---- chains --------------------------------------------------------------------------- */

static bool commutes(int row) { return row == OT_FN_Add || row == OT_FN_Mul || row == OT_FN_Max || row == OT_FN_Min; }

/* Rounding on the way, to the type of the result: another one is the model's own. */
static bool may_omit(const ot_program *m, const ot_inst *convert)
{
    return convert->cls == OT_CLASS_F32 && (convert->p == 0 || (int)convert->p == m->out_dtype[0]);
}

/* Appends one instruction that reads register `run`. */
static bool follow(const ot_program *m, const ot_inst *inst, int run, ot_chain *c)
{
    const ot_fn_info *info = ot_fn_of(inst->row);
    ot_chain_step s = { .row = inst->row, .other = -1, .p = inst->p, .q = inst->q };
    int others = 0, at = -1;
    if (inst->row == OT_FN_Convert) return inst->arg[0] == run && may_omit(m, inst);
    for (int a = 0; a < OT_MAP_ARGS; a++) {
        if (inst->arg[a] < 0) continue;
        if (inst->arg[a] == run && at < 0) at = a;
        else s.other = inst->arg[a], others++;
    }
    bool derivative = inst->row % 4 != 0;
    if (at < 0 || others > 1 || s.other >= m->n_in || c->n == OT_CHAIN_STEPS) return false;
    if (derivative ? at != 0 : info->n > 2 || (info->n == 2 && !commutes(inst->row))) return false;
    c->step[c->n++] = s;
    return true;
}

bool ot_chain_of(const ot_node *map, int start, ot_chain *c)
{
    const ot_program *m = map->attrs;
    *c = (ot_chain){ .start = start >= 0 ? start : m->n_inst ? m->inst[0].arg[0] : 0 };
    int run = c->start;
    if (run < 0 || run >= m->n_in || m->n_out != 1) return false;
    for (int i = 0; i < m->n_inst; i++, run = m->n_in + i - 1)
        if (m->inst[i].cls > OT_CLASS_F64 || !follow(m, &m->inst[i], run, c)) return false;
    for (int i = 0; i < c->n; i++) /* x + x: the result between two parts is in no memory */
        if (start >= 0 && c->step[i].other == start) return false;
    return m->out[0] == run;
}

const ot_op ot_op_Fused = {
    .name = "Fused",
    .types = { "*" },
    .in = { 1, OT_VARIADIC },
    .out = { 1, OT_FUSED_OUT },
    .flags = OT_INTERNAL,
    .attr_size = sizeof(ot_fused),
    .infer = infer,
    .inner = inner,
    .flops = flops,
    .words = words,
};
