/* map_print.c - prints a Map's program as the C text that precedes map.cu.
 *
 * The text depends on the program, the types and how operands are read, not on sizes: those are arguments.  Formulas
 * are the texts of ops/kernels/functions.h, pasted with their operands as a b c (g y), their parameters as p q and
 * their class as T.  Register i is r<i>, the loaded or stored element of operand i is x<i>. */
#include <math.h>

#include "ops/cuda/map_print.h"
#include "ops/cuda/types.h"

/* ---- formulas ----------------------------------------------------------------- */

#define FORMULA(A, name, kinds, y, da, db, dc) \
    [OT_FN_##name] = #y, [OT_FN_##name##_da] = #da, [OT_FN_##name##_db] = #db, [OT_FN_##name##_dc] = #dc,

static const char *const formulas[OT_FN_END] = { OT_FNS(FORMULA, 0) };

/* ---- types --------------------------------------------------------------------- */

static const char *class_type(ot_class c)
{
    static const char *const t[] = { "float", "double", "ot_i64", "ot_u64" };
    return t[c];
}

/* A value of class `from` as one of class `to`. */
static const char *converter(ot_class from, ot_class to)
{
    static const char *const f[4][4] = {
        { "", "(double)", "ot_f32_to_i64", "ot_f32_to_u64" },
        { "(float)", "", "ot_f64_to_i64", "ot_f64_to_u64" },
        { "(float)", "(double)", "", "(ot_u64)" },
        { "(float)", "(double)", "(ot_i64)", "" },
    };
    return f[from][to];
}

/* The same before a store to an element of type t: a value that is rounded again is rounded to odd first, and a bool
 * is not an integer of the value. */
static const char *storer(ot_class from, ot_dtype t)
{
    static const char *const odd[] = { "", "ot_odd_f64", "ot_odd_i64", "ot_odd_u64" };
    if (t == OT_BOOL) return "0 != ";
    if (ot_is_float(t) && ot_dtype_bits(t) < 32) return odd[from];
    return converter(from, ot_class_of(t));
}

/* log2 of the elements in a stored unit. */
static int shift_of(ot_dtype t)
{
    int bits = ot_dtype_bits(t);
    return bits == 4 ? 1 : bits == 2 ? 2 : 0;
}

static void print_packs(const gpu_map *m, ot_text *t)
{
    uint64_t seen = 0;
    bool small = false;
    for (int i = 0; i < m->n_in + m->n_out; i++) small = small || !ot_cuda_type(m->dtype[i]);
    for (int i = 0; i < m->p->n_inst; i++)
        if (m->p->inst[i].row == OT_FN_Convert && m->p->inst[i].p != 0)
            small = small || !ot_cuda_type((ot_dtype)m->p->inst[i].p);
    if (small) ot_text_add(t, "#include \"small.cuh\"\n");
    for (int i = 0; i < m->n_in + m->n_out; i++) {
        ot_dtype d = m->dtype[i];
        int bytes = m->vector * ot_dtype_bits(d) / 8;
        if ((m->kind[i] != GPU_MAP_DENSE && m->kind[i] != GPU_MAP_VECTOR) || seen >> d & 1) continue;
        seen |= UINT64_C(1) << d;
        ot_text_add(t, "MAP_PACK(%s, %s, %d, %d)\n", ot_cuda_type_any(d), ot_cuda_stored(d), shift_of(d),
                    bytes < 16 ? bytes : 16);
    }
}

/* ---- instructions ------------------------------------------------------------------ */

typedef struct printer {
    const gpu_map *m;
    ot_text *t;
    int cls; /* the class of T; -1: none */
} printer;

static void set_class(printer *k, int cls)
{
    if (k->cls == cls) return;
    if (k->cls >= 0) ot_text_add(k->t, "#undef T\n");
    if (cls >= 0) ot_text_add(k->t, "#define T %s\n", class_type((ot_class)cls));
    k->cls = cls;
}

static void print_number(ot_text *t, const char *name, double v)
{
    if (isnan(v)) ot_text_add(t, " const double %s = INFINITY - INFINITY;", name);
    else if (isinf(v)) ot_text_add(t, " const double %s = %sINFINITY;", name, v < 0 ? "-" : "");
    else ot_text_add(t, " const double %s = %a;", name, v);
}

static void print_formula(printer *k, const ot_inst *inst, int r)
{
    const char *const *names = (const char *const[]){ "g", "a", "b", "c", "y" } + (inst->row % 4 == 0);
    set_class(k, inst->cls);
    ot_text_add(k->t, "T r%d; {", r);
    for (int i = 0; i < OT_MAP_ARGS - (inst->row % 4 == 0); i++)
        if (inst->arg[i] >= 0) ot_text_add(k->t, " const T %s = r%d;", names[i], inst->arg[i]);
    print_number(k->t, "p", inst->p);
    print_number(k->t, "q", inst->q);
    ot_text_add(k->t, " r%d = %s; }\n", r, formulas[inst->row]);
}

static void print_convert(printer *k, const ot_inst *inst, int r)
{
    const ot_program *p = k->m->p;
    ot_class from = ot_map_class(p, inst->arg[0]), to = (ot_class)inst->cls;
    ot_dtype by = inst->p != 0 ? (ot_dtype)inst->p : ot_class_dtype(to);
    const char *type = class_type(to);
    if (by == ot_class_dtype(to)) {
        ot_text_add(k->t, "%s r%d = %s(r%d);\n", type, r, converter(from, to), inst->arg[0]);
        return;
    }
    ot_text_add(k->t, "%s r%d; { %s e[1] = { 0 }; ot_st_%s(e, 0, %s(r%d)); r%d = %s(ot_ld_%s(e, 0)); }\n", type, r,
                ot_cuda_stored(by), ot_cuda_type_any(by), storer(from, by), inst->arg[0], r,
                converter(ot_class_of(by), to), ot_cuda_type_any(by));
}

/* Are the four numbers of a counter generated at once, before the elements? */
static bool random_row(const gpu_map *m, const ot_inst *inst)
{
    return inst->row == OT_FN_Random && m->n > 1 && m->kind[gpu_map_position(m)] == GPU_MAP_DENSE &&
           m->vector % 4 == 0 && m->uniform[inst->arg[0]] && m->uniform[inst->arg[1]];
}

/* k is the logical position. */
static void print_special(printer *k, const ot_inst *inst, int r)
{
    const gpu_map *m = k->m;
    const char *type = class_type((ot_class)inst->cls);
    int axis = (int)inst->p;
    if (inst->row == OT_FN_Convert) print_convert(k, inst, r);
    else if (inst->row == OT_FN_Index && (axis < 0 || axis >= m->shape.rank))
        ot_text_add(k->t, "%s r%d = 0;\n", type, r);
    else if (inst->row == OT_FN_Index)
        ot_text_add(k->t, "%s r%d = (%s)(k / (ot_num)m->logical[%d].step %% (ot_num)m->logical[%d].n);\n", type, r,
                    type, axis, axis);
    else if (random_row(m, inst))
        ot_text_add(k->t, "%s r%d = %s(row%d[j]);\n", type, r, converter(OT_CLASS_F32, (ot_class)inst->cls), r);
    else
        ot_text_add(k->t, "%s r%d = %s(ot_random(r%d, r%d, %lluull, k));\n", type, r,
                    converter(OT_CLASS_F32, (ot_class)inst->cls), inst->arg[0], inst->arg[1],
                    (unsigned long long)inst->p);
}

static void print_inst(printer *k, int i)
{
    const ot_inst *inst = &k->m->p->inst[i];
    int r = k->m->p->n_in + i;
    if (inst->row >= OT_FN_Convert) print_special(k, inst, r);
    else print_formula(k, inst, r);
}

/* ---- what is uniform ------------------------------------------------------------------ */

/* Costs nothing: repeated where it is read. */
static bool is_immediate(const gpu_map *m, int r)
{
    return r >= m->p->n_in && m->p->inst[r - m->p->n_in].row == OT_FN_Imm;
}

/* Registers that map_vector gets from map_uniform. */
static void find_handed(const gpu_map *m, bool handed[OT_MAP_IN + OT_MAP_INST])
{
    const ot_program *p = m->p;
    for (int r = 0; r < p->n_in + p->n_inst; r++) handed[r] = false;
    for (int i = 0; i < p->n_inst; i++)
        for (int k = 0; k < OT_MAP_ARGS && !m->uniform[p->n_in + i]; k++)
            if (p->inst[i].arg[k] >= 0) handed[p->inst[i].arg[k]] = true;
    for (int k = 0; k < p->n_out; k++)
        if (m->reduced || m->kind[m->n_in + k] != GPU_MAP_NONE) handed[p->out[k]] = true;
    for (int r = 0; r < p->n_in + p->n_inst; r++) handed[r] = handed[r] && m->uniform[r] && !is_immediate(m, r);
}

/* Worth computing in one thread instead of in all: doubles are slow on many GPUs. */
static bool is_expensive(const gpu_map *m)
{
    for (int i = 0; i < m->p->n_inst; i++)
        if (m->uniform[m->p->n_in + i] && !is_immediate(m, m->p->n_in + i) && m->p->inst[i].cls == OT_CLASS_F64 &&
            m->p->inst[i].row != OT_FN_Convert)
            return true;
    return false;
}

static void print_uniform(printer *k, const bool *handed)
{
    const gpu_map *m = k->m;
    const ot_program *p = m->p;
    ot_text_add(k->t, "typedef struct ot_map_uniform {\n    int none;\n");
    for (int r = 0; r < p->n_in + p->n_inst; r++)
        if (handed[r]) ot_text_add(k->t, "    %s r%d;\n", class_type(ot_map_class(p, r)), r);
    ot_text_add(
        k->t,
        "} ot_map_uniform;\nOT_DEVICE void map_uniform(const ot_map_call *m, ot_map_uniform *u)\n{\nconst ot_num k = 0;\n");
    for (int i = 0; i < p->n_in; i++)
        if (m->uniform[i])
            ot_text_add(k->t, "%s r%d = %s(ot_ld_%s(m->at[%d], 0));\n", class_type((ot_class)p->in_class[i]), i,
                        converter(ot_class_of(m->dtype[i]), (ot_class)p->in_class[i]), ot_cuda_type_any(m->dtype[i]),
                        i);
    for (int i = 0; i < p->n_inst; i++)
        if (m->uniform[p->n_in + i]) print_inst(k, i);
    for (int r = 0; r < p->n_in + p->n_inst; r++)
        if (handed[r]) ot_text_add(k->t, "u->r%d = r%d;\n", r, r);
    ot_text_add(k->t, "}\n");
    set_class(k, -1);
}

/* ---- V elements --------------------------------------------------------------------------- */

static void print_loads(printer *k)
{
    const gpu_map *m = k->m;
    if (m->n_strided) ot_text_add(k->t, "ot_i64 o[MAP_STRIDED];\n");
    if (m->n_strided && m->inner) ot_text_add(k->t, "map_offsets(m, i, o);\n");
    for (int i = 0; i < m->n_in; i++) {
        const char *type = ot_cuda_type_any(m->dtype[i]);
        if (m->kind[i] == GPU_MAP_DENSE)
            ot_text_add(k->t, "map_%s x%d = map_read_%s(m->at[%d], i, m->n);\n", type, i, type, i);
        else if (m->kind[i] == GPU_MAP_VECTOR)
            ot_text_add(k->t, "map_%s x%d = map_read_%s(m->at[%d], (ot_num)o[%d], o[%d] + V);\n", type, i, type, i,
                        m->strided[i], m->strided[i]);
        else if (m->kind[i] == GPU_MAP_ROW)
            ot_text_add(k->t, "const %s x%d = ot_ld_%s(m->at[%d], o[%d]);\n", ot_cuda_class(m->dtype[i]), i, type, i,
                        m->strided[i]);
    }
    for (int i = 0; i < m->n_out && !m->reduced; i++)
        if (m->kind[m->n_in + i] == GPU_MAP_DENSE)
            ot_text_add(k->t, "map_%s x%d%s;\n", ot_cuda_type_any(m->dtype[m->n_in + i]), m->n_in + i,
                        shift_of(m->dtype[m->n_in + i]) ? " = { { 0 } }" : "");
    for (int i = 0; i < m->p->n_inst; i++) {
        const ot_inst *inst = &m->p->inst[i];
        if (!m->uniform[m->p->n_in + i] && random_row(m, inst))
            ot_text_add(k->t, "float row%d[V];\not_random_row(u->r%d, u->r%d, %lluull, i, V, row%d);\n", m->p->n_in + i,
                        inst->arg[0], inst->arg[1], (unsigned long long)inst->p, m->p->n_in + i);
    }
}

/* "o[1]" or "o[1] + j * m->stride[1][MAP_RANK - 1]": the address of element j in a strided operand. */
static void print_place(printer *k, int i)
{
    ot_text_add(k->t, "o[%d]", k->m->strided[i]);
    if (k->m->kind[i] == GPU_MAP_STEPS) ot_text_add(k->t, " + j * m->stride[%d][MAP_RANK - 1]", k->m->strided[i]);
}

static void print_registers(printer *k, const bool *handed)
{
    const gpu_map *m = k->m;
    const ot_program *p = m->p;
    for (int i = 0; i < p->n_in; i++) {
        if (m->uniform[i]) continue;
        const char *type = ot_cuda_type_any(m->dtype[i]);
        ot_text_add(k->t, "%s r%d = %s(", class_type((ot_class)p->in_class[i]), i,
                    converter(ot_class_of(m->dtype[i]), (ot_class)p->in_class[i]));
        if (m->kind[i] == GPU_MAP_ROW) {
            ot_text_add(k->t, "x%d);\n", i);
        } else if (m->kind[i] == GPU_MAP_DENSE || m->kind[i] == GPU_MAP_VECTOR) {
            ot_text_add(k->t, "ot_ld_%s(x%d.e, j));\n", type, i);
        } else {
            ot_text_add(k->t, "ot_ld_%s(m->at[%d], ", type, i);
            print_place(k, i);
            ot_text_add(k->t, "));\n");
        }
    }
    for (int r = 0; r < p->n_in + p->n_inst; r++)
        if (handed[r]) ot_text_add(k->t, "const %s r%d = u->r%d;\n", class_type(ot_map_class(p, r)), r, r);
}

static void print_stores(printer *k)
{
    const gpu_map *m = k->m;
    const ot_program *p = m->p;
    for (int i = m->n_in; i < m->n_in + m->n_out; i++) {
        int r = p->out[i - m->n_in];
        bool over = p->out_dtype[i - m->n_in] & OT_MAP_NO_SATURATE;
        const char *type = ot_cuda_type_any(m->dtype[i]), *how = storer(ot_map_class(p, r), m->dtype[i]);
        if (m->kind[i] == GPU_MAP_NONE) continue;
        if (m->kind[i] == GPU_MAP_DENSE) {
            ot_text_add(k->t, "ot_%s_%s(x%d.e, j, %s(r%d));\n", over ? "over" : "st", type, i, how, r);
            continue;
        }
        if (m->kind[i] == GPU_MAP_EACH) ot_text_add(k->t, "if (i + j < m->n) ");
        ot_text_add(k->t, "ot_%s_%s(m->at[%d], ", over ? "over" : "st", type, i);
        print_place(k, i);
        ot_text_add(k->t, ", %s(r%d));\n", how, r);
    }
}

/* The result after a store and a load. */
static void print_value(printer *k)
{
    const gpu_map *m = k->m;
    const ot_program *p = m->p;
    int r = p->out[0];
    ot_dtype t = m->dtype[m->n_in];
    const char *type = ot_cuda_type_any(t);
    if (t == ot_class_dtype(ot_map_class(p, r)) ||
        (r < p->n_in && m->dtype[r] == t && (ot_class)p->in_class[r] == ot_class_of(t)))
        ot_text_add(k->t, "v[j] = r%d;\n", r);
    else
        ot_text_add(k->t, "{ %s e[1] = { 0 }; ot_%s_%s(e, 0, %s(r%d)); v[j] = ot_ld_%s(e, 0); }\n", ot_cuda_stored(t),
                    p->out_dtype[0] & OT_MAP_NO_SATURATE ? "over" : "st", type, storer(ot_map_class(p, r), t), r, type);
}

static void print_vector(printer *k, const bool *handed)
{
    const gpu_map *m = k->m;
    const ot_program *p = m->p;
    int position = gpu_map_position(m);
    if (m->reduced)
        ot_text_add(k->t,
                    "OT_DEVICE void map_values(const ot_map_call *m, const ot_map_uniform *u, ot_num i, %s *v)\n{\n",
                    ot_cuda_class(m->dtype[m->n_in]));
    else ot_text_add(k->t, "OT_DEVICE void map_vector(const ot_map_call *m, const ot_map_uniform *u, ot_num i)\n{\n");
    print_loads(k);
    ot_text_add(k->t, "OT_UNROLL\nfor (int j = 0; j < V; j++) {\n");
    if (m->n_strided && !m->inner) ot_text_add(k->t, "map_offsets(m, i + j < m->n ? i + j : (ot_num)(m->n - 1), o);\n");
    if (m->kind[position] == GPU_MAP_DENSE) ot_text_add(k->t, "const ot_num k = i + j;\n");
    if (m->strided[position] >= 0) {
        ot_text_add(k->t, "const ot_num k = (ot_num)(");
        print_place(k, position);
        ot_text_add(k->t, ");\n");
    }
    print_registers(k, handed);
    for (int i = 0; i < p->n_inst; i++)
        if (!m->uniform[p->n_in + i] || is_immediate(m, p->n_in + i)) print_inst(k, i);
    if (m->reduced) print_value(k);
    else print_stores(k);
    ot_text_add(k->t, "}\n");
    for (int i = m->n_in; i < m->n_in + m->n_out && !m->reduced; i++)
        if (m->kind[i] == GPU_MAP_DENSE)
            ot_text_add(k->t, "map_write_%s(m->at[%d], i, m->n, x%d);\n", ot_cuda_type_any(m->dtype[i]), i, i);
    ot_text_add(k->t, "}\n");
    set_class(k, -1);
}

void gpu_map_text(const gpu_map *m, ot_text *t)
{
    bool handed[OT_MAP_IN + OT_MAP_INST];
    printer k = { .m = m, .t = t, .cls = -1 };
    find_handed(m, handed);
    ot_text_add(
        t,
        "#define V %d\n#define MAP_OPERANDS %d\n#define MAP_STRIDED %d\n#define MAP_RANK %d\n#define MAP_LOGICAL %d\n",
        m->vector, m->n_in + m->n_out, m->n_strided, m->n_strided ? m->rank : 0, m->indexed ? m->shape.rank : 0);
    ot_text_add(t, "#define WIDE %d\n#define MAP_SHARED %d\n#include \"functions.cuh\"\n#include \"map.cuh\"\n",
                m->wide, is_expensive(m));
    print_packs(m, t);
    print_uniform(&k, handed);
    print_vector(&k, handed);
}

void gpu_map_after_text(const gpu_map *m, uint32_t between, ot_text *t)
{
    const ot_program *p = m->p;
    printer k = { .m = m, .t = t, .cls = -1 };
    const char *cls = ot_cuda_class(m->dtype[m->n_in]);
    ot_text_add(t, "#define WIDE 1\n#include \"divide.cuh\"\n#include \"functions.cuh\"\n");
    ot_text_add(t, "OT_DEVICE %s map_after(const void *const *x, ot_i64 i, %s v)\n{\n", cls, cls);
    for (int i = 0, other = 0; i < p->n_in; i++) {
        ot_class from = ot_class_of(m->dtype[i]), to = (ot_class)p->in_class[i];
        if (between >> i & 1) ot_text_add(t, "%s r%d = %s(v);\n", class_type(to), i, converter(from, to));
        else
            ot_text_add(t, "%s r%d = %s(ot_ld_%s(x[%d], i));\n", class_type(to), i, converter(from, to),
                        ot_cuda_type(m->dtype[i]), other++);
    }
    for (int i = 0; i < p->n_inst; i++) print_inst(&k, i);
    ot_text_add(t, "return %s(r%d);\n}\n", storer(ot_map_class(p, p->out[0]), m->dtype[m->n_in]), p->out[0]);
    set_class(&k, -1);
}
