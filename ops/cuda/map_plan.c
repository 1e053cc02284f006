/* map_plan.c - plans a Map for the GPU: merges axes that every operand traverses alike, and reads each operand as
 * widely as its strides allow.
 *
 * Axes   outermost in memory first, in the layout of the results, which are thus written contiguously. With a Reduce,
 *        kept and reduced axes are not merged.
 * Width  16 bytes of the narrowest operand at a time, but at most 8 elements, within the limit of registers. */
#include <string.h>

#include "ops/cuda/divide.cuh"
#include "ops/cuda/map_plan.h"

enum { PACKED_BYTES = 256 }; /* of all dense operands, in the registers of a thread */

/* What a launch takes longer than: elements, and those of one column. */
enum { FEW = 1 << 16, FEW_TERMS = 512 };

static void join_axes(gpu_map *m)
{
    int last = gpu_map_position(m);
    for (int d = m->rank - 2; d >= 0; d--) {
        bool same = m->gone[d] == m->gone[d + 1];
        for (int i = 0; i <= last; i++) same = same && m->stride[i][d] == m->stride[i][d + 1] * m->dim[d + 1];
        if (!same) continue;
        m->dim[d] *= m->dim[d + 1];
        m->rank--;
        memmove(&m->gone[d], &m->gone[d + 1], (size_t)(m->rank - d) * sizeof m->gone[d]);
        for (int i = 0; i <= last; i++)
            memmove(&m->stride[i][d], &m->stride[i][d + 1], (size_t)(m->rank - d) * sizeof m->stride[i][d]);
        memmove(&m->dim[d + 1], &m->dim[d + 2], (size_t)(m->rank - d - 1) * sizeof m->dim[d]);
    }
}

static bool is_dense(const gpu_map *m, int i)
{
    int64_t step = 1;
    bool dense = true;
    for (int d = m->rank - 1; d >= 0; d--, step *= m->dim[d + 1]) dense = dense && m->stride[i][d] == step;
    return dense;
}

static bool is_scalar(const gpu_map *m, int i)
{
    for (int d = 0; d < m->rank; d++)
        if (m->stride[i][d]) return false;
    return true;
}

/* Registers with one value for all elements. */
static void find_uniform(gpu_map *m)
{
    const ot_program *p = m->p;
    for (int i = 0; i < p->n_in; i++) m->uniform[i] = m->kind[i] == GPU_MAP_SCALAR;
    for (int i = 0; i < p->n_inst; i++) {
        const ot_inst *inst = &p->inst[i];
        bool u = m->n == 1 || (inst->row != OT_FN_Random && inst->row != OT_FN_Index);
        for (int k = 0; k < OT_MAP_ARGS; k++) u = u && (inst->arg[k] < 0 || m->uniform[inst->arg[k]]);
        m->uniform[p->n_in + i] = u;
    }
}

/* ---- width --------------------------------------------------------------------------- */

/* A whole tensor, element by element, that is reduced: the last vector may be partial. */
static bool is_whole(const gpu_map *m) { return m->reduced && m->rank == 1 && m->gone[0]; }

static bool is_few(const gpu_map *m)
{
    int64_t terms = 1;
    for (int d = 0; d < m->rank; d++) terms *= m->gone[d] ? m->dim[d] : 1;
    return m->reduced && m->rank && !m->gone[m->rank - 1] && m->n <= FEW && terms <= FEW_TERMS;
}

static void choose_width(gpu_map *m)
{
    int least = 64, bits = 0, floor = 1;
    bool strided = m->reduced && !is_whole(m);
    for (int i = 0; i < m->n_in + m->n_out; i++) {
        int own = ot_dtype_bits(m->dtype[i]);
        if (m->kind[i] == GPU_MAP_NONE || m->kind[i] == GPU_MAP_SCALAR) continue;
        if (own < least) least = own;
        if (own < 8 && !m->reduced) floor = 8; /* whole bytes */
        bits += own;
        strided = strided || m->kind[i] == GPU_MAP_EACH;
    }
    for (int i = 0; i < m->p->n_inst; i++) /* four numbers come at a time */
        if (m->p->inst[i].row == OT_FN_Random && floor < 4 && !m->reduced) floor = 4;
    int v = least >= 16 ? 128 / least : 8;
    while (v / 2 >= floor && v * bits > PACKED_BYTES * 8) v /= 2;
    int64_t inner = m->rank ? m->dim[m->rank - 1] : 1;
    if (strided) /* narrower, if the innermost axis then has no remainder */
        for (int w = v; w >= floor && w * least >= 64; w /= 2)
            if (inner % w == 0) {
                v = w;
                break;
            }
    if (m->few) v = 1;
    if (m->reduced && ((inner % v && (strided || !is_whole(m))) || ot_dtype_bits(m->dtype[m->n_in]) < 8))
        v = 1; /* all belong to one result, or each to its own */
    m->vector = v < floor ? floor : v < 1 ? 1 : v;
    m->inner = inner % m->vector == 0;
}

/* How V neighbours of an innermost axis of operand i, with its own strides, are read. */
static gpu_map_kind inner_kind(const gpu_map *m, int i)
{
    int last = m->rank - 1;
    int64_t step = m->stride[i][last];
    if (step == 0) return GPU_MAP_ROW;
    if (step != 1 || m->vector * ot_dtype_bits(m->dtype[i]) % 8) return GPU_MAP_STEPS;
    for (int d = 0; d < last; d++)
        if (m->stride[i][d] % m->vector) return GPU_MAP_STEPS;
    return GPU_MAP_VECTOR;
}

