/* map.c - Map: a scalar program over broadcast inputs; programs of one instruction, and their gradients.
 *
 * Shapes  inputs: any that broadcast;  outputs: the broadcast shape.
 * Grad    of programs of one instruction, by the derivative columns of functions.h, one Map for each input that needs a
 *         gradient; autodiff runs before the fuse pass makes longer programs.
 * Memory  a derivative reads only the operands (or the result) that its column names. */

#include <string.h>

#include "ops/kernel.h"
#include "ops/kernels/map.h"

/* ---- what a row is ----------------------------------------------------------- */

enum { OT_KIND_F = 'F', OT_KIND_I = 'I', OT_KIND_N = 'N', OT_KIND_C = 'C', OT_KIND_E = 'E' };

#define A_ OT_READS_A
#define B_ OT_READS_B
#define C_ OT_READS_C
#define Y_ OT_READS_Y
#define D(reads, formula) OT_FN_FORMULA, reads
#define G OT_FN_PASS, 0
#define Z OT_FN_ZERO, 0
#define _ OT_FN_NONE, 0
#define FIRST(first, ...) first
#define HAS(...) (FIRST(__VA_ARGS__, 0) != OT_FN_NONE)
#define INFO(X, name, kinds, y, da, db, dc) \
    { #name, OT_KIND_##kinds, HAS(da) + HAS(db) + HAS(dc), { { da }, { db }, { dc } } },
#define INFO_SPECIAL(X, name, n) { #name, 'S', n, { { Z }, { Z }, { Z } } },

static const ot_fn_info infos[] = { OT_FNS(INFO, 0) OT_FNS_SPECIAL(INFO_SPECIAL, 0) };

#undef A_
#undef B_
#undef C_
#undef Y_
#undef D
#undef G
#undef Z
#undef _

const ot_fn_info *ot_fn_of(int row) { return row >= 0 && row < OT_FN_END ? &infos[row / 4] : NULL; }

bool ot_fn_is_compare(int row)
{
    const ot_fn_info *info = ot_fn_of(row);
    return info && row % 4 == 0 && (info->kinds == 'C' || info->kinds == 'E');
}

ot_class ot_class_of(ot_dtype t)
{
    if (t == OT_F64) return OT_CLASS_F64;
    if (ot_is_float(t)) return OT_CLASS_F32;
    return t == OT_U64 ? OT_CLASS_U64 : OT_CLASS_I64;
}

ot_dtype ot_class_dtype(ot_class c)
{
    static const ot_dtype t[] = { OT_F32, OT_F64, OT_I64, OT_U64 };
    return t[c];
}

/* ---- programs ---------------------------------------------------------------- */

ot_class ot_map_class(const ot_program *p, int reg)
{
    return (ot_class)(reg < p->n_in ? p->in_class[reg] : p->inst[reg - p->n_in].cls);
}

/* The operands of an instruction that its formula reads, of at most five, as bits. */
static unsigned reads_of(int row)
{
    const ot_fn_info *info = ot_fn_of(row);
    if (row % 4 == 0) return (1u << info->n) - 1;
    return 1u | (unsigned)info->d[row % 4 - 1].reads << 1;
}

static const char *inst_check(const ot_program *p, int i)
{
    const ot_inst *inst = &p->inst[i];
    const ot_fn_info *info = ot_fn_of(inst->row);
    if (!info) return "internal error: an instruction has no function";
    if (inst->cls > OT_CLASS_U64) return "internal error: an instruction has no class";
    if (inst->row % 4 && info->d[inst->row % 4 - 1].grad < OT_FN_PASS)
        return "internal error: an instruction is a derivative that does not exist";
    bool is_float = inst->cls <= OT_CLASS_F64;
    if ((info->kinds == 'F' || info->kinds == 'E') && !is_float) return "internal error: a function needs floats";
    if (info->kinds == 'I' && is_float) return "internal error: a function needs integers";
    unsigned reads = reads_of(inst->row);
    for (int k = 0; k < OT_MAP_ARGS; k++) {
        if (!(reads >> k & 1)) continue;
        if (inst->arg[k] < 0 || inst->arg[k] >= p->n_in + i) return "internal error: an argument is not computed yet";
        ot_class want = inst->row == OT_FN_Random ? OT_CLASS_U64 : (ot_class)inst->cls;
        if (inst->row != OT_FN_Convert && ot_map_class(p, inst->arg[k]) != want)
            return "internal error: an argument has another class";
    }
    return NULL;
}

void ot_map_strides(const ot_value *v, const ot_shape *s, int64_t stride[OT_MAX_RANK])
{
    int64_t own[OT_MAX_RANK];
    int gap = s->rank - v->shape.rank;
    ot_value_strides(v, own);
    for (int d = 0; d < s->rank; d++) stride[d] = d < gap || v->shape.dim[d - gap] == 1 ? 0 : own[d - gap];
}

int ot_map_axes(const ot_node *n, const ot_shape *s, int axis[OT_MAX_RANK])
{
    int64_t by[OT_MAX_RANK];
    int rank = 0;
    ot_strides(s, by);
    for (int k = n->n_out - 1; k >= 0; k--) /* the first output is typical */
        if (n->out[k]) ot_map_strides(n->out[k], s, by);
    for (int d = 0; d < s->rank; d++) {
        if (s->dim[d] == 1) continue;
        int at = rank++;
        for (; at > 0 && by[axis[at - 1]] < by[d]; at--) axis[at] = axis[at - 1];
        axis[at] = d;
    }
    return rank;
}

/* NULL: well formed; else the error (a static text). */
static const char *check_program(const ot_program *p)
{
    if (p->n_in < 0 || p->n_in > OT_MAP_IN) return "too many inputs";
    if (p->n_inst < 0 || p->n_inst > OT_MAP_INST) return "too many instructions";
    if (p->n_out < 1 || p->n_out > OT_MAP_OUT) return "no outputs, or too many";
    for (int i = 0; i < p->n_in; i++)
        if (p->in_class[i] > OT_CLASS_U64) return "an input has no class";
    for (int i = 0; i < p->n_inst; i++) {
        const char *why = inst_check(p, i);
        if (why) return why;
    }
    for (int k = 0; k < p->n_out; k++) {
        if (p->out[k] < 0 || p->out[k] >= p->n_in + p->n_inst) return "an output is never computed";
        if (!ot_dtype_bits((ot_dtype)(p->out_dtype[k] & ~OT_MAP_NO_SATURATE))) return "an output has no type";
    }
    return NULL;
}

void ot_map_program(ot_program *m, int row, double p, double q, int n, ot_class cls, ot_dtype out)
{
    memset(m, 0, sizeof *m);
    m->n_in = n;
    m->n_inst = m->n_out = 1;
    m->out[0] = (int8_t)n;
    m->out_dtype[0] = (uint8_t)out;
    m->inst[0] = (ot_inst){ .row = (uint16_t)row, .cls = (uint8_t)cls, .arg = { -1, -1, -1, -1, -1 }, .p = p, .q = q };
    for (int i = 0; i < n; i++) {
        m->in_class[i] = (uint8_t)cls;
        m->inst[0].arg[i] = (int8_t)i;
    }
}

ot_node *ot_map_emit_program(ot_build *b, const ot_program *m, ot_value *const *in)
{
    return ot_emit_n(b, &ot_op_Map, m, in, m->n_in, m->n_out);
}

/* The integer form of a function, and the class that computes it. */
static int integer_row(int row, ot_class *cls)
{
    switch (row) {
    case OT_FN_Div: return OT_FN_IDiv;
    case OT_FN_FMod: return OT_FN_IRem;
    case OT_FN_FloorMod: return OT_FN_IMod;
    case OT_FN_Abs: return OT_FN_IAbs;
    case OT_FN_Pow: return OT_FN_IPow;
    default: break;
    }
    char kinds = ot_fn_of(row)->kinds;
    if (kinds == 'F' || kinds == 'E') *cls = OT_CLASS_F64; /* computed as floats, stored in the requested type */
    return row;
}

/* The wider of two classes, in which a computation over both is done. */
static ot_class wider(ot_class a, ot_class b)
{
    static const int rank[] = { [OT_CLASS_F32] = 2, [OT_CLASS_F64] = 3, [OT_CLASS_I64] = 0, [OT_CLASS_U64] = 1 };
    return rank[a] >= rank[b] ? a : b;
}

ot_value *ot_map_emit(ot_build *b, int row, double p, double q, ot_value *const *in, int n, ot_dtype out)
{
    if (b->graph->err && b->graph->err->status != OT_OK) return NULL;
    for (int i = 0; i < n; i++)
        if (!in[i]) return NULL;
    int first = row == OT_FN_Where ? 1 : 0;
    ot_class cls = OT_CLASS_F32;
    ot_dtype type = OT_F32;
    if (row == OT_FN_Random || n <= first) {
        if (out != OT_UNDEFINED) cls = ot_class_of(out), type = out;
    } else {
        cls = ot_class_of(in[first]->dtype);
        type = in[first]->dtype;
        for (int i = first + 1; i < n; i++) {
            ot_class c = ot_class_of(in[i]->dtype);
            if (wider(cls, c) != cls) cls = c, type = in[i]->dtype;
        }
    }
    if (out == OT_UNDEFINED) out = ot_fn_is_compare(row) ? OT_BOOL : type;
    if (cls == OT_CLASS_I64 || cls == OT_CLASS_U64) row = integer_row(row, &cls);

    ot_program m;
    ot_map_program(&m, row, p, q, n, cls, out);
    if (row == OT_FN_Random) {
        m.inst[0].cls = (uint8_t)(cls == OT_CLASS_F64 ? OT_CLASS_F64 : OT_CLASS_F32);
        for (int i = 0; i < n; i++) m.in_class[i] = OT_CLASS_U64;
    }
    ot_node *node = ot_map_emit_program(b, &m, in);
    return node ? node->out[0] : NULL;
}

/* ---- the operator ------------------------------------------------------------ */

static ot_status map_infer(ot_node *n, ot_error *err)
{
    const ot_program *p = n->attrs;
    const char *wrong = check_program(p);
    if (wrong) return ot_node_fail(n, err, "%s", wrong);
    if (n->n_in != p->n_in || n->n_out != p->n_out)
        return ot_node_fail(n, err, "%d inputs and %d outputs, but the program has %d and %d", n->n_in, n->n_out,
                            p->n_in, p->n_out);
    ot_shape s = OT_SCALAR;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) return ot_node_fail(n, err, "input %d is missing", i);
        ot_shape both;
        if (!ot_broadcast(&s, &n->in[i]->shape, &both)) {
            char t0[128], t1[128];
            return ot_node_fail(n, err, "inputs of shape %s and %s do not broadcast", ot_shape_text(&s, t0),
                                ot_shape_text(&n->in[i]->shape, t1));
        }
        s = both;
    }
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k]) OT_TRY(ot_set(n->out[k], (ot_dtype)(p->out_dtype[k] & ~OT_MAP_NO_SATURATE), &s));
    return OT_OK;
}

