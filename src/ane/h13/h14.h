/* SPDX-License-Identifier: MIT
 * Converts tasks of H14 (A15, M2) to and from the form of H13. Both engines compute alike: the words of dimensions,
 * on-chip buffer, planar and neural engine are the same at other addresses. The rows of later.def map these words. So a
 * program for H14 is lowered like a program for H13, and its tasks are then written as words of H14. For execution, the
 * tasks are read back from those words.
 *
 * Apple's compiler writes programs for H14 in the following form. All of it was inferred from programs published for
 * both chips (joshuaswarren/mil-hwx-compiler research/h14-td-fields.md, research/oracles/h14, plugins/H14):
 *
 *   stream   16 zero bytes, then the tasks, each at a multiple of 16 bytes
 *   task     header, kernel, common, source, l2, pe or ne, result, fill, then the addresses with their base registers
 *   fill     two words that write nothing useful, repeated while the next task would start at a multiple of 64 bytes
 *   absent   a register without a record has its value in later.def, or 0; it does not keep a previous task's value
 *   tag      the DMAs' words have the task's number at bit 16; the kernel's first word has that number plus 1
 *   table    if a task has an activation's table but no kernel, a separate stream fetches the table for all lanes
 */
#ifndef ANE_H13_H14_H
#define ANE_H13_H14_H

#include "ane/h13/task.h"

/* With more than H14_TASKS_MAX tasks, tags would repeat. */
enum { H14_TASKS_MAX = 255, H14_PREFIX = 16 };

/* Converts complete tasks in the form of H13, including headers, to text of H14 in the arena. Returns
 * PROPANE_ERR_UNSUPPORTED for a form that no published program shows, and for more than H14_TASKS_MAX tasks. */
PROPANE_CHECK propane_status engine_h14_write(const engine_task *tasks, int count, arena *a, const uint8_t **text,
                                              uint64_t *bytes, propane_error *err);
/* Converts text of H14 to tasks in the form of H13. All registers count as written. Headers hold TID, ExeCycles,
 * events, base registers, ENE and DTID; their other fields are 0. */
PROPANE_CHECK propane_status engine_h14_read(const uint8_t *text, uint64_t bytes, arena *a, engine_task **tasks,
                                             int *count, propane_error *err);
/* Sets live[i] to the 64 KiB units of the on-chip buffer that hold a value during task i: bit u for unit u, of the
 * first 24. A value is live from the task that writes it to the last task that reads it. live[count - 1] is 0. */
void engine_h14_live(const engine_task *tasks, int count, uint32_t *live);

#endif
