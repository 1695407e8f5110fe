/* SPDX-License-Identifier: MIT
 * Converts tasks of H14 (A15, M2) to and from the form of H13. Both engines compute alike: the words of dimensions,
 * on-chip buffer, planar and neural engine are the same at other addresses, and the rows of later.def map them. So a
 * program for H14 is lowered as one for H13, and its tasks are written as words of H14. Execution reads it back from
 * those words.
 *
 * The form of programs by Apple's compiler, all inferred from paired programs for both chips
 * (joshuaswarren/mil-hwx-compiler research/h14-td-fields.md, research/oracles/h14, plugins/H14):
 *
 *   stream   16 zero bytes, then the tasks, each at a multiple of 16 bytes
 *   task     header, kernel, common, source, l2, pe or ne, result, fill, then the addresses with their base registers
 *   fill     two words that write nothing useful, repeated until the task does not end at a multiple of 64 bytes
 *   absent   a register that no record writes holds its value of later.def, or 0; it keeps nothing of the previous task
 *   tag      the DMAs' words have the task's number at bit 16; the kernel's first word has it plus 1
 *   table    an activation's table without a kernel has a separate stream, for all lanes
 */
#ifndef ANE_H13_H14_H
#define ANE_H13_H14_H

#include "ane/h13/task.h"

/* With more tasks, tags would repeat. */
enum { H14_TASKS_MAX = 255, H14_PREFIX = 16 };

/* Writes complete tasks in the form of H13, including headers, as text of H14 in the arena. Anything that no
 * published program shows is PROPANE_ERR_UNSUPPORTED: "H14: no evidence for ...". */
PROPANE_CHECK propane_status engine_h14_write(const engine_task *tasks, int count, arena *a, const uint8_t **text,
                                              uint64_t *bytes, propane_error *err);
/* Reads the tasks of such a text in the form of H13. All registers count as written. Headers hold TID, ExeCycles,
 * events, base registers and DTID; the rest is 0. */
PROPANE_CHECK propane_status engine_h14_read(const uint8_t *text, uint64_t bytes, arena *a, engine_task **tasks,
                                             int *count, propane_error *err);
/* Reports which 64 KiB units of the on-chip buffer hold values that are used after a task has begun: bit i for unit
 * i. */
void engine_h14_live(const engine_task *tasks, int count, uint32_t *live);

#endif
