/* map_tiles.c - runs the tiles of a Map: loads, instructions, stores. */

#include <string.h>

#include "ops/cpu/map.h"

typedef struct run {
    const ot_call *c;
    const cpu_map *m;
    const ot_program *p;
    char *base;              /* slots of this thread */
    bool direct[OT_MAP_OUT]; /* computed in place */
    bool once;               /* uniform values are being computed */
    int64_t start, n;        /* of the tile */
} run;

static void *slot(const run *r, int i) { return r->base + (size_t)i * CPU_MAP_SLOT_BYTES; }

static int class_size(ot_class cls) { return cls == OT_CLASS_F32 ? 4 : 8; }

static void *cell(const run *r, int reg) { return (char *)slot(r, r->m->cell_slot) + reg * 8; }

/* The address of the register's tile. */
static void *place(const run *r, int reg)
{
    const cpu_map *m = r->m;
    if (r->once) return cell(r, reg);
    if (reg < r->p->n_in && m->in_place[reg]) return (char *)(uintptr_t)r->c->in[reg] + r->start * m->operand[reg].size;
    if (reg < r->p->n_in && m->periodic[reg])
        return (char *)slot(r, m->slot[reg]) + r->start % m->dim[m->rank - 1] * m->operand[reg].size;
    int k = m->direct[reg];
    if (k >= 0 && r->direct[k]) return (char *)r->c->out[k] + r->start * m->operand[r->p->n_in + k].size;
    return slot(r, m->slot[reg]);
}

/* ---- inputs and outputs ---------------------------------------------------------- */

static void load(const run *r, int i)
{
    const cpu_map *m = r->m;
    const cpu_operand *o = &m->operand[i];
    ot_class cls = (ot_class)r->p->in_class[i];
    ot_loop_convert *convert = m->loops->load[cls][o->dtype];
    bool natural = o->dtype == ot_class_dtype(cls);
    void *to = slot(r, m->slot[i]);
    if (o->dense) { /* of another type, or it would be read in place */
        convert(to, (const char *)r->c->in[i] + r->start * o->size, r->n);
        return;
    }
    void *raw = natural ? to : slot(r, m->raw_slot);
    cpu_map_gather(m, o, r->c->in[i], r->start, r->n, raw);
    if (!natural) convert(to, raw, r->n);
}

static void store(const run *r, int k)
{
    const cpu_map *m = r->m;
    int reg = r->p->out[k];
    const cpu_operand *o = &m->operand[r->p->n_in + k];
    ot_class cls = ot_map_class(r->p, reg);
    const void *from = place(r, reg);
    ot_loop_convert *convert = m->loops->store[cls][o->dtype];
    char *to = (char *)r->c->out[k] + r->start * o->size;
    bool natural = o->dtype == ot_class_dtype(cls);
    if (o->dense) {
        if (natural && from != (const void *)to) memmove(to, from, (size_t)(r->n * o->size));
        if (!natural) convert(to, from, r->n);
        return;
    }
    void *raw = slot(r, m->raw_slot);
    if (!natural) convert(raw, from, r->n);
    cpu_map_scatter(m, o, r->c->out[k], r->start, r->n, natural ? from : raw);
}

/* ---- instructions ---------------------------------------------------------------- */

static void convert_tile(const run *r, const ot_inst *inst, void *y)
{
    const ot_map_loops *loops = r->m->loops;
    ot_class from = ot_map_class(r->p, inst->arg[0]), to = (ot_class)inst->cls;
    ot_dtype own = ot_class_dtype(to), by = inst->p != 0 ? (ot_dtype)inst->p : own;
    const void *x = place(r, inst->arg[0]);
    if (by == own) {
        loops->store[from][own](y, x, r->n);
        return;
    }
    void *raw = slot(r, r->m->raw_slot);
    loops->store[from][by](raw, x, r->n);
    loops->load[to][by](y, raw, r->n);
}

static void index_tile(const run *r, const ot_inst *inst, void *y)
{
    const cpu_map *m = r->m;
    const int64_t *k = slot(r, m->index_slot);
    int axis = (int)inst->p;
    int64_t step = 1, size = 1;
    if (axis >= 0 && axis < m->shape.rank) step = m->logical[axis], size = m->shape.dim[axis];
    for (int64_t i = 0; i < r->n; i++) {
        int64_t at = k[i] / step % size;
        switch ((ot_class)inst->cls) {
        case OT_CLASS_F32: ((float *)y)[i] = (float)at; break;
        case OT_CLASS_F64: ((double *)y)[i] = (double)at; break;
        case OT_CLASS_I64: ((int64_t *)y)[i] = at; break;
        case OT_CLASS_U64: ((uint64_t *)y)[i] = (uint64_t)at; break;
        }
    }
}

