/* map.h - the Map operator: a scalar program over broadcast inputs.
 *
 * Registers 0 .. n_in-1 are the inputs, instruction i writes register n_in+i, out[k] names the
 * register of output k.  Every register has a class: the type it is computed in.  An input is
 * converted from its storage type to its class when it is loaded, an output when it is stored:
 * floats round to nearest even, a float becomes an integer by truncation (NaN: 0, out of range: the
 * nearest bound of int64 or uint64, then the low bits), integers wrap, anything not 0 is true.
 * Instructions of functions.h take and give one class; OT_FN_Convert crosses classes.  Comparisons
 * give 0 or 1 in the class of their operands; whatever is not 0 is true.  The shape of every output
 * is the broadcast shape of all inputs. */
#ifndef OT_MAP_H
#define OT_MAP_H

#include "ops/op.h"
#include "ops/kernels/functions.h"
#include "runtime/base/random.h"

typedef enum ot_class { OT_CLASS_F32, OT_CLASS_F64, OT_CLASS_I64, OT_CLASS_U64 } ot_class;

enum { OT_MAP_ARGS = 5, OT_MAP_IN = 16, OT_MAP_OUT = 8, OT_MAP_INST = 64 };

/* 8-bit floats: overflow gives infinity or NaN, not the largest number. */
enum { OT_MAP_NO_SATURATE = 0x80 };

/* Opcodes.  A function's derivatives follow it, so OT_FN_x + 1 + i is the derivative by operand i. */
typedef enum ot_fn_code {
#define OT_FN_CODES(name) OT_FN_##name, OT_FN_##name##_da, OT_FN_##name##_db, OT_FN_##name##_dc,
#define OT_FN_CODE(A, name, ...) OT_FN_CODES(name)
#define OT_FN_CODE_SPECIAL(A, name, n) OT_FN_CODES(name)
    OT_FNS(OT_FN_CODE, 0) OT_FNS_SPECIAL(OT_FN_CODE_SPECIAL, 0)
#undef OT_FN_CODE_SPECIAL
#undef OT_FN_CODE
#undef OT_FN_CODES
        OT_FN_END
} ot_fn_code;

/* Arguments of a function: a, b, c.  Of a derivative: g, a, b, c, y. */
typedef struct ot_inst {
    uint16_t row;            /* OT_FN_*: forward formula; OT_FN_*_da, _db, _dc: derivatives */
    uint8_t cls;             /* ot_class of the result and of the operands (Convert: of the result) */
    int8_t arg[OT_MAP_ARGS]; /* registers; -1: the formula does not read it */
    double p, q;             /* parameters of the formula (alpha, an immediate …) */
} ot_inst;

typedef struct ot_program {
    int n_in, n_inst, n_out;
    uint8_t in_class[OT_MAP_IN];
    int8_t out[OT_MAP_OUT];        /* registers */
    uint8_t out_dtype[OT_MAP_OUT]; /* ot_dtype: how each output is stored; may have OT_MAP_NO_SATURATE */
    ot_inst inst[OT_MAP_INST];
} ot_program; /* is the attribute struct of Map.  Those in the graph's memory end after the instructions in use */

size_t ot_program_bytes(const void *program); /* up to the last instruction in use; one at least */

/* ---- what a row is ----------------------------------------------------------- */

/* Derivatives by operand; a formula also reads g. */
enum { OT_READS_A = 1, OT_READS_B = 2, OT_READS_C = 4, OT_READS_Y = 8 };

typedef enum ot_fn_grad {
    OT_FN_NONE, /* no such operand */
    OT_FN_ZERO, /* no gradient flows */
    OT_FN_PASS, /* dL/dy itself */
    OT_FN_FORMULA
} ot_fn_grad;

typedef struct ot_fn_info {
    const char *name;
    char kinds; /* F I N C E, see functions.h; S: special */
    int n;      /* number of operands */
    struct {
        uint8_t grad, reads;
    } d[3]; /* by operand: ot_fn_grad, OT_READS_* of the derivative */
} ot_fn_info;

const ot_fn_info *ot_fn_of(int row); /* the function that the opcode is, or is a derivative of */
bool ot_fn_is_compare(int row);      /* the result is bool */

ot_class ot_class_of(ot_dtype t);    /* f64 → F64, other floats → F32, u64 → U64, integers and bool → I64 */
ot_dtype ot_class_dtype(ot_class c); /* the type that stores a class exactly */

/* The class of a register of a valid program. */
ot_class ot_map_class(const ot_program *p, int reg);

/* Strides of value v in its layout along the axes of a Map of shape s; 0 on broadcast axes. */
void ot_map_strides(const ot_value *v, const ot_shape *s, int64_t stride[OT_MAX_RANK]);

/* The axes with more than one element of a Map n of shape s, outermost in memory first, in the layout of its
 * outputs; returns their number. */
int ot_map_axes(const ot_node *n, const ot_shape *s, int axis[OT_MAX_RANK]);

/* Element k of function Random: four elements share one counter. */
static inline uint64_t ot_map_counter(uint64_t counter, double stream) { return ((uint64_t)stream << 40) + counter; }

static inline float ot_map_random(uint64_t key, uint64_t counter, double stream, int64_t k)
{
    uint32_t r[4];
    ot_philox(key, (uint64_t)k / 4, ot_map_counter(counter, stream), r);
    return ot_uniform(r[k % 4]);
}

/* ---- making programs --------------------------------------------------------- */

/* One instruction: a function over n inputs, all loaded in class cls. */
void ot_map_program(ot_program *m, int row, double p, double q, int n, ot_class cls, ot_dtype out);

/* Emits a Map of one function over n inputs of any types.  out: type of the result; OT_UNDEFINED: bool for
 * comparisons, else the type of the data operands.  Functions with an integer form (Div, Abs, Pow) use it if the
 * operands are integers.  Errors stick. */
ot_value *ot_map_emit(ot_build *b, int row, double p, double q, ot_value *const *in, int n, ot_dtype out);

/* Emits any program; the outputs are the node's. */
ot_node *ot_map_emit_program(ot_build *b, const ot_program *m, ot_value *const *in);

/* The operand of v if v is a cast between floats; NULL: it is no cast. */
ot_value *ot_cast_from(const ot_value *v);

#endif
