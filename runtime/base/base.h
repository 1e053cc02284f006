/* base.h - errors, arenas, checked sizes, shapes, element types. */
#ifndef OT_BASE_H
#define OT_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/onnxtrain.h"

#if defined(__GNUC__)
#define OT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define OT_PRINTF(fmt, args)
#endif

#define OT_LEN(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- text for people ----------------------------------------------------- */

/* Like vsnprintf and fprintf, for all text that leaves the library: in every %s and %c, control characters and bytes
 * that are not UTF-8 become escapes (\n, \x1b), so that a name can neither forge a line nor control a terminal.
 * Text of our own that may have several lines keeps them as "%-s" (no width), and if ot_vtext's format is just "%s".
 * ot_fail, ot_fail_more and all notes and messages use these.  A width counts columns of a terminal, not bytes. */
int ot_vtext(char *buf, size_t cap, const char *fmt, va_list ap) OT_PRINTF(3, 0);
void ot_print(FILE *f, const char *fmt, ...) OT_PRINTF(2, 3);

/* ot_shown (onnxtrain.h) in `width` columns of a terminal: cut, with an ellipsis, or filled up with spaces.  Returns buf. */
const char *ot_shown_in(const char *text, int width, char *buf, size_t n);

/* The character at p and its length in bytes; 0: the n bytes do not begin with valid UTF-8. */
int ot_utf8(const char *p, size_t n, uint32_t *out);
bool ot_is_utf8(const char *text);       /* of all characters */
int ot_utf8_put(uint32_t c, char to[4]); /* the bytes of a character; how many */

/* ---- errors -------------------------------------------------------------- */

/* Records the failure if it is the first, and returns the recorded status.  err may be NULL. */
ot_status ot_fail(ot_error *err, ot_status s, const char *fmt, ...) OT_PRINTF(3, 4);

/* The status for a system call that failed with this errno: OT_E_NOMEM for ENOMEM, else OT_E_IO. */
ot_status ot_failed_call(int error);

/* Appends a line to an error that lists several findings; starts the list if the error is empty.  A full text ends
 * in "…". */
ot_status ot_fail_more(ot_error *err, ot_status s, const char *fmt, ...) OT_PRINTF(3, 4);

/* The first line of a public function: what an earlier call left in err has no part in this one. */
#define OT_ENTER(err)                 \
    do {                              \
        if (err) {                    \
            (err)->status = OT_OK;    \
            (err)->text[0] = 0;       \
        }                             \
    } while (0)