static void random_tile(const run *r, const ot_inst *inst, void *y)
{
    const int64_t *k = slot(r, r->m->index_slot);
    uint64_t key = *(const uint64_t *)place(r, inst->arg[0]);
    uint64_t counter = ot_map_counter(*(const uint64_t *)place(r, inst->arg[1]), inst->p);
    int64_t block = -1;
    uint32_t bits[4] = { 0 };
    for (int64_t i = 0; i < r->n; i++) {
        if (k[i] / 4 != block) {
            block = k[i] / 4;
            ot_philox(key, (uint64_t)block, counter, bits);
        }
        float u = ot_uniform(bits[k[i] % 4]);
        if (inst->cls == OT_CLASS_F64) ((double *)y)[i] = (double)u;
        else ((float *)y)[i] = u;
    }
}

static void execute(const run *r, int i)
{
    const ot_inst *inst = &r->p->inst[i];
    void *y = place(r, r->p->n_in + i);
    if (inst->row == OT_FN_Convert) {
        convert_tile(r, inst, y);
    } else if (inst->row == OT_FN_Index) {
        index_tile(r, inst, y);
    } else if (inst->row == OT_FN_Random) {
        random_tile(r, inst, y);
    } else {
        int one = r->once ? -1 : r->m->one[i];
        ot_loop l = { .y = y, .n = r->n, .p = inst->p, .q = inst->q };
        for (int k = 0; k < OT_MAP_ARGS; k++)
            l.arg[k] = inst->arg[k] < 0 ? y : k == one ? cell(r, inst->arg[k]) : place(r, inst->arg[k]);
        ot_loop_run *const *rows = one >= 0 ? r->m->loops->one[one] : r->m->loops->row[inst->cls];
        (rows ? rows : ot_map_loops_base.row[inst->cls])[inst->row](&l);
    }
}

/* ---- tiles ----------------------------------------------------------------------- */

/* Values that are the same for all elements: computed once, then spread over a tile if read as one. */
static void prepare_uniform(run *r)
{
    const cpu_map *m = r->m;
    const ot_program *p = r->p;
    r->start = 0;
    r->n = 1;
    r->once = true;
    for (int i = 0; i < p->n_in; i++)
        if (m->uniform[i]) m->loops->load[p->in_class[i]][m->operand[i].dtype](cell(r, i), r->c->in[i], 1);
    for (int i = 0; i < p->n_inst; i++)
        if (m->uniform[p->n_in + i]) execute(r, i);
    r->once = false;
    int64_t n = m->total < CPU_MAP_TILE ? m->total : CPU_MAP_TILE;
    for (int reg = 0; reg < p->n_in + p->n_inst; reg++)
        if (m->spread[reg]) cpu_map_fill(slot(r, m->slot[reg]), cell(r, reg), class_size(ot_map_class(p, reg)), n);
}

/* Rows that all rows share, repeated over a tile that begins anywhere in one. */
static void prepare_periodic(const run *r)
{
    const cpu_map *m = r->m;
    for (int i = 0; i < r->p->n_in; i++) {
        if (!m->periodic[i]) continue;
        int64_t row = m->dim[m->rank - 1], all = CPU_MAP_TILE + row, size = m->operand[i].size;
        char *to = slot(r, m->slot[i]);
        for (int64_t at = 0; at < all; at += row)
            memcpy(to + at * size, r->c->in[i], (size_t)((all - at < row ? all - at : row) * size));
    }
}

/* An output in the memory of an input that is still needed is computed elsewhere and stored at the end. */
static void choose_direct(run *r)
{
    const cpu_map *m = r->m;
    for (int k = 0; k < r->p->n_out; k++) {
        if (!r->c->out[k]) continue;
        const char *y = r->c->out[k], *y_end = y + m->total * m->operand[r->p->n_in + k].size;
        bool free_to = true;
        for (int i = 0; i < r->p->n_in; i++) {
            const char *x = r->c->in[i], *x_end = x + m->total * m->operand[i].size;
            if ((m->later[k] >> i & 1) && x < y_end && y < x_end) free_to = false;
        }
        r->direct[k] = free_to;
    }
}

void cpu_map_range(const ot_call *c, int thread, int64_t from, int64_t to)
{
    const cpu_map *m = c->state;
    const ot_program *p = c->node->attrs;
    run r = { .c = c, .m = m, .p = p };
    r.base = (char *)c->work + (size_t)thread * (size_t)m->n_slots * CPU_MAP_SLOT_BYTES;
    choose_direct(&r);
    prepare_uniform(&r);
    prepare_periodic(&r);
    for (r.start = from; r.start < to; r.start += CPU_MAP_TILE) {
        r.n = to - r.start < CPU_MAP_TILE ? to - r.start : CPU_MAP_TILE;
        if (m->needs_index) cpu_map_index(m, &m->operand[m->n_operands - 1], r.start, r.n, slot(&r, m->index_slot));
        for (int i = 0; i <= p->n_inst; i++) {
            for (int x = 0; x < p->n_in; x++)
                if (m->load_at[x] == i && !m->uniform[x] && !m->in_place[x] && !m->periodic[x] && m->slot[x] >= 0)
                    load(&r, x);
            if (i < p->n_inst && !m->uniform[p->n_in + i]) execute(&r, i);
        }
        for (int k = 0; k < p->n_out; k++)
            if (c->out[k] && !(m->direct[p->out[k]] == k && r.direct[k])) store(&r, k);
    }
}
