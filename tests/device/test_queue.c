/* SPDX-License-Identifier: MIT
 * Tests devices, requests, events and the queue, with a driver that fails, sleeps and counts on request.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "device/scripted.h"
#include "support/test.h"

enum { DEPTH = 127 };

/* One request with separate buffers. */
typedef struct job {
    propane_buffer *in, *out;
    propane_request *request;
} job;

typedef struct rig {
    propane_device *device;
    propane_program *program;
} rig;

static propane_error err;

static rig rig_open(const char *uri) {
    rig r = {0};
    propane_module *module = NULL;
    EXPECT_OK(propane_device_open(uri, &r.device, &err));
    EXPECT_OK(propane_module_parse(scripted_program, strlen(scripted_program), "scripted.mil", NULL, &module, &err));
    EXPECT_OK(propane_program_compile(r.device, module, NULL, &r.program, &err));
    propane_module_free(module);
    return r;
}

static void rig_close(rig *r) {
    propane_program_free(r->program);
    propane_device_close(r->device);
    EXPECT(atomic_load(&scripted_overlap) == 0);
}

static job job_create(const rig *r, int command, int argument) {
    job j = {0};
    propane_error e = {0};
    EXPECT(propane_buffer_create(r->device, 16, &j.in, &e) == PROPANE_OK);
    EXPECT(propane_buffer_create(r->device, 16, &j.out, &e) == PROPANE_OK);
    int32_t values[4] = {command, argument, 0, 0};
    EXPECT(propane_buffer_write(j.in, propane_program_find(r->program, "command"), PROPANE_INT32, values, 4, &e) ==
           PROPANE_OK);
    propane_binding bindings[] = {{"order", j.out}, {"command", j.in}};
    EXPECT(propane_request_create(r->program, bindings, 2, &j.request, &e) == PROPANE_OK);
    return j;
}

static void job_free(job *j) {
    propane_request_free(j->request);
    propane_buffer_free(j->in);
    propane_buffer_free(j->out);
}

/* Returns the number of the execution. */
static int order_of(const rig *r, const job *j) {
    int32_t values[4];
    propane_error e = {0};
    EXPECT(propane_buffer_read(j->out, propane_program_find(r->program, "order"), PROPANE_INT32, values, 4, &e) ==
           PROPANE_OK);
    return values[0];
}

static propane_event *event_create(const rig *r) {
    propane_event *event = NULL;
    EXPECT_OK(propane_event_create(r->device, &event, &err));
    return event;
}

static void set_events(job *j, propane_event *wait, uint64_t wait_value, propane_event *signal, uint64_t signal_value) {
    propane_event_point waits = {wait, wait_value}, signals = {signal, signal_value};
    EXPECT_OK(propane_request_events(j->request, &waits, wait != NULL, &signals, signal != NULL, &err));
}

static void sleep_ms(int ms) {
    struct timespec span = {.tv_nsec = ms * 1000000L};
    nanosleep(&span, NULL);
}

/* ---- devices -------------------------------------------------------------------------------------------------------------- */

