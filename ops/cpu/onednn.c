/* onednn.c - scripts of oneDNN primitives, for oneDNN 2.x and 3.x.
 *
 * Threads  primitives split their work at creation by OpenMP's number of threads, and run with it; oneDNN reads the
 *          calling thread's setting and has no other interface for it.  It is set around each call and restored: the
 *          caller's own regions, and other threads, are not affected.
 * Memory  a script owns its engine, stream, primitives and memory objects; bytes belong to the call. Primitives take
 *         their scratchpad from the workspace (scratchpad mode user).  oneDNN does not check all of its allocations
 *         while it creates a primitive (code, objects), and crashes if one fails: available memory is checked first.
 * Source  oneDNN's C interface, 2.6 and 3.x; the differences are the block below. */
#include "ops/cpu/onednn.h"

#include <oneapi/dnnl/dnnl.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORIES = 24, PRIMITIVES = 8, ARGS = 8 };
enum { BIND_WORK = 64, BIND_HELD }; /* after OT_ARG_OUT + outputs */

struct ot_script {
    const ot_node *node;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    int threads;
    void *held; /* settled weights in the order of the primitive; NULL: none */
    int n_memories, n_primitives;
    struct {
        dnnl_memory_t m;
        int bind;
        size_t offset;
        void *at;
    } memory[MEMORIES];
    struct {
        dnnl_primitive_t p;
        int n;
        dnnl_exec_arg_t arg[ARGS];
    } primitive[PRIMITIVES];
};

/* ---- the differences between 2.x and 3.x -------------------------------------- */

#if DNNL_VERSION_MAJOR >= 3
typedef struct {
    dnnl_memory_desc_t d;
} desc; /* a handle: desc_free */
typedef const_dnnl_memory_desc_t desc_ref;
#define REF(x) ((x).d)
#define REF_OR_NULL(x) ((x) ? (x)->d : NULL)
static void desc_free(desc *d)
{
    if (d->d) dnnl_memory_desc_destroy(d->d);
}
static dnnl_status_t desc_tag(desc *d, int rank, const dnnl_dims_t dim, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(&d->d, rank, dim, type, tag);
}
static dnnl_status_t desc_strides(desc *d, int rank, const dnnl_dims_t dim, dnnl_data_type_t type,
                                  const dnnl_dims_t stride)
{
    return dnnl_memory_desc_create_with_strides(&d->d, rank, dim, type, stride);
}
#else
typedef struct {
    dnnl_memory_desc_t d;
} desc;
typedef const dnnl_memory_desc_t *desc_ref;
#define REF(x) (&(x).d)
#define REF_OR_NULL(x) ((x) ? &(x)->d : NULL)
static void desc_free(desc *d) { (void)d; }
static dnnl_status_t desc_tag(desc *d, int rank, const dnnl_dims_t dim, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(&d->d, rank, dim, type, tag);
}
static dnnl_status_t desc_strides(desc *d, int rank, const dnnl_dims_t dim, dnnl_data_type_t type,
                                  const dnnl_dims_t stride)
{
    return dnnl_memory_desc_init_by_strides(&d->d, rank, dim, type, stride);
}
#endif

static desc_ref query(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(pd, what, 0);
}

typedef struct conv_spec {
    dnnl_dims_t stride, dilation, lo, hi;
    desc x, w, b, y;
    const desc *bias; /* &b or NULL */
} conv_spec;

static dnnl_status_t forward_pd(dnnl_engine_t e, const_dnnl_primitive_attr_t attr, const conv_spec *c,
                                dnnl_primitive_desc_t *pd)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_convolution_forward_primitive_desc_create(pd, e, dnnl_forward_training, dnnl_convolution_direct,
                                                          REF(c->x), REF(c->w), REF_OR_NULL(c->bias), REF(c->y),
                                                          c->stride, c->dilation, c->lo, c->hi, attr);
