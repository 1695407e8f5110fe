/* SPDX-License-Identifier: MIT
 * Owns the order in which requests run. Each device has one executor: the thread that takes the requests from the head
 * of the ring, one after the other. The device's thread becomes the executor when there is work. A thread that waits
 * for a request becomes the executor if there is none, and stays the executor until its request is done. So submit and
 * wait in one thread need no thread switch, and nothing runs out of order.
 *
 *     submit -> [ring: head is running | queued | queued | ...] -> wait for its events -> execute -> signal -> done
 *
 * Closing a device cancels the requests that would have to wait for an event; all other requests finish.
 *
 * A request that waits for an event blocks the requests after it, as it would on the engine. If the executor is a
 * thread that waits for its own request, it waits for such events, too. It does so only for requests up to its own, for
 * which it would have to wait anyway. Rejects a request that is in flight, a chain that does not fit as a whole, and a
 * chain with requests of several devices.
 */
#include <string.h>

#include "core/base/clock.h"
#include "core/base/condition.h"
#include "core/base/fork.h"
#include "core/base/memory.h"
#include "core/base/poll.h"
#include "core/base/sized.h"
#include "core/base/thread.h"
#include "core/device/device.h"

enum { SPIN_ROUNDS = 100 };

propane_status queue_init(device_queue *q, int capacity, propane_error *err) {
    q->capacity = capacity;
    q->generation = fork_generation();
    q->ring = mem_array((size_t)capacity, sizeof *q->ring);
    if (!q->ring) return propane_fail_memory(err, (size_t)capacity * sizeof *q->ring);
    int taken = 0;
    if (pthread_mutex_init(&q->mutex, NULL) == 0) taken++;
    if (taken == 1 && pthread_cond_init(&q->work, NULL) == 0) taken++;
    if (taken == 2 && condition_init(&q->done) == 0) return PROPANE_OK;
    if (taken == 2) pthread_cond_destroy(&q->work);
    if (taken >= 1) pthread_mutex_destroy(&q->mutex);
    mem_free(q->ring);
    return propane_fail(err, PROPANE_ERR_MEMORY, "queue: the system cannot create a mutex or condition variable");
}

/* Resets the queue in a forked child, where the thread does not exist and requests in flight never finish. */
static void queue_begin_anew(device_queue *q, int generation) {
    q->generation = generation;
    (void)pthread_mutex_init(&q->mutex, NULL);
    (void)pthread_cond_init(&q->work, NULL);
    (void)condition_init(&q->done);
    for (; q->length > 0; q->length--, q->head = (q->head + 1) % q->capacity) {
        propane_request *r = q->ring[q->head];
        r->completion = (propane_completion){.device_ns = -1, .engine_ns = -1, .energy_j = -1};
        r->completion.status = propane_fail(&r->error, PROPANE_ERR_CANCELLED,
                                            "request: the process was forked while it was in flight; submit it again");
        atomic_store(&r->completed, r->submitted);
    }
    q->executing = q->thread_started = q->thread_sleeps = false;
    q->awaited = NULL;
    q->waiters = 0;
}

void queue_lock(device_queue *q) {
    const int generation = fork_generation();
    if (q->generation != generation) queue_begin_anew(q, generation);
    pthread_mutex_lock(&q->mutex);
}

void queue_drain(device_queue *q) {
    queue_lock(q);
    atomic_store(&q->closing, true);
    propane_event *awaited = q->awaited;
    if (awaited) event_retain(awaited);
    bool started = q->thread_started;
    q->thread_started = false;
    pthread_cond_signal(&q->work);
    pthread_mutex_unlock(&q->mutex);
    if (awaited) {
        event_wake(awaited);
        event_release(awaited);
    }
    if (started) pthread_join(q->thread, NULL);
}

/* ---- executing --------------------------------------------------------------------------------------------------- */

/* Unlocks buffers of other devices, which are host memory only while they are locked. */
static void queue_unlock_foreign(const propane_request *r, int count) {
    for (int i = 0; i < count; i++)
        if (r->buffers[i]->device != r->program->device) propane_buffer_unlock(r->buffers[i]);
}

static propane_status queue_lock_foreign(const propane_request *r, propane_error *err) {
    for (int i = 0; i < r->buffer_count; i++) {
        void *memory = NULL;
        if (r->buffers[i]->device == r->program->device) continue;
        propane_status status = propane_buffer_lock(r->buffers[i], i >= r->program->p.input_count, &memory, err);
        if (status == PROPANE_OK) continue;
        queue_unlock_foreign(r, i);
        return status;
    }
    return PROPANE_OK;
}