TEST(devices_are_listed_and_opened_by_name) {
    propane_device *d = NULL;
    EXPECT(propane_driver_count() == 6);
    EXPECT_TEXT(propane_driver_name(1), "other");
    EXPECT_TEXT(propane_driver_summary(0), "does what its input says");
    EXPECT(propane_driver_name(6) == NULL && propane_driver_name(-1) == NULL && propane_driver_name(5) &&
           propane_driver_summary(-1) == NULL);
    EXPECT_OK(propane_driver_probe(0, &err));
    EXPECT_FAIL(propane_driver_probe(2, &err), PROPANE_ERR_UNSUPPORTED, "no such engine");
    EXPECT_FAIL(propane_driver_probe(6, &err), PROPANE_ERR_INVALID, "there is no driver 6; this build has 6 (0..5)");
    EXPECT_FAIL(propane_device_open("gpu\n:0", &d, &err), PROPANE_ERR_NOT_FOUND,
                "unknown device 'gpu\\x0a:0'; the devices are scripted, other, absent, host, full, deep");
    EXPECT_FAIL(propane_device_open("script", &d, &err), PROPANE_ERR_NOT_FOUND, "unknown");
    EXPECT_FAIL(propane_device_open("", &d, &err), PROPANE_ERR_INVALID, "empty");
    EXPECT_FAIL(propane_device_open("absent", &d, &err), PROPANE_ERR_UNSUPPORTED, "no such engine");
    EXPECT_FAIL(propane_device_open("scripted:broken", &d, &err), PROPANE_ERR_DEVICE, "broken on request");
    EXPECT(d == NULL);
    EXPECT_OK(propane_device_open("scripted:7", &d, &err));
    EXPECT_TEXT(propane_device_describe(d)->uri, "scripted:7");
    EXPECT(propane_device_describe(d)->queue_depth == DEPTH);
    propane_device_close(d);
    propane_device_close(NULL);
}

/* ---- order and capacity ------------------------------------------------------------------------------------------ */

TEST(a_chain_runs_in_order_and_the_queue_has_127_places) {
    rig r = rig_open("scripted");
    propane_event *gate = event_create(&r);
    job jobs[DEPTH + 1];
    propane_request *chain[DEPTH + 1];
    for (int i = 0; i <= DEPTH; i++) {
        jobs[i] = job_create(&r, SCRIPT_OK, 0);
        chain[i] = jobs[i].request;
    }
    EXPECT_FAIL(propane_submit(chain, DEPTH + 1, &err), PROPANE_ERR_LIMIT, "no room for 128 more");
    set_events(&jobs[0], gate, 1, NULL, 0);
    EXPECT_OK(propane_submit(chain, DEPTH - 1, &err)); /* held up by the gate */
    EXPECT_FAIL(propane_submit(chain + DEPTH - 1, 2, &err), PROPANE_ERR_LIMIT, "126 of at most 127");
    EXPECT_OK(propane_submit(chain + DEPTH - 1, 1, &err)); /* refused chains leave nothing behind */
    EXPECT_FAIL(propane_submit(chain + DEPTH, 1, &err), PROPANE_ERR_LIMIT, "wait for one of them");
    sleep_ms(5);
    EXPECT(atomic_load(&scripted_count) == 0);
    propane_event_signal(gate, 1);
    EXPECT_OK(propane_wait(chain[DEPTH - 1], NULL, &err));
    EXPECT_OK(propane_submit(chain + DEPTH, 1, &err));
    for (int i = 0; i <= DEPTH; i++) EXPECT_OK(propane_wait(chain[i], NULL, &err));
    for (int i = 0; i <= DEPTH; i++) EXPECT(order_of(&r, &jobs[i]) == i + 1);
    for (int i = 0; i <= DEPTH; i++) job_free(&jobs[i]);
    propane_event_free(gate);
    rig_close(&r);
}

TEST(a_request_in_flight_is_not_taken_again) {
    rig r = rig_open("scripted");
    propane_event *gate = event_create(&r);
    job a = job_create(&r, SCRIPT_OK, 0), b = job_create(&r, SCRIPT_OK, 0);
    set_events(&a, gate, 1, NULL, 0);
    EXPECT_OK(propane_submit(&a.request, 1, &err));
    propane_request *chain[] = {b.request, a.request}, *twice[] = {b.request, b.request};
    EXPECT_FAIL(propane_submit(&a.request, 1, &err), PROPANE_ERR_INVALID, "already in flight");
    EXPECT_FAIL(propane_submit(chain, 2, &err), PROPANE_ERR_INVALID, "request 2 of 2 is already in flight");
    EXPECT_FAIL(propane_submit(twice, 2, &err), PROPANE_ERR_INVALID, "request 2 of 2 is already in flight");
    EXPECT_FAIL(propane_wait(b.request, NULL, &err), PROPANE_ERR_INVALID, "never submitted");
    EXPECT_FAIL(propane_request_events(a.request, NULL, 0, NULL, 0, &err), PROPANE_ERR_INVALID, "in flight");
    propane_event_signal(gate, 1);
    EXPECT_OK(propane_wait(a.request, NULL, &err));
    EXPECT_OK(propane_wait(a.request, NULL, &err)); /* any number of times */
    EXPECT_OK(propane_submit(chain, 2, &err));
    EXPECT_OK(propane_wait(a.request, NULL, &err));
    EXPECT(order_of(&r, &b) == 2 && order_of(&r, &a) == 3);
    EXPECT_OK(propane_submit(NULL, 0, &err));
    EXPECT_FAIL(propane_submit(NULL, -1, &err), PROPANE_ERR_INVALID, "-1");
    job_free(&a);
    job_free(&b);
    propane_event_free(gate);
    rig_close(&r);
}