#else
    dnnl_convolution_desc_t d;
    dnnl_status_t s = dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_training, dnnl_convolution_direct,
                                                                 REF(c->x), REF(c->w), REF_OR_NULL(c->bias), REF(c->y),
                                                                 c->stride, c->dilation, c->lo, c->hi);
    return s ? s : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
#endif
}

static dnnl_status_t dx_pd(dnnl_engine_t e, const_dnnl_primitive_attr_t attr, const conv_spec *c,
                           dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_convolution_backward_data_primitive_desc_create(pd, e, dnnl_convolution_direct, REF(c->x), REF(c->w),
                                                                REF(c->y), c->stride, c->dilation, c->lo, c->hi, hint,
                                                                attr);
#else
    dnnl_convolution_desc_t d;
    dnnl_status_t s = dnnl_dilated_convolution_backward_data_desc_init(
        &d, dnnl_convolution_direct, REF(c->x), REF(c->w), REF(c->y), c->stride, c->dilation, c->lo, c->hi);
    return s ? s : dnnl_primitive_desc_create(pd, &d, attr, e, hint);
#endif
}

static dnnl_status_t dw_pd(dnnl_engine_t e, const_dnnl_primitive_attr_t attr, const conv_spec *c,
                           dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_convolution_backward_weights_primitive_desc_create(pd, e, dnnl_convolution_direct, REF(c->x), REF(c->w),
                                                                   REF_OR_NULL(c->bias), REF(c->y), c->stride,
                                                                   c->dilation, c->lo, c->hi, hint, attr);
#else
    dnnl_convolution_desc_t d;
    dnnl_status_t s = dnnl_dilated_convolution_backward_weights_desc_init(&d, dnnl_convolution_direct, REF(c->x),
                                                                          REF(c->w), REF_OR_NULL(c->bias), REF(c->y),
                                                                          c->stride, c->dilation, c->lo, c->hi);
    return s ? s : dnnl_primitive_desc_create(pd, &d, attr, e, hint);
#endif
}

static dnnl_status_t matmul_pd(dnnl_engine_t e, const_dnnl_primitive_attr_t attr, const desc *a, const desc *b,
                               const desc *bias, const desc *y, dnnl_primitive_desc_t *pd)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_matmul_primitive_desc_create(pd, e, a->d, b->d, REF_OR_NULL(bias), y->d, attr);
#else
    dnnl_matmul_desc_t d;
    dnnl_status_t s = dnnl_matmul_desc_init(&d, &a->d, &b->d, REF_OR_NULL(bias), &y->d);
    return s ? s : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
#endif
}

/* Sets the calling thread's number of threads to n; returns the previous one. */
static int set_threads(int n)
{
    int was = omp_get_max_threads();
    if (was != n) omp_set_num_threads(n);
    return was;
}

/* Before anything is made. */
static dnnl_status_t look_for_room(void) { return ot_memory_fits(OT_LIBRARY_ROOM) ? dnnl_success : dnnl_out_of_memory; }

/* AMX multiplies bfloat16 about eight times as fast as float32, AVX512-BF16 twice; without them oneDNN emulates the
 * products, slower than float32.  Instruction sets are sets of bits. */
bool ot_onednn_has_bf16(void)
{
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

/* ---- scripts ------------------------------------------------------------------- */

static ot_status fail(const ot_node *n, ot_error *err, const char *what, dnnl_status_t s)
{
    if (s == dnnl_out_of_memory)
        return ot_fail(err, OT_E_NOMEM, "%s: %s: oneDNN is out of memory; %d MiB are available to it", n->name,
                       n->op->name, OT_LIBRARY_ROOM >> 20);
    return ot_fail(err, OT_E_DEVICE, "%s: %s: oneDNN: %s failed with status %d", n->name, n->op->name, what, (int)s);
}

ot_status ot_script_new(const ot_node *n, ot_prep *p, ot_script **out)
{
    ot_script *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) return ot_fail(p->err, OT_E_NOMEM, "%s: no memory", n->name);
    s->node = n;
    s->threads = p->threads;
    dnnl_status_t e = look_for_room();
    if (!e) e = dnnl_engine_create(&s->engine, dnnl_cpu, 0);
    if (!e) e = dnnl_stream_create(&s->stream, s->engine, dnnl_stream_default_flags);
    if (e) {
        ot_script_free(s);
        return fail(n, p->err, "start", e);
    }
    *out = s;
    return OT_OK;
}

