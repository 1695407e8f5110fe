/* SPDX-License-Identifier: MIT
 * How the ane driver evaluates, against the stand-in: repeating what the engine cancelled, and ordering with a GPU by
 * shared events. Nothing here proves that the driver works on Apple's hardware.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "ane/driver/ane.h"
#include "ane/driver/remembered.h"
#include "support/ane_rig.h"
#include "support/test.h"

static propane_error err;

static void pause_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static void open_rig(const char *rest, ane_rig *r) {
    const ane_api *a;
    ane_options o;
    EXPECT_OK(ane_options_parse(rest, &o, &err));
    EXPECT_OK(ane_api_get(&a, &err));
    EXPECT_OK(ane_rig_open(a, &o, 1, r, &err));
    r->device->way = (ane_dispatch)o.dispatch;
}

/* ---- cancelled evaluations ---------------------------------------------------------------------------------------------------- */

/* The first evaluation of a process, and each one after a pause, is cancelled three to five times without any caller
 * noticing. */
static void repeats_on(const char *rest) {
    ane_rig r;
    propane_completion done;
    int sum = 0;
    ane_rig_set("system", "27");
    ane_rig_set("realtime", "");
    ane_rig_set("idle", "60000");
    open_rig(rest, &r);
    EXPECT_OK(ane_rig_run(&r, 0, 0, &done, &err));
    EXPECT_MSG(done.repeats >= 3 && done.repeats <= 5 && done.device_ns > 0, "%d repeats", done.repeats);
    sum += done.repeats;
    for (int round = 1; round < 4; round++) {
        EXPECT_OK(ane_rig_run(&r, 0, round, &done, &err));
        EXPECT_MSG(done.repeats == 0, "%d repeats", done.repeats);
    }
    ane_rig_set("idle", "10");
    for (int round = 4; round < 7; round++) {
        pause_ms(30);
        EXPECT_OK(ane_rig_run(&r, 0, round, &done, &err));
        EXPECT_MSG(done.repeats >= 3 && done.repeats <= 5, "%d repeats", done.repeats);
        sum += done.repeats;
    }
    EXPECT_MSG(ane_rig_get("cancelled") == sum, "%ld cancelled, %d repeats", ane_rig_get("cancelled"), sum);
    ane_rig_close(&r);
    ane_rig_expect_nothing_left();
}

TEST(what_the_engine_cancels_is_repeated) { repeats_on("memory?dispatch=standard"); }
TEST(so_it_is_on_the_client_route) { repeats_on("client?dispatch=standard"); }
TEST(so_it_is_for_direct_evaluation) { repeats_on("client?dispatch=direct"); }

static void evaluations_of(const char *system, const char *how, const char *part, long evaluations) {
    ane_rig r;
    propane_completion done;
    ane_rig_set("system", system);
    ane_rig_set("idle", "0");
    ane_rig_set("evaluate", how);
    open_rig("memory?dispatch=standard", &r);
    EXPECT_FAIL(ane_rig_run(&r, 0, 0, &done, &err), PROPANE_ERR_DEVICE, part);
    EXPECT_MSG(ane_rig_get("evaluations") == evaluations, "system %s, %s: %ld evaluations", system, how,
               ane_rig_get("evaluations"));
    ane_rig_close(&r);
    ane_rig_expect_nothing_left();
}

/* After eight repeats it is an error. */
TEST(a_repeat_has_an_end) { evaluations_of("27", "0x12", "code 34, status 0x12", 9); }
/* On other systems such rapid repeats have ended in kernel panics. */
TEST(macos_26_repeats_nothing) { evaluations_of("26", "0x12", "code 34, status 0x12", 1); }
TEST(macos_15_repeats_nothing) { evaluations_of("15", "0x12", "code 34, status 0x12", 1); }
TEST(surfaces_are_no_reason_to_repeat) { evaluations_of("27", "0x1d", "code 42, status 0x1d", 1); }
TEST(an_index_is_no_reason_to_repeat) { evaluations_of("27", "0x2", "status 0x2", 1); }
TEST(silence_is_no_reason_to_repeat) { evaluations_of("27", "silent", "no reason was given", 1); }

/* ---- shared events ------------------------------------------------------------------------------------------------------------- */

static const ane_api *the_api(void) {
    const ane_api *a;
    EXPECT_OK(ane_api_get(&a, &err));
    return a;
}

static void events_open(const char *rest, ane_rig *r) {
    open_rig(rest, r);
    EXPECT_OK(ane_events_open(r->device, &err));
    EXPECT(ane_events_native(r->device));
    r->device->way = ANE_STANDARD;
}

static uint64_t value_of(const ane_rig *r) {
    return ANE_SEND0(the_api(), event_value, (ane_id)ane_events_native(r->device));
}