/* The derivative of a function by operand k, times g, as functions that have derivatives themselves: for gradients
 * of gradients.  v: the operands, and in v[3] the result.  NULL: not for this function. */
static ot_value *in_rows(ot_build *b, int row, int k, double p, ot_value *g, ot_value *const v[4])
{
    ot_value *a = v[0], *c = v[1], *y = v[3];
#define NUM(x) ot_scalar(b, g->dtype, x)
#define ONE(r, u) ot_map1(b, OT_FN_##r, 0, 0, u)
#define TWO(r, u, w) ot_map2(b, OT_FN_##r, 0, 0, u, w)
    switch (row) {
    case OT_FN_Neg: return ONE(Neg, g);
    case OT_FN_Sub: return k ? ONE(Neg, g) : NULL;
    case OT_FN_Mul: return TWO(Mul, g, k ? a : c);
    case OT_FN_Div: return k ? ONE(Neg, TWO(Div, TWO(Mul, g, y), c)) : TWO(Div, g, c);
    case OT_FN_Abs: return TWO(Mul, g, ONE(Sign, a));
    case OT_FN_Square: return TWO(Mul, g, TWO(Mul, NUM(2), a));
    case OT_FN_Cube: return TWO(Mul, g, TWO(Mul, NUM(3), ONE(Square, a)));
    case OT_FN_Sqrt: return TWO(Div, g, TWO(Mul, NUM(2), y));
    case OT_FN_Rsqrt: return TWO(Mul, g, TWO(Mul, NUM(-0.5), ONE(Cube, y)));
    case OT_FN_Reciprocal: return ONE(Neg, TWO(Mul, g, ONE(Square, y)));
    case OT_FN_Pow: return k ? NULL : TWO(Mul, g, TWO(Mul, c, TWO(Pow, a, TWO(Sub, c, NUM(1)))));
    case OT_FN_PowP: return TWO(Mul, g, TWO(Mul, NUM(p), ot_map1(b, OT_FN_PowP, p - 1, 0, a)));
    case OT_FN_Exp: return TWO(Mul, g, y);
    case OT_FN_Log: return TWO(Div, g, a);
    case OT_FN_Sin: return TWO(Mul, g, ONE(Cos, a));
    case OT_FN_Cos: return ONE(Neg, TWO(Mul, g, ONE(Sin, a)));
    case OT_FN_Tanh: return TWO(Mul, g, TWO(Sub, NUM(1), ONE(Square, y)));
    case OT_FN_Sigmoid: return TWO(Mul, g, TWO(Mul, y, TWO(Sub, NUM(1), y)));
    case OT_FN_Softplus: return TWO(Mul, g, ONE(Sigmoid, a));
    case OT_FN_Relu: return ot_map3(b, OT_FN_Where, 0, 0, TWO(Greater, y, NUM(0)), g, NUM(0));
    case OT_FN_Relu6:
        return ot_map3(b, OT_FN_Where, 0, 0, TWO(And, TWO(Greater, y, NUM(0)), TWO(Less, y, NUM(6))), g, NUM(0));
    case OT_FN_Where:
        return k == 1 ? ot_map3(b, OT_FN_Where, 0, 0, a, g, NUM(0)) : ot_map3(b, OT_FN_Where, 0, 0, a, NUM(0), g);
    default: return NULL;
    }
#undef NUM
#undef ONE
#undef TWO
}

