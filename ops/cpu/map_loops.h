/* map_loops.h - the loops of Map over one tile, built once per instruction set. */
#ifndef OT_MAP_LOOPS_H
#define OT_MAP_LOOPS_H

#include "ops/kernels/map.h"

/* n elements, all arrays of the class's type, dense.  y may be one of the arguments.  Arguments that the formula does
 * not read must point to readable memory. */
typedef struct ot_loop {
    void *y;
    const void *arg[OT_MAP_ARGS]; /* as in ot_inst */
    int64_t n;
    double p, q;
} ot_loop;

typedef void ot_loop_run(const ot_loop *l);
typedef void ot_loop_convert(void *y, const void *x, int64_t n);

enum { OT_LOOP_TYPES = OT_BF16 + 1 };

typedef struct ot_map_loops {
    const char *name;           /* "avx2" */
    ot_loop_run *const *row[4]; /* by class, by opcode; NULL: undefined there; a class NULL: as in base */
    ot_loop_run *const *one[2]; /* of floats, by opcode, where arg[0] or arg[1] is one element; NULL: none */
    ot_loop_convert *load[4][OT_LOOP_TYPES];  /* y of the class, x stored in that type; NULL: not here */
    ot_loop_convert *store[4][OT_LOOP_TYPES]; /* x of the class, y stored in that type */
} ot_map_loops;

extern const ot_map_loops ot_map_loops_base, ot_map_loops_avx2, ot_map_loops_avx512;

#endif