/* The host signals what each run waits for; each run signals its own value. */
TEST(runs_signal_a_metal_event) {
    ane_rig r;
    propane_completion done;
    events_open("client?events=on", &r);
    for (int run = 1; run <= 20; run++) {
        EXPECT_OK(ane_rig_run(&r, 0, run, &done, &err));
        EXPECT_MSG(value_of(&r) == 2 * (uint64_t)run, "%llu after run %d", (unsigned long long)value_of(&r), run);
    }
    ane_rig_close(&r);
    ane_rig_expect_nothing_left();
}

TEST(a_handler_that_is_called_twice_counts_once) {
    ane_rig_set("handler", "twice");
    test_runs_signal_a_metal_event();
}

typedef struct gpu {
    ane_id event;
    int runs;
} gpu;

/* Waits for run k - 1, works, and signals what run k waits for. */
static void *play_gpu(void *from) {
    const gpu *g = from;
    const ane_api *a = the_api();
    for (int run = 1; run <= g->runs; run++) {
        while (ANE_SEND0(a, event_value, g->event) < 2 * (uint64_t)run - 2) pause_ms(1);
        pause_ms(2);
        ANE_SEND(a, event_set_value, g->event, 2 * (uint64_t)run - 1);
    }
    return NULL;
}

TEST(a_gpu_and_the_engine_take_turns) {
    enum { TURNS = 12 };
    ane_rig r;
    propane_completion done;
    pthread_t thread;
    events_open("client?events=gpu", &r);
    gpu g = {ane_events_native(r.device), TURNS};
    EXPECT(pthread_create(&thread, NULL, play_gpu, &g) == 0);
    for (int run = 1; run <= TURNS; run++) {
        EXPECT_OK(ane_rig_run(&r, 0, run, &done, &err));
        EXPECT(value_of(&r) >= 2 * (uint64_t)run);
    }
    pthread_join(thread, NULL);
    EXPECT(value_of(&r) == 2 * TURNS);
    ane_rig_close(&r);
    ane_rig_expect_nothing_left();
}

/* A GPU that waits for a failed run is released. */
TEST(a_run_that_fails_signals_too) {
    ane_rig r;
    propane_completion done;
    ane_rig_set("evaluate", "0x1d");
    ane_rig_set("evaluate_at", "2");
    events_open("client?events=on", &r);
    EXPECT_OK(ane_rig_run(&r, 0, 1, &done, &err));
    EXPECT_FAIL(ane_rig_run(&r, 0, 2, &done, &err), PROPANE_ERR_DEVICE, "0x1d");
    EXPECT(value_of(&r) == 4);
    EXPECT_OK(ane_rig_run(&r, 0, 3, &done, &err));
    EXPECT(value_of(&r) == 6);
    ane_rig_set("request", "nil");
    EXPECT_FAIL(ane_rig_run(&r, 0, 4, &done, &err), PROPANE_ERR_DEVICE, "_ANERequest rejects");
    EXPECT(value_of(&r) == 8);
    ane_rig_close(&r);
    ane_rig_expect_nothing_left();
}

TEST(what_is_cancelled_keeps_its_turn) {
    ane_rig r;
    propane_completion done;
    ane_rig_set("system", "27");
    ane_rig_set("idle", "10");
    events_open("client?events=on", &r);
    for (int run = 1; run <= 4; run++) {
        pause_ms(30);
        EXPECT_OK(ane_rig_run(&r, 0, run, &done, &err));
        EXPECT_MSG(done.repeats >= 3 && value_of(&r) == 2 * (uint64_t)run, "%d repeats", done.repeats);
    }
    ane_rig_close(&r);
    ane_rig_expect_nothing_left();
}

/* A request that waits for ever fails after a time limit. The GPU is released, nothing that the engine may still use is
 * freed, and the device runs nothing more. */
TEST(a_request_that_does_not_end_is_left_alone) {
    ane_rig r;
    propane_completion done;
    events_open("client?events=gpu&limit=50", &r);
    long before = ane_rig_get("evaluations") + ane_rig_get("cancelled");
    EXPECT_FAIL(ane_rig_run(&r, 0, 1, &done, &err), PROPANE_ERR_DEVICE,
                "did not finish within 50 ms: its handler was not called");
    EXPECT(strstr(err.text, "the GPU did not signal"));
    EXPECT(value_of(&r) == 2);
    while (ane_rig_get("evaluations") + ane_rig_get("cancelled") == before) pause_ms(1); /* it ends now */
    EXPECT_FAIL(ane_rig_run(&r, 0, 2, &done, &err), PROPANE_ERR_DEVICE, "an earlier request");
    ane_rig_close(&r);
    EXPECT(ane_rig_get("violations") == 0 && ane_rig_get("programs") == 1);
}

TEST(events_that_are_ignored_are_an_error) {
    ane_rig r;
    propane_completion done;
    ane_rig_set("events", "ignored");
    events_open("client?events=on&limit=50", &r);
    EXPECT_FAIL(ane_rig_run(&r, 0, 1, &done, &err), PROPANE_ERR_DEVICE, "the engine ignores events");
    EXPECT(value_of(&r) == 2);
    ane_rig_close(&r);
}

