/* tokens.c - files of tokens: raw unsigned numbers of 16 or 32 bits (nanoGPT), behind a header (llm.c), or a .npy array of
 * one dimension.  Their bytes are mapped, not read: they may be more than memory holds.
 *
 * Source  karpathy/nanoGPT, data/openwebtext/prepare.py; karpathy/llm.c, dev/data/data_common.py (write_datafile). */
#include "runtime/data/internal.h"

#include <string.h>

enum { HEADER = 256 * 4 }; /* bytes of llm.c's header: magic number, version, number of tokens, zeros */

/* Headers of llm.c. */
static const struct {
    int32_t magic, version;
    ot_dtype type;
} known[] = { { 20240520, 1, OT_U16 }, { 20240801, 7, OT_U32 } };

/* Tokens behind the header of llm.c; *found false: it has none. */
static ot_status behind_header(const char *path, const char *bytes, int64_t size, ot_dtype *type, int64_t *n,
                               bool *found, ot_error *err)
{
    int32_t head[3];
    *found = false;
    if (size < HEADER) return OT_OK;
    memcpy(head, bytes, sizeof head);
    int i = 0;
    while (i < OT_LEN(known) && known[i].magic != head[0]) i++;
    if (i == OT_LEN(known)) return OT_OK;
    *found = true;
    *type = known[i].type;
    *n = head[2];
    if (head[1] != known[i].version)
        return ot_fail(err, OT_E_DATA, "%s: has version %d of the header of llm.c; supported is %d", path, head[1],
                       known[i].version);
    int64_t there = (size - HEADER) / (ot_dtype_bits(*type) / 8);
    if (*n < 0 || HEADER + *n * ot_dtype_bits(*type) / 8 != size)
        return ot_fail(err, OT_E_DATA, "%s: its header says %lld tokens, but the file contains %lld", path,
                       (long long)*n, (long long)there);
    return OT_OK;
}

ot_status ot_tokens_open(const char *path, ot_dataset *d, ot_error *err)
{
    const ot_data_input *x = ot_windows_input(d->options);
    const void *bytes = NULL;
    int64_t size = 0, n;
    ot_dtype type;
    bool found;
    d->masking = d->options->masking;
    OT_TRY(ot_dataset_map(d, path, &bytes, &size, err));
    OT_TRY(behind_header(path, bytes, size, &type, &n, &found, err));
    if (found) return ot_windows_set(d, (const char *)bytes + HEADER, type, n, "tokens", err);
    /* As many bits as the model's vocabulary needs: the file does not say. */
    type = x && x->rows > 1 << 16 ? OT_U32 : OT_U16;
    int width = ot_dtype_bits(type) / 8;
    if (size % width)
        return ot_fail(err, OT_E_DATA, "%s: its %lld bytes are not a whole number of tokens of %d bits", path,
                       (long long)size, 8 * width);
    OT_TRY(
        ot_windows_set(d, bytes, type, size / width, type == OT_U16 ? "tokens of 16 bits" : "tokens of 32 bits", err));
    return OT_OK;
}