void ot_script_free(void *script)
{
    ot_script *s = script;
    if (!s) return;
    for (int i = 0; i < s->n_primitives; i++)
        if (s->primitive[i].p) dnnl_primitive_destroy(s->primitive[i].p);
    for (int i = 0; i < s->n_memories; i++)
        if (s->memory[i].m) dnnl_memory_destroy(s->memory[i].m);
    if (s->stream) dnnl_stream_destroy(s->stream);
    if (s->engine) dnnl_engine_destroy(s->engine);
    free(s->held);
    free(s);
}

/* Binds memory that has moved; planned memory does not move. */
static ot_status bind(ot_script *s, const ot_call *c)
{
    for (int i = 0; i < s->n_memories; i++) {
        int bind = s->memory[i].bind;
        const void *at = bind == BIND_HELD    ? s->held
                         : bind == BIND_WORK  ? (char *)c->work + s->memory[i].offset
                         : bind >= OT_ARG_OUT ? c->out[bind - OT_ARG_OUT]
                                              : c->in[bind];
        if (at == s->memory[i].at) continue;
        /* oneDNN's call takes inputs as non-const too; it does not write them. */
        void *where;
        memcpy(&where, &at, sizeof where);
        dnnl_status_t e = dnnl_memory_set_data_handle(s->memory[i].m, where);
        if (e) return fail(s->node, c->err, "binding of memory", e);
        s->memory[i].at = where;
    }
    return OT_OK;
}

ot_status ot_script_run(const ot_call *c)
{
    ot_script *s = c->state;
    dnnl_status_t e = dnnl_success;
    OT_TRY(bind(s, c));
    int was = set_threads(s->threads);
    for (int i = 0; !e && i < s->n_primitives; i++)
        e = dnnl_primitive_execute(s->primitive[i].p, s->stream, s->primitive[i].n, s->primitive[i].arg);
    if (!e) e = dnnl_stream_wait(s->stream);
    (void)set_threads(was);
    return e ? fail(s->node, c->err, "execution", e) : OT_OK;
}

/* While a script is built: the first failure sticks. */
typedef struct writer {
    ot_script *s;
    size_t work, held;
    dnnl_status_t status;
    dnnl_primitive_attr_t attr;
} writer;

/* The memory of the script for a tensor; bind BIND_WORK takes workspace. */
static dnnl_memory_t memory(writer *w, desc_ref d, int bind)
{
    ot_script *s = w->s;
    if (w->status) return NULL;
    if (s->n_memories == MEMORIES) {
        w->status = dnnl_runtime_error;
        return NULL;
    }
    dnnl_memory_t *m = &s->memory[s->n_memories].m;
    if ((w->status = dnnl_memory_create(m, d, s->engine, DNNL_MEMORY_NONE))) return NULL;
    s->memory[s->n_memories].bind = bind;
    s->memory[s->n_memories].offset = w->work;
    s->memory[s->n_memories].at = NULL;
    if (bind == BIND_WORK) w->work += (dnnl_memory_desc_get_size(d) + 63) / 64 * 64;
    s->n_memories++;
    return *m;
}

