/* SPDX-License-Identifier: MIT
 * Compiled programs for people and for other programs: as text, word by word, as JSON, and how two differ.
 */
#ifndef ANE_H13_DESCRIBE_H
#define ANE_H13_DESCRIBE_H

#include "ane/h13/object.h"
#include "core/base/text.h"

/* Container, surfaces with their roles, and each task in words. With `words`, every register by field under its
 * task. */
void engine_describe(const engine_object *o, bool words, text *out);
void engine_describe_task(const engine_object *o, const engine_task *t, text *out); /* one line without its end */
void engine_describe_json(const engine_object *o, text *out);
/* Names the fields that differ, task by task; returns how many words do. */
int engine_describe_difference(const engine_object *a, const engine_object *b, text *out);
/* Words of two tasks that differ, header and registers; a register written in one alone differs. The lines go to `out`
 * (may be NULL), each behind `indent`. */
int engine_task_difference(const engine_task *a, const engine_task *b, const char *indent, text *out);

#endif
