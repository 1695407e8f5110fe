/* SPDX-License-Identifier: MIT
 * Places many spans in one block of memory. Each is needed from one step to another, and spans needed in the same step
 * never overlap. The largest are placed first, each in the smallest gap that holds it; beyond 8,192 spans, the earliest
 * are.
 */
#ifndef CORE_BASE_OFFSET_PLANNER_H
#define CORE_BASE_OFFSET_PLANNER_H

#include "core/base/status.h"

typedef struct fit_span {
    int first, last; /* the steps that need it, both included */
    int64_t bytes;
    int64_t offset; /* the answer, a multiple of `align` */
} fit_span;

/* *bytes is the size of the block. The same spans always get the same offsets. */
PROPANE_CHECK propane_status fit_spans(fit_span *spans, int count, int64_t align, int64_t *bytes, propane_error *err);

#endif
