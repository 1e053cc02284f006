/* device.c - opens the device of --device. */
#include "runtime/train/run/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernels/host.h"
#include "runtime/base/io.h"

enum { LARGEST_DESCRIPTION = 1 << 16 };

/* A device that is known from a description only; it needs no driver. */
static ot_status open_described(const ot_settings *s, ot_arena *a, ot_device **out, const char **line, ot_error *err)
{
    void *text;
    size_t n;
    ot_error why = { 0 };
    if (s->device == OT_DEVICE_CPU || s->auto_precision)
        return ot_fail(
            err, OT_E_USAGE,
            "--device-description cannot be combined with --device cpu and --precision auto: nothing runs on "
            "a GPU that is only described");
    const ot_backend *b = ot_backend_find(&why);
    if (!b) return ot_fail(err, why.status, "--device-description: %s", why.text);
    OT_TRY(ot_read_file(s->description, LARGEST_DESCRIPTION, &text, &n, err));
    char *described = ot_arena_alloc(a, n + 1);
    if (described) memcpy(described, text, n);
    free(text);
    if (!described) return ot_fail(err, OT_E_NOMEM, "no memory for a device");
    ot_status r = b->open(0, described, out, &why);
    if (r) return ot_fail(err, r == OT_E_DEVICE ? OT_E_DATA : r, "%s: %s", s->description, why.text);
    ot_device_info i;
    b->info(*out, &i);
    *line = ot_arena_printf(a, "device: %s, described; %s", i.name, i.libraries);
    if (*line) return OT_OK;
    b->close(*out);
    *out = NULL;
    return ot_fail(err, OT_E_NOMEM, "no memory for a device");
}

ot_status ot_device_open(const ot_settings *s, ot_arena *a, ot_device **out, const char **line, ot_error *err)
{
    ot_error why = { 0 };
    *out = NULL;
    *line = "device: cpu";
    if (s->description) return open_described(s, a, out, line, err);
    if (s->device == OT_DEVICE_CPU) return OT_OK;
    const ot_backend *b = ot_backend_usable(&why);
    ot_status r = b ? b->open(s->device_index, NULL, out, &why) : why.status;
    if (r && s->device == OT_DEVICE_CUDA) return ot_fail(err, r, "--device cuda: %s", why.text);
    if (r && r != OT_E_DEVICE) return ot_fail(err, r, "%s", why.text);
    if (r) {
        *line = ot_arena_printf(a, "device: cpu (%s)", why.text);
    } else {
        ot_device_info i;
        b->info(*out, &i);
        *line = ot_arena_printf(a, "device: cuda:%d, %s, %.1f GiB free; %s", s->device_index, i.name,
                                (double)i.free / (1 << 30), i.libraries);
    }
    if (*line) return OT_OK;
    if (*out) b->close(*out);
    *out = NULL;
    return ot_fail(err, OT_E_NOMEM, "no memory for a device");
}

const char *ot_device_name(const ot_settings *s, const ot_device *d, ot_arena *a)
{
    return d ? ot_arena_printf(a, "%s:%d", d->backend->name, s->device_index) : "cpu";
}
