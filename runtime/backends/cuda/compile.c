/* compile.c - compiles kernel texts to device code by NVRTC, with a cache on disk.
 *
 * A text is the prelude, generated lines and a file of ops/cuda/, compiled for one architecture.  The key of the cache
 * is a hash of all of it, of the architecture and of the compiler's version, and of nothing else: a described device, or
 * one beside another cuDNN, fills the cache for every device of the architecture.  The cached file repeats the
 * length and a second hash of the source, so that after a collision or for a torn file the text is compiled again. */
#include <nvrtc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/backends/cuda/internal.h"
#include "runtime/base/io.h"

/* ---- text ---------------------------------------------------------------------- */

void ot_text_add(ot_text *t, const char *fmt, ...)
{
    va_list ap, again;
    if (t->failed) return;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && t->n + (size_t)n + 1 > t->cap) {
        size_t cap = (t->n + (size_t)n + 1) * 2;
        char *more = realloc(t->text, cap);
        if (more) {
            t->text = more;
            t->cap = cap;
        } else {
            n = -1;
        }
    }
    if (n >= 0) t->n += (size_t)vsnprintf(t->text + t->n, t->cap - t->n, fmt, again);
    va_end(again);
    if (n >= 0) return;
    free(t->text);
    *t = (ot_text){ .failed = true };
}

void ot_text_free(ot_text *t)
{
    free(t->text);
    *t = (ot_text){ 0 };
}

/* ---- cache ---------------------------------------------------------------------- */

static uint64_t hash(const void *bytes, size_t n, uint64_t h)
{
    for (const unsigned char *p = bytes; n--; p++) h = (h ^ *p) * 0x100000001b3u; /* FNV-1a */
    return h;
}

void ot_gpu_cache_name(const void *bytes, size_t n, const char *suffix, char out[64])
{
    snprintf(out, 64, "%016llx%016llx%.16s", (unsigned long long)hash(bytes, n, 0xcbf29ce484222325u),
             (unsigned long long)hash(bytes, n, 0x9e3779b97f4a7c15u), suffix);
}

static void *read_cached(const char *folder, const char *name, size_t *n)
{
    char path[4096];
    *n = 0;
    if (!ot_cache_path(folder, name, false, path, sizeof path)) return NULL;
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    void *bytes = NULL;
    long size = fseek(f, 0, SEEK_END) ? -1 : ftell(f);
    if (size > 0 && !fseek(f, 0, SEEK_SET) && (bytes = malloc((size_t)size + 1))) {
        *n = fread(bytes, 1, (size_t)size, f);
        ((char *)bytes)[*n] = 0;
    }
    (void)!futimens(fileno(f), NULL); /* when it was used last: old files can be found and removed */
    fclose(f);
    return bytes;
}

static void write_cached(const char *folder, const char *name, const void *bytes, size_t n)
{
    char path[4096];
    ot_replace *r = NULL;
    ot_error ignored = { 0 };
    if (!ot_cache_path(folder, name, true, path, sizeof path) || ot_replace_begin(path, &r, &ignored) != OT_OK) return;
    if (ot_replace_write(r, bytes, n, &ignored) == OT_OK) (void)!ot_replace_commit(r, &ignored);
    else ot_replace_abort(r);
}

void *ot_gpu_cache_read(ot_device *d, const char *name, size_t *n) { return read_cached(((ot_gpu *)d)->key, name, n); }

void ot_gpu_cache_write(ot_device *d, const char *name, const void *bytes, size_t n)
{
    write_cached(((ot_gpu *)d)->key, name, bytes, n);
}

/* ---- compiling ------------------------------------------------------------------- */

void ot_gpu_compiler_version(int *major, int *minor)
{
    if (nvrtcVersion(major, minor) != NVRTC_SUCCESS) *major = *minor = 0;
}

static const char *file_text(const char *name)
{
    for (const ot_gpu_file *f = ot_gpu_files; f->name; f++)
        if (!strcmp(f->name, name)) return f->text;
    return NULL;
}

/* Options besides the architecture. */
static const char *const options[] = { "--std=c++17", "-default-device", "--ptxas-options=-v", "--fmad=true" };

