/* map.c - Map on the CPU: tile by tile, each instruction a vector loop over a tile in L1.
 *
 * Memory  Dense inputs whose stored type is their class are read in place, and results are written in place; others
 *         pass through tile buffers of the workspace.  Values that are the same for every element (constants, scalars
 *         and results computed from them) are computed once per thread.  An output may have the memory of an input of
 *         the same shape, layout and element size.
 * Numerics  element by element: the same bits with any number of threads. */

#include <stdlib.h>
#include <string.h>

#include "ops/cpu/map.h"
#include "ops/cpu/vector.h"

/* ---- the plan of one node ------------------------------------------------------ */

static const ot_map_loops *best_loops(void)
{
    static const ot_map_loops *const loops[] = { &ot_map_loops_base, &ot_map_loops_avx2, &ot_map_loops_avx512 };
    return loops[ot_instruction_set()];
}

static bool map_can(const ot_node *n, const char **why)
{
    const ot_program *p = n->attrs;
    bool ok = true;
    for (int i = 0; i < n->n_in; i++) ok = ok && cpu_map_type(n->in[i]->dtype);
    for (int i = 0; i < n->n_out; i++) ok = ok && (!n->out[i] || cpu_map_type(n->out[i]->dtype));
    for (int i = 0; i < p->n_inst; i++)
        if (p->inst[i].row == OT_FN_Convert && p->inst[i].p != 0) ok = ok && cpu_map_type((ot_dtype)p->inst[i].p);
    if (!ok) *why = "a float type of fewer than 16 bits";
    return ok;
}

static bool may_join(const cpu_map *m, int d)
{
    for (int i = 0; i < m->n_operands; i++)
        if (m->operand[i].stride[d] != m->operand[i].stride[d + 1] * m->dim[d + 1]) return false;
    return true;
}

/* Merges neighbouring axes that every operand traverses as one. */
static void coalesce(cpu_map *m)
{
    for (int d = m->rank - 2; d >= 0; d--) {
        if (!may_join(m, d)) continue;
        m->dim[d] *= m->dim[d + 1];
        m->rank--;
        for (int i = 0; i < m->n_operands; i++) m->operand[i].stride[d] = m->operand[i].stride[d + 1];
        for (int e = d + 1; e < m->rank; e++) {
            m->dim[e] = m->dim[e + 1];
            for (int i = 0; i < m->n_operands; i++) m->operand[i].stride[e] = m->operand[i].stride[e + 1];
        }
    }
}

static void find_kind(const cpu_map *m, cpu_operand *o)
{
    int64_t step = 1;
    bool dense = true, scalar = true;
    for (int d = m->rank - 1; d >= 0; d--) {
        dense = dense && o->stride[d] == step;
        scalar = scalar && o->stride[d] == 0;
        step *= m->dim[d];
    }
    o->dense = dense;
    o->scalar = scalar && !dense;
}

static void plan_space(cpu_map *m, const ot_node *n, const ot_shape *s)
{
    int64_t stride[OT_MAX_RANK];
    int axis[OT_MAX_RANK];
    m->total = ot_numel(s);
    m->rank = ot_map_axes(n, s, axis);
    m->n_operands = n->n_in + n->n_out + 1;
    for (int d = 0; d < m->rank; d++) m->dim[d] = s->dim[axis[d]];
    for (int i = 0; i < m->n_operands; i++) {
        bool index = i == m->n_operands - 1;
        const ot_value *v = index ? NULL : i < n->n_in ? n->in[i] : n->out[i - n->n_in];
        memset(stride, 0, sizeof stride); /* unused operands fit any axes */
        if (v) ot_map_strides(v, s, stride);
        else if (index && m->needs_index) ot_strides(s, stride);
        for (int d = 0; d < m->rank; d++) m->operand[i].stride[d] = stride[axis[d]];
        m->operand[i].dtype = v ? v->dtype : OT_I64;
        m->operand[i].size = ot_dtype_bits(m->operand[i].dtype) / 8;
    }
    coalesce(m);
    for (int i = 0; i < m->n_operands; i++) find_kind(m, &m->operand[i]);
}

/* ---- places of registers ------------------------------------------------------- */

static bool natural(const cpu_operand *o, ot_class cls) { return o->dtype == ot_class_dtype(cls); }

/* last[r]: the last instruction that reads register r; n_inst when an output stores it. */
static void find_uses(const ot_program *p, int *first, int *last)
{
    int n = p->n_in + p->n_inst;
    for (int r = 0; r < n; r++) first[r] = p->n_inst, last[r] = -1;
    for (int i = 0; i < p->n_inst; i++)
        for (int k = 0; k < OT_MAP_ARGS; k++) {
            int r = p->inst[i].arg[k];
            if (r < 0) continue;
            if (first[r] > i) first[r] = i;
            last[r] = i;
        }
    for (int k = 0; k < p->n_out; k++) last[p->out[k]] = p->n_inst;
}

