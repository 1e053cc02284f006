/* folder.h - the folder of a run. */
#ifndef OT_FOLDER_H
#define OT_FOLDER_H

#include "runtime/train/run/files.h"

/* How options.conf begins, which every run writes first. */
#define OT_FOLDER_MARK "# onnxtrain "

/* Files of a run or a series in its folder, beside checkpoints; options.conf and log.jsonl first, NULL last. */
extern const char *const ot_folder_files[];

/* Open and locked until it is closed: nobody else's run takes it, and what is written into it stays in it wherever
 * it is moved. */
typedef struct ot_folder {
    const char *path;  /* as it was when it was opened; of the arena */
    const char *moved; /* what the older run in it is called now; NULL: there was none */
    int fd;            /* -1: closed */
} ot_folder;

/* Makes the run's folder and the ones above it.
 *   asked  NULL: runs/<stem of model>-<n>, n the first that is free; else exactly that, and an older run in it moves
 *          to asked.1, that one to asked.2 ...
 *   in     what this run reads, the model among it; an older run that holds any of it does not move
 * Errors: OT_E_USAGE (a run is writing to it; it cannot move; it has no run, but files with the names of a run's), OT_E_IO. */
ot_status ot_folder_open(const char *asked, const ot_inputs *in, ot_arena *a, ot_folder *out, ot_error *err);

/* Opens and locks the folder of an earlier run.  Errors: OT_E_USAGE (it is not there, or in use by a run), OT_E_IO. */
ot_status ot_folder_reopen(const char *path, ot_arena *a, ot_folder *out, ot_error *err);
void ot_folder_close(ot_folder *f);

/* Makes a folder of that option, and the ones above it, where they are missing.  Errors: OT_E_IO. */
ot_status ot_folder_make(const char *path, const char *option, ot_error *err);

/* Makes the folder `name` in an open one, where it is missing; shown: its path in messages.  Errors: OT_E_USAGE (a link, through
 * which nothing of a run is written), OT_E_IO. */
ot_status ot_folder_within(int folder, const char *name, const char *shown, ot_error *err);

/* "a/b/net.onnx" -> "net". */
const char *ot_stem(const char *path, ot_arena *a);

#endif
