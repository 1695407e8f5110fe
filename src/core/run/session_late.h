/* SPDX-License-Identifier: MIT
 * Sessions of programs whose shapes depend on values that only a run can compute (core/mil/specialize.h). Such a
 * session works in stages: each stage's program computes the values that are needed next. Once all are known, the whole
 * program is planned with them. The plan is kept as long as later runs produce the same values.
 */
#ifndef CORE_RUN_SESSION_LATE_H
#define CORE_RUN_SESSION_LATE_H

#include "core/run/session_program.h"

/* Opens the first stage. The session then has inputs, but no outputs before a run. */
PROPANE_CHECK propane_status session_late_open(session *s, propane_error *err);
/* Runs the stages, and plans the whole program for the current values of the inputs unless the plan still fits. */
PROPANE_CHECK propane_status session_late_settle(session *s, propane_error *err);
void session_late_close(session *s);

#endif
