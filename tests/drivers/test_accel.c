/* SPDX-License-Identifier: MIT
 * The devices accel and registers: the conformance suite through the interpreter, a failure of each of the driver's
 * calls, and the refusals of a node.
 */
#include <errno.h>

#include "ane/accel/accel_node.h"
#include "core/base/memory.h"
#include "core/device/runner.h"
#include "drivers/conformance.h"

static const char accel_program_text[] =
    CONFORMANCE_HEAD "    func main<ios18>(tensor<fp16, [1, 16, 1, 32]> x, tensor<fp16, [1, 16, 1, 32]> z) {\n"
                     "        tensor<fp16, [1, 16, 1, 32]> y = add(x = x, y = z)[name = string(\"y\")];\n"
                     "    } -> (y);\n}\n";

/* The N-th call fails: an error that names one of `calls`, nothing leaks, and the device works with the next program.
 * Returns how many calls there are. */
static int accel_calls_fail(const char *target, const char *const calls[3]) {
    propane_error err = {0};
    int failed = 0;
    for (int n = 1; n <= 8; n++) {
        char uri[60];
        propane_device *d = NULL;
        propane_module *m = NULL;
        propane_program *p = NULL;
        snprintf(uri, sizeof uri, "registers:target=%s,fail=%d", target, n);
        EXPECT_OK(propane_device_open(uri, &d, &err));
        EXPECT_OK(propane_module_parse(accel_program_text, strlen(accel_program_text), "t", NULL, &m, &err));
        err = (propane_error){0};
        propane_status status = propane_program_compile(d, m, NULL, &p, &err);
        if (status) {
            bool named = false;
            for (int i = 0; i < 3; i++) named |= calls[i] && strstr(err.text, calls[i]);
            EXPECT_MSG(named, "call %d: %s", n, err.text);
            failed++;
            EXPECT_OK(propane_program_compile(d, m, NULL, &p, &err));
        }
        propane_program_free(p);
        propane_module_free(m);
        propane_device_close(d);
    }
    return failed;
}

TEST(each_call_fails_once) {
    static const char *const first[3] = {"BO_INIT"}, *const second[3] = {"BO_INIT", "PROG_LOAD", "PROC_CREATE"};
    EXPECT(accel_calls_fail("m1", first) == 5);  /* tasks, first task, three surfaces */
    EXPECT(accel_calls_fail("m2", second) == 6); /* tasks, three surfaces, program, procedure */
}

/* This node supports what the kernel's driver of ABI 2 refuses. */
TEST(programs_and_procedures_are_checked) {
    propane_error err = {0};
    accel_node *n = NULL, *first = NULL;
    accel_buffer text = {0}, data = {0};
    accel_exec call = {0}, c;
    EXPECT_OK(accel_node_open("registers,target=m2", &n, &err));
    EXPECT(accel_node_subtype(n) == ENGINE_H14);
    EXPECT_OK(accel_buffer_make(n, 0x4000, &text, &err));
    EXPECT_OK(accel_buffer_make(n, 0x4000, &data, &err));
    const accel_section good[2] = {{ACCEL_SECTION_TASKS, text.handle, 0x40, 0},
                                   {ACCEL_SECTION_CONSTANTS, text.handle, 0x40, 0x40}};
    accel_section s[2] = {good[0], good[1]};
    EXPECT_FAIL(accel_load(n, good, 1, &call, &err), PROPANE_ERR_DEVICE, "PROG_LOAD: Invalid argument");
    s[1].offset = 0x3fc1;
    EXPECT_FAIL(accel_load(n, s, 2, &call, &err), PROPANE_ERR_DEVICE, "PROG_LOAD: Invalid argument");
    s[1] = good[1], s[1].handle = 99;
    EXPECT_FAIL(accel_load(n, s, 2, &call, &err), PROPANE_ERR_DEVICE, "PROG_LOAD: Invalid argument");
    s[1] = good[1], s[1].id = 9;
    EXPECT_FAIL(accel_load(n, s, 2, &call, &err), PROPANE_ERR_DEVICE, "PROG_LOAD: Invalid argument");
    EXPECT_OK(accel_load(n, good, 2, &call, &err));
    EXPECT_FAIL(accel_call(n, &call, &err), PROPANE_ERR_DEVICE, "EXEC: Invalid argument"); /* no buffer */
    call.count = 1, call.binds[0] = (accel_bind){ENGINE_BAR_SURFACES, data.handle, data.bytes};
    c = call, c.priority = 8;
    EXPECT_FAIL(accel_call(n, &c, &err), PROPANE_ERR_DEVICE, "Invalid argument");
    c = call, c.procedure = 1;
    EXPECT_FAIL(accel_call(n, &c, &err), PROPANE_ERR_DEVICE, "Invalid argument");
    c = call, c.binds[0].bytes++;
    EXPECT_FAIL(accel_call(n, &c, &err), PROPANE_ERR_DEVICE, "Invalid argument");
    c = call, c.count = 2, c.binds[1] = c.binds[0];
    EXPECT_FAIL(accel_call(n, &c, &err), PROPANE_ERR_DEVICE, "Invalid argument");
    EXPECT_FAIL(accel_call(n, &call, &err), PROPANE_ERR_DEVICE, "EXEC: the text has no task");
    EXPECT_FAIL(accel_run(n, &(accel_submit){.tsk_size = 0x40}, &err), PROPANE_ERR_DEVICE, "SUBMIT: ");
    accel_buffer_drop(n, &text); /* and with it the program */
    EXPECT_FAIL(accel_call(n, &call, &err), PROPANE_ERR_DEVICE, "EXEC: Invalid argument");
    accel_buffer_drop(n, &data);
    accel_node_close(n);
    EXPECT_OK(accel_node_open("registers", &first, &err));
    EXPECT_FAIL(accel_load(first, good, 2, &call, &err), PROPANE_ERR_DEVICE, "PROG_LOAD: ");
    accel_node_close(first);
}

