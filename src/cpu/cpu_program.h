/* SPDX-License-Identifier: MIT
 * What runs: an array of steps over buffers, and where each buffer lies. The planner (plan/plan.h) makes it once, at
 * compile time; cpu_program_run then walks the steps and allocates nothing but lists that grow. Steps know this header
 * and no planner.
 *
 * Owns the constants of a program and, where a step reads its operation when it runs, the planner's module. Everything
 * else lies in the arena that the planner was given. Threads: one run of a program at a time.
 */
#ifndef CPU_CPU_PROGRAM_H
#define CPU_CPU_PROGRAM_H

#include "core/base/arena.h"
#include "core/device/driver.h"

typedef struct cpu_run {
    unsigned char *const *base;  /* of each buffer of the plan */
    int threads;                 /* at most that many at once; 0: all of the pool */
    const struct cpu_step *next; /* the step behind the one that runs; NULL: it is the last */
} cpu_run;

typedef struct cpu_ref {
    int buffer;
    int64_t byte;
} cpu_ref;

static inline void *cpu_ref_at(const cpu_run *run, cpu_ref r) { return run->base[r.buffer] + r.byte; }

/* pool_run with no more than run->threads tasks at once. */
void cpu_run_parallel(const cpu_run *run, void (*task)(void *context, int task, int worker), void *context, int count);

typedef propane_status (*cpu_step_run)(const cpu_run *run, const void *args, propane_error *err);

typedef struct cpu_step {
    cpu_step_run run;
    const void *args;
    const char *kind;  /* "gemm", "tile", "copy", "gather", "im2col", "reference" */
    const char *name;  /* of the value that it makes */
    const char *stage; /* of the operation; NULL: none */
    double flops, bytes;
    int64_t runs, ns; /* the profile: counted while cpu_program.profile is on */
} cpu_step;

typedef enum cpu_storage { CPU_STORAGE_INPUT, CPU_STORAGE_OUTPUT, CPU_STORAGE_CONST, CPU_STORAGE_TEMP } cpu_storage;

typedef struct cpu_buffer {
    cpu_storage place;
    int index; /* which input or output */
    int64_t bytes;
    const void *data; /* CPU_STORAGE_CONST */
    int64_t offset;   /* CPU_STORAGE_TEMP: in the block; CPU_STORAGE_CONST: in the constants */
    int first, last;  /* the steps that touch it first and last; first > last: none */
    int alias;        /* CPU_STORAGE_TEMP: uses that buffer's memory (in place), maybe an output's; -1: its own */
} cpu_buffer;

/* How often a rule of fuse/ fired when the program was planned. */
typedef struct cpu_fusion {
    const char *name;
    int count;
} cpu_fusion;

typedef struct cpu_program {
    arena *arena;
    mil_module *module; /* the planner's copy, kept where reference steps read it; else NULL */
    int buffer_count, step_count;
    cpu_buffer *buffers;
    cpu_step *steps;
    unsigned char **base; /* [buffer_count]; constants are filled in, the rest at each run */
    int64_t block_bytes;  /* what a run needs besides inputs and outputs */
    void *constants;
    size_t constant_bytes;
    int threads;         /* asked for by the options; 0: the pool's */
    int planned_threads; /* for which there is scratch */
    bool profile;
    bool poison; /* tests: fill dead memory with NaN before the run and after each step */
    bool guard;  /* tests: as in the options */
    int tile_count, gemm_count, attention_count, copy_count, reference_count, fused_ops; /* what the plan came to */
    int gemv_count;    /* products of weights and a few vectors */
    int shared_count;  /* products that read B as one before has packed it */
    int squares_count; /* products that add up the squares of what they make */
    int fusion_count;
    cpu_fusion *fusions;
    int input_count, output_count;
    propane_io *inputs, *outputs;
    driver_share *shares; /* as in driver_program */
    int share_count;
    void **in, **out;                     /* room for the addresses of one run */
    struct cpu_program *inside, *outside; /* programs of blocks that it runs; the next of those that `outside` runs */
    struct cpu_list *lists;               /* of its operations (cpu_list.h) */
} cpu_program;

#define CPU_PROGRAM_GUARD 8192 /* bytes behind each buffer of the block, where the options ask for guards */

/* Everything but the arena. */
void cpu_program_deinit(cpu_program *program);
/* `block` has block_bytes, 64-byte aligned. One run of a program at a time. */
PROPANE_CHECK propane_status cpu_program_run(cpu_program *program, void *block, void *const *inputs,
                                             void *const *outputs, propane_error *err);
/* Whether two buffers that live at the same time share memory: a broken plan. For tests. */
PROPANE_CHECK propane_status cpu_program_memory_check(const cpu_program *program, propane_error *err);
/* "no memory for the plan of a program" */
propane_status cpu_program_no_memory(propane_error *err);

#endif
