/* SPDX-License-Identifier: MIT
 * The usage example of propane.h, examples/run_mil.c, run as a program.
 */
#include <libgen.h>
#include <stdlib.h>

#include "propane.h"
#include "support/test.h"

static char program[1000]; /* found from this test's path: BUILD/tests/drivers/test_example */

/* Runs the program, collects its output including standard error, and returns the exit code. */
static int run(const char *arguments, char *output, size_t size) {
    char command[1200];
    snprintf(command, sizeof command, "'%s' %s 2>&1", program, arguments);
    FILE *pipe = popen(command, "r");
    EXPECT(pipe != NULL);
    size_t used = fread(output, 1, size - 1, pipe);
    output[used] = 0;
    int status = pclose(pipe);
    EXPECT(status >= 0 && status % 256 == 0);
    return status / 256;
}

static bool has_driver(const char *name) {
    for (int i = 0; i < propane_driver_count(); i++)
        if (strcmp(propane_driver_name(i), name) == 0) return true;
    return false;
}

TEST(runs_and_prints) {
    char output[2000];
    EXPECT(run("examples/add.mil null", output, sizeof output) == 0);
    EXPECT_TEXT(output, "total = [2, 3]: 0 0 0 0 0 0\nmean = [2, 3]: 0 0 0 0 0 0\n");
}

TEST(runs_on_the_cpu) {
    if (!has_driver("cpu")) SKIP("this build has no cpu driver");
    char output[2000];
    EXPECT(run("examples/add.mil", output, sizeof output) == 0);
    EXPECT_TEXT(output, "total = [2, 3]: 0 2 4 6 8 10\nmean = [2, 3]: 0 1 2 3 4 5\n");
}

TEST(says_what_is_wrong) {
    char output[2000];
    EXPECT(run("", output, sizeof output) == 2);
    EXPECT_TEXT(output, "usage: run_mil FILE.mil [DEVICE]\n");
    EXPECT(run("examples/none.mil null", output, sizeof output) == 1);
    EXPECT(strstr(output, "run_mil: ") == output && strstr(output, "examples/none.mil"));
    EXPECT(run("examples/add.mil abacus", output, sizeof output) == 1);
    EXPECT(strstr(output, "unknown device 'abacus'; the devices are "));
    EXPECT(run("Makefile null", output, sizeof output) == 1);
    EXPECT(strstr(output, "Makefile:1:"));
}

int main(int argc, char **argv) {
    static const test_case cases[] = {T(runs_and_prints), T(runs_on_the_cpu), T(says_what_is_wrong)};
    char self[800];
    snprintf(self, sizeof self, "%s", argv[0]);
    snprintf(program, sizeof program, "%s/../../examples/run_mil", dirname(self));
    return test_main("drivers/example", cases, 3, argc, argv);
}
