/* SPDX-License-Identifier: MIT
 * Places spans in one block of memory. Each span is needed from one step to another, and spans needed in the same step
 * never overlap. The largest are placed first, each in the smallest gap that holds it. If there are more than 8,192
 * spans, the earliest are placed first.
 */
#ifndef CORE_BASE_OFFSET_PLANNER_H
#define CORE_BASE_OFFSET_PLANNER_H

#include "core/base/status.h"

typedef struct fit_span {
    int first, last; /* the first and the last step that need the span */
    int64_t bytes;
    int64_t offset; /* set by fit_spans; a multiple of `align` */
} fit_span;

/* Sets the offset of each span, and *bytes to the size of the block. The same spans always get the same offsets. */
PROPANE_CHECK propane_status fit_spans(fit_span *spans, int count, int64_t align, int64_t *bytes, propane_error *err);

#endif