TEST(a_chain_is_for_one_device) {
    rig r = rig_open("scripted"), other = rig_open("other");
    job a = job_create(&r, SCRIPT_OK, 0), b = job_create(&other, SCRIPT_OK, 0);
    propane_request *chain[] = {a.request, b.request};
    EXPECT_FAIL(propane_submit(chain, 2, &err), PROPANE_ERR_INVALID, "another device ('other')");
    job_free(&a);
    job_free(&b);
    rig_close(&r);
    rig_close(&other);
}

/* ---- failures ------------------------------------------------------------------------------------------------------------ */

TEST(a_failure_stays_with_its_request) {
    rig r = rig_open("scripted");
    propane_event *event = event_create(&r);
    job a = job_create(&r, SCRIPT_OK, 0), b = job_create(&r, SCRIPT_FAIL, 0), c = job_create(&r, SCRIPT_OK, 0);
    set_events(&b, NULL, 0, event, 5);
    set_events(&c, event, 5, NULL, 0); /* a failure signals as well; otherwise this would hang */
    propane_request *chain[] = {a.request, b.request, c.request};
    propane_completion done = {.size = sizeof done};
    for (int round = 0; round < 3; round++) {
        EXPECT_OK(propane_submit(chain, 3, &err));
        EXPECT_OK(propane_wait(c.request, &done, &err));
        EXPECT(done.status == PROPANE_OK && done.device_ns >= 0 && done.energy_j < 0 && !done.simulated);
        EXPECT_FAIL(propane_wait(b.request, &done, &err), PROPANE_ERR_DEVICE, "fails on request");
        EXPECT(done.status == PROPANE_ERR_DEVICE && done.device_ns == 42);
        EXPECT_OK(propane_wait(a.request, NULL, &err));
    }
    EXPECT(propane_event_value(event) == 5);
    job_free(&a);
    job_free(&b);
    job_free(&c);
    propane_event_free(event);
    rig_close(&r);
}

TEST(the_time_on_the_device_is_measured) {
    rig r = rig_open("scripted");
    job a = job_create(&r, SCRIPT_SLEEP, 5);
    propane_completion done = {.size = sizeof done};
    EXPECT_OK(propane_submit(&a.request, 1, &err));
    EXPECT_OK(propane_wait(a.request, &done, &err));
    EXPECT(done.device_ns >= 5000000);
    job_free(&a);
    rig_close(&r);
}

/* ---- events --------------------------------------------------------------------------------------------------------------- */

TEST(events_only_grow) {
    rig r = rig_open("scripted");
    propane_event *event = event_create(&r);
    EXPECT(propane_event_value(event) == 0);
    propane_event_signal(event, 7);
    propane_event_signal(event, 3);
    EXPECT(propane_event_value(event) == 7);
    EXPECT_OK(propane_event_wait(event, 7, 0, &err));
    EXPECT_OK(propane_event_wait(event, 0, -1, &err));
    int64_t begin = clock_ns();
    EXPECT_FAIL(propane_event_wait(event, 8, 20, &err), PROPANE_ERR_LIMIT,
                "after 20 ms its value is 7 and has not reached 8");
    EXPECT(clock_ns() - begin >= 20000000);
    propane_event_free(event);
    propane_event_free(NULL);
    rig_close(&r);
}

