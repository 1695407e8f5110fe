/* SPDX-License-Identifier: MIT
 * The objects behind the public handles, for this folder and the few other files that include this header. Every object
 * counts its references: the handle that the user holds, and the children or requests that refer to it. So an object
 * that the user frees early lives until the last request that uses it is freed.
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

/* Requests in the order of submission. The thread that runs the request at the head is the executor: the device's own
 * thread, or a thread that waits for a request. queue.c contains a diagram. */
typedef struct device_queue {
    pthread_mutex_t mutex; /* guards the whole queue and the state of the requests */
    pthread_cond_t work;   /* wakes the device's thread */
    pthread_cond_t done;   /* wakes threads that wait for a request */
    propane_request **ring;
    int capacity, head, length; /* length includes the running request, which leaves the ring when done */
    bool executing;             /* some thread is the executor */
    bool thread_started, thread_sleeps;
    atomic_bool closing;    /* written under the mutex; once true, no request waits for an event */
    propane_event *awaited; /* the event the executor waits for, or NULL */
    int waiters;            /* number of threads asleep on `done` */
    int generation;         /* fork_generation of the process that owns the mutex and the thread */
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
    piece_map places; /* positions of the names: inputs, then outputs */
    atomic_int refs;
};

/* Returns the position of a name among the inputs, then the outputs; -1 if there is none. */
int program_place(const propane_program *p, const char *name);

struct propane_buffer {
    propane_device *device;
    driver_buffer b;
    bool borrowed; /* the memory is the user's; the driver did not create the buffer */
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
    propane_buffer **buffers;       /* in the same order */
    int buffer_count;
    /* prepared: the driver has prepared the request; foreign: buffers of other devices must be locked while the request
     * runs. */
    bool prepared, foreign;
    propane_event_point *waits, *signals;
    int wait_count, signal_count;
    /* The rest belongs to the queue. The request is in flight while submitted > completed. */
    uint64_t submitted;
    atomic_uint_fast64_t completed;
    propane_completion completion;
    request_times times;
    poll_scope *scope; /* scope of the thread that submitted the request */
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

/* Checks that buffers can hold the function's inputs and outputs. */
PROPANE_CHECK propane_status program_check_types(const mil_function *f, propane_error *err);

PROPANE_CHECK propane_status queue_init(device_queue *q, int capacity, propane_error *err);
/* Locks the mutex. In a forked child, first resets the mutex and empties the queue. Unlock with
 * pthread_mutex_unlock. */
void queue_lock(device_queue *q);
/* Waits until `event` has reached `value` and returns true. Returns false if *closing becomes true first; whoever sets
 * *closing must then call event_wake. */
bool event_wait_unless(propane_event *event, uint64_t value, const atomic_bool *closing);
void event_wake(propane_event *event);

/* Closes the queue. Returns when every submitted request has run, or was cancelled because it had to wait for an event,
 * and the device's thread has ended. */
void queue_drain(device_queue *q);

#endif
