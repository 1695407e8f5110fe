/* SPDX-License-Identifier: MIT
 * The pool: every task runs once, scratch indices are never shared, nesting, several callers, stopping, no allocation.
 */
#include "core/base/file.h"
#include "core/base/pool.h"
#include "core/base/power_source.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "support/test.h"

enum { TASKS = 1000 };

typedef struct tally {
    atomic_int done[TASKS];
    atomic_int busy[256]; /* tasks that currently use a worker's scratch */
    atomic_int bad;
    long plain[256]; /* not atomic: each belongs to one worker, so the thread sanitizer would detect two users */
} tally;

static void count_task(void *context, int task, int worker) {
    tally *t = context;
    if (worker < 0 || worker >= pool_threads()) atomic_fetch_add(&t->bad, 1);
    if (atomic_fetch_add(&t->busy[worker], 1) != 0) atomic_fetch_add(&t->bad, 1);
    atomic_fetch_add(&t->done[task], 1);
    t->plain[worker]++;
    atomic_fetch_sub(&t->busy[worker], 1);
}

static tally *tally_create(void) {
    tally *t = mem_alloc(sizeof *t);
    EXPECT(t != NULL);
    return t;
}

static void expect_each(const tally *t, int count, int times) {
    EXPECT(atomic_load(&t->bad) == 0);
    long sum = 0;
    for (int i = 0; i < 256; i++) sum += t->plain[i];
    EXPECT(sum == (long)count * times);
    for (int i = 0; i < TASKS; i++) EXPECT(atomic_load(&t->done[i]) == (i < count ? times : 0));
}

static void each_task_once(int threads) {
    propane_error err = {0};
    EXPECT_OK(pool_set_threads(threads, &err));
    EXPECT(threads == 0 || pool_threads() == threads);
    static const int counts[] = {0, 1, 2, 3, 7, 64, TASKS};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        tally *t = tally_create();
        for (int i = 0; i < 50; i++) pool_run(count_task, t, counts[c]);
        expect_each(t, counts[c], 50);
        mem_free(t);
    }
    pool_stop();
}

TEST(each_task_runs_once) {
    each_task_once(0);
    each_task_once(1);
    each_task_once(2);
}

TEST(more_threads_than_cores) { each_task_once(9); }

typedef struct nest {
    tally inner;
    atomic_int outer;
} nest;

static void outer_task(void *context, int task, int worker) {
    nest *n = context;
    atomic_fetch_add(&n->outer, 1);
    pool_run(count_task, &n->inner, 10);
}

TEST(a_loop_inside_a_loop_runs_on_its_caller) {
    propane_error err = {0};
    EXPECT_OK(pool_set_threads(4, &err));
    nest *n = mem_alloc(sizeof *n);
    EXPECT(n != NULL);
    pool_run(outer_task, n, 100);
    EXPECT(atomic_load(&n->outer) == 100);
    expect_each(&n->inner, 10, 100);
    mem_free(n);
    pool_stop();
}

static void *call_many(void *context) {
    for (int i = 0; i < 300; i++) pool_run(count_task, context, 17);
    return NULL;
}

TEST(several_callers_take_turns) {
    propane_error err = {0};
    EXPECT_OK(pool_set_threads(3, &err));
    tally *t = tally_create();
    pthread_t callers[4];
    for (int i = 0; i < 4; i++) EXPECT(pthread_create(&callers[i], NULL, call_many, t) == 0);
    for (int i = 0; i < 4; i++) pthread_join(callers[i], NULL);
    expect_each(t, 17, 4 * 300);
    mem_free(t);
    pool_stop();
}

TEST(stopped_it_starts_again) {
    propane_error err = {0};
    EXPECT_OK(pool_set_threads(3, &err));
    tally *t = tally_create();
    pool_stop();
    for (int i = 0; i < 20; i++) {
        pool_run(count_task, t, 100);
        pool_stop();
        pool_stop();
    }
    expect_each(t, 100, 20);
    mem_free(t);
}

TEST(does_not_allocate) {
    tally *t = tally_create();
    pool_run(count_task, t, 100);
    uint64_t before = mem_alloc_count();
    for (int i = 0; i < 1000; i++) pool_run(count_task, t, 100);
    EXPECT(mem_alloc_count() == before);
    expect_each(t, 100, 1001);
    mem_free(t);
    pool_stop();
}

TEST(thread_numbers_are_checked) {
    propane_error err = {0};
    EXPECT_FAIL(pool_set_threads(-1, &err), PROPANE_ERR_INVALID, "threads is -1; it must be from 1 to 256");
    EXPECT_FAIL(pool_set_threads(257, &err), PROPANE_ERR_INVALID, "threads is 257; it must be from 1 to 256");
    EXPECT_OK(pool_set_threads(2, &err));
    tally *t = tally_create();
    pool_run(count_task, t, 100);
    EXPECT_OK(pool_set_threads(2, &err));
    EXPECT_FAIL(pool_set_threads(3, &err), PROPANE_ERR_INVALID, "already running with 2");
    pool_stop();
    EXPECT_OK(pool_set_threads(3, &err));
    setenv("PROPANE_THREADS", "5", 1);
    EXPECT_OK(pool_set_threads(0, &err));
    EXPECT(pool_threads() == 5);
    setenv("PROPANE_THREADS", "many", 1);
    EXPECT_OK(pool_set_threads(0, &err));
    EXPECT(pool_threads() >= 1);
    mem_free(t);
}

/* ---- waiting ------------------------------------------------------------------------------------------------------------ */