/* The derivative of the one instruction by input i, times dy. */
static ot_value *map_din(ot_build *b, int i, ot_value *dy)
{
    const ot_node *n = b->node;
    const ot_program *p = n->attrs;
    const ot_inst *inst = &p->inst[0];
    const ot_fn_info *info = ot_fn_of(inst->row);
    ot_dtype type = n->in[i]->dtype;
    ot_value *in[OT_MAP_ARGS] = { dy };
    ot_value *dx = NULL;

    for (int k = 0; k < info->n; k++) { /* an input may be several operands */
        ot_value *part = dy;
        if (inst->arg[k] != i || info->d[k].grad < OT_FN_PASS) continue;
        ot_value *v[4] = { NULL, NULL, NULL, n->out[0] };
        for (int r = 0; r < info->n && r < 3; r++) v[r] = n->in[inst->arg[r]];
        bool formula = info->d[k].grad == OT_FN_FORMULA,
             plain = formula && b->again && type == n->out[0]->dtype && dy->dtype == type;
        ot_value *spelled = plain ? in_rows(b, inst->row, k, inst->p, dy, v) : NULL;
        if (spelled) part = spelled;
        else if (formula) { /* else dy itself; the driver sums, then casts */ ot_program m;
            ot_map_program(&m, inst->row + 1 + k, inst->p, inst->q, 1, (ot_class)inst->cls, type);
            int n_in = 1;
            for (int r = 0; r < 4; r++) { /* a b c y */
                if (!(info->d[k].reads >> r & 1)) continue;
                m.in_class[n_in] = inst->cls;
                m.inst[0].arg[1 + r] = (int8_t)n_in;
                in[n_in++] = r == 3 ? n->out[0] : n->in[inst->arg[r]];
            }
            m.n_in = n_in;
            m.out[0] = (int8_t)n_in;
            ot_node *made = ot_map_emit_program(b, &m, in);
            part = made ? made->out[0] : NULL;
        }
        dx = dx ? ot_map2(b, OT_FN_Add, 0, 0, dx, part) : part;
    }
    return dx;
}

