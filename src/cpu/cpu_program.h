/* SPDX-License-Identifier: MIT
 * A compiled program: an array of steps over buffers, and the place of each buffer. The planner (plan/plan.h) creates a
 * program once, at compile time. cpu_program_run then walks the steps and allocates only when lists grow. Steps include
 * this header but no planner.
 *
 * A program owns its constants, its lists, the programs of its blocks and, if a step reads its operation at run time,
 * the planner's module. Everything else is in the arena that the planner received. One thread at a time may run a
 * program.
 */
#ifndef CPU_CPU_PROGRAM_H
#define CPU_CPU_PROGRAM_H

#include "core/base/arena.h"
#include "core/device/driver.h"

typedef struct cpu_run {
    unsigned char *const *base;  /* address of each buffer of the plan */
    int threads;                 /* most threads at once; 0 means all of the pool */
    const struct cpu_step *next; /* the step after the one that runs; NULL if it is the last */
} cpu_run;

typedef struct cpu_ref {
    int buffer;
    int64_t byte;
} cpu_ref;

static inline void *cpu_ref_at(const cpu_run *run, cpu_ref r) { return run->base[r.buffer] + r.byte; }

/* Runs the tasks as pool_run does, but at most run->threads at once. */
void cpu_run_parallel(const cpu_run *run, void (*task)(void *context, int task, int worker), void *context, int count);

typedef propane_status (*cpu_step_run)(const cpu_run *run, const void *args, propane_error *err);

typedef struct cpu_step {
    cpu_step_run run;
    const void *args;
    const char *kind;  /* "gemm", "tile", "copy", "gather", "im2col", "reference", ... */
    const char *name;  /* of the value that the step makes */
    const char *stage; /* stage of the operation; NULL if none */
    double flops, bytes;
    int64_t runs, ns; /* the profile, counted while cpu_program.profile is on */
} cpu_step;

typedef enum cpu_storage { CPU_STORAGE_INPUT, CPU_STORAGE_OUTPUT, CPU_STORAGE_CONST, CPU_STORAGE_TEMP } cpu_storage;

typedef struct cpu_buffer {
    cpu_storage place;
    int index; /* CPU_STORAGE_INPUT, CPU_STORAGE_OUTPUT: which one */
    int64_t bytes;
    const void *data; /* CPU_STORAGE_CONST */
    int64_t offset;   /* in bytes; CPU_STORAGE_TEMP: in the block; CPU_STORAGE_CONST: in the constants */
    int first, last;  /* the first and last step that touch the buffer; first > last if none does */
    int alias;        /* CPU_STORAGE_TEMP: the buffer whose memory this one uses, perhaps an output; -1 if none */
} cpu_buffer;

/* How often a rule of fuse/ was applied during planning. */
typedef struct cpu_fusion {
    const char *name;
    int count;
} cpu_fusion;

typedef struct cpu_program {
    arena *arena;
    mil_module *module; /* the planner's copy, kept if reference steps read it; else NULL */
    int buffer_count, step_count;
    cpu_buffer *buffers;
    cpu_step *steps;
    unsigned char **base; /* [buffer_count]; constants are set once, the rest at each run */
    int64_t block_bytes;  /* bytes of memory for scratch and for values between inputs and outputs */
    void *constants;
    size_t constant_bytes;
    int threads;         /* from the options; 0 means the pool's */
    int planned_threads; /* the pool's threads at compile time, for which scratch memory was planned */
    bool profile;
    bool poison; /* tests: fill dead memory with NaN before the run and after each step */
    bool guard;  /* tests: check the bytes after each buffer, as in the options */
    int tile_count, gemm_count, attention_count, copy_count, reference_count, fused_ops; /* totals of the plan */
    int gemv_count;    /* products of weights with a few vectors */
    int shared_count;  /* products that read B as an earlier product packed it */
    int squares_count; /* products that also sum the squares of their results */
    int fusion_count;
    cpu_fusion *fusions;
    int input_count, output_count;
    propane_io *inputs, *outputs;
    driver_share *shares; /* as in driver_program */
    int share_count;
    void **in, **out; /* room for the addresses of one run */
    /* inside: list of the programs of this one's blocks; outside: next program in such a list */
    struct cpu_program *inside, *outside;
    struct cpu_list *lists; /* the lists of its operations (cpu_list.h) */
} cpu_program;

#define CPU_PROGRAM_GUARD 8192 /* bytes after each buffer of the block if the options request guards */

/* Frees everything but the arena. Ignores NULL. */
void cpu_program_deinit(cpu_program *program);
/* Runs the program. `block` has block_bytes and is 64-byte aligned. One thread at a time may run a program. */
PROPANE_CHECK propane_status cpu_program_run(cpu_program *program, void *block, void *const *inputs,
                                             void *const *outputs, propane_error *err);
/* Fails if two buffers that live at the same time share memory, which means a broken plan. For tests. */
PROPANE_CHECK propane_status cpu_program_memory_check(const cpu_program *program, propane_error *err);
/* Fails because there is no memory for the plan of a program. */
propane_status cpu_program_no_memory(propane_error *err);

#endif
