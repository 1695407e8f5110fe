/* SPDX-License-Identifier: MIT
 * What kernels of plain loops share: lines of dense elements as doubles (which hold every element type that the driver
 * has), and ranges of work cut in tasks that do not depend on the number of threads.
 */
#ifndef CPU_LOOP_DENSE_H
#define CPU_LOOP_DENSE_H

#include "cpu/cpu_view.h"

/* Elements at, at + step, ... as doubles, and back, rounded and kept in range as mil_pack_f64 does. */
void cpu_dense_load(double *to, mil_dtype dtype, const void *from, int64_t at, int64_t step, int64_t count);
void cpu_dense_store(void *to, mil_dtype dtype, int64_t at, int64_t step, const double *from, int64_t count);

/* work(context, first, last, worker) over parts of 0 .. count-1 of at most `part` each. */
typedef void (*cpu_dense_work)(const void *context, int64_t first, int64_t last, int worker);
void cpu_dense_each(const cpu_run *run, int64_t count, int64_t part, cpu_dense_work work, const void *context);
/* A part that comes to some 32768 elements, of which each piece of the range has `each`. */
int64_t cpu_dense_part(int64_t each);

#endif
