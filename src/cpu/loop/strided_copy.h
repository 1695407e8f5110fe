/* SPDX-License-Identifier: MIT
 * Copies boxes of elements between layouts, without conversion.
 */
#ifndef CPU_LOOP_STRIDED_COPY_H
#define CPU_LOOP_STRIDED_COPY_H

#include "cpu/cpu_view.h"

typedef struct cpu_copy {
    cpu_ref from, to;
    int element;                                                                   /* bytes per element: 1, 2, 4 or 8 */
    int rank;                                                                      /* at least 2 */
    int64_t dim[MIL_MAX_RANK], from_stride[MIL_MAX_RANK], to_stride[MIL_MAX_RANK]; /* in elements */
    int64_t lines;                     /* product of all dimensions but the last two */
    int64_t rows_a_task, tasks_a_line; /* the second-to-last dimension is divided into tasks */
    int tasks;
} cpu_copy;

/* Fills in `c` for views of the same shape and element size. */
void cpu_copy_plan(cpu_copy *c, const cpu_view *from, const cpu_view *to);
propane_status cpu_copy_run(const cpu_run *run, const void *args, propane_error *err);

#endif
