/* SPDX-License-Identifier: MIT
 * When a finished request was submitted, began and ended, by the host's clock (core/base/clock.h). For traces.
 */
#ifndef CORE_DEVICE_REQUEST_TIMES_H
#define CORE_DEVICE_REQUEST_TIMES_H

#include "propane.h"

typedef struct request_times {
    int64_t submitted_ns, began_ns, ended_ns; /* it begins when the events that it waits for have arrived */
} request_times;

/* Returns the times of the request's last run, which has been waited for. */
request_times request_times_of(const propane_request *request);

#endif