TEST(devices_wait_for_one_another) {
    rig r = rig_open("scripted"), other = rig_open("other");
    propane_event *event = event_create(&r);
    job a = job_create(&r, SCRIPT_SLEEP, 2), b = job_create(&other, SCRIPT_OK, 0);
    for (uint64_t round = 1; round <= 20; round++) {
        set_events(&a, NULL, 0, event, round);
        set_events(&b, event, round, NULL, 0);
        EXPECT_OK(propane_submit(&b.request, 1, &err)); /* first the waiting request */
        EXPECT_OK(propane_submit(&a.request, 1, &err));
        EXPECT_OK(propane_wait(b.request, NULL, &err));
        EXPECT_OK(propane_wait(a.request, NULL, &err));
        EXPECT(order_of(&r, &a) < order_of(&other, &b));
    }
    job_free(&a);
    job_free(&b);
    propane_event_free(event);
    rig_close(&r);
    rig_close(&other);
}

typedef struct later {
    propane_event *event;
    propane_request *request;
    uint64_t value;
} later;

static void *signal_later(void *context) {
    later *l = context;
    sleep_ms(10);
    propane_event_signal(l->event, l->value);
    return NULL;
}

static void *wait_for_it(void *context) {
    later *l = context;
    EXPECT(propane_wait(l->request, NULL, NULL) == PROPANE_OK);
    return NULL;
}

TEST(waiters_of_several_requests_all_return) {
    rig r = rig_open("scripted");
    propane_event *gate = event_create(&r);
    job a = job_create(&r, SCRIPT_OK, 0), b = job_create(&r, SCRIPT_OK, 0), c = job_create(&r, SCRIPT_OK, 0);
    propane_request *chain[] = {a.request, b.request, c.request};
    for (uint64_t round = 1; round <= 10; round++) {
        set_events(&b, gate, round, NULL, 0);
        EXPECT_OK(propane_submit(chain, 3, &err));
        later laters[] = {{gate, c.request, round}, {gate, a.request, round}, {gate, b.request, round}};
        pthread_t threads[4];
        for (int i = 0; i < 3; i++) EXPECT(pthread_create(&threads[i], NULL, wait_for_it, &laters[i]) == 0);
        EXPECT_OK(propane_wait(a.request, NULL, &err)); /* before the gate: a helping thread must not delay it */
        EXPECT(pthread_create(&threads[3], NULL, signal_later, &laters[0]) == 0);
        EXPECT_OK(propane_wait(b.request, NULL, &err));
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    }
    job_free(&a);
    job_free(&b);
    job_free(&c);
    propane_event_free(gate);
    rig_close(&r);
}

/* ---- ends ------------------------------------------------------------------------------------------------------------------- */

TEST(free_and_close_wait_for_what_is_in_flight) {
    rig r = rig_open("scripted");
    propane_event *gate = event_create(&r);
    job a = job_create(&r, SCRIPT_OK, 0), b = job_create(&r, SCRIPT_SLEEP, 5);
    set_events(&a, gate, 1, NULL, 0);
    later l = {gate, NULL, 1};
    pthread_t thread;
    EXPECT_OK(propane_submit(&a.request, 1, &err));
    EXPECT(pthread_create(&thread, NULL, signal_later, &l) == 0);
    job_free(&a);
    EXPECT(atomic_load(&scripted_count) == 1);
    pthread_join(thread, NULL);
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(propane_submit(&b.request, 1, &err));
        EXPECT_OK(propane_wait(b.request, NULL, &err));
    }
    EXPECT_OK(propane_submit(&b.request, 1, &err));
    propane_device_close(r.device);
    EXPECT(atomic_load(&scripted_count) == 5);
    EXPECT_FAIL(propane_submit(&b.request, 1, &err), PROPANE_ERR_INVALID, "closed");
    /* The children are freed after their device here: wrong, but harmless. */
    job_free(&b);
    propane_event_free(gate);
    propane_program_free(r.program);
}

