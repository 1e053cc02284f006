/* emulator.h - replaces the CUDA runtime, NVRTC, cuDNN and cuBLASLt for tests without a GPU.
 *
 * The module's own sources are linked against it (libonnxtrain-cuda-emulated.so): "device" memory is the program's,
 * kernels are compiled by the C compiler from the text that NVRTC would get, and run one block after the other.  It
 * checks what a device would not report: memory that is not the device's, work on a stream that is being captured,
 * double frees and leaks.  Work is executed as late as CUDA allows: when the program waits for it.  Reading a result
 * without waiting always returns the old value.
 *
 *     ONNXTRAIN_EMULATOR_FAIL=N      the N-th call that can fail, fails; a name: the first call of it
 *     ONNXTRAIN_EMULATOR_LOG=FILE    one line per call
 *     ONNXTRAIN_EMULATOR_MEMORY=N    MiB of the device (16384)
 *     ONNXTRAIN_EMULATOR_OPTIMIZE=N  the C compiler's -O for kernels (1); 0 for many kernels that run once
 *     ONNXTRAIN_EMULATOR_ARCH=N      the newest architecture that NVRTC knows (90, the device's)
 *     ONNXTRAIN_EMULATOR_DEVICES=N   devices (1); what is another device's than the thread's current one is refused */
#ifndef OT_EMULATOR_H
#define OT_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A kernel's launch: entry is a function compiled with prelude_host.h. */
typedef void emulator_entry(const void *args);
typedef struct emulator_launch {
    const char *name;
    emulator_entry *entry;
    long long blocks;
    int threads;
    bool overlaps; /* it may begin before the kernel in front of it ends */
    size_t shared;
    char args[4096];
} emulator_launch;

/* Runs the entry for every thread of every block, at the latest when other work is executed, before which
 * emulator_finish_launch is called.  A launch that overlaps runs up to its wait before its predecessor is executed; one
 * that does not wait, or uses the device's memory before, ends the program.  threads.c */
struct ot_emulated;
void emulator_run(const emulator_launch *l, struct ot_emulated **at);
void emulator_finish_launch(void);

/* Counts a call that can fail and logs it; true: it must fail.  calls.c */
bool emulator_call(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The current device of the calling thread.  Is [p, p + n) memory of it?  runtime.c */
int emulator_device(void);
bool emulator_is_device(const void *p, size_t n);

/* Makes the memory of devices inaccessible, or accessible again.  runtime.c */
void emulator_protect(bool on);

/* Submits work to the stream: stored until the program waits for it, or captured while a capture runs.  The bytes of
 * `what` are copied.  A failure leaves nothing behind.  streams.c */
typedef void emulator_work(const void *what);
int emulator_submit(void *stream, emulator_work *work, const void *what, size_t bytes, const char *name);
int emulator_submit_launch(void *stream, emulator_work *work, const void *what, size_t bytes, const char *name,
                           bool overlaps);

/* Does all that was given to any stream. */
void emulator_finish(void);
bool emulator_capturing(void *stream);

/* Counts objects that exist and must be released: streams, graphs, events, libraries, handles.  streams.c */
int emulator_live(int more);

#endif
