/* map.h - the CPU's plan of a Map: merged axes, locations of registers. */
#ifndef OT_CPU_MAP_H
#define OT_CPU_MAP_H

#include "ops/cpu/map_loops.h"
#include "ops/kernel.h"

enum {
    CPU_MAP_TILE = 1024,                         /* elements; a handful of tiles fits in L1 */
    CPU_MAP_SLOT_BYTES = CPU_MAP_TILE * 8 + 128, /* staggered, so that slots do not share cache sets */
    CPU_MAP_REGS = OT_MAP_IN + OT_MAP_INST,
    CPU_MAP_SLOTS = CPU_MAP_REGS + 3,
    CPU_MAP_OPERANDS = OT_MAP_IN + OT_MAP_OUT + 1,
    CPU_MAP_ALONE = 1 << 15 /* less work than this (elements x instructions): one thread */
};

/* An input, an output, or (the last one) the logical positions. */
typedef struct cpu_operand {
    int64_t stride[OT_MAX_RANK]; /* elements, along the joined axes */
    ot_dtype dtype;
    int size;           /* bytes of an element */
    bool dense, scalar; /* in order; always the same one */
} cpu_operand;

typedef struct cpu_map {
    const ot_map_loops *loops;
    ot_shape shape;
    int64_t logical[OT_MAX_RANK]; /* row-major strides of shape */
    int64_t total, dim[OT_MAX_RANK];
    int rank; /* merged axes */
    int n_operands;
    cpu_operand operand[CPU_MAP_OPERANDS];
    bool needs_index;
    bool uniform[CPU_MAP_REGS];              /* one value for all elements: computed once per thread, in its cell */
    bool spread[CPU_MAP_REGS];               /* uniform, and read as a tile: then copied over its slot */
    int8_t one[OT_MAP_INST];                 /* argument of an instruction that is read as one element; -1: none */
    bool periodic[OT_MAP_IN];                /* one row for all rows: repeated in its slot once per thread */
    bool in_place[OT_MAP_IN];                /* read in place */
    int16_t slot[CPU_MAP_REGS];              /* tile buffer; -1: none */
    int16_t direct[CPU_MAP_REGS];            /* output that the register may be computed into; -1: none */
    int16_t load_at[OT_MAP_IN];              /* instruction before which an input is loaded */
    uint32_t later[OT_MAP_OUT];              /* inputs still read after a direct output is written */
    int16_t index_slot, raw_slot, cell_slot; /* cell_slot: 8 bytes per register */
    int n_slots, threads;
} cpu_map;

static inline bool cpu_map_type(ot_dtype t)
{
    return (int)t < OT_LOOP_TYPES && ot_map_loops_base.load[OT_CLASS_F32][t];
}

/* map.c: the plan of a Map for so many threads, NULL: no memory; free() releases it. *work: bytes of workspace. */
cpu_map *cpu_map_new(const ot_node *n, int threads, size_t *work);

/* map_tiles.c: computes elements `from` to `to`, in the order of memory, with the workspace of the given thread. */
void cpu_map_range(const ot_call *c, int thread, int64_t from, int64_t to);

/* map.c: all elements, with all threads. */
void cpu_map_all(const ot_call *c);

/* A Map of another kernel's result, computed part by part where the result is in the cache. */
typedef struct cpu_behind {
    cpu_map *map; /* NULL: none follows; free() releases it */
    const ot_node *node;
    size_t work; /* where its workspace is in that of the kernel */
} cpu_behind;

/* map.c: adds the workspace to p->work.  map: NULL: none.  Errors: OT_E_NOMEM. */
ot_status cpu_behind_new(const ot_node *map, ot_prep *p, cpu_behind *out);

/* The call of the Map with these inputs; its outputs are those of c. */
ot_call cpu_behind_call(const cpu_behind *b, const ot_call *c, const void *const *in);

/* map_move.c: n elements from position `start` of the joined axes, to or from a dense array. */
void cpu_map_gather(const cpu_map *m, const cpu_operand *o, const void *x, int64_t start, int64_t n, void *dense);
void cpu_map_scatter(const cpu_map *m, const cpu_operand *o, void *y, int64_t start, int64_t n, const void *dense);
void cpu_map_index(const cpu_map *m, const cpu_operand *o, int64_t start, int64_t n, int64_t *position);
void cpu_map_fill(void *y, const void *one, int size, int64_t n); /* n copies of one element */

#endif