static void *close_device(void *device) {
    propane_device_close(device);
    return NULL;
}

/* Waiting callers get an error, later requests run, and their signals are sent. */
TEST(closing_cancels_what_waits_for_an_event) {
    const int64_t live = mem_live_count();
    rig r = rig_open("scripted");
    propane_event *never = event_create(&r), *after = event_create(&r);
    job a = job_create(&r, SCRIPT_OK, 0), b = job_create(&r, SCRIPT_OK, 0), c = job_create(&r, SCRIPT_OK, 0);
    propane_completion done = {.size = sizeof done};
    set_events(&a, never, 1, after, 1);
    set_events(&b, after, 1, NULL, 0);
    set_events(&c, never, 2, NULL, 0);
    propane_request *chain[] = {a.request, b.request, c.request};
    EXPECT_OK(propane_submit(chain, 3, &err));
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, close_device, r.device) == 0);
    EXPECT_FAIL(propane_wait(a.request, &done, &err), PROPANE_ERR_CANCELLED,
                "device 'scripted' was closed while the request was waiting for an event");
    EXPECT(done.status == PROPANE_ERR_CANCELLED);
    EXPECT_OK(propane_wait(b.request, NULL, &err));
    EXPECT_FAIL(propane_wait(c.request, NULL, &err), PROPANE_ERR_CANCELLED, "was closed");
    pthread_join(thread, NULL);
    EXPECT(atomic_load(&scripted_count) == 1 && propane_event_value(after) == 1);
    job_free(&a);
    job_free(&b);
    job_free(&c);
    propane_event_free(never);
    propane_event_free(after);
    propane_program_free(r.program);
    EXPECT(mem_live_count() == live);
}

TEST(what_is_freed_early_lives_until_its_request_is_gone) {
    rig r = rig_open("scripted");
    propane_event *gate = event_create(&r);
    job a = job_create(&r, SCRIPT_OK, 0);
    set_events(&a, gate, 1, gate, 2);
    EXPECT_OK(propane_submit(&a.request, 1, &err));
    propane_buffer_free(a.in);
    propane_buffer_free(a.out);
    propane_program_free(r.program);
    propane_event_signal(gate, 1);
    propane_event_free(gate);
    EXPECT_OK(propane_wait(a.request, NULL, &err));
    propane_request_free(a.request);
    propane_device_close(r.device);
}

/* ---- many ------------------------------------------------------------------------------------------------------------------- */

TEST(a_request_is_used_again_without_allocating) {
    rig r = rig_open("scripted");
    job a = job_create(&r, SCRIPT_OK, 0), b = job_create(&r, SCRIPT_FAIL, 0);
    propane_request *chain[] = {a.request, b.request};
    EXPECT_OK(propane_submit(chain, 2, &err));
    EXPECT(propane_wait(b.request, NULL, NULL) == PROPANE_ERR_DEVICE);
    uint64_t before = mem_alloc_count();
    for (int i = 1; i < 1000; i++) {
        EXPECT_OK(propane_submit(chain, 2, &err));
        EXPECT_OK(propane_wait(a.request, NULL, &err));
        EXPECT(order_of(&r, &a) == 2 * i + 1);
        EXPECT(propane_wait(b.request, NULL, NULL) == PROPANE_ERR_DEVICE);
    }
    EXPECT(mem_alloc_count() == before);
    job_free(&a);
    job_free(&b);
    rig_close(&r);
}

enum { THREADS = 6, ROUNDS = 200 };

