/* SPDX-License-Identifier: MIT
 * The single harness for failing memory requests. An attempt is repeated, each time with another request failing, once
 * alone and once with all later ones. Only this harness checks what must happen then.
 */
#ifndef TESTS_SUPPORT_FAILING_H
#define TESTS_SUPPORT_FAILING_H

#include "core/base/status.h"
#include "core/base/text.h"

/* One attempt. It writes its results to `result` as text (a hash, a listing, files that it read back) and frees
 * them again. It leaves no block allocated, whatever failed. */
typedef propane_status (*failing_attempt)(void *context, text *result, propane_error *err);

/* Tests every point. Either the status is PROPANE_ERR_MEMORY and the message mentions memory, or the attempt succeeds
 * with the same result as without failures; no block is left. Returns the number of points tried. With TEST_HARD in the
 * environment, these are TEST_STACKS (2; 0 means all) of the requests that one chain of calls makes. Otherwise they are
 * about 200, chosen by TEST_SEED (a number, 1 if unset). */
int test_each_failing_allocation(const char *name, failing_attempt attempt, void *context);

#endif
