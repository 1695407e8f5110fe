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
void engine_describe_task(const engine_object *o, const engine_task *t, text *out); /* one line without its end */
void engine_describe_json(const engine_object *o, text *out);
/* Prints the fields that differ, task by task, and returns the number of different words, including those of constants.
 * Tasks of generations that are not executed are compared by the names of later.def. */
int engine_describe_difference(const engine_object *a, const engine_object *b, text *out);
/* Compares the words of two tasks, header and registers. A register that only one of them writes differs. Prints
 * lines, each after `indent`, to `out`, which may be NULL. */
int engine_task_difference(const engine_task *a, const engine_task *b, const char *indent, text *out);

#endif
