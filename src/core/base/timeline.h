/* SPDX-License-Identifier: MIT
 * Records what ran when, in lanes, and writes a file for Perfetto and chrome://tracing. Recording takes a lock and
 * negligible time. Only the first TIMELINE_MOST spans are recorded.
 */
#ifndef CORE_BASE_TIMELINE_H
#define CORE_BASE_TIMELINE_H

#include <stdint.h>

#include "core/base/status.h"

#define TIMELINE_MOST 200000

/* Lanes of the timeline. */
typedef enum timeline_lane {
    TIMELINE_DEVICE,     /* the device's queue */
    TIMELINE_HOST_QUEUE, /* the host's own queue: weight gradient matmuls */
    TIMELINE_HOST,       /* the thread that trains: embedding, loss, norm, packing */
    TIMELINE_UPDATE,     /* AdamW */
    TIMELINE_CONVERT,    /* weights converted to other formats */
    TIMELINE_LANES
} timeline_lane;

typedef struct timeline timeline;

PROPANE_CHECK propane_status timeline_create(timeline **out, propane_error *err);
void timeline_free(timeline *t);
/* Adds a span from any thread. `name` must live until the file is written. `part` distinguishes spans with the same
 * name; it is negative if there is only one. Times are from core/base/clock.h. Does nothing if t is NULL. */
void timeline_add(timeline *t, timeline_lane lane, const char *name, int part, int64_t begin_ns, int64_t end_ns);
/* Like timeline_add, for a request that first waited in a queue. */
void timeline_add_queued(timeline *t, timeline_lane lane, const char *name, int part, int64_t submitted_ns,
                         int64_t begin_ns, int64_t end_ns);
/* Writes what is recorded so far, replacing an existing file. */
PROPANE_CHECK propane_status timeline_write(timeline *t, const char *path, propane_error *err);

#endif