static void supply(const char *folder, const char *name, const char *file, const char *text) {
    propane_error err = {0};
    char path[1300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    EXPECT_OK(file_make_dir(path, &err));
    snprintf(path, sizeof path, "%s/%s/%s", folder, name, file);
    FILE *f = fopen(path, "w");
    EXPECT(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

TEST(a_laptop_on_its_battery_is_known) {
    char *dir = test_temp_dir();
    EXPECT(!power_source_is_battery_in("/no/such/folder") && !power_source_is_battery_in(dir));
    supply(dir, "BAT0", "type", "Battery\n");
    supply(dir, "BAT0", "status", "Discharging\n");
    EXPECT(power_source_is_battery_in(dir));
    supply(dir, "AC", "type", "Mains\n");
    supply(dir, "AC", "online", "1\n");
    EXPECT(!power_source_is_battery_in(dir));
    supply(dir, "AC", "online", "0\n");
    EXPECT(power_source_is_battery_in(dir));
    supply(dir, "BAT0", "status", "Full\n");
    supply(dir, "mouse", "type", "Battery\n");
    supply(dir, "mouse", "scope", "Device\n");
    supply(dir, "mouse", "status", "Discharging\n");
    EXPECT(!power_source_is_battery_in(dir));
    mem_free(dir);
}

TEST(a_machine_that_is_slowed_down_by_heat_is_known) {
    char *dir = test_temp_dir();
    EXPECT(!power_source_is_hot_in("/no/such/folder") && !power_source_is_hot_in(dir));
    supply(dir, "thermal_zone0", "temp", "99000\n");
    supply(dir, "thermal_zone0", "trip_point_0_type", "critical\n");
    supply(dir, "thermal_zone0", "trip_point_0_temp", "90000\n");
    EXPECT(!power_source_is_hot_in(dir));
    supply(dir, "thermal_zone0", "trip_point_1_type", "passive\n");
    supply(dir, "thermal_zone0", "trip_point_1_temp", "0\n");
    EXPECT(!power_source_is_hot_in(dir));
    supply(dir, "thermal_zone0", "trip_point_1_temp", "99000\n");
    EXPECT(power_source_is_hot_in(dir));
    supply(dir, "thermal_zone0", "temp", "98999\n");
    EXPECT(!power_source_is_hot_in(dir));
    supply(dir, "cooling_device0", "temp", "120000\n");
    EXPECT(!power_source_is_hot_in(dir));
    mem_free(dir);
}

TEST(spinning_can_be_chosen) {
    propane_error err = {0};
    setenv("PROPANE_SPIN", "off", 1);
    EXPECT_OK(pool_set_threads(2, &err));
    tally *t = tally_create();
    for (int i = 0; i < 50; i++) pool_run(count_task, t, 100);
    pool_stop();
    setenv("PROPANE_SPIN", "on", 1);
    EXPECT_OK(pool_set_threads(200, &err));
    pool_run(count_task, t, 100);
    for (int i = 0; i < 100; i++) EXPECT(t->done[i] == 51);
    mem_free(t);
}

/* On battery, threads sleep at once, and where they would take a core from the one they wait for they only yield. */
TEST(spinning_depends_on_the_wish_the_power_and_the_cores) {
    static const char *const wishes[] = {NULL, "on", "off", "", "what"};
    for (int i = 0; i < 5; i++)
        for (int battery = 0; battery < 2; battery++)
            for (int crowded = 0; crowded < 2; crowded++) {
                const int rounds = pool_spin_rounds(wishes[i], battery, crowded);
                const bool sleeps = i == 2 || (i != 1 && battery), spins = i == 1 || (!sleeps && !crowded);
                EXPECT_MSG(sleeps  ? rounds == -1
                           : spins ? rounds > 0
                                   : rounds == 0,
                           "%d %d %d: %d", i, battery, crowded, rounds);
            }
}

typedef struct attempts {
    int from; /* the first task that fails; all later ones fail, too */
    atomic_int broken, runs;
    atomic_bool done[50];
} attempts;

static propane_status try_one(void *context, int task, propane_error *err) {
    attempts *a = context;
    atomic_fetch_add(&a->runs, 1);
    if (task == 3 && atomic_fetch_sub(&a->broken, 1) > 0) return propane_fail_memory(err, 1);
    if (task >= a->from) return propane_fail(err, PROPANE_ERR_INVALID, "task %d", task);
    atomic_store(&a->done[task], true);
    return PROPANE_OK;
}

TEST(the_first_task_that_fails_is_reported) {
    propane_error err = {0};
    attempts none = {.from = 100}, some = {.from = 7}, once = {.from = 100, .broken = 1};
    EXPECT_OK(pool_try(try_one, &none, 50, &err));
    EXPECT(atomic_load(&none.runs) == 50);
    EXPECT_FAIL(pool_try(try_one, &some, 50, &err), PROPANE_ERR_INVALID, "task 7");
    EXPECT_OK(pool_try(try_one, &once, 50, &err)); /* the second attempt succeeds, and also runs the skipped tasks */
    for (int i = 0; i < 50; i++) EXPECT_MSG(atomic_load(&once.done[i]), "task %d was left out", i);
    EXPECT_OK(pool_try(try_one, &none, 0, &err));
}

SUITE("base/pool", T(each_task_runs_once), T(more_threads_than_cores), T(a_loop_inside_a_loop_runs_on_its_caller),
      T(several_callers_take_turns), T(stopped_it_starts_again), T(does_not_allocate), T(thread_numbers_are_checked),
      T(the_first_task_that_fails_is_reported), T(a_laptop_on_its_battery_is_known),
      T(a_machine_that_is_slowed_down_by_heat_is_known), T(spinning_can_be_chosen),
      T(spinning_depends_on_the_wish_the_power_and_the_cores))
