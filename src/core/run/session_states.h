/* SPDX-License-Identifier: MIT
 * The states of a session: where each is read, where its content after a run is, and the copy from there for the next run.
 */
#ifndef CORE_RUN_SESSION_STATES_H
#define CORE_RUN_SESSION_STATES_H

#include "core/run/session_program.h"

/* The states of the session's function, by name. */
PROPANE_CHECK propane_status session_states_note(session *s, propane_error *err);
/* Where they are in s->run: to be called whenever that is new. */
PROPANE_CHECK propane_status session_states_place(session *s, propane_error *err);
void session_states_free(session *s);
bool session_is_state(const session *s, const char *name);
/* The state whose content output `at` (counted after the inputs) holds after the run; NULL: none's. */
const char *session_state_of(const session *s, int at);
/* What the run left, for the next one. */
PROPANE_CHECK propane_status session_states_carry(session *s, propane_error *err);

#endif
