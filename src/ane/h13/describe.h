/* SPDX-License-Identifier: MIT
 * Describes compiled programs for people and for other programs: as text, word by word, as JSON, and by their
 * differences.
 */
#ifndef ANE_H13_DESCRIBE_H
#define ANE_H13_DESCRIBE_H

#include "ane/h13/object.h"
#include "core/base/text.h"

/* Prints the container, the surfaces with their roles, and each task in words. `words` adds every register by field. */
void engine_describe(const engine_object *o, bool words, text *out);
void engine_describe_task(const engine_object *o, const engine_task *t, text *out); /* one line, no newline */
void engine_describe_json(const engine_object *o, text *out);
/* Prints the fields that differ, task by task, and returns the number of words that differ, including words of
 * constants. If the tasks of either program are not decoded to the form of H13, compares them by the names of
 * later.def. */
int engine_describe_difference(const engine_object *a, const engine_object *b, text *out);
/* Returns how many header words and registers differ between two tasks. A register that only one task writes counts as
 * different. Prints a line for each difference to `out`, unless it is NULL; each line begins with `indent`. */
int engine_task_difference(const engine_task *a, const engine_task *b, const char *indent, text *out);

#endif