static void map_grad(ot_build *b)
{
    const ot_node *n = b->node;
    const ot_program *p = n->attrs;
    if (p->n_inst != 1 || p->n_out != 1 || p->out[0] != p->n_in) {
        ot_node_fail(n, b->graph->err, "a fused program has no gradient; gradients are built before fusing");
        return;
    }
    if (p->inst[0].row % 4) {
        ot_node_fail(n, b->graph->err, "the second derivative of %s is not supported", ot_fn_of(p->inst[0].row)->name);
        return;
    }
    ot_value *dy = ot_dout(b, 0);
    if (!dy || !ot_is_float(n->out[0]->dtype)) return;
    for (int i = 0; i < n->n_in; i++)
        if (ot_wants(b, i) && ot_is_float(n->in[i]->dtype)) {
            ot_value *dx = map_din(b, i, dy);
            if (dx) ot_set_din(b, i, dx);
        }
}

/* ---- short forms ---------------------------------------------------------------- */

/* The type of a row's result: bool for comparisons, else that of the first operand that is not
 * bool (Where's data, a mask's factor). */
static ot_value *of_type(ot_build *b, int row, double p, double q, ot_value *const *in, int n)
{
    if (ot_broken(b)) return NULL;
    ot_dtype t = OT_BOOL;
    for (int i = n - 1; i >= 0; i--)
        if (in[i] && in[i]->dtype != OT_BOOL) t = in[i]->dtype;
    return ot_map_emit(b, row, p, q, in, n, ot_fn_is_compare(row) ? OT_BOOL : t);
}