/* Waits for the events of a request before it begins. The thread that closes the device either sees which event is
 * awaited, or this function sees that the device is closing. */
static propane_status queue_await_events(propane_device *d, const propane_request *r, propane_error *err) {
    device_queue *q = &d->queue;
    bool reached = true;
    for (int i = 0; i < r->wait_count && reached; i++) {
        if (propane_event_value(r->waits[i].event) >= r->waits[i].value) continue;
        pthread_mutex_lock(&q->mutex);
        q->awaited = r->waits[i].event;
        pthread_mutex_unlock(&q->mutex);
        reached = event_wait_unless(r->waits[i].event, r->waits[i].value, &q->closing);
        pthread_mutex_lock(&q->mutex);
        q->awaited = NULL;
        pthread_mutex_unlock(&q->mutex);
    }
    if (reached) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_CANCELLED,
                        "request: device '%s' was closed while the request was waiting for an event", d->uri);
}

static propane_completion queue_execute(propane_device *d, propane_request *r, propane_error *err) {
    propane_completion c = {.device_ns = -1, .engine_ns = -1, .energy_j = -1, .simulated = d->info.simulated};
    c.status = queue_await_events(d, r, err);
    int64_t begin = clock_ns();
    if (c.status == PROPANE_OK && r->foreign) c.status = queue_lock_foreign(r, err);
    if (c.status == PROPANE_OK) {
        poll_scope *before = poll_adopt(r->scope);
        c.status = d->driver->execute(d->impl, &r->execution, &c, err);
        (void)poll_adopt(before);
        if (r->foreign) queue_unlock_foreign(r, r->buffer_count);
    }
    r->times.began_ns = begin;
    r->times.ended_ns = clock_ns();
    if (c.device_ns < 0) c.device_ns = r->times.ended_ns - begin;
    for (int i = 0; i < r->signal_count; i++) propane_event_signal(r->signals[i].event, r->signals[i].value);
    return c;
}

/* Runs the request at the head. The caller holds the mutex and is the executor. Once `completed` has grown, the request
 * may be freed at any moment. */
static void queue_run_head(propane_device *d) {
    device_queue *q = &d->queue;
    propane_request *r = q->ring[q->head];
    pthread_mutex_unlock(&q->mutex);
    propane_error err = {0};
    propane_completion c = queue_execute(d, r, &err);
    pthread_mutex_lock(&q->mutex);
    q->head = (q->head + 1) % q->capacity;
    q->length--;
    r->completion = c;
    if (c.status != PROPANE_OK) r->error = err;
    atomic_fetch_add(&r->completed, 1);
    if (q->waiters) pthread_cond_broadcast(&q->done);
}

/* Wakes the device's thread if there is work without an executor, or if it must end. The mutex is held even for the
 * signal: once it is released, the requests may be done and the device closed. */
static void queue_wake_thread(device_queue *q) {
    if (q->thread_sleeps && (q->length > 0 || q->closing)) pthread_cond_signal(&q->work);
}

static void *queue_thread_main(void *argument) {
    propane_device *d = argument;
    device_queue *q = &d->queue;
    pthread_mutex_lock(&q->mutex);
    for (;;) {
        while (q->length == 0 ? !q->closing : q->executing) {
            q->thread_sleeps = true;
            pthread_cond_wait(&q->work, &q->mutex);
            q->thread_sleeps = false;
        }
        if (q->length == 0) break;
        q->executing = true;
        while (q->length > 0) queue_run_head(d);
        q->executing = false;
    }
    pthread_mutex_unlock(&q->mutex);
    return NULL;
}

/* Starts the device's thread. Called under the mutex. */
static propane_status queue_start_thread(propane_device *d, propane_error *err) {
    device_queue *q = &d->queue;
    if (q->closing) return propane_fail(err, PROPANE_ERR_INVALID, "submit: device '%s' is closed", d->uri);
    if (q->thread_started) return PROPANE_OK;
    const int failed = thread_start(&q->thread, queue_thread_main, d);
    if (failed)
        return propane_fail(err, PROPANE_ERR_MEMORY,
                            "submit: cannot start the thread of device '%s': %s; the process lacks memory, or its user "
                            "has as many processes as 'ulimit -u' allows",
                            d->uri, strerror(failed));
    q->thread_started = true;
    return PROPANE_OK;
}

/* ---- submit ------------------------------------------------------------------------------------------------------ */

