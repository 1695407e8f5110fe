/* SPDX-License-Identifier: MIT
 * The ane driver's tests on the systems that are not the stand-in's default: the same programs, started again as macOS
 * 15 and 26. A test for a rule of only some systems selects the system itself, by a switch.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/ane_rig.h"
#include "support/test.h"

static char folder[1000]; /* folder of this program */

static void run_on(const char *system, const char *program) {
    int how = 0;
    pid_t child = fork();
    if (child == 0) {
        char path[1100], machine[2600];
        const char *said = getenv("PROPANE_STANDIN_MACHINE");
        snprintf(machine, sizeof machine, "%s,system=%s", said ? said : "", system);
        snprintf(path, sizeof path, "%s/%s", folder, program);
        setenv("PROPANE_STANDIN_MACHINE", machine, 1);
        unsetenv("TEST_SKIPS"); /* their own runs report what they skip */
        execv(path, (char *[]){path, NULL});
        _exit(127);
    }
    EXPECT(child > 0 && waitpid(child, &how, 0) == child);
    EXPECT_MSG(WIFEXITED(how) && WEXITSTATUS(how) == 0, "%s on %s ended with %#x: see above", program, system,
               (unsigned)how);
}

static void run_all(const char *system) {
    static const char *const programs[] = {"test_ane", "test_ane_client", "test_ane_evaluate", "test_ane_remembered"};
    for (int i = 0; i < 4; i++) run_on(system, programs[i]);
}

TEST(the_driver_on_15) { run_all("15"); }
TEST(the_driver_on_26) { run_all("26"); }

TEST(the_stand_in_is_there) { SKIP("there is no stand-in on this system"); }

int main(int argc, char **argv) {
    static const test_case none[] = {T(the_stand_in_is_there)};
    static const test_case tests[] = {T(the_driver_on_15), T(the_driver_on_26)};
    const char *slash = strrchr(argv[0], '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - argv[0]) : 1, slash ? argv[0] : ".");
    if (!ane_rig_enter(argv[0])) return test_main("drivers/ane_systems", none, 1, argc, argv);
    int code = test_main("drivers/ane_systems", tests, sizeof tests / sizeof tests[0], argc, argv);
    ane_rig_leave();
    return code;
}