/* Finds registers with one value for all elements, and where they are read as tiles. */
static void find_uniform(cpu_map *m, const ot_program *p)
{
    for (int i = 0; i < p->n_in; i++) m->uniform[i] = m->operand[i].scalar || m->total == 1;
    for (int i = 0; i < p->n_inst; i++) {
        const ot_inst *inst = &p->inst[i];
        bool u = inst->row != OT_FN_Random && inst->row != OT_FN_Index;
        for (int k = 0; k < OT_MAP_ARGS; k++) u = u && (inst->arg[k] < 0 || m->uniform[inst->arg[k]]);
        m->uniform[p->n_in + i] = u;
    }
    for (int i = 0; i < p->n_inst; i++) {
        const ot_inst *inst = &p->inst[i];
        m->one[i] = -1;
        for (int k = 0; k < OT_MAP_ARGS; k++) {
            int r = inst->arg[k];
            if (r < 0 || m->uniform[p->n_in + i] || !m->uniform[r]) continue;
            if (k < OT_LEN(m->loops->one) && inst->cls == OT_CLASS_F32 && m->loops->one[k][inst->row])
                m->one[i] = (int8_t)k;
            else m->spread[r] = true;
        }
    }
    for (int k = 0; k < p->n_out; k++) m->spread[p->out[k]] = m->uniform[p->out[k]];
}

/* A value for each channel of a channels-last tensor, say: a row of the innermost axis, which all rows share.  A slot has room for a
 * tile and one more row, so that a tile that begins anywhere in a row is a part of it. */
static bool is_periodic(const cpu_map *m, const cpu_operand *o, ot_class cls)
{
    if (m->rank < 2 || m->total < CPU_MAP_TILE || !natural(o, cls)) return false;
    int64_t row = m->dim[m->rank - 1];
    if (o->stride[m->rank - 1] != 1 || row > CPU_MAP_TILE / 2) return false;
    for (int d = 0; d < m->rank - 1; d++)
        if (o->stride[d]) return false;
    return (CPU_MAP_TILE + row) * o->size <= CPU_MAP_SLOT_BYTES;
}

typedef struct slots {
    bool used[CPU_MAP_SLOTS];
    int n;
} slots;

static int16_t take(slots *s)
{
    for (int i = 0; i < s->n; i++)
        if (!s->used[i]) {
            s->used[i] = true;
            return (int16_t)i;
        }
    s->used[s->n] = true;
    return (int16_t)s->n++;
}

/* Frees the slots of registers that instruction i reads last. */
static void free_dead(cpu_map *m, const ot_program *p, slots *s, const int *last, int i)
{
    for (int k = 0; k < OT_MAP_ARGS; k++) {
        int r = p->inst[i].arg[k];
        if (r >= 0 && last[r] == i && !m->uniform[r] && !(r < p->n_in && m->periodic[r]) && m->slot[r] >= 0)
            s->used[m->slot[r]] = false;
    }
}

/* Inputs whose memory is read after instruction i has written its tile. */
static uint32_t read_later(const cpu_map *m, const ot_program *p, const int *last, int i)
{
    uint32_t later = 0;
    for (int x = 0; x < p->n_in; x++)
        if (!m->uniform[x] && (m->slot[x] < 0 ? last[x] > i : m->load_at[x] > i)) later |= 1u << x;
    return later;
}

static void plan_registers(cpu_map *m, const ot_node *n)
{
    const ot_program *p = n->attrs;
    int first[CPU_MAP_REGS], last[CPU_MAP_REGS], n_regs = p->n_in + p->n_inst;
    slots s = { .n = 0 };
    find_uses(p, first, last);
    find_uniform(m, p);
    for (int r = 0; r < n_regs; r++) m->slot[r] = -1, m->direct[r] = -1;
    for (int r = 0; r < n_regs; r++)
        if (m->spread[r]) m->slot[r] = take(&s);
    for (int i = 0; i < p->n_in; i++) {
        m->periodic[i] = last[i] >= 0 && is_periodic(m, &m->operand[i], (ot_class)p->in_class[i]);
        if (m->periodic[i]) m->slot[i] = take(&s);
    }
    m->cell_slot = take(&s);
    m->raw_slot = take(&s); /* always in use, so not shared */
    m->index_slot = m->needs_index ? take(&s) : (int16_t)-1;
    for (int i = 0; i < p->n_in; i++) {
        m->load_at[i] = (int16_t)first[i];
        m->in_place[i] = !m->uniform[i] && m->operand[i].dense && natural(&m->operand[i], (ot_class)p->in_class[i]);
        /* One of several outputs, computed in place; another may use the same memory: it is read before any is
         * stored. */
        if (last[i] == p->n_inst && p->n_out > 1) m->in_place[i] = false;
    }
    for (int i = 0; i < p->n_inst; i++) {
        int r = p->n_in + i;
        bool special = p->inst[i].row >= OT_FN_Convert;
        for (int x = 0; x < p->n_in; x++)
            if (first[x] == i && !m->uniform[x] && !m->in_place[x] && !m->periodic[x]) m->slot[x] = take(&s);
        if (!special) free_dead(m, p, &s, last, i); /* a loop may overwrite its arguments */
        if (!m->uniform[r]) m->slot[r] = take(&s);
        if (special) free_dead(m, p, &s, last, i);
        if (last[r] < 0 && !m->uniform[r]) s.used[m->slot[r]] = false;
    }
    for (int x = 0; x < p->n_in; x++) /* only stored: loaded at the end */
        if (first[x] == p->n_inst && last[x] == p->n_inst && !m->uniform[x] && !m->in_place[x] && !m->periodic[x])
            m->slot[x] = take(&s);
    for (int k = p->n_out - 1; k >= 0; k--) {
        int r = p->out[k], i = r - p->n_in;
        const cpu_operand *o = &m->operand[n->n_in + k];
        if (!n->out[k] || i < 0 || m->uniform[r] || !o->dense || !natural(o, ot_map_class(p, r))) continue;
        m->direct[r] = (int16_t)k;
        m->later[k] = read_later(m, p, last, i);
    }
    m->n_slots = s.n;
}

