/* folder.h - the folder of a run. */
#ifndef OT_FOLDER_H
#define OT_FOLDER_H

#include "runtime/train/run/files.h"

/* The first bytes of options.conf, which every run writes first. */
#define OT_FOLDER_MARK "# onnxtrain "

/* The name of the checkpoint of a step, a long long. */
#define OT_FOLDER_CHECKPOINT "checkpoint-%09lld.npz"

/* Files of a run or a series in its folder, beside checkpoints; options.conf and log.jsonl first, NULL last. */
extern const char *const ot_folder_files[];

/* A folder that is open and locked until it is closed: no other run uses it, and files are written into it also after it was
 * renamed. */
typedef struct ot_folder {
    const char *path;  /* when it was opened; of the arena */
    const char *moved; /* the new path of the older run that was in it; NULL: there was none */
    int fd;            /* -1: closed */
} ot_folder;

/* Creates the run's folder and its parents.
 *   asked  NULL: runs/<stem of model>-<n>, n the first free number; else this path: an older run in it is renamed
 *          to asked.1, an older asked.1 to asked.2 ...
 *   in     what this run reads, with its model; an older run that contains any of it is not renamed
 * Errors: OT_E_USAGE (a run is writing to it; it cannot be renamed; it has no run, but files with names of a run), OT_E_IO. */
ot_status ot_folder_open(const char *asked, const ot_inputs *in, ot_arena *a, ot_folder *out, ot_error *err);

/* Opens and locks the folder of an earlier run.  Errors: OT_E_USAGE (it does not exist, or a run uses it), OT_E_IO. */
ot_status ot_folder_reopen(const char *path, ot_arena *a, ot_folder *out, ot_error *err);
void ot_folder_close(ot_folder *f);

/* Lists the steps of the newest checkpoints in the folder, `most` at most, newest first.  Returns their number; -1: the folder
 * cannot be read (errno).  clean: removes files that a killed process was writing (this run has locked the folder). */
int ot_folder_checkpoints(int folder, int64_t *step, int most, bool clean);

/* Creates the folder `path` and its parents if they are missing; option: for messages.  Errors: OT_E_IO. */
ot_status ot_folder_make(const char *path, const char *option, ot_error *err);

/* Creates the folder `name` in an open one if it is missing; shown: its path in messages.  Errors: OT_E_USAGE (it is a link; a
 * run does not write through links), OT_E_IO. */
ot_status ot_folder_within(int folder, const char *name, const char *shown, ot_error *err);

/* "a/b/net.onnx" -> "net". */
const char *ot_stem(const char *path, ot_arena *a);

#endif
