/* fuse.h - parts of the fuse pass: Maps that are read by a Reduce alone, Copies around attention. */
#ifndef OT_FUSE_H
#define OT_FUSE_H

#include "runtime/passes/passes.h"

/* A Map whose result only a Reduce reads becomes that Reduce's program, where the kernel that the device has for the
 * Map's backend takes it.  kept: by value id, what others than nodes read. */
ot_status ot_fuse_reduces(ot_plan *p, const ot_config *c, const bool *kept);

/* On the CPU: attention reads and writes through the Copies around it, which go. */
ot_status ot_fuse_attention(ot_plan *p, const ot_config *c, const bool *kept);

#endif