/* The texts that a text includes, and those that these include.  NVRTC gets them and no others, so that none can be
 * missing in the key. */
typedef struct headers {
    const char *name[64], *text[64];
    int n;
} headers;

static void collect(headers *h, const char *text)
{
    static const char include[] = "#include \"";
    while (text && (text = strstr(text, include))) {
        text += sizeof include - 1;
        for (const ot_gpu_file *f = ot_gpu_files; f->name && h->n < OT_LEN(h->name); f++) {
            size_t n = strlen(f->name);
            bool wanted = !strncmp(text, f->name, n) && text[n] == '"';
            for (int i = 0; i < h->n; i++) wanted &= h->text[i] != f->text;
            if (!wanted) continue;
            h->name[h->n] = f->name;
            h->text[h->n++] = f->text;
            collect(h, f->text);
        }
    }
}

/* A hash of them, and of the options. */
static uint64_t headers_hash(const headers *h)
{
    uint64_t sum = 0;
    for (int i = 0; i < OT_LEN(options); i++) sum = hash(options[i], strlen(options[i]) + 1, sum);
    for (int i = 0; i < h->n; i++) sum = hash(h->text[i], strlen(h->text[i]) + 1, sum);
    return sum;
}

ot_status ot_gpu_compiler_target(int arch, char out[24], ot_error *err)
{
    int known[128], n = 0, best = 0, least = INT32_MAX;
    nvrtcResult r = nvrtcGetNumSupportedArchs(&n);
    if (r == NVRTC_SUCCESS && n <= OT_LEN(known)) r = nvrtcGetSupportedArchs(known);
    for (int i = 0; i < n && i < OT_LEN(known) && r == NVRTC_SUCCESS; i++) {
        if (known[i] <= arch && known[i] > best) best = known[i];
        if (known[i] < least) least = known[i];
    }
    if (!best)
        return ot_fail(err, OT_E_DEVICE, "NVRTC compiles for compute capability %d.%d and newer; this device has %d.%d",
                       least / 10, least % 10, arch / 10, arch % 10);
    /* Kernels with instructions specific to the family (wgmma on Hopper) need the "a". */
    snprintf(out, 24, "%s_%d%s", best / 10 == arch / 10 ? "sm" : "compute", best, best == 90 && arch == 90 ? "a" : "");
    return OT_OK;
}

int ot_gpu_target_arch(const char *target)
{
    const char *number = strchr(target, '_');
    return number ? atoi(number + 1) : 0;
}

/* Removes the lines that say how long the compiler took: the same text gives the same file. */
static void drop_times(char *text)
{
    for (char *at; (at = strstr(text, "Compile time"));) {
        char *end = strchr(at, '\n');
        while (at > text && at[-1] != '\n') at--;
        end = end ? end + 1 : at + strlen(at);
        memmove(at, end, strlen(end) + 1);
    }
}

static char *log_of(nvrtcProgram p)
{
    size_t n = 0;
    if (nvrtcGetProgramLogSize(p, &n) != NVRTC_SUCCESS) return NULL;
    char *text = calloc(1, n + 1);
    if (text && nvrtcGetProgramLog(p, text) != NVRTC_SUCCESS) text[0] = 0;
    if (text) drop_times(text);
    return text;
}

static ot_status compile(const ot_gpu *g, ot_gpu_image *out, ot_error *err)
{
    headers h = { .n = 0 };
    collect(&h, out->source);

    char arch[64];
    const char *all[1 + OT_LEN(options)] = { arch };
    memcpy(all + 1, options, sizeof options);
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", g->arch_text);
    nvrtcProgram p = NULL;
    nvrtcResult r = nvrtcCreateProgram(&p, out->source, out->file, h.n, h.text, h.name);
    if (r == NVRTC_SUCCESS) r = nvrtcCompileProgram(p, OT_LEN(all), all);
    char *words = p ? log_of(p) : NULL;
    bool ptx = !strncmp(g->arch_text, "compute_", 8);
    if (r == NVRTC_SUCCESS) r = ptx ? nvrtcGetPTXSize(p, &out->bytes) : nvrtcGetCUBINSize(p, &out->bytes);
    if (r == NVRTC_SUCCESS && !(out->code = malloc(out->bytes))) r = NVRTC_ERROR_OUT_OF_MEMORY;
    if (r == NVRTC_SUCCESS) r = ptx ? nvrtcGetPTX(p, out->code) : nvrtcGetCUBIN(p, out->code);
    if (p) nvrtcDestroyProgram(&p);
    out->report = words;
    if (r == NVRTC_SUCCESS) return OT_OK;
    free(out->code);
    out->code = NULL;
    return ot_fail(err, r == NVRTC_ERROR_OUT_OF_MEMORY ? OT_E_NOMEM : OT_E_INTERNAL,
                   "%s does not compile for %s: %s\n%.1500s", out->file, g->arch_text, nvrtcGetErrorString(r),
                   words ? words : "");
}

