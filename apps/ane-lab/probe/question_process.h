/* SPDX-License-Identifier: MIT
 * Runs one question of the probe in a separate process. An engine may answer with a crash or a hang, and a process that
 * has used the framework must not fork (C4). However the process ends, what it has written is part of the answer.
 */
#ifndef APPS_ANE_LAB_PROBE_QUESTION_PROCESS_H
#define APPS_ANE_LAB_PROBE_QUESTION_PROCESS_H

#include "core/base/json.h"

/* Starts this program again to ask the question, and waits for at most `seconds`. Returns an object with "answer",
 * "ended" ("answered", "failed", "crashed", "time limit", "interrupted"), and the notes, exception, signal and standard
 * error of the process. TMPDIR is unchanged. Release the object with json_decref. */
json_t *question_ask_elsewhere(const char *uri, const char *id, int seconds);
/* Returns whether this process was started to ask a question. */
bool question_is_child(void);
/* Must be called once in such a process. From then on, the process and its group are killed when the parent ends. */
void question_begin_child(void);

#endif
