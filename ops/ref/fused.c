/* fused.c - Fused, part by part: each by its own reference kernel, with the value between them in the workspace. */
#include "ops/kernels/fused.h"

#include "ops/kernel.h"

static bool can(const ot_node *n, const char **why)
{
    const ot_fused *f = n->attrs;
    if (f->mask_out >= 0 || f->masked) return ot_refuse(why, "bits in another kernel's order");
    for (int p = 0; p < OT_FUSED_PARTS; p++)
        if (ot_ref_kernel(f->part[p].node->op)->prepare) return ot_refuse(why, "a part prepares");
    return true;
}

static bool is_stored(const ot_fused *f) { return f->part[0].out[f->between] != OT_FUSED_NONE; }

static ot_status prepare(const ot_node *n, ot_prep *p)
{
    const ot_fused *f = n->attrs;
    const ot_value *v = f->part[0].node->out[f->between];
    if (!is_stored(f)) p->work = ot_bytes(&v->shape, v->dtype);
    return OT_OK;
}

static ot_status run(const ot_call *c)
{
    const ot_fused *f = c->node->attrs;
    void *between = is_stored(f) ? c->out[f->part[0].out[f->between]] : c->work;
    for (int p = 0; p < OT_FUSED_PARTS; p++) {
        const ot_fused_part *part = &f->part[p];
        const void *in[OT_FUSED_IN] = { 0 };
        void *out[OT_FUSED_OUT] = { 0 };
        for (int i = 0; i < part->node->n_in; i++)
            in[i] = part->in[i] == OT_FUSED_BETWEEN ? between : part->in[i] >= 0 ? c->in[part->in[i]] : NULL;
        for (int k = 0; k < part->node->n_out; k++)
            if (part->out[k] != OT_FUSED_NONE) out[k] = c->out[part->out[k]];
        if (p == 0) out[f->between] = between;
        ot_call call = {
            .node = part->node, .in = in, .out = out, .threads = c->threads, .err = c->err, .step = c->step
        };
        OT_TRY(ot_ref_kernel(part->node->op)->run(&call));
    }
    return OT_OK;
}

const ot_kernel ot_ref_Fused = { .name = "ref", .can = can, .prepare = prepare, .run = run };
