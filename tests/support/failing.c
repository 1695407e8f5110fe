/* SPDX-License-Identifier: MIT
 * Owns the loop over failing requests. Requests, places and points are counted in the file that TEST_POINTS names, for
 * `make hard`.
 */
#include "support/failing.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "support/stack.h"
#include "support/test.h"

enum { FAILING_SAMPLE = 200, FAILING_EACH = 2 };

/* A request and the place that made it. */
typedef struct failing_request {
    uint64_t place, n;
} failing_request;

typedef struct failing {
    const char *name;
    failing_attempt attempt;
    void *context;
    text expected;
    uint64_t requests;     /* in an attempt without failures */
    failing_request *made; /* these requests, sorted by place and then in order */
    uint64_t places;
} failing;

static void failing_count(const failing *f, int points) {
    const char *path = getenv("TEST_POINTS");
    FILE *out = path ? fopen(path, "a") : NULL;
    if (!out) return;
    fprintf(out, "%s %llu %llu %d\n", f->name, (unsigned long long)f->requests, (unsigned long long)f->places, points);
    fclose(out);
}

/* Finds the expected result. Runs twice, because the first run also creates objects that are made once per process
 * (tables, threads). */
static void failing_learn(failing *f) {
    propane_error err = {0};
    for (int i = 0; i < 2; i++) {
        text_deinit(&f->expected);
        const int64_t live = mem_live_count();
        const uint64_t before = mem_alloc_count();
        text result = {0};
        EXPECT_OK(f->attempt(f->context, &result, &err));
        f->requests = mem_alloc_count() - before;
        const int64_t own = result.data ? 1 : 0;
        EXPECT_MSG(i == 0 || mem_live_count() - own == live, "%s: %lld blocks are left without any failure", f->name,
                   (long long)(mem_live_count() - own - live));
        f->expected = result;
    }
    EXPECT_MSG(f->requests > 0, "%s asks for no memory", f->name);
}

/* ---- places ---------------------------------------------------------------------------------------------------------------- */

static failing_request *failing_made; /* with space for failing_room */
static uint64_t failing_room;
static atomic_uint_fast64_t failing_seen;

static void failing_watch(void) {
    const uint64_t i = atomic_fetch_add(&failing_seen, 1);
    if (i < failing_room) failing_made[i] = (failing_request){stack_hash(), i + 1};
}

static int failing_order(const void *a, const void *b) {
    const failing_request *x = a, *y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return x->n < y->n ? -1 : x->n > y->n;
}

/* Makes one more attempt to record which place makes each request. The C library's memory is not counted. */
static void failing_learn_places(failing *f) {
    propane_error err = {0};
    text result = {0};
    f->made = calloc(f->requests, sizeof *f->made);
    EXPECT(f->made != NULL);
    failing_made = f->made, failing_room = f->requests;
    atomic_store(&failing_seen, 0);
    mem_watch(failing_watch);
    EXPECT_OK(f->attempt(f->context, &result, &err));
    mem_watch(NULL);
    text_deinit(&result);
    if (atomic_load(&failing_seen) < f->requests) f->requests = atomic_load(&failing_seen);
    qsort(f->made, f->requests, sizeof *f->made, failing_order);
    for (uint64_t i = 0; i < f->requests; i++) f->places += i == 0 || f->made[i].place != f->made[i - 1].place;
}

/* Tests one point. Returns false if it is after the last request. */
static bool failing_point(failing *f, uint64_t n, bool on) {
    propane_error err = {0};
    text result = {0};
    const int64_t live = mem_live_count();
    const uint64_t before = mem_alloc_count();
    (on ? mem_fail_from : mem_fail_at)(n);
    propane_status status = f->attempt(f->context, &result, &err);
    mem_fail_at(0);
    const bool reached = mem_alloc_count() - before >= n;
    const char *how = on ? "and all after it" : "alone";
    if (status == PROPANE_OK) {
        const bool same = result.length == f->expected.length &&
                          (!result.length || memcmp(result.data, f->expected.data, result.length) == 0);
        size_t at = 0; /* where the results differ */
        while (at < result.length && at < f->expected.length && result.data[at] == f->expected.data[at]) at++;
        EXPECT_MSG(same, "%s: request %llu %s: success with another result, at byte %zu: '%.200s', not '%.200s'",
                   f->name, (unsigned long long)n, how, at, result.data ? result.data + at : "",
                   f->expected.data ? f->expected.data + at : "");
    } else {
        EXPECT_MSG(status == PROPANE_ERR_MEMORY && strstr(err.text, "memory"), "%s: request %llu %s: %s: '%s'", f->name,
                   (unsigned long long)n, how, propane_status_name(status), err.text);
    }
    text_deinit(&result);
    EXPECT_MSG(mem_live_count() == live, "%s: request %llu %s: %lld blocks are left", f->name, (unsigned long long)n,
               how, (long long)(mem_live_count() - live));
    return reached;
}

/* Tests `each` requests of every place: the first, the last, and others evenly spaced between them. */
static int failing_places(failing *f, uint64_t each, bool on) {
    int points = 0;
    for (uint64_t i = 0, end; i < f->requests; i = end) {
        for (end = i + 1; end < f->requests && f->made[end].place == f->made[i].place;) end++;
        const uint64_t count = end - i, wanted = each < count ? each : count;
        for (uint64_t j = 0; j < wanted; j++)
            points += failing_point(f, f->made[i + (j ? j * (count - 1) / (wanted - 1) : 0)].n, on);
    }
    return points;
}

static int failing_sample(failing *f, rng *r, bool on) {
    int points = 0;
    for (int i = 0; i < FAILING_SAMPLE / 2; i++) points += failing_point(f, 1 + rng_below(r, f->requests), on);
    return points;
}

int test_each_failing_allocation(const char *name, failing_attempt attempt, void *context) {
    failing f = {.name = name, .attempt = attempt, .context = context};
    const char *hard = getenv("TEST_HARD");
    const bool thorough = hard && *hard;
    const uint64_t each = test_number("TEST_STACKS", FAILING_EACH);
    failing_learn(&f);
    if (thorough) failing_learn_places(&f);
    const bool all = thorough ? !each : 2 * f.requests <= FAILING_SAMPLE;
    rng r;
    rng_init(&r, test_number("TEST_SEED", 1));
    int points = 0;
    for (int on = 0; on < 2; on++) {
        if (all)
            for (uint64_t n = 1; failing_point(&f, n, on); n++) points++;
        else
            points += thorough ? failing_places(&f, each, on) : failing_sample(&f, &r, on);
    }
    text_deinit(&f.expected);
    free(f.made);
    failing_count(&f, points);
    return points;
}
