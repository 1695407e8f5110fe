/* SPDX-License-Identifier: MIT
 * The one harness for requests of memory that fail: an attempt is made again and again, each time with another request
 * failing, once by itself and once with all that come after it. What it must do then is asked here and nowhere else.
 */
#ifndef TESTS_SUPPORT_FAILING_H
#define TESTS_SUPPORT_FAILING_H

#include "core/base/status.h"
#include "core/base/text.h"

/* One attempt. What it made goes into `result` as text (a hash, a listing, files that it read back), and is freed
 * again: the attempt leaves no block behind, whatever failed. */
typedef propane_status (*failing_attempt)(void *context, text *result, propane_error *err);

/* Every point: the status is PROPANE_ERR_MEMORY and the sentence says memory, or it went well and the result is that of
 * an attempt without failures; no block is left. Returns how many points were tried. With TEST_HARD in the environment:
 * of the requests that one chain of calls makes, TEST_STACKS (2; 0: all). Else about 200, chosen by TEST_SEED (a
 * number; 1 if it is not set). */
int test_each_failing_allocation(const char *name, failing_attempt attempt, void *context);

#endif