static void add(writer *w, const_dnnl_primitive_desc_t pd, const dnnl_exec_arg_t *arg, int n)
{
    ot_script *s = w->s;
    if (w->status) return;
    if (s->n_primitives == PRIMITIVES || n + 1 > ARGS) {
        w->status = dnnl_runtime_error;
        return;
    }
    memcpy(s->primitive[s->n_primitives].arg, arg, (size_t)n * sizeof *arg);
    desc_ref scratch = query(pd, dnnl_query_scratchpad_md);
    if (scratch && dnnl_memory_desc_get_size(scratch) > 0)
        s->primitive[s->n_primitives].arg[n++] =
            (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, memory(w, scratch, BIND_WORK) };
    s->primitive[s->n_primitives].n = n;
    if (!w->status) w->status = look_for_room();
    if (!w->status) w->status = dnnl_primitive_create(&s->primitive[s->n_primitives].p, pd);
    if (!w->status) s->n_primitives++;
}

static void reorder(writer *w, desc_ref from, dnnl_memory_t a, desc_ref to, dnnl_memory_t b)
{
    dnnl_primitive_desc_t pd = NULL;
    if (w->status) return;
    w->status = dnnl_reorder_primitive_desc_create(&pd, from, w->s->engine, to, w->s->engine, w->attr);
    add(w, pd, (dnnl_exec_arg_t[]){ { DNNL_ARG_FROM, a }, { DNNL_ARG_TO, b } }, 2);
    if (pd) dnnl_primitive_desc_destroy(pd);
}

/* The memory that a primitive reads in layout `wanted` if the caller has `have`: with a reorder if they differ. */
static dnnl_memory_t source(writer *w, const desc *have, desc_ref wanted, int bind)
{
    if (dnnl_memory_desc_equal(REF(*have), wanted)) return memory(w, wanted, bind);
    dnnl_memory_t a = memory(w, REF(*have), bind), b = memory(w, wanted, BIND_WORK);
    reorder(w, REF(*have), a, wanted, b);
    return b;
}

/* As source, for weights whose bytes do not change: reordered now, once. */
static dnnl_memory_t settled_source(writer *w, const desc *have, desc_ref wanted, const void *bytes)
{
    ot_script *s = w->s;
    dnnl_memory_t from = NULL, to = memory(w, wanted, BIND_HELD);
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t p = NULL;
    void *where; /* oneDNN takes inputs as non-const too */
    w->held = dnnl_memory_desc_get_size(wanted);
    memcpy(&where, &bytes, sizeof where);
    if (w->status) return NULL;
    free(s->held);
    if (!(s->held = aligned_alloc(64, (w->held + 63) / 64 * 64))) w->status = dnnl_out_of_memory;
    if (!w->status) w->status = look_for_room();
    if (!w->status) w->status = dnnl_memory_create(&from, REF(*have), s->engine, where);
    if (!w->status) w->status = dnnl_memory_set_data_handle(to, s->held);
    if (!w->status) w->status = dnnl_reorder_primitive_desc_create(&pd, REF(*have), s->engine, wanted, s->engine, NULL);
    if (!w->status) w->status = dnnl_primitive_create(&p, pd);
    dnnl_exec_arg_t arg[] = { { DNNL_ARG_FROM, from }, { DNNL_ARG_TO, to } };
    if (!w->status) w->status = dnnl_primitive_execute(p, s->stream, OT_LEN(arg), arg);
    if (!w->status) w->status = dnnl_stream_wait(s->stream);
    if (p) dnnl_primitive_destroy(p);
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (from) dnnl_memory_destroy(from);
    return to;
}

static dnnl_memory_t target(writer *w, const desc *have, desc_ref wanted, int bind)
{
    return memory(w, wanted, dnnl_memory_desc_equal(REF(*have), wanted) ? bind : BIND_WORK);
}

/* After the primitive: the result into the caller's layout. */
static void put_back(writer *w, const desc *have, desc_ref wanted, dnnl_memory_t from, int bind)
{
    if (dnnl_memory_desc_equal(REF(*have), wanted)) return;
    reorder(w, wanted, from, REF(*have), memory(w, REF(*have), bind));
}

