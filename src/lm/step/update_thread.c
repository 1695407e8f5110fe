/* SPDX-License-Identifier: MIT
 * Owns the thread that updates weights in parallel with the device. The thread never stops at an error: it remembers
 * the first failure and runs the next part.
 */
#include "lm/step/update_thread.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#ifdef __APPLE__
#include <pthread/qos.h>
#endif

#include "core/base/clock.h"
#include "core/base/fork.h"
#include "core/base/memory.h"
#include "core/base/status.h"
#include "core/base/thread.h"

struct update_thread {
    update_run *run;
    void *context;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the fields below */
    pthread_cond_t pushed, emptied;
    update_job *ring;
    int room, head, length; /* `length` includes the running job */
    bool closing;
    int generation; /* generation of the process that has the thread (fork.h) */
    propane_status status;
    propane_error error;
    atomic_int_fast64_t ns;
};

static propane_status update_thread_do(update_thread *t, const update_job *job, propane_error *err) {
    for (int i = 0; i < job->wait_count; i++)
        PROPANE_TRY(propane_event_wait(job->waits[i].event, job->waits[i].value, -1, err));
    const int64_t start = clock_ns();
    const propane_status status = t->run(t->context, job->part, err);
    atomic_fetch_add(&t->ns, clock_ns() - start);
    return status;
}

static void *update_thread_main(void *argument) {
    update_thread *t = argument;
#ifdef __APPLE__
    (void)pthread_set_qos_class_self_np(QOS_CLASS_USER_INITIATED, 0); /* as for the pool's threads */
#endif
    pthread_mutex_lock(&t->mutex);
    for (;;) {
        while (t->length == 0 && !t->closing) pthread_cond_wait(&t->pushed, &t->mutex);
        if (t->length == 0) break;
        const update_job job = t->ring[t->head];
        pthread_mutex_unlock(&t->mutex);
        propane_error err = {0};
        const propane_status status = update_thread_do(t, &job, &err);
        pthread_mutex_lock(&t->mutex);
        if (status != PROPANE_OK && t->status == PROPANE_OK) t->status = status, t->error = err;
        t->head = (t->head + 1) % t->room;
        if (--t->length == 0) pthread_cond_broadcast(&t->emptied);
    }
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

propane_status update_thread_create(int room, update_run *run, void *context, update_thread **out, propane_error *err) {
    *out = NULL;
    update_thread *t = mem_alloc(sizeof *t);
    update_job *ring = mem_array((size_t)room, sizeof *ring);
    int made = 0;
    if (t && ring) {
        *t = (update_thread){
            .run = run, .context = context, .ring = ring, .room = room, .generation = fork_generation()};
        if (pthread_mutex_init(&t->mutex, NULL) == 0) made++;
        if (made == 1 && pthread_cond_init(&t->pushed, NULL) == 0) made++;
        if (made == 2 && pthread_cond_init(&t->emptied, NULL) == 0) made++;
        if (made == 3 && thread_start(&t->thread, update_thread_main, t) == 0) {
            *out = t;
            return PROPANE_OK;
        }
    }
    if (made > 2) pthread_cond_destroy(&t->emptied);
    if (made > 1) pthread_cond_destroy(&t->pushed);
    if (made > 0) pthread_mutex_destroy(&t->mutex);
    mem_free(ring);
    mem_free(t);
    return propane_fail(err, PROPANE_ERR_MEMORY, "not enough memory for the thread that updates weights");
}

/* Returns whether this process is a forked child, in which neither the thread nor its jobs exist. */
static bool update_thread_is_gone(const update_thread *t) { return t->generation != fork_generation(); }

void update_thread_free(update_thread *t) {
    if (!t) return;
    if (update_thread_is_gone(t)) {
        mem_free(t->ring);
        mem_free(t);
        return;
    }
    pthread_mutex_lock(&t->mutex);
    t->closing = true;
    pthread_cond_signal(&t->pushed);
    pthread_mutex_unlock(&t->mutex);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->emptied);
    pthread_cond_destroy(&t->pushed);
    pthread_mutex_destroy(&t->mutex);
    mem_free(t->ring);
    mem_free(t);
}

void update_thread_push(update_thread *t, const update_job *job) {
    if (update_thread_is_gone(t)) return; /* update_thread_settle reports it */
    pthread_mutex_lock(&t->mutex);
    assert(t->length < t->room);
    t->ring[(t->head + t->length++) % t->room] = *job;
    pthread_cond_signal(&t->pushed);
    pthread_mutex_unlock(&t->mutex);
}

propane_status update_thread_settle(update_thread *t, propane_error *err) {
    if (update_thread_is_gone(t))
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "this process was forked from the training process; a trainer belongs to the process that created it");
    pthread_mutex_lock(&t->mutex);
    while (t->length > 0) pthread_cond_wait(&t->emptied, &t->mutex);
    const propane_status status = t->status;
    if (status != PROPANE_OK && err) *err = t->error;
    pthread_mutex_unlock(&t->mutex);
    return status;
}

int64_t update_thread_ns(update_thread *t) { return atomic_exchange(&t->ns, 0); }