/* This node refuses what the kernel refuses with EINVAL. */
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
    EXPECT_FAIL(accel_run(n, &good, &err), PROPANE_ERR_DEVICE, "network id 0x0 instead of 0x40");
    first.data[2] = ACCEL_NID;
    EXPECT_FAIL(accel_run(n, &good, &err), PROPANE_ERR_DEVICE, "SUBMIT: ");
    accel_buffer_drop(n, &text);
    accel_buffer_drop(n, &first);
    accel_node_close(n);
    EXPECT_FAIL(accel_node_open("nowhere", &n, &err), PROPANE_ERR_INVALID, "the path of a device node");
    EXPECT_FAIL(accel_node_open("/dev/null", &n, &err), PROPANE_ERR_DEVICE, "DRM_IOCTL_VERSION");
}

/* A matrix product, a per-channel scale, a kernel with a bias and one that omits zeros: each constant is overwritten
 * separately. */
static const char accel_patched_text[] = CONFORMANCE_HEAD
    "    func main<ios18>(tensor<fp16, [1, 2, 4, 4]> x) {\n"
    "        tensor<fp16, [2, 2, 1, 1]> w = const()[name = string(\"w\"), val = tensor<fp16, [2, 2, 1, 1]>([1, 2, 3, "
    "4])];\n"
    "        tensor<fp16, [2]> b = const()[name = string(\"b\"), val = tensor<fp16, [2]>([5, 6])];\n"
    "        tensor<fp16, [1, 2, 1, 1]> s = const()[name = string(\"s\"), val = tensor<fp16, [1, 2, 1, 1]>([1, 2])];\n"
    "        tensor<fp16, [4, 4]> m = const()[name = string(\"m\"), val = tensor<fp16, [4, 4]>([1, 0, 0, 0, 0, 1, 0, "
    "0, 0, 0, "
    "1, 0, 0, 0, 0, 1])];\n"
    "        tensor<fp16, [2, 2, 1, 1]> z = const()[name = string(\"z\"), val = tensor<fp16, [2, 2, 1, 1]>([1, 0, 0, "
    "1])];\n"
    "        tensor<int32, [2]> two = const()[name = string(\"two\"), val = tensor<int32, [2]>([2, 2])];\n"
    "        tensor<fp16, [1, 2, 4, 4]> c = conv(x = x, weight = w, bias = b)[name = string(\"c\")];\n"
    "        tensor<fp16, [1, 2, 4, 4]> d = mul(x = c, y = s)[name = string(\"d\")];\n"
    "        tensor<fp16, [1, 2, 4, 4]> e = matmul(x = d, y = m)[name = string(\"e\")];\n"
    "        tensor<fp16, [1, 2, 2, 2]> y = conv(x = e, weight = z, strides = two)[name = string(\"y\")];\n"
    "    } -> (y);\n}\n";

