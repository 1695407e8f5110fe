/* SPDX-License-Identifier: MIT
 * What the kernels of plain loops share: an operation whose operands and results lie densely, lines of its elements as
 * doubles (which hold every element type that the driver has), and ranges of work cut in tasks that do not depend on the
 * number of threads.
 */
#ifndef CPU_PLAN_DENSE_H
#define CPU_PLAN_DENSE_H

#include "drivers/cpu/plan/emit.h"

enum { CPU_DENSE_IN = 4, CPU_DENSE_OUT = 4 };

/* Used while the operation is planned; `in` of a parameter that was left out has buffer -1. */
typedef struct cpu_dense {
    int in_count, out_count;
    cpu_view in[CPU_DENSE_IN], out[CPU_DENSE_OUT], want[CPU_DENSE_OUT];
} cpu_dense;

/* Finds or makes dense operands (names, NULL behind the last) and dense room for the results. */
PROPANE_CHECK propane_status cpu_dense_begin(planner *p, const mil_op *op, const char *const *params, cpu_dense *d,
                                             propane_error *err);
/* Adds the step, and copies of the results that belong elsewhere. Scratch is asked for between the two. */
PROPANE_CHECK propane_status cpu_dense_end(planner *p, const mil_op *op, const cpu_dense *d, cpu_step_run run,
                                           const void *args, const char *kind, double flops, propane_error *err);
/* Where the operation stands, for messages of the run; NULL: no memory. */
const char *cpu_dense_where(planner *p, const mil_op *op);

/* Elements at, at + step, ... as doubles, and back, rounded and kept in range as mil_pack_f64 does. */
void cpu_dense_load(double *to, mil_dtype dtype, const void *from, int64_t at, int64_t step, int64_t count);
void cpu_dense_store(void *to, mil_dtype dtype, int64_t at, int64_t step, const double *from, int64_t count);

/* work(context, first, last, worker) over parts of 0 .. count-1 of at most `part` each. */
typedef void (*cpu_dense_work)(const void *context, int64_t first, int64_t last, int worker);
void cpu_dense_each(const cpu_run *run, int64_t count, int64_t part, cpu_dense_work work, const void *context);
/* A part that comes to some 32768 elements, of which each piece of the range has `each`. */
int64_t cpu_dense_part(int64_t each);

#endif
