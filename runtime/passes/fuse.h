/* fuse.h - parts of the fuse pass: Maps that only a Reduce reads, Copies around attention. */
#ifndef OT_FUSE_H
#define OT_FUSE_H

#include "runtime/passes/passes.h"

/* A Map whose result only a Reduce reads becomes part of that Reduce, if the device has a kernel for it in the
 * backend of the Map.  kept: by value id, values that are read by other than nodes. */
ot_status ot_fuse_reduces(ot_plan *p, const ot_config *c, const bool *kept);

/* On the CPU attention reads and writes through the Copies around it, which are removed. */
ot_status ot_fuse_attention(ot_plan *p, const ot_config *c, const bool *kept);

#endif
