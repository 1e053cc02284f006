/* compile.c - compiles kernel texts to device code by NVRTC, with caches in memory and on disk.
 *
 * A kernel is the prelude, generated lines and a file of ops/cuda/, compiled for one architecture.  The key of both caches
 * is a hash of all of it, of the architecture and of the compiler's version, and of nothing else: a described device, or
 * one beside another cuDNN, fills the cache for every device of the architecture.  The cached file repeats the
 * length and a second hash of the source, so that after a collision or for a torn file the text is compiled again. */
#include <nvrtc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* A hash of the texts that others include, and of the options. */
static uint64_t headers_hash(void)
{
    uint64_t h = 0;
    for (int i = 0; i < OT_LEN(options); i++) h = hash(options[i], strlen(options[i]) + 1, h);
    for (const ot_gpu_file *f = ot_gpu_files; f->name; f++)
        if (!strstr(f->name, ".cu") || strstr(f->name, ".cuh")) h = hash(f->text, strlen(f->text), h);
    return h;
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

typedef struct image {
    void *bytes;
    size_t n;
    char *report;
} image; /* device code */

static char *log_of(nvrtcProgram p)
{
    size_t n = 0;
    if (nvrtcGetProgramLogSize(p, &n) != NVRTC_SUCCESS) return NULL;
    char *text = calloc(1, n + 1);
    if (text && nvrtcGetProgramLog(p, text) != NVRTC_SUCCESS) text[0] = 0;
    return text;
}

static ot_status compile(const ot_gpu *g, const char *name, const char *source, image *out, ot_error *err)
{
    const char *headers[64], *names[64];
    int n = 0;
    for (const ot_gpu_file *f = ot_gpu_files; f->name && n < 64; f++)
        if (!strstr(f->name, ".cu") || strstr(f->name, ".cuh")) headers[n] = f->text, names[n++] = f->name;

    char arch[64];
    const char *all[1 + OT_LEN(options)] = { arch };
    memcpy(all + 1, options, sizeof options);
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", g->arch_text);
    nvrtcProgram p = NULL;
    nvrtcResult r = nvrtcCreateProgram(&p, source, name, n, headers, names);
    if (r == NVRTC_SUCCESS) r = nvrtcCompileProgram(p, OT_LEN(all), all);
    char *words = p ? log_of(p) : NULL;
    bool ptx = !strncmp(g->arch_text, "compute_", 8);
    if (r == NVRTC_SUCCESS) r = ptx ? nvrtcGetPTXSize(p, &out->n) : nvrtcGetCUBINSize(p, &out->n);
    if (r == NVRTC_SUCCESS && !(out->bytes = malloc(out->n))) r = NVRTC_ERROR_OUT_OF_MEMORY;
    if (r == NVRTC_SUCCESS) r = ptx ? nvrtcGetPTX(p, out->bytes) : nvrtcGetCUBIN(p, out->bytes);
    if (p) nvrtcDestroyProgram(&p);
    out->report = words;
    if (r == NVRTC_SUCCESS) return OT_OK;
    ot_fail(err, r == NVRTC_ERROR_OUT_OF_MEMORY ? OT_E_NOMEM : OT_E_INTERNAL, "%s does not compile for %s: %s\n%.1500s",
            name, g->arch_text, nvrtcGetErrorString(r), words ? words : "");
    free(out->bytes);
    free(out->report);
    *out = (image){ 0 };
    return err ? err->status : OT_E_INTERNAL;
}

/* Header of a cache file; device code and the report follow. */
typedef struct cached {
    char magic[8];
    uint64_t length, report, check;
} cached;

static bool from_disk(ot_gpu *g, const char *name, const char *source, size_t length, image *out)
{
    size_t n;
    char *bytes = read_cached(g->compiler, name, &n);
    cached h;
    if (bytes && n > sizeof h) {
        memcpy(&h, bytes, sizeof h);
        n -= sizeof h;
        if (!memcmp(h.magic, "otkern2", 8) && h.length == length && h.report < n &&
            h.check == hash(source, length, length) + n)
            out->report = strdup(bytes + sizeof h + n - h.report); /* the buffer ends in a 0 */
        if (out->report) {
            memmove(bytes, bytes + sizeof h, n);
            out->bytes = bytes;
            out->n = n - h.report;
            return true;
        }
    }
    free(bytes);
    return false;
}

static void to_disk(ot_gpu *g, const char *name, const char *source, size_t length, const image *i)
{
    const char *report = i->report ? i->report : "";
    size_t words = strlen(report), n = i->n + words;
    cached h = { .magic = "otkern2", .length = length, .report = words, .check = hash(source, length, length) + n };
    char *bytes = malloc(sizeof h + n);
    if (!bytes) return;
    memcpy(bytes, &h, sizeof h);
    memcpy(bytes + sizeof h, i->bytes, i->n);
    memcpy(bytes + sizeof h + i->n, report, words);
    write_cached(g->compiler, name, bytes, sizeof h + n);
    free(bytes);
}

static ot_status load(ot_gpu *g, ot_gpu_fn *f, const image *i, ot_error *err)
{
    if (g->index < 0) return OT_OK;
    OT_TRY(ot_gpu_check(cudaLibraryLoadData(&f->library, i->bytes, NULL, NULL, 0, NULL, NULL, 0), "loading a kernel",
                        err));
    return ot_gpu_check(cudaLibraryGetKernel(&f->kernel, f->library, f->entry), f->entry, err);
}

static ot_status make(ot_gpu *g, ot_gpu_fn *f, const char *file, const char *source, size_t length, ot_error *err)
{
    image i = { 0 };
    if (!from_disk(g, f->name, source, length, &i)) {
        OT_TRY(compile(g, file, source, &i, err));
        to_disk(g, f->name, source, length, &i);
    }
    f->report = i.report;
    ot_status s = load(g, f, &i, err);
    free(i.bytes);
    return s;
}

ot_status ot_gpu_compile(ot_device *d, const char *file, const char *prefix, const char *entry, ot_gpu_fn **out,
                         ot_error *err)
{
    ot_gpu *g = (ot_gpu *)d;
    const char *text = file_text(file);
    ot_text source = { 0 };
    char name[64];
    *out = NULL;
    if (!text) return ot_fail(err, OT_E_INTERNAL, "internal error: no kernel '%s' in the CUDA module", file);
    ot_text_add(&source, "/* %s %s %016llx */\n#include \"prelude.cuh\"\n%s\n#line 1 \"%s\"\n%s", entry, g->compiler,
                (unsigned long long)headers_hash(), prefix ? prefix : "", file, text);
    if (source.failed) return ot_fail(err, OT_E_NOMEM, "no memory for the text of a kernel");
    ot_gpu_cache_name(source.text, source.n, "", name);

    for (ot_gpu_fn *f = g->fns; f && !*out; f = f->next)
        if (!strcmp(f->name, name) && !strcmp(f->entry, entry)) *out = f;
    ot_gpu_fn *f = *out ? NULL : calloc(1, sizeof *f);
    ot_status s = OT_OK;
    if (!*out && !f) s = ot_fail(err, OT_E_NOMEM, "no memory for a kernel");
    if (f) {
        snprintf(f->name, sizeof f->name, "%s", name);
        snprintf(f->entry, sizeof f->entry, "%s", entry);
        s = make(g, f, file, source.text, source.n, err);
        f->next = g->fns;
        g->fns = f; /* also after a failure: it is released with the device */
        if (s == OT_OK) *out = f;
        else f->entry[0] = 0;
    }
    ot_text_free(&source);
    return s;
}

bool ot_gpu_compiled(ot_device *d, int i, const char **name, const char **words)
{
    const ot_gpu_fn *f = ((ot_gpu *)d)->fns;
    while (f && i--) f = f->next;
    if (!f) return false;
    *name = f->entry;
    *words = f->report;
    return true;
}

void ot_gpu_fns_free(ot_gpu *g)
{
    for (ot_gpu_fn *f = g->fns, *next; f; f = next) {
        next = f->next;
        if (f->library) cudaLibraryUnload(f->library);
        free(f->report);
        free(f);
    }
    g->fns = NULL;
}

ot_status ot_gpu_allow_shared(ot_device *d, const ot_gpu_fn *f, size_t bytes, ot_error *err)
{
    if (bytes <= 48 << 10 || ot_gpu_described(d)) return OT_OK;
    /* A cudaKernel_t is accepted where a function is. */
    return ot_gpu_check(
        cudaFuncSetAttribute((const void *)f->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
        f->entry, err);
}

ot_status ot_gpu_launch(ot_device *d, const ot_gpu_fn *f, int64_t blocks, int threads, size_t shared, const void *args,
                        ot_error *err)
{
    if (blocks <= 0) return OT_OK;
    if (blocks > INT32_MAX)
        return ot_fail(err, OT_E_INTERNAL, "%s: too many blocks: %lld", f->entry, (long long)blocks);
    void *list[] = { (void *)(uintptr_t)args };
    cudaLaunchConfig_t c = { .gridDim = { (unsigned)blocks, 1, 1 },
                             .blockDim = { (unsigned)threads, 1, 1 },
                             .dynamicSmemBytes = shared,
                             .stream = ot_gpu_stream(d) };
    return ot_gpu_check(cudaLaunchKernelExC(&c, (const void *)f->kernel, list), f->entry, err);
}
