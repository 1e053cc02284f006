/* npy.c - reads numpy's array file: a header that is a Python dict literal, then elements.
 *
 * Spec    Versions 1 to 3 of the format.  The header contains exactly 'descr', 'fortran_order' and 'shape'.  Strings
 *         have a fixed width ('<U5'); Python objects, records, dates and complex numbers are refused. Raw 1- and 2-byte
 *         types (how numpy writes bfloat16 and f8) become uint8 and uint16.
 * Source  NumPy Enhancement Proposal 1. */
#include "runtime/data/internal.h"

#include <stdlib.h>
#include <errno.h>
#include <string.h>

enum { LONGEST_HEADER = 64 << 10 };

typedef struct header {
    ot_dtype dtype;
    bool swapped;  /* big-endian */
    int64_t width; /* of strings: number of code points of each, in four bytes */
    bool fortran;  /* column-major order */
    ot_shape shape;
} header;

typedef struct parser {
    const char *p, *end;
    const char *name; /* for messages */
    ot_error *err;
} parser;

static ot_status bad(parser *q, const char *what)
{
    return ot_fail(q->err, OT_E_DATA, "%s: malformed .npy header: %s", q->name, what);
}

static void skip_space(parser *q)
{
    while (q->p < q->end && (*q->p == ' ' || *q->p == '\t' || *q->p == '\n')) q->p++;
}

static bool accept(parser *q, char c)
{
    skip_space(q);
    if (q->p == q->end || *q->p != c) return false;
    q->p++;
    return true;
}

/* A quoted text without escapes, into buf. */
static ot_status quoted(parser *q, char *buf, size_t cap)
{
    skip_space(q);
    if (q->p == q->end || (*q->p != '\'' && *q->p != '"')) return bad(q, "expected a quoted string");
    char mark = *q->p++;
    size_t n = 0;
    while (q->p < q->end && *q->p != mark) {
        if (*q->p == '\\' || *q->p == 0 || n + 1 >= cap) return bad(q, "a string is too long or has escapes");
        buf[n++] = *q->p++;
    }
    if (q->p == q->end) return bad(q, "a string is not terminated");
    q->p++;
    buf[n] = 0;
    return OT_OK;
}

static bool word(parser *q, const char *text)
{
    size_t n = strlen(text);
    skip_space(q);
    if ((size_t)(q->end - q->p) < n || memcmp(q->p, text, n)) return false;
    q->p += n;
    return true;
}

/* The element type after the byte-order character; OT_UNDEFINED: unsupported. */
static ot_dtype type_of(const char *code)
{
    static const struct {
        const char *code;
        ot_dtype t;
    } row[] = {
        { "f2", OT_F16 }, { "f4", OT_F32 },  { "f8", OT_F64 }, { "i1", OT_I8 },  { "i2", OT_I16 },
        { "i4", OT_I32 }, { "i8", OT_I64 },  { "u1", OT_U8 },  { "u2", OT_U16 }, { "u4", OT_U32 },
        { "u8", OT_U64 }, { "b1", OT_BOOL }, { "V1", OT_U8 },  { "V2", OT_U16 },
    };
    for (int i = 0; i < OT_LEN(row); i++)
        if (!strcmp(code, row[i].code)) return row[i].t;
    return OT_UNDEFINED;
}

static ot_status parse_descr(parser *q, header *h)
{
    char text[32];
    skip_space(q);
    if (q->p < q->end && *q->p == '[')
        return ot_fail(q->err, OT_E_DATA, "%s: contains records; expected numbers", q->name);
    OT_TRY(quoted(q, text, sizeof text));
    char order = text[0];
    h->dtype = order && strchr("<>|=", order) ? type_of(text + 1) : OT_UNDEFINED;
    if (order && text[1] == 'U') { /* with a width of 0 a few bytes could declare any number of them */
        char *end;
        errno = 0;
        h->width = strtoll(text + 2, &end, 10);
        if (!errno && end != text + 2 && !*end && h->width > 0 && h->width < INT32_MAX) h->dtype = OT_STRING;
    }
    if (order && text[1] == 'O')
        return ot_fail(q->err, OT_E_DATA, "%s: contains Python objects, which are not supported; expected numbers",
                       q->name);
    if (!h->dtype)
        return ot_fail(q->err, OT_E_DATA,
                       "%s: unsupported element type '%s'; expected bool, integers of 8 to 64 bits, floats of 16 to "
                       "64 bits or strings of at least one character",
                       q->name, text);
    h->swapped = order == '>';
    return OT_OK;
}

