/* map.h - the Map operator: a scalar program over broadcast inputs.
 *
 * Registers 0 .. n_in-1 are the inputs, instruction i writes register n_in+i, out[k] names the
 * register of output k.  Every register has a class: the type it is computed in.  An input is
 * converted from its storage type to its class when it is loaded, an output when it is stored.
 * Instructions of rows.h take and give one class; OT_ROW_Convert crosses classes.  Comparisons
 * give 0 or 1 in the class of their operands; whatever is not 0 is true. */
#ifndef OT_MAP_H
#define OT_MAP_H

#include "ops/op.h"
#include "ops/rows.h"

typedef enum ot_class { OT_CLASS_F32, OT_CLASS_F64, OT_CLASS_I64, OT_CLASS_U64 } ot_class;

enum { OT_MAP_ARGS = 5, OT_MAP_IN = 16, OT_MAP_OUT = 8, OT_MAP_INST = 64 };

typedef struct ot_inst {
    uint16_t row;                /* OT_ROW_*: forward formula; OT_ROW_*_da, _db, _dc: derivatives */
    uint8_t  cls;                /* ot_class of the result and of the operands (Convert: of the result) */
    int8_t   arg[OT_MAP_ARGS];   /* registers; -1: the formula does not read it */
    double   p, q;               /* parameters of the formula (alpha, an immediate …) */
} ot_inst;

typedef struct ot_program {
    int     n_in, n_inst, n_out;
    uint8_t in_class[OT_MAP_IN];
    int8_t  out[OT_MAP_OUT];     /* registers */
    uint8_t out_dtype[OT_MAP_OUT]; /* ot_dtype: how each output is stored */
    ot_inst inst[OT_MAP_INST];
} ot_program;                    /* is the attribute struct of Map */

ot_class ot_class_of(ot_dtype t);  /* f64 → F64, other floats → F32, u64 → U64, integers and bool → I64 */

#endif
