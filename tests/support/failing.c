/* SPDX-License-Identifier: MIT
 * Owns the loop over requests that fail. Points are counted into the file that TEST_POINTS names, for `make hard`.
 */
#include "support/failing.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/rng.h"
#include "support/test.h"

enum { FAILING_SAMPLE = 200 };

typedef struct failing {
    const char *name;
    failing_attempt attempt;
    void *context;
    text expected;
    uint64_t requests; /* of an attempt without failures */
} failing;

static uint64_t failing_seed(void) {
    const char *given = getenv("TEST_SEED");
    return given && *given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) / 86400;
}

static void failing_count(const char *name, int points) {
    const char *path = getenv("TEST_POINTS");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f) return;
    fprintf(f, "%s %d\n", name, points);
    fclose(f);
}

/* Twice: what is made once a process (tables, threads) is there after the first. */
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

/* False: the point lies after the last request. */
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
        size_t at = 0; /* where they part */
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

int test_each_failing_allocation(const char *name, failing_attempt attempt, void *context) {
    failing f = {.name = name, .attempt = attempt, .context = context};
    failing_learn(&f);
    const char *hard = getenv("TEST_HARD");
    const bool all = (hard && *hard) || 2 * f.requests <= FAILING_SAMPLE;
    rng r;
    rng_init(&r, failing_seed());
    int points = 0;
    for (int on = 0; on < 2; on++) {
        if (all)
            for (uint64_t n = 1; failing_point(&f, n, on); n++) points++;
        for (int i = 0; !all && i < FAILING_SAMPLE / 2; i++)
            points += failing_point(&f, 1 + rng_below(&r, f.requests), on);
    }
    text_deinit(&f.expected);
    failing_count(name, points);
    return points;
}
