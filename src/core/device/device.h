/* SPDX-License-Identifier: MIT
 * The objects behind the public handles, for this folder alone. Every object counts its users: the handle that
 * the user holds, and the children or requests that refer to it. So an object that is freed early lives on until the
 * last request that names it is gone.
 */
#ifndef CORE_DEVICE_DEVICE_H
#define CORE_DEVICE_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/map.h"
#include "core/base/need.h"
#include "core/base/poll.h"
#include "core/device/driver.h"
#include "core/device/request_times.h"

/* Requests in the order in which they were submitted. Whoever runs the one at the head holds the executor's role: the
 * device's own thread, or a thread that waits for a request. Drawn in queue.c. */
typedef struct device_queue {
    pthread_mutex_t mutex; /* guards all of this and the state of the requests */
    pthread_cond_t work;   /* the device's thread sleeps here */
    pthread_cond_t done;   /* threads that wait for a request sleep here */
    propane_request **ring;
    int capacity, head, length; /* the one that runs counts too: it leaves when it is done */
    bool executing;             /* somebody has the executor's role */
    bool thread_started, thread_sleeps;
    atomic_bool closing;    /* written under the mutex; nothing waits for an event any more */
    propane_event *awaited; /* by the executor; NULL: none */
    int waiters;            /* asleep on `done` */
    int generation;         /* fork.h: of the process that the mutex and the thread belong to */
    pthread_t thread;
} device_queue;

struct propane_device {
    const propane_driver *driver;
    void *impl;
    propane_device_info info;
    char *uri;
    atomic_int refs;
    device_queue queue;
};

struct propane_program {
    propane_device *device;
    driver_program p;
    piece_map places; /* of the names: inputs, then outputs */
    atomic_int refs;
};

/* Counted through the inputs, then the outputs; -1: there is none. */
int program_place(const propane_program *p, const char *name);

struct propane_buffer {
    propane_device *device;
    driver_buffer b;
    bool borrowed; /* the memory is the user's; the driver knows nothing of it */
    atomic_int refs;
};

struct propane_event {
    propane_device *device;
    pthread_mutex_t mutex;
    pthread_cond_t grown;
    atomic_uint_fast64_t value; /* written under the mutex */
    atomic_int refs;
};

struct propane_request {
    propane_program *program;
    driver_execution execution;
    driver_buffer **driver_buffers; /* inputs, then outputs */
    propane_buffer **buffers;       /* likewise */
    int buffer_count;
    bool prepared, foreign; /* the driver knows it; it has buffers of other devices that must be locked for it */
    propane_event_point *waits, *signals;
    int wait_count, signal_count;
    /* The rest is the queue's. In flight: submitted > completed. */
    uint64_t submitted;
    atomic_uint_fast64_t completed;
    propane_completion completion;
    request_times times;
    poll_scope *scope; /* of the thread that submitted it */
    propane_error error;
};

void device_retain(propane_device *d);
void device_release(propane_device *d);
void program_retain(propane_program *p);
void program_release(propane_program *p);
void buffer_retain(propane_buffer *b);
void buffer_release(propane_buffer *b);
void event_retain(propane_event *e);
void event_release(propane_event *e);

/* Whether buffers can hold what the function takes and gives. */
PROPANE_CHECK propane_status program_check_types(const mil_function *f, propane_error *err);

PROPANE_CHECK propane_status queue_init(device_queue *q, int capacity, propane_error *err);
/* The mutex; in a child that has been forked, a new one of an empty queue. Unlocked as it is. */
void queue_lock(device_queue *q);
/* Waits until `event` has reached `value`; false: *closing was set, and event_wake called, before that. */
bool event_wait_unless(propane_event *event, uint64_t value, const atomic_bool *closing);
void event_wake(propane_event *event);

/* Returns when everything that was submitted has run, or was cancelled because it had to wait for an event, and the
 * device's thread is gone. */
void queue_drain(device_queue *q);
void queue_deinit(device_queue *q);

#endif
