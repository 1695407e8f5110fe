/* SPDX-License-Identifier: MIT
 * Tasks of H14 (A15, M2) to and from the form of H13. Both engines compute alike: dimensions, on-chip buffer, planar and
 * neural engine have the same words at other addresses, and the rows of later.def say which. A program for H14 is
 * therefore lowered as one for H13, its tasks are written as words of H14, and what is executed is read back from those
 * words.
 *
 * How programs of Apple's compiler are written, all of it inferred from paired programs for both chips
 * (joshuaswarren/mil-hwx-compiler research/h14-td-fields.md, research/oracles/h14, plugins/H14):
 *
 *   stream   16 zero bytes, then the tasks, each at a multiple of 16 bytes
 *   task     header, kernel, common, source, l2, pe or ne, result, fill, then the addresses with their base registers
 *   fill     two words that write nothing of use, as often as it takes for the task not to end at a multiple of 64 bytes
 *   absent   a register that no record writes holds its value of later.def, or 0; it keeps nothing of the task before
 *   tag      the DMAs' words have the task's number at bit 16; the kernel's first word has it plus 1
 *   table    an activation's table alone is no kernel: it has a stream of its own, for all lanes
 */
#ifndef ANE_H13_H14_H
#define ANE_H13_H14_H

#include "ane/h13/task.h"

/* More tasks would not have different tags. */
enum { H14_TASKS_MAX = 255, H14_PREFIX = 16 };

/* Writes tasks that are complete in the form of H13, headers included, as text of H14 in the arena. What no published
 * program shows is PROPANE_ERR_UNSUPPORTED: "H14: no evidence for ...". */
PROPANE_CHECK propane_status engine_h14_write(const engine_task *tasks, int count, arena *a, const uint8_t **text,
                                              uint64_t *bytes, propane_error *err);
/* The tasks of such a text in the form of H13. All registers count as written. Their headers have TID, ExeCycles, events,
 * base registers and DTID; the rest is 0. */
PROPANE_CHECK propane_status engine_h14_read(const uint8_t *text, uint64_t bytes, arena *a, engine_task **tasks,
                                             int *count, propane_error *err);
/* Which 64 KiB units of the on-chip buffer hold values that are used once a task has begun: bit i for unit i. */
void engine_h14_live(const engine_task *tasks, int count, uint32_t *live);

#endif
