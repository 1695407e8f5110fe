/* SPDX-License-Identifier: MIT
 * Owns the record of a run's spans, and the file format: Chrome's trace events. All times, including a request's
 * argument "submitted", are in microseconds since the earliest recorded time.
 */
#include "core/base/timeline.h"

#include <pthread.h>
#include <stdio.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/memory.h"

typedef struct span {
    timeline_lane lane;
    const char *name;
    int part;
    int64_t submitted, begin, end; /* submitted < 0 if the span did not wait in a queue */
} span;

enum { CHUNK = 4096 };

struct timeline {
    pthread_mutex_t mutex;
    span *chunks[(TIMELINE_MOST + CHUNK - 1) / CHUNK];
    int count;
};

static const char *const lane_names[TIMELINE_LANES] = {"device queue", "host queue", "host", "update", "conversion"};

propane_status timeline_create(timeline **out, propane_error *err) {
    *out = NULL;
    timeline *t = mem_alloc(sizeof *t);
    if (!t) return propane_fail_memory(err, sizeof *t);
    if (pthread_mutex_init(&t->mutex, NULL) != 0) {
        mem_free(t);
        return propane_fail(err, PROPANE_ERR_MEMORY, "the system cannot create a lock for a trace");
    }
    *out = t;
    return PROPANE_OK;
}

void timeline_free(timeline *t) {
    if (!t) return;
    for (int i = 0; i * CHUNK < TIMELINE_MOST; i++) mem_free(t->chunks[i]);
    pthread_mutex_destroy(&t->mutex);
    mem_free(t);
}

void timeline_add_queued(timeline *t, timeline_lane lane, const char *name, int part, int64_t submitted_ns,
                         int64_t begin_ns, int64_t end_ns) {
    if (!t) return;
    pthread_mutex_lock(&t->mutex);
    span **chunk = &t->chunks[t->count / CHUNK];
    if (t->count < TIMELINE_MOST && !*chunk) *chunk = mem_array(CHUNK, sizeof **chunk);
    if (t->count < TIMELINE_MOST && *chunk)
        (*chunk)[t->count++ % CHUNK] = (span){lane, name, part, submitted_ns, begin_ns, end_ns};
    pthread_mutex_unlock(&t->mutex);
}

void timeline_add(timeline *t, timeline_lane lane, const char *name, int part, int64_t begin_ns, int64_t end_ns) {
    timeline_add_queued(t, lane, name, part, -1, begin_ns, end_ns);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static void timeline_put_lanes(json_t *events) {
    json_add(events, json_pack("{s:s, s:s, s:i, s:{s:s}}", "name", "process_name", "ph", "M", "pid", 1, "args", "name",
                               "propane train"));
    for (int i = 0; i < TIMELINE_LANES; i++) {
        json_add(events, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", "thread_name", "ph", "M", "pid", 1, "tid",
                                   i + 1, "args", "name", lane_names[i]));
        json_add(events, json_pack("{s:s, s:s, s:i, s:i, s:{s:i}}", "name", "thread_sort_index", "ph", "M", "pid", 1,
                                   "tid", i + 1, "args", "sort_index", i));
    }
}

static json_t *timeline_event(const span *s, int64_t zero) {
    char name[80];
    if (s->part >= 0)
        snprintf(name, sizeof name, "%.60s %d", s->name, s->part);
    else
        snprintf(name, sizeof name, "%.60s", s->name);
    json_t *event = json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:i}", "name", name, "cat", lane_names[s->lane], "ph",
                              "X", "ts", (double)(s->begin - zero) / 1e3, "dur", (double)(s->end - s->begin) / 1e3,
                              "pid", 1, "tid", (int)s->lane + 1);
    if (event && s->submitted >= 0)
        json_put(event, "args", json_pack("{s:f}", "submitted", (double)(s->submitted - zero) / 1e3));
    return event;
}

static const span *timeline_span(const timeline *t, int index) { return &t->chunks[index / CHUNK][index % CHUNK]; }

static json_t *timeline_events(const timeline *t) {
    json_t *events = json_array();
    int64_t zero = INT64_MAX;
    for (int i = 0; i < t->count; i++) {
        const span *s = timeline_span(t, i);
        if (s->begin < zero) zero = s->begin;
        if (s->submitted >= 0 && s->submitted < zero) zero = s->submitted;
    }
    if (events) timeline_put_lanes(events);
    for (int i = 0; events && i < t->count; i++) json_add(events, timeline_event(timeline_span(t, i), zero));
    return events;
}

propane_status timeline_write(timeline *t, const char *path, propane_error *err) {
    pthread_mutex_lock(&t->mutex);
    json_t *events = timeline_events(t);
    pthread_mutex_unlock(&t->mutex);
    json_t *root = events ? json_pack("{s:o, s:s}", "traceEvents", events, "displayTimeUnit", "ms") : NULL;
    propane_status status = file_check_output(path, err);
    if (status == PROPANE_OK) status = json_write(path, root, JSON_COMPACT | JSON_REAL_PRECISION(12), err);
    json_decref(root);
    return status;
}
