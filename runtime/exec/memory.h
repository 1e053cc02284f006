/* memory.h - functions that memory.c and run.c share. */
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
    const ot_plan *lead; /* laid out the state */
    char *block;         /* a device's one allocation; NULL on the CPU */
    char *state, *scratch, *room;
    int64_t bytes, scratch_bytes;
    void *own[2]; /* the CPU's slabs as they were allocated; NULL: the scratch slab is another's */
    bool borrows; /* that is so */
    int n_pieces;
    ot_copied *piece;           /* sorted by address, no duplicates */
    int64_t tables, tables_end; /* offsets in the block: of the next table, of the end of the last */
};

/* The device's copy of a constant that one of m's plans reads. */
void *ot_memory_constant(const ot_memory *m, const void *data);

/* Reserves space for a table.  NULL: it was not counted. */
char *ot_memory_table(ot_memory *m, size_t bytes);

/* Bytes of the table of a group of steps (ot_grouped); 0: it has none. */
size_t ot_group_bytes(const ot_step *s);

/* Copies a value from and to row-major bytes of the host; `at`: its address (on device d).  get waits.  values.c */
ot_status ot_value_put(ot_device *d, const ot_value *v, void *at, const void *from, ot_error *err);
ot_status ot_value_get(ot_device *d, const ot_value *v, const void *at, void *to, ot_error *err);

#endif
