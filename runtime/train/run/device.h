/* device.h - the device that --device names. */
#ifndef OT_TRAIN_DEVICE_H
#define OT_TRAIN_DEVICE_H

#include "runtime/train/options/options.h"

/* *out: the device, NULL: the CPU.  *line: its name, and for "auto" on the CPU the reason; of the arena.
 * Errors: OT_E_DEVICE: the device of the options is not available. */
ot_status ot_device_open(const ot_settings *s, ot_arena *a, ot_device **out, const char **line, ot_error *err);

/* "cpu", "cuda:0" */
const char *ot_device_name(const ot_settings *s, const ot_device *d, ot_arena *a);

#endif
