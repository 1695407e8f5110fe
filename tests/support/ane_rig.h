/* SPDX-License-Identifier: MIT
 * Where the tests of the ane driver find the stand-in, a TMPDIR of their own, so that what is left in it can be
 * counted, and an empty cache of the user.
 */
#ifndef TESTS_SUPPORT_ANE_RIG_H
#define TESTS_SUPPORT_ANE_RIG_H

#include <stdbool.h>

/* Sets PROPANE_ANE_LIBRARY, TMPDIR and XDG_CACHE_HOME; false: there is no stand-in beside the test program. */
bool ane_rig_enter(const char *program);
void ane_rig_leave(void);

/* The stand-in's switches and counters (tests/standin/standin.h). */
void ane_rig_set(const char *key, const char *value);
long ane_rig_get(const char *counter);
/* Ends the test where anything is wrong or left: violations, objects (all but the driver's empty dictionary), surfaces,
 * programs, locks, pools. */
void ane_rig_expect_nothing_left(void);

#endif