cpu_map *cpu_map_new(const ot_node *n, int threads, size_t *work)
{
    const ot_program *p = n->attrs;
    cpu_map *m = calloc(1, sizeof *m);
    ot_shape s = OT_SCALAR;
    if (!m) return NULL;
    for (int i = 0; i < n->n_in; i++) ot_broadcast(&s, &n->in[i]->shape, &s);
    m->loops = best_loops();
    for (int i = 0; i < p->n_inst; i++)
        if (p->inst[i].row == OT_FN_Random || p->inst[i].row == OT_FN_Index) m->needs_index = true;
    ot_strides(&s, m->logical);
    m->shape = s;
    plan_space(m, n, &s);
    plan_registers(m, n);
    m->threads = threads;
    *work = (size_t)threads * (size_t)m->n_slots * CPU_MAP_SLOT_BYTES;
    return m;
}

ot_status cpu_behind_new(const ot_node *map, ot_prep *p, cpu_behind *out)
{
    size_t work;
    *out = (cpu_behind){ .node = map };
    if (!map) return OT_OK;
    out->map = cpu_map_new(map, p->threads, &work);
    out->work = (p->work + 63) / 64 * 64;
    p->work = out->work + work;
    return out->map ? OT_OK : ot_fail(p->err, OT_E_NOMEM, "%s: no memory to plan a Map", map->name);
}

ot_call cpu_behind_call(const cpu_behind *b, const ot_call *c, const void *const *in)
{
    return (ot_call){ .node = b->node, .in = in, .out = c->out, .state = b->map, .work = (char *)c->work + b->work };
}

static int64_t tiles_of(int64_t total) { return (total + CPU_MAP_TILE - 1) / CPU_MAP_TILE; }

static ot_status map_prepare(const ot_node *n, ot_prep *prep)
{
    const ot_program *p = n->attrs;
    ot_shape s = OT_SCALAR;
    for (int i = 0; i < n->n_in; i++) ot_broadcast(&s, &n->in[i]->shape, &s);
    int64_t total = ot_numel(&s), tiles = tiles_of(total);
    int threads = total * (p->n_inst + 1) < CPU_MAP_ALONE || prep->threads < 1 ? 1 : prep->threads;
    if (threads > tiles) threads = tiles < 1 ? 1 : (int)tiles;
    prep->state = cpu_map_new(n, threads, &prep->work);
    return prep->state ? OT_OK : ot_fail(prep->err, OT_E_NOMEM, "%s: no memory to plan a Map", n->name);
}

static void part(const ot_call *c, int thread, int threads)
{
    const cpu_map *m = c->state;
    int64_t tiles = tiles_of(m->total), end = tiles * (thread + 1) / threads * CPU_MAP_TILE;
    cpu_map_range(c, thread, tiles * thread / threads * CPU_MAP_TILE, end < m->total ? end : m->total);
}

void cpu_map_all(const ot_call *c)
{
    const cpu_map *m = c->state;
    int threads = m->threads;
    if (m->total == 0) return;
#pragma omp parallel for num_threads(threads) schedule(static, 1) if (threads > 1)
    for (int t = 0; t < threads; t++) part(c, t, threads);
}

static ot_status map_run(const ot_call *c)
{
    cpu_map_all(c);
    return OT_OK;
}

const ot_kernel ot_cpu_Map = {
    .name = "cpu",
    .can = map_can,
    .prepare = map_prepare,
    .run = map_run,
    .release = free,
    .inplace = (1u << OT_MAP_IN) - 1,
    .any_layout = true,
};