static void no_events(const char *uri, propane_status status, const char *part) {
    propane_device *d = NULL;
    EXPECT_FAIL(propane_device_open(uri, &d, &err), status, part);
    EXPECT(!d);
}

TEST(events_need_their_route_and_classes) {
    no_events("ane?events=on", PROPANE_ERR_INVALID, "needs the route ane:client and standard evaluation");
    no_events("ane:client?events=on&dispatch=direct", PROPANE_ERR_INVALID, "needs the route ane:client");
    no_events("ane:client?events=sometimes", PROPANE_ERR_INVALID, "it must be off, on, gpu");
    ane_rig_set("metal", "none");
    no_events("ane:client?events=on", PROPANE_ERR_UNSUPPORTED, "the system has no Metal device; leave out events=");
    ane_rig_set("metal", "eventless");
    no_events("ane:client?events=on", PROPANE_ERR_UNSUPPORTED, "the Metal device creates no shared event");
    ane_rig_expect_nothing_left();
}

TEST(an_event_without_a_port_is_refused) {
    ane_rig_set("hide_method", "eventPort");
    no_events("ane:client?events=on", PROPANE_ERR_UNSUPPORTED, "no eventPort");
    ane_rig_expect_nothing_left();
}

TEST(missing_classes_of_events_are_reported) {
    ane_rig_set("hide_class", "_ANESharedWaitEvent");
    no_events("ane:client?events=gpu", PROPANE_ERR_UNSUPPORTED, "a class or method for shared events is missing");
    ane_rig_expect_nothing_left();
}

/* Uses the public interface: a device, its note, its event. */
TEST(a_buffer_gives_the_event) {
    propane_device *d = NULL;
    propane_buffer *b = NULL;
    propane_native native = {.size = sizeof native};
    EXPECT_OK(propane_device_open("ane:client?events=on", &d, &err));
    EXPECT_MSG(strstr(propane_device_describe(d)->note, "in order with the GPU by shared events"), "%s",
               propane_device_describe(d)->note);
    EXPECT_OK(propane_buffer_create(d, 100, &b, &err));
    EXPECT(propane_buffer_native(b, &native) && native.iosurface && native.shared_event);
    propane_buffer_free(b);
    propane_device_close(d);
    EXPECT_OK(propane_device_open("ane:client", &d, &err));
    EXPECT_OK(propane_buffer_create(d, 100, &b, &err));
    EXPECT(propane_buffer_native(b, &native) && native.iosurface && !native.shared_event);
    propane_buffer_free(b);
    propane_device_close(d);
    ane_rig_expect_nothing_left();
}

static void try_events(const char *words, bool holds) {
    text t = {0};
    EXPECT_OK(ane_try_events(&t, &err));
    EXPECT_MSG(strstr(t.data, words), "%s", t.data);
    EXPECT(ane_remembered_yes(the_api(), ANE_ROUTE_CLIENT, ANE_FACT_events) == holds);
    text_deinit(&t);
}

TEST(the_trial_of_events_tells_and_remembers) {
    try_events("the engine waits for a Metal event and signals it", true);
    ane_rig_set("system", "27");
    try_events("the engine waits for a Metal event and signals it", true);
    ane_rig_expect_nothing_left();
    ane_rig_set("events", "ignored");
    try_events("did not finish within 2000 ms", false);
}

TEST(the_stand_in_is_there) { SKIP("there is no stand-in on this system"); }

int main(int argc, char **argv) {
    static const test_case cases[] = {T(what_the_engine_cancels_is_repeated),
                                      T(so_it_is_on_the_client_route),
                                      T(so_it_is_for_direct_evaluation),
                                      T(a_repeat_has_an_end),
                                      T(macos_26_repeats_nothing),
                                      T(macos_15_repeats_nothing),
                                      T(surfaces_are_no_reason_to_repeat),
                                      T(an_index_is_no_reason_to_repeat),
                                      T(silence_is_no_reason_to_repeat),
                                      T(runs_signal_a_metal_event),
                                      T(a_handler_that_is_called_twice_counts_once),
                                      T(a_gpu_and_the_engine_take_turns),
                                      T(a_run_that_fails_signals_too),
                                      T(what_is_cancelled_keeps_its_turn),
                                      T(a_request_that_does_not_end_is_left_alone),
                                      T(events_that_are_ignored_are_an_error),
                                      T(events_need_their_route_and_classes),
                                      T(an_event_without_a_port_is_refused),
                                      T(missing_classes_of_events_are_reported),
                                      T(a_buffer_gives_the_event),
                                      T(the_trial_of_events_tells_and_remembers)};
    static const test_case none[] = {T(the_stand_in_is_there)};
    if (!ane_rig_enter(argv[0])) return test_main("drivers/ane_evaluate", none, 1, argc, argv);
    int code = test_main("drivers/ane_evaluate", cases, sizeof cases / sizeof cases[0], argc, argv);
    ane_rig_leave();
    return code;
}