/* In a public function: refuses a pointer that is NULL. */
#define OT_GIVEN(pointer)                                                                        \
    do {                                                                                         \
        if (!(pointer)) return ot_fail(err, OT_E_USAGE, "%s: %s is NULL", __func__, #pointer);   \
    } while (0)

/* Returns early if expr failed.  Only where nothing needs to be released. */
#define OT_TRY(expr)                               \
    do {                                           \
        ot_status ot_try_ = (expr);                \
        if (ot_try_ != OT_OK) return ot_try_;      \
    } while (0)

/* ---- arena: memory with one lifetime -------------------------------------- */

typedef struct ot_arena ot_arena;

ot_arena *ot_arena_new(void);                 /* NULL: no memory */
void ot_arena_free(ot_arena *a);              /* frees all its memory; NULL is allowed */
void *ot_arena_alloc(ot_arena *a, size_t n);  /* zeroed, aligned to 64 bytes; NULL: no memory */
void *ot_arena_struct(ot_arena *a, size_t n); /* the same for data without tensor elements: aligned as malloc's */
char *ot_arena_strdup(ot_arena *a, const char *s);
char *ot_arena_printf(ot_arena *a, const char *fmt, ...) OT_PRINTF(2, 3);
/* Appends a line to *lines, which is "" or ends without a newline.  false: no memory; *lines is unchanged. */
bool ot_arena_line(ot_arena *a, const char **lines, const char *fmt, va_list ap) OT_PRINTF(3, 0);
/* "'a', 'b' and 3 more" of n names; an empty one is "(without a name)".  NULL: no memory. */
const char *ot_arena_names(ot_arena *a, const char *const *name, int n);
void *ot_arena_copy(ot_arena *a, const void *p, size_t n);
size_t ot_arena_used(const ot_arena *a); /* bytes allocated, alignment included */

/* Bytes that the process may still allocate: the minimum over the system, its control groups and its own limit;
 * INT64_MAX: unknown. */
int64_t ot_memory_available(void);
int64_t ot_memory_of_groups(const char *root); /* what remains in its control groups; root as in ot_cgroups */

/* Asks for pages of 2 MiB where a block is large: fewer faults, fewer misses of the TLB.  The advice may be ignored. */
void ot_memory_ask_large_pages(void *p, size_t n);

/* Gives the whole pages of anonymous memory between p and p + n back to the system: what was in them is lost, and they take
 * no memory until they are written again. */
void ot_memory_give_back(void *p, size_t n);

/* Could that many bytes be allocated now?  Allocates and frees them.  If the system promises more memory than there
 * is (the usual overcommit), only ot_memory_limited() makes the answer no. */
bool ot_memory_fits(int64_t bytes);
bool ot_memory_limited(void); /* can allocations fail before memory is used up?  RLIMIT_AS, strict overcommit ... */

/* The memory kept free for a call to a library that crashes without memory (oneDNN creating a primitive: 3.4 MiB is
 * the most observed; 256 KiB of code per kernel and up to a dozen kernels). */
enum { OT_LIBRARY_ROOM = 16 << 20 };

/* Calls each with the folders of the control groups (version 1 and 2) of the process and of all their ancestors, for
 * a kind of limit: "cpu", "memory".  root: a prefix for /proc/self and the mount points named there; "" is the
 * system. */
void ot_cgroups(const char *root, const char *kind, void (*each)(const char *dir, void *user), void *user);

/* ---- checked sizes ------------------------------------------------------- */

/* false: the result does not fit.  Used for every product of dimensions. */
static inline bool ot_mul(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool ot_add(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline int64_t ot_ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); } /* a >= 0, b > 0 */

/* ---- shapes -------------------------------------------------------------- */

typedef struct ot_shape {
    int rank;                 /* -1: unknown */
    int64_t dim[OT_MAX_RANK]; /* dim[0..rank); -1: unknown */
} ot_shape;

#define OT_SCALAR ((ot_shape){ .rank = 0 })

/* Product of the dimensions; 1 for rank 0.  The shape must be known and must have passed
 * ot_shape_fits (verify.c checks this for every value of a graph). */
int64_t ot_numel(const ot_shape *s);
bool ot_shape_known(const ot_shape *s);            /* rank and every dimension */
bool ot_shape_fits(const ot_shape *s, ot_dtype t); /* the size in bytes fits in int64_t */
bool ot_shape_eq(const ot_shape *a, const ot_shape *b);
const char *ot_shape_text(const ot_shape *s, char buf[128]); /* "[2,3,?]"; returns buf */

/* The result of ONNX's (numpy's) multidirectional broadcasting; false: the shapes do not broadcast. */
bool ot_broadcast(const ot_shape *a, const ot_shape *b, ot_shape *out);

/* Row-major strides in elements. */
void ot_strides(const ot_shape *s, int64_t stride[OT_MAX_RANK]);

/* ---- element types ------------------------------------------------------- */

const char *ot_dtype_name(ot_dtype t);          /* "float32"; numpy's names */
int ot_dtype_bits(ot_dtype t);                  /* 4 for OT_I4; 0: no fixed size (strings, undefined) */
size_t ot_bytes(const ot_shape *s, ot_dtype t); /* of a dense tensor; sub-byte types pack */
bool ot_is_float(ot_dtype t);                   /* any float, also the 8- and 4-bit ones */
bool ot_is_int(ot_dtype t);                     /* any integer; not bool */
bool ot_is_signed(ot_dtype t);

/* Element i of a dense array of type t, as double or int64_t, and back.  Slow; for constants,
 * references and tests.  Floats round to nearest even; integers wrap as C casts do. */
double ot_get_f64(const void *p, ot_dtype t, int64_t i);
int64_t ot_get_i64(const void *p, ot_dtype t, int64_t i);
void ot_set_f64(void *p, ot_dtype t, int64_t i, double v);
void ot_set_i64(void *p, ot_dtype t, int64_t i, int64_t v);

/* Encodes floats of 16 bits and less, with one rounding.  saturate: a value out of range becomes
 * the largest finite one in the 8-bit types (ONNX's Cast; its default), else infinity or NaN. */
uint32_t ot_float_encode(double v, ot_dtype t, bool saturate);
double ot_float_decode(uint32_t code, ot_dtype t);

uint16_t ot_f32_to_f16(float v);
float ot_f16_to_f32(uint16_t v);
uint16_t ot_f32_to_bf16(float v);
float ot_bf16_to_f32(uint16_t v);

/* The class number that is ignored in a target, unless ignore_index of a loss names another: PyTorch's default. */
enum { OT_IGNORED = -100 };

/* Is the whole text one finite decimal number?  In C's notation, whatever the locale. */
bool ot_number(const char *text, double *v);

/* Writes v as people write it, if that is the same number: 0.1, not 0.10000000000000001.  Returns text. */
enum { OT_NUMBER_TEXT = 32 };
const char *ot_number_text(double v, char text[OT_NUMBER_TEXT]);

bool ot_ends_in(const char *text, const char *end); /* in any case of the letters: "a.JSON" ends in ".json" */

#endif