/* Header of a cache file; device code and the report follow. */
typedef struct cached {
    char magic[8];
    uint64_t length, report, check;
} cached;

bool ot_gpu_image_read(const ot_gpu *g, ot_gpu_image *out)
{
    size_t n;
    char *bytes = read_cached(g->compiler, out->name, &n);
    cached h;
    if (bytes && n > sizeof h) {
        memcpy(&h, bytes, sizeof h);
        n -= sizeof h;
        if (!memcmp(h.magic, "otkern2", 8) && h.length == out->length && h.report < n &&
            h.check == hash(out->source, out->length, out->length) + n)
            out->report = strdup(bytes + sizeof h + n - h.report); /* the buffer ends in a 0 */
        if (out->report) {
            memmove(bytes, bytes + sizeof h, n);
            out->code = bytes;
            out->bytes = n - h.report;
            return true;
        }
    }
    free(bytes);
    return false;
}

static void to_disk(const ot_gpu *g, const ot_gpu_image *i)
{
    const char *report = i->report ? i->report : "";
    size_t words = strlen(report), n = i->bytes + words;
    cached h = {
        .magic = "otkern2", .length = i->length, .report = words, .check = hash(i->source, i->length, i->length) + n
    };
    char *bytes = malloc(sizeof h + n);
    if (!bytes) return;
    memcpy(bytes, &h, sizeof h);
    memcpy(bytes + sizeof h, i->code, i->bytes);
    memcpy(bytes + sizeof h + i->bytes, report, words);
    write_cached(g->compiler, i->name, bytes, sizeof h + n);
    free(bytes);
}

ot_status ot_gpu_image_compile(const ot_gpu *g, ot_gpu_image *i, ot_error *err)
{
    free(i->report); /* of an attempt that failed */
    i->report = NULL;
    OT_TRY(compile(g, i, err));
    to_disk(g, i);
    return OT_OK;
}

ot_status ot_gpu_image_new(const ot_gpu *g, const char *file, const char *prefix, ot_gpu_image **out, ot_error *err)
{
    static const char prelude[] = "#include \"prelude.cuh\"\n";
    const char *text = file_text(file);
    ot_text source = { 0 };
    *out = NULL;
    if (!text) return ot_fail(err, OT_E_INTERNAL, "internal error: no kernel '%s' in the CUDA module", file);
    headers h = { .n = 0 };
    collect(&h, prelude);
    collect(&h, prefix);
    collect(&h, text);
    ot_text_add(&source, "/* %s %016llx */\n%s%s\n#line 1 \"%s\"\n%s", g->compiler,
                (unsigned long long)headers_hash(&h), prelude, prefix ? prefix : "", file, text);
    if (source.failed) return ot_fail(err, OT_E_NOMEM, "no memory for the text of a kernel");
    ot_gpu_image *i = calloc(1, sizeof *i);
    if (!i) {
        ot_text_free(&source);
        return ot_fail(err, OT_E_NOMEM, "no memory for a kernel");
    }
    i->file = file;
    i->source = source.text;
    i->length = source.n;
    ot_gpu_cache_name(source.text, source.n, "", i->name);
    *out = i;
    return OT_OK;
}

void ot_gpu_image_free(ot_gpu_image *i)
{
    if (!i) return;
    if (i->library) cudaLibraryUnload(i->library);
    free(i->source);
    free(i->code);
    free(i->report);
    free(i->words);
    free(i);
}