static dnnl_primitive_attr_t new_attr(writer *w)
{
    dnnl_primitive_attr_t attr = NULL;
    if (!w->status) w->status = dnnl_primitive_attr_create(&attr);
    if (!w->status) w->status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    return attr;
}

static void writer_start(writer *w, ot_script *s, const ot_prep *p)
{
    *w = (writer){ .s = s, .work = (p->work + 63) / 64 * 64 };
    w->status = look_for_room();
    w->attr = new_attr(w);
}

/* ---- convolution ---------------------------------------------------------------- */

static dnnl_format_tag_t plain_tag(int rank)
{
    static const dnnl_format_tag_t tags[] = { dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde, dnnl_abcdef };
    return tags[rank - 1];
}

static dnnl_format_tag_t last_tag(int rank)
{
    static const dnnl_format_tag_t tags[] = { dnnl_acb, dnnl_acdb, dnnl_acdeb };
    return tags[rank - 3];
}

/* Weights in ONNX's order: (M, C, k1..kd), or with groups (G, M/G, C/G, k1..kd). */
static dnnl_format_tag_t weight_tag(const ot_value *w, int rank)
{
    static const dnnl_format_tag_t grouped[] = { dnnl_abdc, dnnl_abdec, dnnl_abdefc };
    if (w->layout == OT_PLAIN) return plain_tag(rank);
    return rank == w->shape.rank ? last_tag(rank) : grouped[rank - 4];
}

/* With one channel, or one pixel, both layouts are the same bytes. */
static bool is_last(const ot_value *v)
{
    int64_t pixels = 1;
    for (int d = 2; d < v->shape.rank; d++) pixels *= v->shape.dim[d];
    return v->layout == OT_CHANNELS_LAST || v->shape.dim[1] == 1 || pixels == 1;
}

static void conv_dims(const ot_conv_call *c, dnnl_dims_t x, dnnl_dims_t w, dnnl_dims_t b, dnnl_dims_t y)
{
    int rank = c->x->shape.rank, grouped = c->attrs->group > 1;
    for (int d = 0; d < rank; d++) {
        x[d] = c->x->shape.dim[d];
        y[d] = c->y->shape.dim[d];
        w[d + grouped] = c->w->shape.dim[d];
    }
    if (grouped) {
        w[0] = c->attrs->group;
        w[1] /= w[0];
    }
    b[0] = y[1];
}

typedef struct conv_user {
    desc x, w, b, y;
} conv_user; /* in the layout of the caller's bytes */

/* What the primitive of a kind computes with: in bfloat16 it reads that, and writes float32. */
static void describe(writer *w, const ot_conv_call *c, ot_conv_kind kind, conv_spec *spec)
{
    int rank = c->x->shape.rank, wr = c->attrs->group > 1 ? rank + 1 : rank;
    dnnl_dims_t xd, wd, bd, yd;
    dnnl_format_tag_t free_tag = c->direct_any ? dnnl_format_tag_any : last_tag(rank);
    dnnl_data_type_t in = c->bf16 ? dnnl_bf16 : dnnl_f32;
    const ot_window *win = &c->attrs->window;

    conv_dims(c, xd, wd, bd, yd);
    for (int j = 0; j < win->nd; j++) {
        /* The padding that makes the formula exact, which oneDNN requires. */
        int64_t span = (c->y->shape.dim[2 + j] - 1) * win->stride[j] + (win->kernel[j] - 1) * win->dilation[j] + 1;
        spec->stride[j] = win->stride[j];
        spec->dilation[j] = win->dilation[j] - 1;
        spec->lo[j] = win->pad_lo[j];
        spec->hi[j] = span - c->x->shape.dim[2 + j] - win->pad_lo[j];
    }
    spec->bias = c->b_arg == OT_ARG_NONE ? NULL : &spec->b;
    dnnl_status_t st[] = {
        desc_tag(&spec->x, rank, xd, kind == OT_CONV_DX ? dnnl_f32 : in, free_tag),
        desc_tag(&spec->y, rank, yd, kind == OT_CONV_FORWARD ? dnnl_f32 : in, free_tag),
        desc_tag(&spec->w, wr, wd, kind == OT_CONV_DW ? dnnl_f32 : in, dnnl_format_tag_any),
        desc_tag(&spec->b, 1, bd, dnnl_f32, dnnl_a),
    };
    for (int i = 0; i < OT_LEN(st); i++)
        if (st[i] && !w->status) w->status = st[i];
}