ot_value *ot_map1(ot_build *b, int row, double p, double q, ot_value *a) { return of_type(b, row, p, q, OT_IN(a)); }

ot_value *ot_map2(ot_build *b, int row, double p, double q, ot_value *a, ot_value *c)
{
    return of_type(b, row, p, q, OT_IN(a, c));
}

ot_value *ot_map3(ot_build *b, int row, double p, double q, ot_value *a, ot_value *c, ot_value *d)
{
    return of_type(b, row, p, q, OT_IN(a, c, d));
}

ot_value *ot_cast(ot_build *b, ot_value *x, ot_dtype t)
{
    if (ot_broken(b)) return NULL;
    return x->dtype == t ? x : ot_map_emit(b, OT_FN_Copy, 0, 0, &x, 1, t);
}

ot_value *ot_cast_from(const ot_value *v)
{
    const ot_node *n = v->producer;
    if (!n || n->op != &ot_op_Map) return NULL;
    const ot_program *m = n->attrs;
    bool copies = m->n_in == 1 && m->n_out == 1 && m->n_inst == 1 && m->inst[0].row == OT_FN_Copy;
    return copies && ot_is_float(n->in[0]->dtype) ? n->in[0] : NULL;
}

size_t ot_program_bytes(const void *program)
{
    const ot_program *p = program;
    int n = p->n_inst < 1 ? 1 : p->n_inst > OT_MAP_INST ? OT_MAP_INST : p->n_inst;
    return offsetof(ot_program, inst) + (size_t)n * sizeof *p->inst;
}

static double flops(const ot_node *n)
{
    const ot_program *p = n->attrs;
    return (double)p->n_inst * (double)ot_numel(&n->out[0]->shape);
}

const ot_op ot_op_Map = {
    .name = "Map",
    .types = { "n" },
    .in = { 0, OT_MAP_IN },
    .out = { 1, OT_MAP_OUT },
    .flags = OT_INTERNAL,
    .attr_size = sizeof(ot_program),
    .attr_used = ot_program_bytes,
    .infer = map_infer,
    .grad = map_grad,
    .flops = flops,
    .half = OT_HALF_MAP,
};
