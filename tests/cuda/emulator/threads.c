/* threads.c - the threads of a block as coroutines.
 *
 * The order is fixed: each runs until it waits, then the next.  All of a warp must meet in an exchange, all of a block
 * in a barrier; a thread that has ended or waits elsewhere is reported and ends the program.  Found this way: wrong
 * indices, missing barriers, divergent exchanges.  Not found: races within a warp, misaligned vector accesses, anything
 * about speed.
 *
 * A launch that may begin before its predecessor ends does so: it runs up to its wait, then the predecessor is executed,
 * then it is held there itself, until the launch behind it waits, or other work comes. */
#include <pthread.h>
#include <signal.h>
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
    void (*follow)(void);
} ot_emulated;

enum { STACK = 64 << 10, MOST = 1024 };
enum { RUNS, AT_BARRIER, AT_WARP, AT_FOLLOW, LEFT };

typedef struct coroutine {
    void *sp; /* where it stopped */
    char *stack;
    int state, line;
    bool followed;
    const char *file;
    uint64_t value[2];
} coroutine;

/* A launch that is executed or held. */
typedef struct running {
    coroutine thread[MOST];
    void *scheduler;
    ot_emulated now, **at;
    emulator_launch launch;
    char *memory;  /* shared, dynamic */
    bool overlaps; /* has not waited for its predecessor yet */
} running;

static __thread running two[2], *it, *held;

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
    coroutine *c = &it->thread[it->now.thread];
    c->state = state;
    c->file = file;
    c->line = line;
    emulator_switch(&c->sp, it->scheduler);
}

__attribute__((noreturn)) static void wrong(const char *what)
{
    fprintf(stderr, "emulator: %s %s\n", it->launch.name, what);
    abort();
}

static void first(void)
{
    it->launch.entry(it->launch.args);
    if (it->launch.overlaps && !it->thread[it->now.thread].followed)
        wrong("may begin before the kernel in front of it ends, and does not wait for that");
    it->thread[it->now.thread].state = LEFT;
    emulator_switch(&it->thread[it->now.thread].sp, it->scheduler);
    abort();
}

/* The stacks end with the host's thread whose launches used them. */
static pthread_key_t ends;

static void free_stacks(void *unused)
{
    (void)unused;
    for (int i = 0; i < 2 * MOST; i++) free(two[i / MOST].thread[i % MOST].stack);
}

static void make_key(void) { (void)pthread_key_create(&ends, free_stacks); }

static void take_stack(coroutine *c)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    c->stack = aligned_alloc(64, STACK);
    if (!c->stack || pthread_once(&once, make_key) || pthread_setspecific(ends, two)) {
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
    c->followed = false;
}

static void barrier(const char *file, int line) { suspend(AT_BARRIER, file, line); }

static void exchange(void *value, int bytes, int lane, const char *file, int line)
{
    coroutine *c = &it->thread[it->now.thread];
    int from = it->now.thread / 32 * 32 + lane % 32;
    memcpy(c->value, value, (size_t)bytes);
    suspend(AT_WARP, file, line);
    if (from < it->now.threads) memcpy(value, it->thread[from].value, (size_t)bytes);
    suspend(AT_WARP, file, line); /* no thread overwrites before all have read */
}

__attribute__((noreturn)) static void broken(const coroutine *c, const char *what)
{
    fprintf(stderr, "emulator: %s:%d: %s (block %lld)\n", c->file ? c->file : "?", c->line, what, it->now.block);
    abort();
}

/* Waiting threads continue when all expected ones have arrived. */
static void release(int n)
{
    int waiting = 0, left = 0, freed = 0;
    for (int i = 0; i < n; i++) waiting += it->thread[i].state == AT_BARRIER, left += it->thread[i].state == LEFT;
    for (int w = 0; w < n; w += 32) {
        const coroutine *at = NULL;
        int here = 0, end = w + 32 < n ? w + 32 : n;
        for (int i = w; i < end; i++)
            if (it->thread[i].state == AT_WARP) {
                if (at && at->line != it->thread[i].line) broken(at, "threads of a warp are at different exchanges");
                at = &it->thread[i], here++;
            }
        if (here && here != end - w) broken(at, "not all threads of the warp take part in the exchange");
        for (int i = w; i < end && here; i++) it->thread[i].state = RUNS, freed++;
    }
    if (freed) return;
    for (int i = 0; i < n; i++)
        if (it->thread[i].state == AT_BARRIER && waiting != n)
            broken(&it->thread[i], left ? "a barrier that some threads left out" : "threads are at different barriers");
    for (int i = 0; i < n; i++) it->thread[i].state = RUNS;
}

/* The first thread of all that waits lets the predecessor be executed. */
static void follow(void)
{
    it->thread[it->now.thread].followed = true;
    if (it->overlaps) suspend(AT_FOLLOW, NULL, 0);
}

/* false: a thread waits for the predecessor; the others have not gone further. */
static bool run_block(int n)
{
    for (;;) {
        int left = 0;
        for (int i = 0; i < n; i++) {
            coroutine *c = &it->thread[i];
            if (c->state == RUNS) {
                it->now.thread = i;
                emulator_switch(&it->scheduler, c->sp);
            }
            if (c->state == AT_FOLLOW) {
                c->state = RUNS;
                return false;
            }
            left += c->state == LEFT;
        }
        if (left == n) return true;
        release(n);
    }
}

static void new_block(void)
{
    if (it->memory) memset(it->memory, 0xCD, it->launch.shared); /* as undefined as on the device */
    for (int i = 0; i < it->launch.threads; i++) prepare(&it->thread[i]);
}

static void finish(running *r)
{
    it = r;
    *it->at = &it->now;
    while (run_block(it->launch.threads) && ++it->now.block < it->launch.blocks) new_block();
    free(it->memory);
    it->memory = NULL;
}

void emulator_finish_launch(void)
{
    running *r = held;
    held = NULL;
    if (r) finish(r);
}

static void touched(int signal)
{
    (void)signal;
    wrong("uses global memory before it waits for the kernel in front of it");
}

/* Up to the wait, without the device's memory; then the predecessor is executed. */
static void begin_early(void)
{
    struct sigaction before, trap = { .sa_handler = touched };
    running *r = it;
    sigaction(SIGSEGV, &trap, &before);
    emulator_protect(true);
    (void)run_block(it->launch.threads); /* a thread that ends without a wait ends the program */
    emulator_protect(false);
    sigaction(SIGSEGV, &before, NULL);
    emulator_finish_launch();
    r->overlaps = false;
    held = r;
}

void emulator_run(const emulator_launch *l, struct ot_emulated **at)
{
    if (!l->overlaps) emulator_finish_launch();
    it = held == two ? two + 1 : two;
    it->launch = *l;
    it->memory = l->shared ? aligned_alloc(64, (l->shared + 63) / 64 * 64) : NULL;
    it->overlaps = l->overlaps;
    it->at = at;
    if (l->threads < 1 || l->threads > MOST || (l->shared && !it->memory)) {
        fprintf(stderr, "emulator: %d threads, %zu bytes of shared memory\n", l->threads, l->shared);
        abort();
    }
    it->now = (ot_emulated){ .blocks = l->blocks,
                             .threads = l->threads,
                             .shared = it->memory,
                             .barrier = barrier,
                             .exchange = exchange,
                             .follow = follow };
    *at = &it->now;
    new_block();
    if (l->overlaps) begin_early();
    else held = it; /* the next one may begin before */
}
