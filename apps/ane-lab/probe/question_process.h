/* SPDX-License-Identifier: MIT
 * One question of the probe in a process of its own: an engine's answer may be a crash or a hang, and a process that
 * has touched the framework must not fork (C4). One idea: whatever becomes of the process, what it has said is an
 * answer.
 */
#ifndef APPS_ANE_LAB_PROBE_QUESTION_PROCESS_H
#define APPS_ANE_LAB_PROBE_QUESTION_PROCESS_H

#include "core/base/json.h"

/* Starts this program again to ask it, and waits for `seconds`. The answer is an object with "answer" and "ended"
 * ("answered", "failed", "crashed", "time limit", "interrupted"), what the process noted before, its exception, signal
 * and standard error. TMPDIR stays as it is. */
json_t *question_ask_elsewhere(const char *uri, const char *id, int seconds);
/* Is this such a process? */
bool question_is_child(void);
/* In such a process: it ends when its parent does, and the answer contains what it has found so far. */
void question_begin_child(void);

#endif