static ot_status parse_shape(parser *q, header *h)
{
    h->shape = (ot_shape){ .rank = 0 };
    if (!accept(q, '(')) return bad(q, "the shape is not a tuple");
    bool comma = true;
    while (!accept(q, ')')) {
        if (!comma) return bad(q, "a comma is missing in the shape");
        int64_t n = 0;
        bool any = false;
        for (; q->p < q->end && *q->p >= '0' && *q->p <= '9'; q->p++, any = true)
            if (!ot_mul(n, 10, &n) || !ot_add(n, *q->p - '0', &n)) return bad(q, "a dimension does not fit in 64 bits");
        if (!any) return bad(q, "a dimension is not a non-negative integer");
        if (q->p < q->end && *q->p == 'L') q->p++; /* Python 2 */
        if (h->shape.rank == OT_MAX_RANK)
            return ot_fail(q->err, OT_E_DATA, "%s: has more than %d dimensions", q->name, OT_MAX_RANK);
        h->shape.dim[h->shape.rank++] = n;
        comma = accept(q, ',');
    }
    if (h->shape.rank == 1 && !comma) return bad(q, "the shape is a number, not a tuple");
    return OT_OK;
}

static ot_status parse_dict(parser *q, header *h)
{
    unsigned seen = 0;
    bool comma = true;
    if (!accept(q, '{')) return bad(q, "the header is not a dict");
    while (!accept(q, '}')) {
        char key[16];
        if (!comma) return bad(q, "a comma is missing");
        OT_TRY(quoted(q, key, sizeof key));
        if (!accept(q, ':')) return bad(q, "a colon is missing");
        unsigned bit = !strcmp(key, "descr") ? 1 : !strcmp(key, "fortran_order") ? 2 : !strcmp(key, "shape") ? 4 : 0;
        if (!bit || seen & bit) return bad(q, "its keys are not exactly descr, fortran_order and shape");
        seen |= bit;
        if (bit == 1) OT_TRY(parse_descr(q, h));
        else if (bit == 4) OT_TRY(parse_shape(q, h));
        else if (word(q, "True")) h->fortran = true;
        else if (!word(q, "False")) return bad(q, "fortran_order is not True or False");
        comma = accept(q, ',');
    }
    if (seen != 7) return bad(q, "its keys are not exactly descr, fortran_order and shape");
    skip_space(q);
    return q->p == q->end ? OT_OK : bad(q, "text after the dict");
}

/* *taken: bytes of the file before the elements. */
static ot_status read_header(ot_stream *s, header *h, int64_t *taken, ot_error *err)
{
    unsigned char head[12];
    OT_TRY(ot_stream_read(s, head, 8, "the .npy header", err));
    if (memcmp(head, "\x93NUMPY", 6)) return ot_fail(err, OT_E_DATA, "%s: is not a .npy file", s->name);
    int major = head[6], minor = head[7], wide = major == 1 ? 2 : 4;
    if (major < 1 || major > 3 || minor)
        return ot_fail(err, OT_E_DATA, "%s: is .npy version %d.%d; supported are 1.0, 2.0 and 3.0", s->name, major,
                       minor);
    OT_TRY(ot_stream_read(s, head + 8, wide, "the .npy header", err));
    uint32_t n = head[8] | (uint32_t)head[9] << 8;
    if (wide == 4) n |= (uint32_t)head[10] << 16 | (uint32_t)head[11] << 24;
    if (n > LONGEST_HEADER)
        return ot_fail(err, OT_E_DATA, "%s: has a .npy header of %u bytes; the limit is %d", s->name, n,
                       LONGEST_HEADER);
    char *text = malloc(n + 1);
    if (!text) return ot_fail(err, OT_E_NOMEM, "%s: no memory", s->name);
    ot_status status = ot_stream_read(s, text, n, "the .npy header", err);
    if (!status) {
        parser q = { text, text + n, s->name, err };
        status = parse_dict(&q, h);
    }
    free(text);
    *taken = 8 + wide + (int64_t)n;
    return status;
}

/* Converts (d0, d1, ...) from column-major to row-major order.  src is unchanged. */
static void from_fortran(const char *src, char *dst, const ot_shape *shape, int size)
{
    int64_t index[OT_MAX_RANK] = { 0 }, step[OT_MAX_RANK], at = 0, n = ot_numel(shape);
    int64_t stride = size;
    for (int i = 0; i < shape->rank; i++) {
        step[i] = stride;
        stride *= shape->dim[i];
    }
    for (int64_t k = 0; k < n; k++, dst += size) {
        memcpy(dst, src + at, (size_t)size);
        for (int i = shape->rank - 1; i >= 0; i--) {
            at += step[i];
            if (++index[i] < shape->dim[i]) break;
            at -= step[i] * shape->dim[i];
            index[i] = 0;
        }
    }
}