/* Checks y's channels, if x is 1 everywhere. */
static void accel_patched_expect(propane_program *p, propane_device *d, float first, float second) {
    propane_error err = {0};
    runner r = {0};
    float x[32], y[8];
    for (int i = 0; i < 32; i++) x[i] = 1;
    EXPECT_OK(runner_open(&r, d, p, NULL, NULL, &err));
    EXPECT_OK(runner_write(&r, 0, PROPANE_FP32, x, &err));
    EXPECT_OK(runner_run(&r, NULL, &err));
    EXPECT_OK(runner_read(&r, 1, PROPANE_FP32, y, &err));
    for (int i = 0; i < 8; i++) {
        float want = i < 4 ? first : second;
        EXPECT_MSG(y[i] == want, "y[%d] is %g, not %g", i, (double)y[i], (double)want);
    }
    runner_close(&r);
}

TEST(constants_are_overwritten) {
    propane_error err = {0};
    propane_device *d = NULL;
    propane_module *m = NULL;
    propane_program *p = NULL, *plain = NULL;
    propane_compile_options options = {.size = sizeof options, .reloadable = true};
    const float w[4] = {2, 2, 1, 0}, b[2] = {1, 2}, s[2] = {4, 8}, z[4] = {1, 1, 1, 1};
    float twice[16] = {0};
    for (int i = 0; i < 4; i++) twice[5 * i] = 2;
    EXPECT_OK(propane_device_open("registers", &d, &err));
    EXPECT(propane_device_describe(d)->patches);
    EXPECT_OK(propane_module_parse(accel_patched_text, strlen(accel_patched_text), "t", NULL, &m, &err));
    EXPECT_OK(propane_program_compile(d, m, &options, &p, &err));
    accel_patched_expect(p, d, 8, 26);
    EXPECT_OK(propane_program_patch(p, "w", PROPANE_FP32, w, 4, &err));
    accel_patched_expect(p, d, 9, 14);
    EXPECT_OK(propane_program_patch(p, "b", PROPANE_FP32, b, 2, &err));
    accel_patched_expect(p, d, 5, 6);
    EXPECT_OK(propane_program_patch(p, "s", PROPANE_FP32, s, 2, &err));
    accel_patched_expect(p, d, 20, 24);
    EXPECT_OK(propane_program_patch(p, "m", PROPANE_FP32, twice, 16, &err));
    accel_patched_expect(p, d, 40, 48);
    EXPECT_FAIL(propane_program_patch(p, "z", PROPANE_FP32, z, 4, &err), PROPANE_ERR_UNSUPPORTED, "without zeros");
    EXPECT_FAIL(propane_program_patch(p, "w", PROPANE_FP32, w, 3, &err), PROPANE_ERR_INVALID, "4 elements, not 3");
    EXPECT_FAIL(propane_program_patch(p, "w", PROPANE_INT32, w, 4, &err), PROPANE_ERR_INVALID, "fp16 or fp32");
    EXPECT_FAIL(propane_program_patch(p, "nowhere", PROPANE_FP32, w, 4, &err), PROPANE_ERR_UNSUPPORTED, "'nowhere'");
    accel_patched_expect(p, d, 40, 48);
    EXPECT_OK(propane_program_compile(d, m, NULL, &plain, &err));
    EXPECT_FAIL(propane_program_patch(plain, "w", PROPANE_FP32, w, 4, &err), PROPANE_ERR_UNSUPPORTED, "'w'");
    propane_program_free(p);
    propane_program_free(plain);
    propane_module_free(m);
    propane_device_close(d);
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
    static const test_case more[] = {T(each_call_fails_once), T(a_submit_is_checked),
                                     T(programs_and_procedures_are_checked), T(constants_are_overwritten),
                                     T(values_within_fp16)};
    static const conformance_driver driver = {.title = "drivers/accel",
                                              .uri = "registers",
                                              .excuses = excuses,
                                              .excuse_count = 2,
                                              .more = more,
                                              .more_count = 5};
    return conformance_main(&driver, argc, argv);
}
