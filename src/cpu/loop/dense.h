/* SPDX-License-Identifier: MIT
 * Helpers for kernels of plain loops: lines of dense elements as doubles (which hold every element type of the driver),
 * and ranges of work divided into tasks independently of the number of threads.
 */
#ifndef CPU_LOOP_DENSE_H
#define CPU_LOOP_DENSE_H

#include "cpu/cpu_view.h"

/* cpu_dense_load loads `count` elements at, at + step, ... as doubles. cpu_dense_store stores doubles there, rounded
 * and clamped as mil_pack_f64 does. */
void cpu_dense_load(double *to, mil_dtype dtype, const void *from, int64_t at, int64_t step, int64_t count);
void cpu_dense_store(void *to, mil_dtype dtype, int64_t at, int64_t step, const double *from, int64_t count);

/* Calls work(context, first, last, worker) for ranges [first, last) of at most `part` items that together cover 0 ..
 * count-1. */
typedef void (*cpu_dense_work)(const void *context, int64_t first, int64_t last, int worker);
void cpu_dense_each(const cpu_run *run, int64_t count, int64_t part, cpu_dense_work work, const void *context);
/* Returns how many items of `each` elements form a part of about 32768 elements; at least 1. */
int64_t cpu_dense_part(int64_t each);

#endif
