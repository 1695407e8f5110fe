/* SPDX-License-Identifier: MIT
 * Tests on top of Check: one process per test, with a timeout. A test file looks like this
 *
 *     TEST(adds_two_numbers) { EXPECT(1 + 1 == 2); }
 *     SUITE("base/example", T(adds_two_numbers))
 *
 * and becomes one executable. tests/run.sh runs them all and counts the tests that ran, were skipped (with the reason)
 * and failed.
 */
#ifndef TESTS_SUPPORT_TEST_H
#define TESTS_SUPPORT_TEST_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/status.h"

typedef struct test_case {
    const char *name;
    void (*body)(void);
    bool is_long;
} test_case;

#define TEST(name) static void test_##name(void)
#define T(name)    {#name, test_##name, false}
/* A sweep with too much processor time for `make check`, which skips it; `make check-all` runs it. */
#define T_LONG(name) {#name, test_##name, true}
#define SUITE(title, ...)                                                                                              \
    int main(int argc, char **argv) {                                                                                  \
        static const test_case cases[] = {__VA_ARGS__};                                                                \
        return test_main(title, cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);                             \
    }

/* Runs all cases, or those named in the arguments. Each may use TEST_TIMEOUT (120) seconds of processor time over all
 * threads, and ten times as much wall-clock time. */
int test_main(const char *title, const test_case *cases, int count, int argc, char **argv);

/* Each of the following is a check. A test that ends without one fails, because nothing could make it fail. */
extern bool test_checked;
#define TEST_CHECKS() __atomic_store_n(&test_checked, true, __ATOMIC_RELAXED) /* pool threads check, too */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        TEST_CHECKS();                                                                                                 \
        ck_assert_msg(condition, "%s", #condition);                                                                    \
    } while (0)
/* Most of these are in loops over elements, so only a failure is reported to the process that runs the tests. */
#define EXPECT_MSG(condition, ...)                                                                                     \
    do {                                                                                                               \
        TEST_CHECKS();                                                                                                 \
        if (!(condition)) ck_abort_msg(__VA_ARGS__);                                                                   \
    } while (0)
#define EXPECT_OK(expression)                                                                                          \
    do {                                                                                                               \
        TEST_CHECKS();                                                                                                 \
        propane_status status_ = (expression);                                                                         \
        ck_assert_msg(status_ == PROPANE_OK, "%s: %s: %s", #expression, propane_status_name(status_), err.text);       \
    } while (0)
/* Requires `propane_error err` in scope; `part` must occur in the message. */
#define EXPECT_FAIL(expression, expected, part)                                                                        \
    do {                                                                                                               \
        TEST_CHECKS();                                                                                                 \
        propane_status status_ = (expression);                                                                         \
        ck_assert_msg(status_ == (expected) && strstr(err.text, part), "%s: got %s: '%s', want %s: '...%s...'",        \
                      #expression, propane_status_name(status_), err.text, propane_status_name(expected), part);       \
    } while (0)
#define EXPECT_TEXT(actual, expected)                                                                                  \
    do {                                                                                                               \
        TEST_CHECKS();                                                                                                 \
        ck_assert_str_eq(actual, expected);                                                                            \
    } while (0)

/* Ends the test as skipped; the reason is printed and counted. */
#define SKIP(...)                                                                                                      \
    do {                                                                                                               \
        test_skip(__VA_ARGS__);                                                                                        \
        return;                                                                                                        \
    } while (0)
void test_skip(const char *format, ...) BASE_PRINTF(1, 2);

/* Returns the path of a shared data file ("tinyshakespeare.txt"), searched in $PROPANE_DATA and ../shared/data, or NULL
 * if it is not available. The result is static. */
const char *test_data(const char *name);
/* Returns the number of private memory pages of this process, or -1 if it is unknown here or a sanitizer's memory would
 * be counted. Pages of code are not counted, because the system loads and drops them. Huge pages are not either,
 * because they are assembled with untouched neighbours. */
long test_resident_pages(void);
/* Returns the number in an environment variable, or `standard` if it is not set. */
uint64_t test_number(const char *name, uint64_t standard);
/* Returns true in `make check-all` (TEST_ALL=1). */
bool test_all(void);
/* Makes a fresh folder below the program's folder, which is TMPDIR for its tests and is removed when the program ends,
 * whatever happened. The caller frees the result with mem_free. */
char *test_temp_dir(void);

#endif