static void describe_user(writer *w, const ot_conv_call *c, conv_user *user)
{
    int rank = c->x->shape.rank, wr = c->attrs->group > 1 ? rank + 1 : rank;
    dnnl_dims_t xd, wd, bd, yd;
    conv_dims(c, xd, wd, bd, yd);
    dnnl_status_t st[] = {
        desc_tag(&user->x, rank, xd, dnnl_f32, is_last(c->x) ? last_tag(rank) : plain_tag(rank)),
        desc_tag(&user->y, rank, yd, dnnl_f32, is_last(c->y) ? last_tag(rank) : plain_tag(rank)),
        desc_tag(&user->w, wr, wd, dnnl_f32, weight_tag(c->w, wr)),
        desc_tag(&user->b, 1, bd, dnnl_f32, dnnl_a),
    };
    for (int i = 0; i < OT_LEN(st); i++)
        if (st[i] && !w->status) w->status = st[i];
}

static void write_forward(writer *w, const ot_conv_call *c, const conv_user *u, dnnl_primitive_desc_t pd)
{
    desc_ref yd = query(pd, dnnl_query_dst_md);
    dnnl_memory_t x = source(w, &u->x, query(pd, dnnl_query_src_md), c->x_arg);
    desc_ref wd = query(pd, dnnl_query_weights_md);
    bool held = c->settled && !dnnl_memory_desc_equal(REF(u->w), wd);
    dnnl_memory_t k = held ? settled_source(w, &u->w, wd, c->settled) : source(w, &u->w, wd, c->w_arg);
    dnnl_memory_t y = target(w, &u->y, yd, c->y_arg);
    dnnl_exec_arg_t arg[4] = { { DNNL_ARG_SRC, x }, { DNNL_ARG_WEIGHTS, k }, { DNNL_ARG_DST, y } };
    int n = 3;
    if (c->b_arg != OT_ARG_NONE) arg[n++] = (dnnl_exec_arg_t){ DNNL_ARG_BIAS, memory(w, REF(u->b), c->b_arg) };
    add(w, pd, arg, n);
    put_back(w, &u->y, yd, y, c->y_arg);
}

static void write_dx(writer *w, const ot_conv_call *c, const conv_user *u, dnnl_primitive_desc_t pd)
{
    desc_ref xd = query(pd, dnnl_query_diff_src_md);
    dnnl_memory_t y = source(w, &u->y, query(pd, dnnl_query_diff_dst_md), c->y_arg);
    dnnl_memory_t k = source(w, &u->w, query(pd, dnnl_query_weights_md), c->w_arg);
    dnnl_memory_t x = target(w, &u->x, xd, c->x_arg);
    add(w, pd, (dnnl_exec_arg_t[]){ { DNNL_ARG_DIFF_DST, y }, { DNNL_ARG_WEIGHTS, k }, { DNNL_ARG_DIFF_SRC, x } }, 3);
    put_back(w, &u->x, xd, x, c->x_arg);
}

