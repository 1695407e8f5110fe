/* SPDX-License-Identifier: MIT
 * The environment of the ane driver's tests: the stand-in library, a separate TMPDIR, so that leftovers in it can be
 * counted, and an empty user cache.
 */
#ifndef TESTS_SUPPORT_ANE_RIG_H
#define TESTS_SUPPORT_ANE_RIG_H

#include <stdbool.h>

/* Sets PROPANE_ANE_LIBRARY, TMPDIR and XDG_CACHE_HOME. Returns false if there is no stand-in next to the test
 * program. */
bool ane_rig_enter(const char *program);
void ane_rig_leave(void);

/* Access the stand-in's switches and counters (tests/standin/standin.h). */
void ane_rig_set(const char *key, const char *value);
long ane_rig_get(const char *counter);
/* Fails the test if anything is wrong or left over: violations, objects (except the driver's empty dictionary),
 * surfaces, programs, locks, pools. */
void ane_rig_expect_nothing_left(void);

#endif
