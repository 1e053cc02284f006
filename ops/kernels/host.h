/* host.h - the functions of the core that a backend's module calls: one table, passed when the module is opened.
 *
 * The module does not link against the program.  Each row is R(result, name, parameters, arguments):
 * the core fills the table with its functions, the module defines functions of the same names that
 * call through it (ops/cuda/host.c), so that code is written in the same way on both sides. */
#ifndef OT_HOST_H
#define OT_HOST_H

#include "ops/kernels/box.h"
#include "ops/kernels/attention.h"
#include "ops/kernels/convolve.h"
#include "ops/kernels/copy.h"
#include "ops/kernel.h"
#include "ops/kernels/map.h"
#include "ops/kernels/fused.h"
#include "ops/kernels/move.h"
#include "ops/kernels/scatter.h"
#include "ops/kernels/pool.h"
#include "ops/kernels/reduce.h"
#include "ops/kernels/softmax.h"
#include "runtime/backends/backend.h"
#include "runtime/base/io.h"

/* base */
#define OT_HOST_CALLS(R) \
    R(int64_t, ot_numel, (const ot_shape *s), (s))                                                             \
    R(bool, ot_shape_eq, (const ot_shape *a, const ot_shape *b), (a, b))                                       \
    R(bool, ot_broadcast, (const ot_shape *a, const ot_shape *b, ot_shape *out), (a, b, out))                  \
    R(const char *, ot_dtype_name, (ot_dtype t), (t))                                                          \
    R(int, ot_dtype_bits, (ot_dtype t), (t))                                                                   \
    R(size_t, ot_bytes, (const ot_shape *s, ot_dtype t), (s, t))                                               \
    R(bool, ot_is_float, (ot_dtype t), (t))                                                                    \
    R(bool, ot_is_int, (ot_dtype t), (t))                                                                      \
    R(bool, ot_is_signed, (ot_dtype t), (t))                                                                   \
    R(double, ot_get_f64, (const void *p, ot_dtype t, int64_t i), (p, t, i))                                   \
    R(int64_t, ot_get_i64, (const void *p, ot_dtype t, int64_t i), (p, t, i))                                  \
    R(bool, ot_cache_path, (const char *folder, const char *name, bool make, char *path, size_t n), (folder, name, make, path, n)) \
    R(ot_status, ot_replace_begin, (const char *path, ot_replace **out, ot_error *err), (path, out, err))      \
    R(ot_status, ot_replace_write, (ot_replace *r, const void *p, size_t n, ot_error *err), (r, p, n, err))    \
    R(ot_status, ot_replace_commit, (ot_replace *r, ot_error *err), (r, err))                                  \
    /* operators */                                                                                            \
    R(ot_class, ot_class_of, (ot_dtype t), (t))                                                                \
    R(ot_dtype, ot_class_dtype, (ot_class c), (c))                                                             \
    R(ot_class, ot_map_class, (const ot_program *p, int reg), (p, reg))                                        \
    R(size_t, ot_program_bytes, (const void *program), (program))                                              \
    R(const ot_fused_part *, ot_fused_before, (const ot_node *n), (n))                                           \
    R(const ot_fused_part *, ot_fused_behind, (const ot_node *n), (n))                                           \
    R(bool, ot_fused_like, (const ot_node *map, const ot_value *x, bool any_axes), (map, x, any_axes))           \
    R(int, ot_fused_between, (const ot_node *n), (n))                                                            \
    R(bool, ot_chain_of, (const ot_node *map, int start, ot_chain *c), (map, start, c))                          \
    R(const ot_fn_info *, ot_fn_of, (int row), (row))                                                        \
    R(int, ot_map_axes, (const ot_node *n, const ot_shape *s, int axis[OT_MAX_RANK]), (n, s, axis))            \
    R(ot_attention_lie, ot_attention_in, (const ot_node *n, int i), (n, i))                                          \
    R(ot_attention_lie, ot_attention_out, (const ot_node *n, int i), (n, i))                                         \
    R(int, ot_attention_to, (const ot_node *n, int i), (n, i))                                                       \
    R(int64_t, ot_pool_window, (const ot_window *w), (w))                                                      \
    R(ot_along, ot_along_axis, (const ot_shape *x, int64_t axis), (x, axis))

/* These return nothing, and neither do their forwarders. */
#define OT_HOST_CALLS_VOID(R)                                                                                  \
    R(void, ot_strides, (const ot_shape *s, int64_t stride[OT_MAX_RANK]), (s, stride))                         \
    R(void, ot_set_f64, (void *p, ot_dtype t, int64_t i, double v), (p, t, i, v))                              \
    R(void, ot_value_strides, (const ot_value *v, int64_t stride[OT_MAX_RANK]), (v, stride))                   \
    R(void, ot_map_strides, (const ot_value *v, const ot_shape *s, int64_t stride[OT_MAX_RANK]), (v, s, stride)) \
    R(void, ot_attention_sizes_of, (const ot_node *n, ot_attention_sizes *s), (n, s))                                \
    R(void, ot_attention_mask_strides, (const ot_shape *mask, int64_t stride[4]), (mask, stride))                  \
    R(void, ot_fused_call_of, (const ot_call *c, ot_fused_call *r), (c, r))                                      \
    R(void, ot_box_simplify, (ot_box *b), (b))                                                                 \
    R(void, ot_reduce_x, (const ot_node *n, ot_shape *shape, ot_dtype *t), (n, shape, t))                      \
    R(void, ot_spatial_3d, (const ot_shape *s, int64_t out[OT_WINDOW_AXES]), (s, out))                         \
    R(void, ot_conv_sizes_of, (const ot_convolve *a, const ot_shape *x, const ot_shape *y, ot_conv_sizes *s), (a, x, y, s)) \
    R(void, ot_window_3d, (const ot_window *w, ot_window *out), (w, out))                                      \
    R(void, ot_replace_abort, (ot_replace *r), (r))

typedef struct ot_host {
    size_t size; /* size of this struct: a module of another build is refused */
    const char *version;
    ot_status (*fail)(ot_error *err, ot_status s, const char *fmt, ...) OT_PRINTF(3, 4);
#define ROW(result, name, params, args) result (*name) params;
    OT_HOST_CALLS(ROW)
    OT_HOST_CALLS_VOID(ROW)
#undef ROW
} ot_host;

/* The CUDA module, loaded on first use: from $ONNXTRAIN_CUDA_MODULE, beside the program or library, or from the
 * system's library path.  NULL and the reason (OT_E_DEVICE) if there is none. */
const ot_backend *ot_backend_find(ot_error *err);

/* The same if there is a driver: without one nothing could run, and loading the module's libraries would take a
 * quarter of a GiB.  A module given by the environment is always loaded. */
const ot_backend *ot_backend_usable(ot_error *err);

#endif
