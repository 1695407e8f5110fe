/* SPDX-License-Identifier: MIT
 * When a request that is done was submitted, began and ended, by the host's clock (core/base/clock.h): for traces.
 */
#ifndef CORE_DEVICE_REQUEST_TIMES_H
#define CORE_DEVICE_REQUEST_TIMES_H

#include "propane.h"

typedef struct request_times {
    int64_t submitted_ns, began_ns, ended_ns; /* it begins when the events have come that it waits for */
} request_times;

/* Of its last run, which has been waited for. */
request_times request_times_of(const propane_request *request);

#endif
