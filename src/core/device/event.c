/* SPDX-License-Identifier: MIT
 * Owns events: counters that only grow. The host or the end of a request signals them; the host, or a request before it
 * begins, waits for them. A waiter always locks the mutex before it continues, so the signalling thread has already
 * unlocked the mutex. An event may therefore be freed as soon as a wait for its last signal has returned.
 */
#include "core/base/clock.h"
#include "core/base/condition.h"
#include "core/base/memory.h"
#include "core/device/device.h"

propane_status propane_event_create(propane_device *device, propane_event **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, device, out);
    propane_event *e = mem_alloc(sizeof *e);
    if (!e) return propane_fail_memory(err, sizeof *e);
    if (pthread_mutex_init(&e->mutex, NULL) != 0) {
        mem_free(e);
        return propane_fail(err, PROPANE_ERR_MEMORY, "event: the system cannot create a mutex");
    }
    if (condition_init(&e->grown) != 0) {
        pthread_mutex_destroy(&e->mutex);
        mem_free(e);
        return propane_fail(err, PROPANE_ERR_MEMORY, "event: the system cannot create a condition variable");
    }
    e->device = device;
    atomic_init(&e->refs, 1);
    device_retain(device);
    *out = e;
    return PROPANE_OK;
}

void propane_event_free(propane_event *event) { event_release(event); }

uint64_t propane_event_value(const propane_event *event) { return event ? atomic_load(&event->value) : 0; }

void propane_event_signal(propane_event *event, uint64_t value) {
    if (!event) return;
    pthread_mutex_lock(&event->mutex);
    if (value > atomic_load(&event->value)) {
        atomic_store(&event->value, value);
        pthread_cond_broadcast(&event->grown);
    }
    pthread_mutex_unlock(&event->mutex);
}

bool event_wait_unless(propane_event *event, uint64_t value, const atomic_bool *closing) {
    pthread_mutex_lock(&event->mutex);
    while (atomic_load(&event->value) < value && !atomic_load(closing)) pthread_cond_wait(&event->grown, &event->mutex);
    bool reached = atomic_load(&event->value) >= value;
    pthread_mutex_unlock(&event->mutex);
    return reached;
}

void event_wake(propane_event *event) {
    pthread_mutex_lock(&event->mutex);
    pthread_cond_broadcast(&event->grown);
    pthread_mutex_unlock(&event->mutex);
}

propane_status propane_event_wait(propane_event *event, uint64_t value, int timeout_ms, propane_error *err) {
    NEED(err, event);
    int64_t deadline = timeout_ms < 0 ? 0 : clock_ns() + (int64_t)timeout_ms * 1000000;
    bool over = false;
    pthread_mutex_lock(&event->mutex);
    while (atomic_load(&event->value) < value && !over) {
        if (timeout_ms < 0)
            pthread_cond_wait(&event->grown, &event->mutex);
        else
            over = condition_wait_until(&event->grown, &event->mutex, deadline);
    }
    uint64_t reached = atomic_load(&event->value);
    pthread_mutex_unlock(&event->mutex);
    if (reached >= value) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_LIMIT, "event: after %d ms its value is %llu and has not reached %llu",
                        timeout_ms, (unsigned long long)reached, (unsigned long long)value);
}