/* Marks all requests of a chain as in flight, or none of them. Called under the mutex. */
static propane_status queue_mark(propane_request *const *requests, int count, propane_error *err) {
    int i = 0;
    while (i < count && requests[i]->submitted == atomic_load(&requests[i]->completed)) requests[i++]->submitted++;
    if (i == count) return PROPANE_OK;
    for (int k = 0; k < i; k++) requests[k]->submitted--;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "submit: request %d of %d is already in flight; wait for it before you submit it again", i + 1,
                        count);
}

static propane_status queue_enqueue(propane_device *d, propane_request *const *requests, int count,
                                    propane_error *err) {
    device_queue *q = &d->queue;
    if (count > q->capacity - q->length)
        return propane_fail(
            err, PROPANE_ERR_LIMIT,
            "submit: no room for %d more: %d of at most %d requests of '%s' are in flight; wait for one of them", count,
            q->length, q->capacity, d->uri);
    PROPANE_TRY(queue_start_thread(d, err));
    PROPANE_TRY(queue_mark(requests, count, err));
    const int64_t now = clock_ns();
    for (int i = 0; i < count; i++) {
        requests[i]->times.submitted_ns = now;
        requests[i]->scope = poll_current();
        q->ring[(q->head + q->length++) % q->capacity] = requests[i];
    }
    if (!q->executing) queue_wake_thread(q);
    return PROPANE_OK;
}

propane_status propane_submit(propane_request *const *requests, int count, propane_error *err) {
    NEED_LIST(err, requests, count);
    for (int i = 0; i < count; i++)
        if (!requests[i]) return propane_fail(err, PROPANE_ERR_INVALID, "propane_submit: requests[%d] is NULL", i);
    if (count == 0) return PROPANE_OK;
    propane_device *d = requests[0]->program->device;
    for (int i = 1; i < count; i++)
        if (requests[i]->program->device != d)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "submit: request %d of %d belongs to another device ('%s') than "
                                "the first ('%s')",
                                i + 1, count, requests[i]->program->device->uri, d->uri);
    queue_lock(&d->queue);
    propane_status status = queue_enqueue(d, requests, count, err);
    pthread_mutex_unlock(&d->queue.mutex);
    return status;
}

/* ---- wait -------------------------------------------------------------------------------------------------------- */

/* Spins for a moment, because a request that is nearly done is not worth a sleep. */
static void queue_spin_for(const propane_request *r, uint64_t target) {
    for (int i = 0; i < SPIN_ROUNDS && atomic_load_explicit(&r->completed, memory_order_relaxed) < target; i++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
}

/* Acts as the executor until `r` is done. Called under the mutex. */
static void queue_help(propane_device *d, const propane_request *r, uint64_t target) {
    device_queue *q = &d->queue;
    q->executing = true;
    while (q->length > 0 && atomic_load(&r->completed) < target) queue_run_head(d);
    q->executing = false;
    queue_wake_thread(q);
}

/* Sleeps until a request is done. Called under the mutex, which is released while the host is asked. */
static void queue_sleep(device_queue *q) {
    if (!poll_current()) {
        pthread_cond_wait(&q->done, &q->mutex);
        return;
    }
    if (!condition_wait_until(&q->done, &q->mutex, clock_ns() + POLL_MS * INT64_C(1000000))) return;
    pthread_mutex_unlock(&q->mutex);
    (void)poll_stop();
    pthread_mutex_lock(&q->mutex);
}

propane_status propane_wait(propane_request *request, propane_completion *out, propane_error *err) {
    NEED(err, request);
    propane_device *d = request->program->device;
    device_queue *q = &d->queue;
    PROPANE_TRY(sized_check(out, "propane_completion", err));
    queue_lock(q);
    uint64_t target = request->submitted;
    if (target == 0) {
        pthread_mutex_unlock(&q->mutex);
        return propane_fail(err, PROPANE_ERR_INVALID, "wait: the request was never submitted");
    }
    if (atomic_load(&request->completed) < target && q->executing) {
        pthread_mutex_unlock(&q->mutex);
        queue_spin_for(request, target);
        pthread_mutex_lock(&q->mutex);
    }
    while (atomic_load(&request->completed) < target) {
        if (!q->executing) {
            queue_help(d, request, target);
            continue;
        }
        q->waiters++;
        queue_sleep(q);
        q->waiters--;
    }
    propane_completion c = request->completion;
    if (c.status != PROPANE_OK && err) *err = request->error;
    pthread_mutex_unlock(&q->mutex);
    (void)sized_give(out, &c, sizeof c);
    return c.status;
}