static void write_dw(writer *w, const ot_conv_call *c, const conv_user *u, dnnl_primitive_desc_t pd)
{
    desc_ref wd = query(pd, dnnl_query_diff_weights_md);
    dnnl_memory_t y = source(w, &u->y, query(pd, dnnl_query_diff_dst_md), c->y_arg);
    dnnl_memory_t x = source(w, &u->x, query(pd, dnnl_query_src_md), c->x_arg);
    dnnl_memory_t k = target(w, &u->w, wd, c->w_arg);
    dnnl_exec_arg_t arg[4] = { { DNNL_ARG_DIFF_DST, y }, { DNNL_ARG_SRC, x }, { DNNL_ARG_DIFF_WEIGHTS, k } };
    int n = 3;
    if (c->b_arg != OT_ARG_NONE) arg[n++] = (dnnl_exec_arg_t){ DNNL_ARG_DIFF_BIAS, memory(w, REF(u->b), c->b_arg) };
    add(w, pd, arg, n);
    put_back(w, &u->w, wd, k, c->w_arg);
}

/* Removes what a failed call added. */
static void rewind_to(ot_script *s, int memories, int primitives)
{
    while (s->n_primitives > primitives) dnnl_primitive_destroy(s->primitive[--s->n_primitives].p);
    while (s->n_memories > memories) dnnl_memory_destroy(s->memory[--s->n_memories].m);
}

static ot_status add_conv(ot_script *s, const ot_conv_call *c, ot_prep *p)
{
    writer w;
    conv_spec spec, ahead; /* ahead: of the forward primitive, which those of gradients ask for */
    conv_user user;
    dnnl_primitive_desc_t hint = NULL, pd = NULL;
    int memories = s->n_memories, primitives = s->n_primitives;

    memset(&spec, 0, sizeof spec);
    memset(&user, 0, sizeof user);
    ahead = spec;
    writer_start(&w, s, p);
    if (!w.status) describe(&w, c, c->kind, &spec);
    if (!w.status) describe_user(&w, c, &user);
    if (c->kind == OT_CONV_FORWARD) {
        if (!w.status) w.status = forward_pd(s->engine, w.attr, &spec, &pd);
    } else {
        if (!w.status) describe(&w, c, OT_CONV_FORWARD, &ahead);
        if (!w.status) w.status = forward_pd(s->engine, w.attr, &ahead, &hint);
        if (!w.status) w.status = (c->kind == OT_CONV_DX ? dx_pd : dw_pd)(s->engine, w.attr, &spec, hint, &pd);
    }
    if (!w.status) {
        if (c->kind == OT_CONV_FORWARD) write_forward(&w, c, &user, pd);
        else if (c->kind == OT_CONV_DX) write_dx(&w, c, &user, pd);
        else write_dw(&w, c, &user, pd);
    }
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (hint) dnnl_primitive_desc_destroy(hint);
    if (w.attr) dnnl_primitive_attr_destroy(w.attr);
    for (int i = 0; i < 4; i++) {
        desc_free((desc *[]){ &spec.x, &spec.w, &spec.b, &spec.y }[i]);
        desc_free((desc *[]){ &ahead.x, &ahead.w, &ahead.b, &ahead.y }[i]);
        desc_free((desc *[]){ &user.x, &user.w, &user.b, &user.y }[i]);
    }
    if (w.status) {
        rewind_to(s, memories, primitives);
        return w.status == dnnl_unimplemented || w.status == dnnl_invalid_arguments
                   ? OT_E_DEVICE
                   : fail(s->node, p->err, "convolution", w.status);
    }
    p->work = w.work;
    p->held += w.held;
    return OT_OK;
}

ot_status ot_script_conv(ot_script *s, const ot_conv_call *c, ot_prep *p)
{
    int was = set_threads(s->threads);
    ot_status r = add_conv(s, c, p);
    (void)set_threads(was);
    return r;
}

/* ---- matrix product -------------------------------------------------------------- */

