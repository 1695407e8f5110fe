/* SPDX-License-Identifier: MIT
 * The states of a session: where each is read, where its content is after a run, and the copy back for the next run.
 */
#ifndef CORE_RUN_SESSION_STATES_H
#define CORE_RUN_SESSION_STATES_H

#include "core/run/session_program.h"

/* Notes the states of the session's function, by name. */
PROPANE_CHECK propane_status session_states_note(session *s, propane_error *err);
/* Locates the states in s->run. Must be called whenever s->run is new. */
PROPANE_CHECK propane_status session_states_place(session *s, propane_error *err);
void session_states_free(session *s);
bool session_is_state(const session *s, const char *name);
/* Returns the state whose content output `at` (counted after the inputs) holds after the run; NULL if none. */
const char *session_state_of(const session *s, int at);
/* Copies what the run left in the states to their inputs, for the next run. */
PROPANE_CHECK propane_status session_states_carry(session *s, propane_error *err);

#endif
