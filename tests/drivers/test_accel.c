/* SPDX-License-Identifier: MIT
 * The devices accel and registers: the conformance suite through the interpreter, each call of the driver failing once, and
 * what a node refuses.
 */
#include <errno.h>

#include "base/memory.h"
#include "drivers/accel/accel_node.h"
#include "drivers/conformance.h"

static const char accel_program_text[] =
    CONFORMANCE_HEAD "    func main<ios18>(tensor<fp16, [1, 16, 1, 32]> x, tensor<fp16, [1, 16, 1, 32]> z) {\n"
                     "        tensor<fp16, [1, 16, 1, 32]> y = add(x = x, y = z)[name = string(\"y\")];\n"
                     "    } -> (y);\n}\n";

/* The N-th call fails: an error that names it, nothing leaks, and the device works with the next program. */
TEST(each_call_fails_once) {
    propane_error err = {0};
    int failed = 0;
    for (int n = 1; n <= 8; n++) {
        char uri[40];
        propane_device *d = NULL;
        propane_module *m = NULL;
        propane_program *p = NULL;
        snprintf(uri, sizeof uri, "registers:fail=%d", n);
        EXPECT_OK(propane_device_open(uri, &d, &err));
        EXPECT_OK(propane_module_parse(accel_program_text, strlen(accel_program_text), "t", NULL, &m, &err));
        err = (propane_error){0};
        propane_status status = propane_program_compile(d, m, NULL, &p, &err);
        if (status) {
            EXPECT_MSG(strstr(err.text, "BO_INIT"), "call %d: %s", n, err.text);
            failed++;
            EXPECT_OK(propane_program_compile(d, m, NULL, &p, &err));
        }
        propane_program_free(p);
        propane_module_free(m);
        propane_device_close(d);
    }
    EXPECT(failed == 5); /* tasks, first task, three surfaces */
}

/* What the kernel refuses with EINVAL, this node does. */
TEST(a_submit_is_checked) {
    propane_error err = {0};
    accel_node *n = NULL;
    accel_buffer text = {0}, first = {0};
    EXPECT_OK(accel_node_open("registers", &n, &err));
    EXPECT_OK(accel_buffer_make(n, 0x4000, &text, &err));
    EXPECT_OK(accel_buffer_make(n, 0x4000, &first, &err));
    accel_submit good = {.tsk_size = 0x200, .td_count = 1, .td_size = 504, .btsp_handle = first.handle}, s;
    good.handles[0] = text.handle;
    s = good, s.tsk_size = 0;
    EXPECT_FAIL(accel_run(n, &s, &err), PROPANE_ERR_DEVICE, "Invalid argument");
    s = good, s.tsk_size = 0x4000;
    EXPECT_FAIL(accel_run(n, &s, &err), PROPANE_ERR_DEVICE, "Invalid argument");
    s = good, s.handles[1] = text.handle;
    EXPECT_FAIL(accel_run(n, &s, &err), PROPANE_ERR_DEVICE, "Invalid argument");
    s = good, s.handles[5] = 99;
    EXPECT_FAIL(accel_run(n, &s, &err), PROPANE_ERR_DEVICE, "Invalid argument");
    s = good, s.btsp_handle = 0;
    EXPECT_FAIL(accel_run(n, &s, &err), PROPANE_ERR_DEVICE, "Invalid argument");
    EXPECT_FAIL(accel_run(n, &good, &err), PROPANE_ERR_DEVICE, "network id 0x0, not 0x40");
    first.data[2] = ACCEL_NID;
    EXPECT_FAIL(accel_run(n, &good, &err), PROPANE_ERR_DEVICE, "SUBMIT: ");
    accel_buffer_drop(n, &text);
    accel_buffer_drop(n, &first);
    accel_node_close(n);
    EXPECT_FAIL(accel_node_open("nowhere", &n, &err), PROPANE_ERR_INVALID, "a node's path");
    EXPECT_FAIL(accel_node_open("/dev/null", &n, &err), PROPANE_ERR_DEVICE, "DRM_IOCTL_VERSION");
}

TEST(values_within_fp16) {
    static const char product[] =
        CONFORMANCE_HEAD "    func main<ios18>(tensor<fp32, [3, 4]> a, tensor<fp32, [4, 2]> b) {\n"
                         "        tensor<fp32, [3, 2]> c = matmul(x = a, y = b)[name = string(\"c\")];\n"
                         "    } -> (c);\n}\n";
    static const float a[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, b[8] = {1, -1, 2, 0, 3, 1, 4, 2};
    static const float want[6] = {30, 10, 70, 18, 110, 26};
    float c[6];
    conformance_run(product, (const float *const[]){a, b}, c, 6);
    for (int i = 0; i < 6; i++) EXPECT_MSG(c[i] == want[i], "c[%d] is %g, not %g", i, (double)c[i], (double)want[i]);
}

int main(int argc, char **argv) {
    static const conformance_excuse excuses[] = {
        {"a_request_is_used_a_thousand_times_without_allocating", "the interpreter takes memory for each task"},
        {"values_of_small_programs", "fp32 values become fp16, which ends before the 1e6 of that test"},
    };
    static const test_case more[] = {T(each_call_fails_once), T(a_submit_is_checked), T(values_within_fp16)};
    static const conformance_driver driver = {.title = "drivers/accel",
                                              .uri = "registers",
                                              .excuses = excuses,
                                              .excuse_count = 2,
                                              .more = more,
                                              .more_count = 3};
    return conformance_main(&driver, argc, argv);
}
