/* map_move.c - copies broadcast and permuted operands of Map between memory and a tile. */

#include <string.h>

#include "ops/cpu/map.h"

/* The address of position k of the merged axes, run by run along the innermost axis. */
typedef struct walk {
    const cpu_map *m;
    const cpu_operand *o;
    int64_t at[OT_MAX_RANK], offset;
} walk;

static walk walk_from(const cpu_map *m, const cpu_operand *o, int64_t k)
{
    walk w = { .m = m, .o = o };
    for (int d = m->rank - 1; d >= 0; d--) {
        w.at[d] = k % m->dim[d];
        k /= m->dim[d];
        w.offset += w.at[d] * o->stride[d];
    }
    return w;
}

/* The next run: at most n elements, from w->offset on, the innermost stride apart. */
static int64_t walk_run(const walk *w, int64_t n)
{
    if (w->m->rank == 0) return n;
    int d = w->m->rank - 1;
    int64_t left = w->m->dim[d] - w->at[d];
    return left < n ? left : n;
}

static void walk_on(walk *w, int64_t run)
{
    int d = w->m->rank - 1;
    if (d < 0) return;
    w->at[d] += run;
    w->offset += run * w->o->stride[d];
    while (d > 0 && w->at[d] == w->m->dim[d]) {
        w->offset -= w->at[d] * w->o->stride[d];
        w->at[d--] = 0;
        w->at[d]++;
        w->offset += w->o->stride[d];
    }
}

static int64_t inner_stride(const walk *w) { return w->m->rank ? w->o->stride[w->m->rank - 1] : 0; }

/* Whole runs of a transposed operand, whose elements of consecutive runs are neighbours: 0 if it is none. */
static int64_t turned_runs(const walk *w, int64_t n)
{
    int d = w->m->rank - 1;
    if (d < 1 || w->at[d] != 0 || w->o->stride[d - 1] != 1 || w->o->stride[d] <= 1) return 0;
    int64_t runs = n / w->m->dim[d], left = w->m->dim[d - 1] - w->at[d - 1];
    return runs < left ? runs : left;
}

/* As walk_on() does after each of these runs. */
static void walk_over(walk *w, int64_t runs)
{
    int d = w->m->rank - 1;
    w->at[d - 1] += runs - 1;
    w->offset += runs - 1;
    walk_on(w, w->m->dim[d]);
}

#define MOVES(U)                                                                                   \
    static void fill_##U(U *y, U v, int64_t n)                                                     \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) y[i] = v;                                                  \
    }                                                                                              \
    /* Reads in the order of memory: lines that are a page apart share a set of the first-level cache. */ \
    static void turn_##U(const U *x, int64_t step, int64_t columns, int64_t rows, U *y)            \
    {                                                                                              \
        for (int64_t c = 0; c < columns; c++)                                                      \
            for (int64_t r = 0; r < rows; r++) y[r * columns + c] = x[c * step + r];               \
    }                                                                                              \
    static void gather_##U(walk w, const U *x, int64_t n, U *y)                                    \
    {                                                                                              \
        int64_t step = inner_stride(&w);                                                           \
        for (int64_t done = 0; done < n;) {                                                        \
            int64_t runs = turned_runs(&w, n - done), run = walk_run(&w, n - done);                \
            const U *from = x + w.offset;                                                          \
            if (runs > 1) {                                                                        \
                turn_##U(from, step, run, runs, y + done);                                         \
                walk_over(&w, runs);                                                               \
                done += runs * run;                                                                \
                continue;                                                                          \
            }                                                                                      \
            if (step == 0) fill_##U(y + done, *from, run);                                         \
            else if (step == 1) memcpy(y + done, from, (size_t)run * sizeof(U));                   \
            else                                                                                   \
                for (int64_t i = 0; i < run; i++) y[done + i] = from[i * step];                    \
            walk_on(&w, run);                                                                      \
            done += run;                                                                           \
        }                                                                                          \
    }                                                                                              \
    static void scatter_##U(walk w, U *y, int64_t n, const U *x)                                   \
    {                                                                                              \
        int64_t step = inner_stride(&w);                                                           \
        for (int64_t done = 0; done < n;) {                                                        \
            int64_t run = walk_run(&w, n - done);                                                  \
            U *to = y + w.offset;                                                                  \
            for (int64_t i = 0; i < run; i++) to[i * step] = x[done + i];                          \
            walk_on(&w, run);                                                                      \
            done += run;                                                                           \
        }                                                                                          \
    }
MOVES(uint8_t)
MOVES(uint16_t)
MOVES(uint32_t)
MOVES(uint64_t)

#define BY_SIZE(size, call)                                                                        \
    switch (size) {                                                                                \
    case 1: { typedef uint8_t U; call(uint8_t); break; }                                           \
    case 2: { typedef uint16_t U; call(uint16_t); break; }                                         \
    case 4: { typedef uint32_t U; call(uint32_t); break; }                                         \
    default: { typedef uint64_t U; call(uint64_t); break; }                                        \
    }

void cpu_map_gather(const cpu_map *m, const cpu_operand *o, const void *x, int64_t start, int64_t n, void *dense)
{
    walk w = walk_from(m, o, start);
#define CALL(type) gather_##type(w, (const U *)x, n, (U *)dense)
    BY_SIZE(o->size, CALL)
#undef CALL
}

void cpu_map_scatter(const cpu_map *m, const cpu_operand *o, void *y, int64_t start, int64_t n, const void *dense)
{
    walk w = walk_from(m, o, start);
#define CALL(type) scatter_##type(w, (U *)y, n, (const U *)dense)
    BY_SIZE(o->size, CALL)
#undef CALL
}

void cpu_map_fill(void *y, const void *one, int size, int64_t n)
{
#define CALL(type) fill_##type((U *)y, *(const U *)one, n)
    BY_SIZE(size, CALL)
#undef CALL
}

void cpu_map_index(const cpu_map *m, const cpu_operand *o, int64_t start, int64_t n, int64_t *position)
{
    walk w = walk_from(m, o, start);
    int64_t step = inner_stride(&w);
    for (int64_t done = 0; done < n;) {
        int64_t run = walk_run(&w, n - done);
        for (int64_t i = 0; i < run; i++) position[done + i] = w.offset + i * step;
        walk_on(&w, run);
        done += run;
    }
}
