/* SPDX-License-Identifier: MIT
 * Tests that a forked child can close, run and exit with its parent's objects: nothing hangs, and requests in flight
 * are over.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

static const char squares[] = "program(1.3)\n{\n    func main<ios18>(tensor<fp32, [256, 256]> x) {\n"
                              "        tensor<fp32, [256, 256]> z = matmul(x = x, y = x, transpose_x = bool(false), "
                              "transpose_y = bool(false))[name = string(\"z\")];\n    } -> (z);\n}\n";

/* Both failures were observed. AddressSanitizer's child waits for ever if another thread held a lock of its
 * allocator at the fork. */
#if defined __SANITIZE_THREAD__
#define FORK_NEEDS_NO_SANITIZER "ThreadSanitizer follows no process with threads through a fork"
#elif defined __SANITIZE_ADDRESS__
#define FORK_NEEDS_NO_SANITIZER "AddressSanitizer's allocator has locks that a fork does not reset"
#endif

enum { SIDE = 256, PATIENCE_S = 20 };

static propane_error err;

/* Makes a child that hangs end only itself: the signal's handler is Check's, which would end the test too. */
static void limit_child(void) {
    signal(SIGALRM, SIG_DFL);
    alarm(PATIENCE_S);
}

static propane_status run(propane_session *s, float *first) {
    static float x[SIDE * SIDE], z[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) x[i] = 1;
    propane_status status = propane_session_set(s, "x", PROPANE_FP32, x, SIDE * SIDE, &err);
    if (!status) status = propane_session_run(s, NULL, &err);
    if (!status) status = propane_session_get(s, "z", PROPANE_FP32, z, SIDE * SIDE, &err);
    *first = z[0];
    return status;
}

/* Uses the parent's session in a child: 0 runs and closes it, 1 closes it, 2 does neither. Exits with 0 on
 * success. */
static int child_does(propane_session *s, int what) {
    float first = 0;
    limit_child();
    if (what == 0 && (run(s, &first) != PROPANE_OK || first != SIDE)) return 1;
    if (what < 2) propane_session_close(s);
    return 0;
}

TEST(a_child_uses_and_closes_what_its_parent_made) {
#ifdef FORK_NEEDS_NO_SANITIZER
    SKIP(FORK_NEEDS_NO_SANITIZER);
#else
    float first = 0;
    propane_module *module = NULL;
    propane_session *s = NULL;
    EXPECT_OK(propane_module_parse(squares, strlen(squares), "squares.mil", NULL, &module, &err));
    EXPECT_OK(propane_session_open_module(module, NULL, &s, &err));
    EXPECT_OK(run(s, &first));
    for (int what = 0; what < 3; what++) {
        int status = -1;
        const pid_t child = fork();
        if (child == 0) _exit(child_does(s, what));
        EXPECT(child > 0 && waitpid(child, &status, 0) == child);
        EXPECT_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d: status %#x", what, (unsigned)status);
    }
    EXPECT_OK(run(s, &first));
    EXPECT(first == SIDE);
    propane_session_close(s);
#endif
}

/* With the device's thread, which a queued request starts. */
TEST(a_request_of_the_parent_is_over_in_the_child) {
#ifdef FORK_NEEDS_NO_SANITIZER
    SKIP(FORK_NEEDS_NO_SANITIZER);
#else
    propane_device *d = NULL;
    propane_module *module = NULL;
    propane_program *program = NULL;
    propane_request *r = NULL;
    propane_buffer *x = NULL, *z = NULL;
    EXPECT_OK(propane_device_open("cpu", &d, &err));
    EXPECT_OK(propane_module_parse(squares, strlen(squares), "squares.mil", NULL, &module, &err));
    EXPECT_OK(propane_program_compile(d, module, NULL, &program, &err));
    EXPECT_OK(propane_buffer_create(d, SIDE * SIDE * sizeof(float), &x, &err));
    EXPECT_OK(propane_buffer_create(d, SIDE * SIDE * sizeof(float), &z, &err));
    const propane_binding bindings[] = {{"x", x}, {"z", z}};
    EXPECT_OK(propane_request_create(program, bindings, 2, &r, &err));
    EXPECT_OK(propane_submit(&r, 1, &err));
    int status = -1;
    const pid_t child = fork(); /* most likely while the request runs */
    if (child == 0) {
        limit_child();
        const propane_status waited = propane_wait(r, NULL, &err);
        bool right = waited == PROPANE_OK || waited == PROPANE_ERR_CANCELLED;
        right = right && propane_submit(&r, 1, &err) == PROPANE_OK && propane_wait(r, NULL, &err) == PROPANE_OK;
        propane_request_free(r);
        propane_program_free(program);
        propane_buffer_free(x);
        propane_buffer_free(z);
        propane_device_close(d);
        _exit(!right);
    }
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", (unsigned)status);
    EXPECT_OK(propane_wait(r, NULL, &err));
    propane_request_free(r);
    propane_program_free(program);
    propane_buffer_free(x);
    propane_buffer_free(z);
    propane_device_close(d);
    propane_module_free(module);
#endif
}

SUITE("api/fork", T(a_child_uses_and_closes_what_its_parent_made), T(a_request_of_the_parent_is_over_in_the_child))
