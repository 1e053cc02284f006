/* threads.c - the threads of a block as coroutines.
 *
 * The order is fixed: each runs until it waits, then the next.  All of a warp must meet in an exchange, all of a block
 * in a barrier; a thread that has ended or waits elsewhere is reported and ends the program.  Found this way: wrong
 * indices, missing barriers, divergent exchanges.  Not found: races within a warp, misaligned vector accesses, anything
 * about speed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulator/emulator.h"

typedef struct ot_emulated { /* as in prelude_host.h */
    long long block, blocks;
    int thread, threads;
    void *shared;
    void (*barrier)(const char *file, int line);
    void (*exchange)(void *value, int bytes, int lane, const char *file, int line);
} ot_emulated;

enum { STACK = 64 << 10, MOST = 1024 };
enum { RUNS, AT_BARRIER, AT_WARP, LEFT };

typedef struct coroutine {
    void *sp; /* where it stopped */
    char *stack;
    int state, line;
    const char *file;
    uint64_t value[2];
} coroutine;

static __thread struct {
    coroutine thread[MOST];
    void *scheduler;
    ot_emulated now;
    emulator_entry *entry;
    const void *args;
} it;

/* Saves the registers a call must preserve on this stack, stores the stack pointer and continues where `to` stopped. */
#if defined(__x86_64__)
void emulator_switch(void **from, void *to);
__asm__(".text\n.globl emulator_switch\n.hidden emulator_switch\nemulator_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
#else
#error "the emulator knows x86-64 only"
#endif

static void suspend(int state, const char *file, int line)
{
    coroutine *c = &it.thread[it.now.thread];
    c->state = state;
    c->file = file;
    c->line = line;
    emulator_switch(&c->sp, it.scheduler);
}

static void first(void)
{
    it.entry(it.args);
    it.thread[it.now.thread].state = LEFT;
    emulator_switch(&it.thread[it.now.thread].sp, it.scheduler);
    abort();
}

/* The stacks end with the host's thread whose launches used them. */
static pthread_key_t ends;

static void free_stacks(void *unused)
{
    (void)unused;
    for (int i = 0; i < MOST; i++) free(it.thread[i].stack);
}

static void make_key(void) { (void)pthread_key_create(&ends, free_stacks); }

static void take_stack(coroutine *c)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    c->stack = aligned_alloc(64, STACK);
    if (!c->stack || pthread_once(&once, make_key) || pthread_setspecific(ends, &it)) {
        perror("emulator");
        abort();
    }
}

static void prepare(coroutine *c)
{
    if (!c->stack) take_stack(c);
    void **top = (void **)(void *)(c->stack + STACK) - 2;
    *top = (void *)(uintptr_t)first; /* where `ret` goes; the stack is then as after a call */
    c->sp = top - 6;
    c->state = RUNS;
}

static void barrier(const char *file, int line) { suspend(AT_BARRIER, file, line); }

static void exchange(void *value, int bytes, int lane, const char *file, int line)
{
    coroutine *c = &it.thread[it.now.thread];
    int from = it.now.thread / 32 * 32 + lane % 32;
    memcpy(c->value, value, (size_t)bytes);
    suspend(AT_WARP, file, line);
    if (from < it.now.threads) memcpy(value, it.thread[from].value, (size_t)bytes);
    suspend(AT_WARP, file, line); /* no thread overwrites before all have read */
}

__attribute__((noreturn)) static void broken(const coroutine *c, const char *what)
{
    fprintf(stderr, "emulator: %s:%d: %s (block %lld)\n", c->file ? c->file : "?", c->line, what, it.now.block);
    abort();
}

/* Waiting threads continue when all expected ones have arrived. */
static void release(int n)
{
    int waiting = 0, left = 0, freed = 0;
    for (int i = 0; i < n; i++) waiting += it.thread[i].state == AT_BARRIER, left += it.thread[i].state == LEFT;
    for (int w = 0; w < n; w += 32) {
        const coroutine *at = NULL;
        int here = 0, end = w + 32 < n ? w + 32 : n;
        for (int i = w; i < end; i++)
            if (it.thread[i].state == AT_WARP) {
                if (at && at->line != it.thread[i].line) broken(at, "threads of a warp are at different exchanges");
                at = &it.thread[i], here++;
            }
        if (here && here != end - w) broken(at, "not all threads of the warp take part in the exchange");
        for (int i = w; i < end && here; i++) it.thread[i].state = RUNS, freed++;
    }
    if (freed) return;
    for (int i = 0; i < n; i++)
        if (it.thread[i].state == AT_BARRIER && waiting != n)
            broken(&it.thread[i], left ? "a barrier that some threads left out" : "threads are at different barriers");
    for (int i = 0; i < n; i++) it.thread[i].state = RUNS;
}

static void run_block(int n)
{
    for (int i = 0; i < n; i++) prepare(&it.thread[i]);
    for (;;) {
        int left = 0;
        for (int i = 0; i < n; i++) {
            if (it.thread[i].state == RUNS) {
                it.now.thread = i;
                emulator_switch(&it.scheduler, it.thread[i].sp);
            }
            left += it.thread[i].state == LEFT;
        }
        if (left == n) return;
        release(n);
    }
}

void emulator_run(emulator_entry *entry, ot_emulated **at, long long blocks, int threads, size_t shared,
                  const void *args)
{
    char *memory = shared ? aligned_alloc(64, (shared + 63) / 64 * 64) : NULL;
    if (threads < 1 || threads > MOST || (shared && !memory)) {
        fprintf(stderr, "emulator: %d threads, %zu bytes of shared memory\n", threads, shared);
        abort();
    }
    it.entry = entry;
    it.args = args;
    it.now = (ot_emulated){
        .blocks = blocks, .threads = threads, .shared = memory, .barrier = barrier, .exchange = exchange
    };
    *at = &it.now;
    for (it.now.block = 0; it.now.block < blocks; it.now.block++) {
        if (shared) memset(memory, 0xCD, shared); /* as undefined as on the device */
        run_block(threads);
    }
    free(memory);
}
