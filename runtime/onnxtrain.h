/* onnxtrain.h - train an ONNX model and write it back.
 *
 * This is the whole public interface; what is not declared here may change.
 *
 * Rules that hold for every function
 *   Errors     return ot_status, 0 on success.  On failure *err (if given) holds the first
 *              cause.  Nothing here exits, prints, or touches global state.
 *   Ownership  what ot_X_new or ot_X_load made, ot_X_free frees; NULL is fine.
 *              "Borrowed" pointers stay the caller's and are not kept after return.
 *   Threads    one object, one thread at a time. */
#ifndef ONNXTRAIN_H
#define ONNXTRAIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define OT_API   __attribute__((visibility("default")))
#define OT_CHECK __attribute__((warn_unused_result))
#else
#define OT_API
#define OT_CHECK
#endif

#define OT_VERSION "0.1.0"

/* ---- status -------------------------------------------------------------- */

/* The numbers are the exit codes of the program. */
#define OT_STATUS_LIST(X)                                          \
    X(OK,            0, "no error")                                \
    X(E_INTERNAL,    1, "internal error")                          \
    X(E_USAGE,       2, "invalid argument or option")              \
    X(E_MODEL,       3, "model is invalid or cannot be trained")   \
    X(E_DATA,        4, "data does not fit")                       \
    X(E_NOMEM,       5, "out of memory")                           \
    X(E_DIVERGED,    6, "training diverged")                       \
    X(E_IO,          7, "file could not be read or written")       \
    X(E_DISTRIBUTED, 8, "distributed run failed")                  \
    X(E_DEVICE,      9, "device is missing or failed")

typedef enum ot_status {
#define X(code, number, text) OT_##code = number,
    OT_STATUS_LIST(X)
#undef X
} ot_status;

#define OT_ERROR_TEXT 4096

/* Belongs to the caller; start it as {0}.  The first failure is kept, later ones are ignored. */
typedef struct ot_error {
    ot_status status;
    char      text[OT_ERROR_TEXT]; /* "conv1: Conv: x has 3 channels; w and group 1 want 2" */
} ot_error;

OT_API const char *ot_status_text(ot_status s); /* static string */

/* ---- tensors ------------------------------------------------------------- */

#define OT_MAX_RANK 8

/* Element types.  The numbers are those of ONNX's TensorProto.DataType. */
typedef enum ot_dtype {
    OT_UNDEFINED = 0,
    OT_F32 = 1, OT_U8 = 2, OT_I8 = 3, OT_U16 = 4, OT_I16 = 5, OT_I32 = 6, OT_I64 = 7, OT_STRING = 8,
    OT_BOOL = 9, OT_F16 = 10, OT_F64 = 11, OT_U32 = 12, OT_U64 = 13, OT_BF16 = 16,
    OT_F8E4M3FN = 17, OT_F8E4M3FNUZ = 18, OT_F8E5M2 = 19, OT_F8E5M2FNUZ = 20,
    OT_U4 = 21, OT_I4 = 22, OT_F4E2M1 = 23, OT_F8E8M0 = 24, OT_U2 = 25, OT_I2 = 26
} ot_dtype;

/* A named view of memory: row-major, dense, on the host.  Who owns it, the function says. */
typedef struct ot_tensor {
    const char *name; /* of a graph input, output or initializer */
    ot_dtype    dtype;
    int         rank;
    int64_t     dim[OT_MAX_RANK];
    void       *data;
} ot_tensor;

#ifdef __cplusplus
}
#endif
#endif