/* Encodes a code point as UTF-8 and returns its length; 0: invalid. */
static int put_utf8(char *to, uint32_t c)
{
    if (c >= 0x110000 || (c >= 0xD800 && c < 0xE000)) return 0;
    if (c < 0x80) {
        *to = (char)c;
        return 1;
    }
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    to[0] = (char)((0xFF00 >> (more + 1) & 0xFF) | c >> 6 * more);
    for (int i = 1; i <= more; i++) to[i] = (char)(0x80 | (c >> 6 * (more - i) & 0x3F));
    return more + 1;
}

/* n strings of `width` code points, shorter ones padded with zeros. */
static ot_status take_strings(ot_dataset *d, ot_array *a, const uint32_t *points, int64_t n, int64_t width,
                              const char *name, ot_error *err)
{
    char **text = a->t.data, *one = malloc((size_t)width * 4 + 1);
    ot_status s = one ? OT_OK : ot_fail(err, OT_E_NOMEM, "%s: no memory", name);
    for (int64_t i = 0; i < n && !s; i++) {
        const uint32_t *p = points + i * width;
        int64_t length = width, at = 0;
        while (length && !p[length - 1]) length--;
        for (int64_t k = 0; k < length && !s; k++) {
            int bytes = p[k] ? put_utf8(one + at, p[k]) : 0;
            if (!bytes)
                s = ot_fail(err, OT_E_DATA, "%s: string %lld contains the invalid code point %u", name, (long long)i,
                            p[k]);
            at += bytes;
        }
        one[at] = '\0';
        if (!s && !(text[i] = ot_arena_strdup(d->arena, one))) s = ot_fail(err, OT_E_NOMEM, "%s: no memory", name);
    }
    free(one);
    return s;
}

static ot_status read_strings(ot_stream *s, ot_dataset *d, ot_array *a, const header *h, int64_t most, ot_error *err)
{
    int64_t n = 1, size = 4 * h->width, bytes;
    for (int i = 0; i < h->shape.rank; i++)
        if (!ot_mul(n, h->shape.dim[i], &n)) n = INT64_MAX;
    if (!ot_mul(n, size, &bytes) || (most >= 0 && bytes > most))
        return ot_fail(err, OT_E_DATA, "%s: its strings are too large", s->name);
    OT_TRY(ot_array_alloc(d, a, OT_STRING, &h->shape, -1, s->name, err));
    char *raw = malloc((size_t)bytes + 1), *turned = h->fortran && h->shape.rank > 1 ? malloc((size_t)bytes + 1) : raw;
    ot_status status = raw && turned ? ot_stream_read(s, raw, bytes, "the elements", err)
                                     : ot_fail(err, OT_E_NOMEM, "%s: no memory", s->name);
    if (!status) status = ot_stream_end(s, err);
    if (!status && turned != raw) from_fortran(raw, turned, &h->shape, (int)size);
    if (!status && h->swapped) ot_swap_bytes(turned, n * h->width, 4);
    if (!status) status = take_strings(d, a, (const uint32_t *)(void *)turned, n, h->width, s->name, err);
    if (turned != raw) free(turned);
    free(raw);
    return status;
}

ot_status ot_npy_read(ot_stream *s, ot_dataset *d, ot_array *a, ot_error *err)
{
    header h = { 0 };
    int64_t taken = 0;
    OT_TRY(read_header(s, &h, &taken, err));
    if (h.dtype == OT_STRING) return read_strings(s, d, a, &h, s->most < 0 ? -1 : s->most - taken, err);
    OT_TRY(ot_array_alloc(d, a, h.dtype, &h.shape, s->most - taken, s->name, err));
    int size = ot_dtype_bits(h.dtype) / 8;
    int64_t n = ot_array_elements(a);
    bool turn = h.fortran && h.shape.rank > 1 && n > 0;
    char *bytes = a->t.data;
    if (turn && !(bytes = malloc((size_t)(n * size))))
        return ot_fail(err, OT_E_NOMEM, "%s: no memory to transpose its %lld elements", s->name, (long long)n);
    ot_status status = ot_stream_read(s, bytes, n * size, "the elements", err);
    if (!status) status = ot_stream_end(s, err);
    if (!status && turn) from_fortran(bytes, a->t.data, &h.shape, size);
    if (turn) free(bytes);
    if (status) return status;
    if (h.swapped) ot_swap_bytes(a->t.data, n, size);
    if (h.dtype == OT_BOOL)
        for (int64_t i = 0; i < n; i++) ((unsigned char *)a->t.data)[i] = ((unsigned char *)a->t.data)[i] != 0;
    return OT_OK;
}