static void choose_kinds(gpu_map *m)
{
    int position = gpu_map_position(m);
    for (int i = 0; i <= position; i++) {
        m->strided[i] = -1;
        if (m->kind[i] != GPU_MAP_EACH) continue;
        m->strided[i] = m->n_strided++;
        if (!m->inner) continue;
        m->kind[i] = inner_kind(m, i);
        if ((i >= m->n_in || i == position) && m->kind[i] == GPU_MAP_VECTOR) m->kind[i] = GPU_MAP_STEPS;
    }
}

/* The largest offset of an element of any operand. */
static int64_t farthest(const gpu_map *m)
{
    int64_t most = m->n;
    for (int i = 0; i <= gpu_map_position(m); i++) {
        int64_t at = 0;
        for (int d = 0; d < m->rank; d++) at += (m->dim[d] - 1) * m->stride[i][d];
        if (at > most) most = at;
    }
    return most;
}

void gpu_map_plan(const ot_node *n, const gpu_reduced *r, gpu_map *m)
{
    const ot_program *p = n->attrs;
    int axis[OT_MAX_RANK];
    bool needs_position = false;
    *m = (gpu_map){ .p = p, .n_in = n->n_in, .n_out = n->n_out, .reduced = r != NULL, .shape = OT_SCALAR };
    for (int i = 0; i < n->n_in; i++) ot_broadcast(&m->shape, &n->in[i]->shape, &m->shape);
    for (int i = 0; i < p->n_inst; i++) {
        m->indexed = m->indexed || p->inst[i].row == OT_FN_Index;
        needs_position = needs_position || p->inst[i].row == OT_FN_Index || p->inst[i].row == OT_FN_Random;
    }
    m->n = ot_numel(&m->shape);
    m->rank = ot_map_axes(n, &m->shape, axis);
    int position = gpu_map_position(m);
    for (int d = 0; d < m->rank; d++) {
        m->dim[d] = m->shape.dim[axis[d]];
        m->gone[d] = r && r->gone >> axis[d] & 1;
    }
    for (int i = 0; i <= position; i++) {
        int64_t stride[OT_MAX_RANK] = { 0 }; /* unused operands fit any axes */
        const ot_value *v = i == position ? NULL : i < n->n_in ? n->in[i] : n->out[i - n->n_in];
        if (r && i == n->n_in) memcpy(stride, r->y, sizeof stride);
        else if (v) ot_map_strides(v, &m->shape, stride);
        else if (i == position && needs_position) ot_strides(&m->shape, stride);
        for (int d = 0; d < m->rank; d++) m->stride[i][d] = stride[axis[d]];
        m->dtype[i] = v ? v->dtype : OT_I64;
    }
    join_axes(m);
    for (int i = 0; i <= position; i++) {
        bool there = i < n->n_in || (i < position ? !r && n->out[i - n->n_in] : needs_position);
        bool bytes = !r || ot_dtype_bits(m->dtype[i]) >= 8; /* fewer than that: read one by one */
        m->kind[i] = !there                                          ? GPU_MAP_NONE
                     : i < n->n_in && (m->n == 1 || is_scalar(m, i)) ? GPU_MAP_SCALAR
                     : is_dense(m, i) && bytes                       ? GPU_MAP_DENSE
                                                                     : GPU_MAP_EACH;
    }
    find_uniform(m);
    m->wide = farthest(m) > INT32_MAX - 64;
    m->few = is_few(m);
    choose_width(m);
    choose_kinds(m);
}

/* ---- calls -------------------------------------------------------------------- */

int gpu_map_divider(int64_t n, uint64_t *w)
{
    ot_divider d = ot_divider_of(n);
    w[0] = (uint64_t)d.n;
    w[1] = d.mul | (uint64_t)d.shift << 32;
    return 2;
}

int gpu_map_words(const gpu_map *m, const ot_call *c, uint64_t *w)
{
    int k = 0;
    int64_t logical[OT_MAX_RANK];
    for (int i = 0; i < m->n_in; i++) w[k++] = (uintptr_t)c->in[i];
    for (int i = 0; i < m->n_out; i++) w[k++] = m->reduced ? 0 : (uintptr_t)c->out[i];
    w[k++] = (uint64_t)m->n;
    for (int d = 0; d < m->rank && m->n_strided; d++) k += gpu_map_divider(m->dim[d], w + k);
    for (int i = 0; i <= gpu_map_position(m); i++)
        for (int d = 0; d < m->rank && m->strided[i] >= 0; d++) w[k++] = (uint64_t)m->stride[i][d];
    ot_strides(&m->shape, logical);
    for (int d = 0; d < m->shape.rank && m->indexed; d++) {
        w[k++] = (uint64_t)logical[d];
        w[k++] = (uint64_t)m->shape.dim[d];
    }
    return k;
}

static bool same_program(const ot_program *a, const ot_program *b)
{
    size_t bytes = ot_program_bytes(a);
    return bytes == ot_program_bytes(b) && !memcmp(a, b, bytes);
}

bool gpu_map_alike(const gpu_map *a, const gpu_map *b)
{
    bool same = !a->n_strided && !b->n_strided && (a->n > 1) == (b->n > 1) && a->n_in == b->n_in &&
                a->n_out == b->n_out && a->vector == b->vector && a->wide == b->wide && !a->indexed && !b->indexed &&
                same_program(a->p, b->p);
    for (int i = 0; i < a->n_in + a->n_out && same; i++) same = a->kind[i] == b->kind[i] && a->dtype[i] == b->dtype[i];
    return same;
}
