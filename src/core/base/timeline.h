/* SPDX-License-Identifier: MIT
 * What ran when, in lanes, as a file that Perfetto and chrome://tracing show. Recording takes a lock and no time to
 * speak of; after TIMELINE_MOST spans nothing more is recorded.
 */
#ifndef CORE_BASE_TIMELINE_H
#define CORE_BASE_TIMELINE_H

#include <stdint.h>

#include "core/base/status.h"

#define TIMELINE_MOST 200000

/* Rows of the image. */
typedef enum timeline_lane {
    TIMELINE_DEVICE,     /* the device's queue */
    TIMELINE_HOST_QUEUE, /* the host's own: products of weight gradients */
    TIMELINE_HOST,       /* the thread that trains: embedding, loss, norm, packing */
    TIMELINE_UPDATE,     /* AdamW */
    TIMELINE_CONVERT,    /* weights in further forms */
    TIMELINE_LANES
} timeline_lane;

typedef struct timeline timeline;

PROPANE_CHECK propane_status timeline_create(timeline **out, propane_error *err);
void timeline_free(timeline *t);
/* From any thread. `name` must last until the file is written; `part` distinguishes spans of one name, negative: there is
 * one. Times are of core/base/clock.h. t NULL: nothing happens. */
void timeline_add(timeline *t, timeline_lane lane, const char *name, int part, int64_t begin_ns, int64_t end_ns);
/* The same of a request that waited in a queue first. */
void timeline_add_queued(timeline *t, timeline_lane lane, const char *name, int part, int64_t submitted_ns,
                         int64_t begin_ns, int64_t end_ns);
/* What is recorded so far, in place of what is there. */
PROPANE_CHECK propane_status timeline_write(timeline *t, const char *path, propane_error *err);

#endif
