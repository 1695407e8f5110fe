/* SPDX-License-Identifier: MIT
 * Sessions of programs whose shapes follow from values that only a run knows (core/mil/specialize.h). One idea: in
 * stages, a program gives the values that are wanted next; when all are known, the whole is planned with them, and
 * stays planned as long as they are the same at the next run.
 */
#ifndef CORE_RUN_SESSION_LATE_H
#define CORE_RUN_SESSION_LATE_H

#include "core/run/session_program.h"

/* The first stage: the session has inputs, and no outputs before a run. */
PROPANE_CHECK propane_status session_late_open(session *s, propane_error *err);
/* Plans for the values of the inputs as they are. */
PROPANE_CHECK propane_status session_late_settle(session *s, propane_error *err);
void session_late_close(session *s);

#endif