/* Tokens in memory: their bytes are compressed, in another order, or begin at an odd place. */
static ot_status copy_tokens(ot_stream *s, ot_dataset *d, ot_error *err)
{
    ot_array a = { 0 };
    OT_TRY(ot_npy_read(s, d, &a, err));
    d->mapped_hash = ot_hash(d->mapped_hash, a.t.data, (size_t)(a.t.dim[0] * ot_dtype_bits(a.t.dtype) / 8));
    return ot_windows_set(d, a.t.data, a.t.dtype, a.t.dim[0], "tokens", err);
}

static ot_status map_tokens(const char *path, ot_dataset *d, const header *h, int64_t at, ot_error *err)
{
    const void *bytes;
    int64_t size, need;
    OT_TRY(ot_dataset_map(d, path, &bytes, &size, err));
    if (!ot_mul(h->shape.dim[0], ot_dtype_bits(h->dtype) / 8, &need) || !ot_add(need, at, &need) || need != size)
        return ot_fail(err, OT_E_DATA, "%s: its header says %lld elements, but it contains %lld bytes of them", path,
                       (long long)h->shape.dim[0], (long long)(size - at));
    return ot_windows_set(d, (const char *)bytes + at, h->dtype, h->shape.dim[0], "tokens", err);
}

ot_status ot_npy_tokens(const char *path, ot_dataset *d, bool *found, ot_error *err)
{
    const ot_data_input *x = ot_windows_input(d->options);
    header h = { 0 };
    ot_stream s;
    int64_t at = 0;
    *found = false;
    if (!x || !ot_is_int(x->dtype) || x->shape.rank != 2 || x->shape.dim[1] == 1) return OT_OK;
    OT_TRY(ot_stream_open(&s, path, err));
    ot_status status = read_header(&s, &h, &at, err);
    bool packed = s.packed > 0;
    ot_stream_close(&s);
    if (status || h.shape.rank != 1 || !ot_is_int(h.dtype)) return status;
    *found = true;
    if (!packed && !h.swapped && at % (ot_dtype_bits(h.dtype) / 8) == 0) return map_tokens(path, d, &h, at, err);
    OT_TRY(ot_stream_open(&s, path, err));
    status = copy_tokens(&s, d, err);
    ot_stream_close(&s);
    return status;
}

/* Bytes of the elements; -1: more than 64 bits count. */
static int64_t bytes_of(const header *h)
{
    return ot_shape_fits(&h->shape, h->dtype) ? (int64_t)ot_bytes(&h->shape, h->dtype) : -1;
}

ot_status ot_npy_map(const char *path, ot_dataset *d, bool *found, ot_error *err)
{
    header h = { 0 };
    ot_stream s;
    int64_t at = 0, size = 0, from = d->options->map_from ? d->options->map_from : OT_MAP_FROM;
    const void *bytes = NULL;
    OT_TRY(ot_stream_open(&s, path, err));
    ot_status status = s.packed > 0 ? OT_OK : read_header(&s, &h, &at, err);
    bool as_in_memory =
        !s.packed && !h.swapped && h.dtype != OT_STRING && h.dtype != OT_BOOL && (!h.fortran || h.shape.rank < 2);
    ot_stream_close(&s);
    int64_t need = as_in_memory && !status ? bytes_of(&h) : 0;
    if (status || need < from || at % (ot_dtype_bits(h.dtype) / 8)) return status;
    OT_TRY(ot_dataset_map(d, path, &bytes, &size, err));
    if (need != size - at)
        return ot_fail(err, OT_E_DATA, "%s: its header says %lld bytes of elements, but it contains %lld", path,
                       (long long)need, (long long)(size - at));
    ot_array *a = ot_dataset_add(d, "");
    if (!a) return ot_fail(err, OT_E_NOMEM, "%s: no memory", path);
    a->t.dtype = h.dtype;
    a->t.rank = h.shape.rank;
    memcpy(a->t.dim, h.shape.dim, sizeof a->t.dim);
    a->t.data = (char *)(uintptr_t)bytes + at;
    a->mapped = true;
    *found = true;
    return ot_dataset_tell(d, err, "%s: is mapped, not read into memory; each batch is checked when it is made", path);
}