static void *submit_many(void *context) {
    const rig *r = context;
    propane_error e = {0};
    job a = job_create(r, SCRIPT_OK, 0), b = job_create(r, SCRIPT_OK, 0), c = job_create(r, SCRIPT_FAIL, 0);
    propane_request *chain[] = {a.request, b.request, c.request};
    int last = 0;
    for (int i = 0; i < ROUNDS; i++) {
        EXPECT(propane_submit(chain, 3, &e) == PROPANE_OK);
        if (i % 3 == 0) EXPECT(propane_wait(c.request, NULL, NULL) == PROPANE_ERR_DEVICE);
        EXPECT(propane_wait(b.request, NULL, &e) == PROPANE_OK);
        EXPECT(propane_wait(a.request, NULL, &e) == PROPANE_OK);
        EXPECT(order_of(r, &a) > last && order_of(r, &b) > order_of(r, &a));
        last = order_of(r, &b);
        EXPECT(propane_wait(c.request, NULL, NULL) == PROPANE_ERR_DEVICE);
    }
    job_free(&a);
    job_free(&b);
    job_free(&c);
    return NULL;
}

TEST(several_threads_submit_to_one_device) {
    rig r = rig_open("scripted");
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) EXPECT(pthread_create(&threads[i], NULL, submit_many, &r) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    EXPECT(atomic_load(&scripted_count) == THREADS * ROUNDS * 3);
    rig_close(&r);
}

static void *submit_shared(void *context) {
    job *j = context;
    for (int i = 0; i < 300; i++) {
        propane_error e = {0};
        propane_status status = propane_submit(&j->request, 1, &e);
        EXPECT(status == PROPANE_OK || strstr(e.text, "in flight"));
        EXPECT(propane_wait(j->request, NULL, &e) == PROPANE_OK);
    }
    return NULL;
}

TEST(several_threads_share_one_request) {
    rig r = rig_open("scripted");
    job a = job_create(&r, SCRIPT_OK, 0);
    EXPECT_OK(propane_submit(&a.request, 1, &err));
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) EXPECT(pthread_create(&threads[i], NULL, submit_shared, &a) == 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    job_free(&a);
    rig_close(&r);
}

/* Makes every allocation fail once; the sanitizer build finds leaks. */
TEST(no_memory_is_an_error_and_leaks_nothing) {
    rig r = rig_open("scripted");
    propane_event *event = event_create(&r);
    int refused = 0;
    for (uint64_t n = 1; n < 40; n++) {
        propane_device *d = NULL;
        job j = {0};
        propane_event_point point = {event, 1};
        mem_fail_at(n);
        propane_status status = propane_device_open("other", &d, &err);
        if (!status) status = propane_buffer_create(r.device, 16, &j.in, &err);
        if (!status) status = propane_buffer_create(r.device, 16, &j.out, &err);
        propane_binding bindings[] = {{"order", j.out}, {"command", j.in}};
        if (!status) status = propane_request_create(r.program, bindings, 2, &j.request, &err);
        if (!status) status = propane_request_events(j.request, &point, 1, &point, 1, &err);
        mem_fail_at(0);
        EXPECT(status == PROPANE_OK || status == PROPANE_ERR_MEMORY);
        refused += status == PROPANE_ERR_MEMORY;
        job_free(&j);
        propane_device_close(d);
    }
    EXPECT(refused >= 10 && refused < 39);
    propane_event_free(event);
    rig_close(&r);
}

SUITE("device/queue", T(devices_are_listed_and_opened_by_name), T(a_chain_runs_in_order_and_the_queue_has_127_places),
      T(a_request_in_flight_is_not_taken_again), T(a_chain_is_for_one_device), T(a_failure_stays_with_its_request),
      T(the_time_on_the_device_is_measured), T(events_only_grow), T(devices_wait_for_one_another),
      T(waiters_of_several_requests_all_return), T(free_and_close_wait_for_what_is_in_flight),
      T(closing_cancels_what_waits_for_an_event), T(what_is_freed_early_lives_until_its_request_is_gone),
      T(a_request_is_used_again_without_allocating), T(several_threads_submit_to_one_device),
      T(several_threads_share_one_request), T(no_memory_is_an_error_and_leaks_nothing))
