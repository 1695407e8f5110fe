/* SPDX-License-Identifier: MIT
 * Runs one question of the probe in a separate process. An engine may answer with a crash or a hang, and a process that
 * has used the framework must not fork (C4). However the process ends, what it has written is an answer.
 */
#ifndef APPS_ANE_LAB_PROBE_QUESTION_PROCESS_H
#define APPS_ANE_LAB_PROBE_QUESTION_PROCESS_H

#include "core/base/json.h"

/* Starts this program again to ask the question, and waits for `seconds`. The answer is an object with "answer" and
 * "ended" ("answered", "failed", "crashed", "time limit", "interrupted"), the earlier notes of the process, its
 * exception, signal and standard error. TMPDIR is unchanged. */
json_t *question_ask_elsewhere(const char *uri, const char *id, int seconds);
/* Returns whether this is such a process. */
bool question_is_child(void);
/* Called in such a process: it then ends when its parent does, and the answer contains what it has found so far. */
void question_begin_child(void);

#endif
