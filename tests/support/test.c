/* SPDX-License-Identifier: MIT
 * Owns the bridge to Check, the limit of a test's processor time, and the folder for a program's temporary files. Skips
 * are reported through a file that tests/run.sh names in TEST_SKIPS, because each test is a separate process.
 */
#include "support/test.h"

#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/memory.h"

/* On a busy machine a test gets only a small part of the time, so only a test that hangs reaches this limit. */
enum { SECONDS = 120, CLOCK_FACTOR = 10 };

bool test_checked;
static const test_case *all_cases;
static const char *suite_title;
static bool named; /* the tests to run were selected by name */
static const char *current_name = "?";
static pid_t program_pid;
static char program_dir[1000]; /* contains every temporary file of this program's tests */

/* ---- limits ------------------------------------------------------------------------------------------------------------ */

static double seconds_allowed(void) {
    const char *given = getenv("TEST_TIMEOUT");
    return given && atof(given) > 0 ? atof(given) : SECONDS;
}

static char out_of_time_text[300];

static void out_of_time(int number) {
    ssize_t written = write(STDERR_FILENO, out_of_time_text, strlen(out_of_time_text));
    (void)written;
    (void)number;
    _exit(1);
}

/* Limits the processor time of all threads; programs that the test starts have the same limit. Not in a debugger
 * (CK_FORK=no), where all tests share one process. */
static void limit_processor_time(void) {
    struct rlimit limit;
    if (getpid() == program_pid || getrlimit(RLIMIT_CPU, &limit) != 0) return;
    limit.rlim_cur = (rlim_t)seconds_allowed() + 1;
    snprintf(out_of_time_text, sizeof out_of_time_text, "%s: %s: used up its %g s of processor time (TEST_TIMEOUT)\n",
             suite_title, current_name, seconds_allowed());
    signal(SIGXCPU, out_of_time);
    setrlimit(RLIMIT_CPU, &limit);
}

static void run_case(int index) {
    current_name = all_cases[index].name;
    test_checked = false;
    limit_processor_time();
    if (all_cases[index].is_long && !named && !test_all())
        test_skip("long: make check-all runs it");
    else
        all_cases[index].body();
    if (!test_checked) ck_abort_msg("%s checks nothing", current_name);
}

/* ---- temporary files --------------------------------------------------------------------------------------------------- */

static bool make_program_dir(void) {
    const char *given = getenv("TMPDIR");
    snprintf(program_dir, sizeof program_dir, "%.900s/propane-test-XXXXXX", given && *given ? given : "/tmp");
    if (!mkdtemp(program_dir) || setenv("TMPDIR", program_dir, 1) != 0) {
        perror(program_dir);
        return false;
    }
    return true;
}

/* Counts files that no test requested through test_temp_dir. They are the library's, which removes what it made unless
 * it was killed. */
static int strays(void) {
    int count = 0;
    DIR *d = opendir(program_dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.' || strncmp(e->d_name, "test-", 5) == 0) continue;
        fprintf(stderr, "%s: a temporary file is left behind: %s\n", suite_title, e->d_name);
        count++;
    }
    if (d) closedir(d);
    return count;
}

static void remove_program_dir(void) {
    propane_error err = {0};
    if (file_remove_tree(program_dir, &err) != PROPANE_OK) fprintf(stderr, "%s\n", err.text);
}

char *test_temp_dir(void) {
    char path[1100];
    snprintf(path, sizeof path, "%s/test-XXXXXX", program_dir);
    ck_assert_msg(mkdtemp(path) != NULL, "mkdtemp %s failed", path);
    return mem_copy_string(path);
}

/* ---- running ----------------------------------------------------------------------------------------------------------- */

static bool selected(const char *name, int argc, char **argv) {
    if (argc < 2) return true;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0) return true;
    return false;
}

int test_main(const char *title, const test_case *cases, int count, int argc, char **argv) {
    all_cases = cases;
    suite_title = title;
    program_pid = getpid();
    named = argc > 1;
    if (!make_program_dir()) return 2;
    Suite *suite = suite_create(title);
    TTest *entries = calloc((size_t)count, sizeof *entries);
    for (int i = 0; i < count; i++) {
        if (!selected(cases[i].name, argc, argv)) continue;
        TCase *tcase = tcase_create(cases[i].name);
        tcase_set_timeout(tcase, seconds_allowed() * CLOCK_FACTOR);
        entries[i] = (TTest){cases[i].name, run_case, title, 0};
        tcase_add_loop_test(tcase, &entries[i], i, i + 1);
        suite_add_tcase(suite, tcase);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner), ran = srunner_ntests_run(runner);
    srunner_free(runner);
    free(entries);
    const int left = failed ? 0 : strays();
    remove_program_dir();
    if (ran == 0) {
        fprintf(stderr, "%s: no test of that name\n", title);
        return 2;
    }
    return failed || left ? 1 : 0;
}

uint64_t test_number(const char *name, uint64_t standard) {
    const char *given = getenv(name);
    return given && *given ? strtoull(given, NULL, 10) : standard;
}

bool test_all(void) {
    const char *all = getenv("TEST_ALL");
    return all && *all && strcmp(all, "0") != 0;
}

void test_skip(const char *format, ...) {
    test_checked = true;
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
    /* Counted page by page, because the counters of statm may be off by dozens. */
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    long own = -1, huge = -1;
    char line[200];
    while (f && fgets(line, sizeof line, f)) {
        (void)sscanf(line, "Anonymous: %ld kB", &own);
        (void)sscanf(line, "AnonHugePages: %ld kB", &huge);
    }
    if (f) fclose(f);
    return own < 0 || huge < 0 ? -1 : (own - huge) * 1024 / sysconf(_SC_PAGESIZE);
}
