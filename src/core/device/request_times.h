/* SPDX-License-Identifier: MIT
 * The times at which a finished request was submitted, began and ended, by the host's clock (core/base/clock.h). They
 * are for traces.
 */
#ifndef CORE_DEVICE_REQUEST_TIMES_H
#define CORE_DEVICE_REQUEST_TIMES_H

#include "propane.h"

typedef struct request_times {
    int64_t submitted_ns, began_ns, ended_ns; /* a request begins when its events have arrived */
} request_times;

/* Returns the times of the request's last run. The caller has waited for that run. */
request_times request_times_of(const propane_request *request);

#endif
