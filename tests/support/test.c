/* SPDX-License-Identifier: MIT
 * Owns the bridge to Check. Skips are told through a file that tests/run.sh names in TEST_SKIPS, since each test is a
 * process of its own.
 */
#include "support/test.h"

#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static const test_case *all_cases;
static const char *suite_title;
static const char *current_name = "?";

static void run_case(int index) {
    current_name = all_cases[index].name;
    all_cases[index].body();
}

static bool selected(const char *name, int argc, char **argv) {
    if (argc < 2) return true;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0) return true;
    return false;
}

int test_main(const char *title, const test_case *cases, int count, int argc, char **argv) {
    all_cases = cases;
    suite_title = title;
    Suite *suite = suite_create(title);
    const char *seconds = getenv("TEST_TIMEOUT");
    TTest *entries = calloc((size_t)count, sizeof *entries);
    for (int i = 0; i < count; i++) {
        if (!selected(cases[i].name, argc, argv)) continue;
        TCase *tcase = tcase_create(cases[i].name);
        tcase_set_timeout(tcase, seconds ? atof(seconds) : 120.0);
        entries[i] = (TTest){cases[i].name, run_case, title, 0};
        tcase_add_loop_test(tcase, &entries[i], i, i + 1);
        suite_add_tcase(suite, tcase);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner), ran = srunner_ntests_run(runner);
    srunner_free(runner);
    free(entries);
    if (ran == 0) {
        fprintf(stderr, "%s: no test of that name\n", title);
        return 2;
    }
    return failed ? 1 : 0;
}

void test_skip(const char *format, ...) {
    char why[500];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    printf("skipped: %s: %s: %s\n", suite_title, current_name, why);
    fflush(stdout);
    const char *path = getenv("TEST_SKIPS");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "skipped: %s: %s: %s\n", suite_title, current_name, why);
    fclose(file);
}

const char *test_data(const char *name) {
    static char path[1000];
    const char *dir = getenv("PROPANE_DATA");
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", dir ? dir : "../shared/data", name);
    return stat(path, &st) == 0 ? path : NULL;
}

long test_resident_pages(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return -1;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return -1;
#endif
#endif
    FILE *f = fopen("/proc/self/statm", "r");
    long size = 0, resident = -1;
    if (!f) return -1;
    if (fscanf(f, "%ld %ld", &size, &resident) != 2) resident = -1;
    fclose(f);
    return resident;
}

static char temp_dir[200];
static pid_t temp_owner;

static void remove_temp_dir(void) {
    if (getpid() != temp_owner) return;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", temp_dir);
    if (system(command) != 0) fprintf(stderr, "could not remove %s\n", temp_dir);
}

char *test_temp_dir(void) {
    snprintf(temp_dir, sizeof temp_dir, "%s/propane-test-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    ck_assert_msg(mkdtemp(temp_dir) != NULL, "mkdtemp %s failed", temp_dir);
    temp_owner = getpid();
    atexit(remove_temp_dir);
    return mem_copy_string(temp_dir);
}