/* A tensor like y is added before the result is stored.  oneDNN's ReLU would turn NaN into 0, and is not used. */
static void add_operand(writer *w, dnnl_primitive_attr_t attr, const desc *y)
{
    dnnl_post_ops_t list = NULL;
    if (w->status) return;
    w->status = dnnl_post_ops_create(&list);
    if (!w->status) w->status = dnnl_post_ops_append_binary(list, dnnl_binary_add, REF(*y));
    if (!w->status) w->status = dnnl_primitive_attr_set_post_ops(attr, list);
    if (list) dnnl_post_ops_destroy(list);
}

static ot_status add_dot(ot_script *s, const ot_dot_call *c, ot_prep *p)
{
    writer w;
    desc a, b, y, bias, wanted_a, wanted_b;
    dnnl_data_type_t in = c->bf16 ? dnnl_bf16 : dnnl_f32;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_dims_t ad = { 0 }, as = { 0 }, bd = { 0 }, bs = { 0 }, yd = { 0 }, ys = { 0 }, vd = { 0 }, vs = { 0 };
    bool has_bias = c->bias_arg != OT_ARG_NONE;

    memset(&a, 0, sizeof a);
    b = y = bias = wanted_a = wanted_b = a;
    for (int d = 0; d < c->rank; d++) {
        ad[d] = c->a_dim[d], as[d] = c->a_stride[d];
        bd[d] = c->b_dim[d], bs[d] = c->b_stride[d];
        yd[d] = c->y_dim[d], ys[d] = c->y_stride[d];
        vd[d] = d == c->rank - 1 ? c->y_dim[d] : 1;
        vs[d] = d == c->rank - 1 ? 1 : c->y_dim[c->rank - 1];
    }
    writer_start(&w, s, p);
    dnnl_primitive_attr_t attr = new_attr(&w);
    if (!w.status) w.status = desc_strides(&a, c->rank, ad, dnnl_f32, as);
    if (!w.status) w.status = desc_strides(&b, c->rank, bd, dnnl_f32, bs);
    if (!w.status) w.status = desc_strides(&y, c->rank, yd, dnnl_f32, ys);
    if (!w.status) w.status = desc_strides(&bias, c->rank, vd, dnnl_f32, vs);
    if (!w.status) w.status = desc_strides(&wanted_a, c->rank, ad, in, as);
    if (!w.status) w.status = desc_strides(&wanted_b, c->rank, bd, in, bs);
    if (c->add_arg != OT_ARG_NONE) add_operand(&w, attr, &y);
    if (!w.status) w.status = matmul_pd(s->engine, attr, &wanted_a, &wanted_b, has_bias ? &bias : NULL, &y, &pd);
    if (!w.status) {
        dnnl_exec_arg_t arg[5] = { { DNNL_ARG_SRC, source(&w, &a, REF(wanted_a), c->a_arg) },
                                   { DNNL_ARG_WEIGHTS, source(&w, &b, REF(wanted_b), c->b_arg) },
                                   { DNNL_ARG_DST, memory(&w, REF(y), c->y_arg) } };
        int n = 3;
        if (has_bias) arg[n++] = (dnnl_exec_arg_t){ DNNL_ARG_BIAS, memory(&w, REF(bias), c->bias_arg) };
        if (c->add_arg != OT_ARG_NONE)
            arg[n++] =
                (dnnl_exec_arg_t){ DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, memory(&w, REF(y), c->add_arg) };
        add(&w, pd, arg, n);
    }
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (attr) dnnl_primitive_attr_destroy(attr);
    if (w.attr) dnnl_primitive_attr_destroy(w.attr);
    desc_free(&a);
    desc_free(&b);
    desc_free(&y);
    desc_free(&bias);
    desc_free(&wanted_a);
    desc_free(&wanted_b);
    if (w.status) return fail(s->node, p->err, "matrix product", w.status);
    p->work = w.work;
    return OT_OK;
}

ot_status ot_script_dot(ot_script *s, const ot_dot_call *c, ot_prep *p)
{
    int was = set_threads(s->threads);
    ot_status r = add_dot(s, c, p);
    (void)set_threads(was);
    return r;
}
