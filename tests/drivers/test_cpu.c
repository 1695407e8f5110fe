/* SPDX-License-Identifier: MIT
 * The cpu driver under the conformance suite: it passes all of it. Its kernels and its planner have tests of their own.
 */
#include "drivers/conformance.h"

static propane_error err;

static const char accumulate_program[] = CONFORMANCE_HEAD
    "    func main<ios18>(tensor<fp32, [16, 24]> sum, tensor<fp32, [16, 8]> a, tensor<fp32, [24, 8]> b) {\n"
    "        tensor<fp32, [16, 24]> product = matmul(x = a, y = b, transpose_x = false, transpose_y = true)"
    "[name = string(\"product\")];\n"
    "        tensor<fp32, [16, 24]> total = add(x = sum, y = product)[name = string(\"total\")];\n"
    "    } -> (total);\n}\n";

/* A weight gradient that grows where it lies: sum and total share one buffer. */
TEST(sums_grow_in_place) {
    propane_device *d = conformance_open();
    propane_program *p = conformance_compile(d, accumulate_program);
    propane_buffer *sum = NULL, *a = NULL, *b = NULL;
    EXPECT_OK(propane_buffer_create(d, propane_program_find(p, "sum")->bytes, &sum, &err));
    EXPECT_OK(propane_buffer_create(d, propane_program_find(p, "a")->bytes, &a, &err));
    EXPECT_OK(propane_buffer_create(d, propane_program_find(p, "b")->bytes, &b, &err));
    float left[16 * 8], right[24 * 8], total[16 * 24];
    for (int i = 0; i < 16 * 8; i++) left[i] = (float)(i % 7 - 3);
    for (int i = 0; i < 24 * 8; i++) right[i] = (float)(i % 5 - 2);
    EXPECT_OK(propane_buffer_write(a, propane_program_find(p, "a"), PROPANE_FP32, left, 16 * 8, &err));
    EXPECT_OK(propane_buffer_write(b, propane_program_find(p, "b"), PROPANE_FP32, right, 24 * 8, &err));
    propane_request *r = NULL;
    propane_binding bindings[] = {{"sum", sum}, {"a", a}, {"b", b}, {"total", sum}};
    EXPECT_OK(propane_request_create(p, bindings, 4, &r, &err));
    for (int i = 0; i < 10; i++) {
        EXPECT_OK(propane_submit(&r, 1, &err));
        EXPECT_OK(propane_wait(r, NULL, &err));
    }
    EXPECT_OK(propane_buffer_read(sum, propane_program_find(p, "total"), PROPANE_FP32, total, 16 * 24, &err));
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 24; k++) {
            float product = 0; /* whole numbers: exact */
            for (int j = 0; j < 8; j++) product += left[i * 8 + j] * right[k * 8 + j];
            EXPECT(total[i * 24 + k] == 10 * product);
        }
    propane_request_free(r);
    propane_buffer_free(sum);
    propane_buffer_free(a);
    propane_buffer_free(b);
    propane_program_free(p);
    propane_device_close(d);
}

/* The module is gone when this runs. */
TEST(constants_are_the_programs_own) {
    static const char text[] = CONFORMANCE_HEAD
        "    func main<ios18>(tensor<fp32, [2, 2]> x) {\n"
        "        tensor<fp32, [2, 2]> w = const()[name = string(\"w\"), val = tensor<fp32, [2, 2]>([[1, 2], [3, 4]])];\n"
        "        tensor<fp32, [2, 2]> y = matmul(x = x, y = w)[name = string(\"y\")];\n"
        "    } -> (y);\n}\n";
    static const float x[4] = {1, 1, 2, 0}, expected[4] = {4, 6, 2, 4};
    float y[4];
    conformance_run(text, (const float *const[]){x}, y, 4);
    for (int i = 0; i < 4; i++) EXPECT_MSG(y[i] == expected[i], "y[%d] is %g", i, (double)y[i]);
}

int main(int argc, char **argv) {
    static const test_case more[] = {T(sums_grow_in_place), T(constants_are_the_programs_own)};
    static const conformance_driver driver = {.title = "drivers/cpu", .uri = "cpu", .more = more, .more_count = 2};
    return conformance_main(&driver, argc, argv);
}
