/* memory.h - what memory.c and run.c know of the memory of plans. */
#ifndef OT_EXEC_MEMORY_H
#define OT_EXEC_MEMORY_H

#include "runtime/exec/exec.h"

/* Bytes of a constant that the device keeps a copy of. */
typedef struct ot_copied {
    const void *data;
    size_t bytes;
    uint64_t hash;
    int64_t offset; /* in the block; equal bytes share one */
} ot_copied;

struct ot_memory {
    ot_device *device;   /* NULL: the CPU */
    const ot_plan *lead; /* laid the state out */
    char *block;         /* a device's one allocation; NULL on the CPU */
    char *state, *scratch, *room;
    int64_t bytes;
    int n_pieces;
    ot_copied *piece;           /* by address; each once */
    int64_t tables, tables_end; /* offsets in the block: of the next table, behind the last one */
};

/* The device's copy of a constant that one of m's plans reads. */
void *ot_memory_constant(const ot_memory *m, const void *data);

/* Takes room for a table.  NULL: it was not counted. */
char *ot_memory_table(ot_memory *m, size_t bytes);

/* Bytes of the table of a group of steps (ot_grouped); 0: it has none. */
size_t ot_group_bytes(const ot_step *s);

/* A value's bytes at `at` (of the device, d) from and to row-major bytes of the host.  get waits.  values.c */
ot_status ot_value_put(ot_device *d, const ot_value *v, void *at, const void *from, ot_error *err);
ot_status ot_value_get(ot_device *d, const ot_value *v, const void *at, void *to, ot_error *err);

#endif
