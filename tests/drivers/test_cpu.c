/* SPDX-License-Identifier: MIT
 * The cpu driver under the conformance suite, and its own guarantees: its refusals name the operation, the caller
 * chooses precision and number of threads, and the profile counts.
 */
#include <math.h>

#include "core/base/pool.h"
#include "cpu/cpu_program.h"
#include "cpu/profile.h"
#include "drivers/conformance.h"

extern const propane_driver cpu_driver;

/* w = tanh(x y), x [M,K] and y [K,N] */
#define PRODUCT_OF(M, K, N)                                                                                            \
    CONFORMANCE_HEAD                                                                                                   \
    "    func main<ios18>(tensor<fp32, [" #M ", " #K "]> x, tensor<fp32, [" #K ", " #N "]> y) {\n"                     \
    "        bool no = const()[name = string(\"no\"), val = bool(false)];\n"                                           \
    "        tensor<fp32, [" #M ", " #N "]> z = matmul(x = x, y = y, transpose_x = no, transpose_y = no)[name = "      \
    "string(\"z\")];\n"                                                                                                \
    "        tensor<fp32, [" #M ", " #N "]> w = tanh(x = z)[name = string(\"w\")];\n"                                  \
    "    } -> (w);\n}\n"
#define PRODUCT PRODUCT_OF(33, 65, 40)
/* Large enough to wake the pool (gemm_blocking.c), with several tiles and tasks for each of three threads. */
#define LARGE_PRODUCT PRODUCT_OF(330, 257, 410)

enum {
    X = 33 * 65,
    Y = 65 * 40,
    Z = 33 * 40,
    LARGE_X = 330 * 257,
    LARGE_Y = 257 * 410,
    LARGE_Z = 330 * 410,
};

static void product(bool large, const propane_compile_options *options, float *w) {
    propane_error err = {0};
    static float x[LARGE_X], y[LARGE_Y];
    const char *source = large ? LARGE_PRODUCT : PRODUCT;
    const int x_count = large ? LARGE_X : X, y_count = large ? LARGE_Y : Y, z_count = large ? LARGE_Z : Z;
    for (int i = 0; i < x_count; i++) x[i] = (float)sin(i);
    for (int i = 0; i < y_count; i++) y[i] = (float)cos(i) / 8;
    propane_device *d = conformance_open();
    propane_module *m = NULL;
    propane_program *p = NULL;
    propane_buffer *b[3] = {NULL};
    propane_request *r = NULL;
    EXPECT_OK(propane_module_parse(source, strlen(source), "product", NULL, &m, &err));
    EXPECT_OK(propane_program_compile(d, m, options, &p, &err));
    propane_module_free(m);
    EXPECT_OK(propane_buffer_create(d, (size_t)x_count * sizeof *x, &b[0], &err));
    EXPECT_OK(propane_buffer_create(d, (size_t)y_count * sizeof *y, &b[1], &err));
    EXPECT_OK(propane_buffer_create(d, (size_t)z_count * sizeof *w, &b[2], &err));
    EXPECT_OK(propane_buffer_write(b[0], propane_program_find(p, "x"), PROPANE_FP32, x, x_count, &err));
    EXPECT_OK(propane_buffer_write(b[1], propane_program_find(p, "y"), PROPANE_FP32, y, y_count, &err));
    const propane_binding bindings[] = {{"x", b[0]}, {"y", b[1]}, {"w", b[2]}};
    propane_completion done = {.size = sizeof done};
    EXPECT_OK(propane_request_create(p, bindings, 3, &r, &err));
    EXPECT_OK(propane_submit(&r, 1, &err));
    EXPECT_OK(propane_wait(r, &done, &err));
    EXPECT(done.device_ns > 0 && !done.simulated);
    EXPECT_OK(propane_buffer_read(b[2], propane_program_find(p, "w"), PROPANE_FP32, w, z_count, &err));
    propane_request_free(r);
    for (int i = 0; i < 3; i++) propane_buffer_free(b[i]);
    propane_program_free(p);
    propane_device_close(d);
}

TEST(bf16_rounds_the_operands_of_products) {
    static float exact[Z], rounded[Z];
    double worst = 0;
    product(false, NULL, exact);
    product(false,
            &(propane_compile_options){.size = sizeof(propane_compile_options), .precision = PROPANE_PRECISION_BF16},
            rounded);
    for (int i = 0; i < Z; i++) {
        double error = fabs((double)exact[i] - (double)rounded[i]);
        if (error > worst) worst = error;
    }
    EXPECT_MSG(worst > 1e-5 && worst < 0.02, "worst %g", worst); /* observed 2.7e-3 */
}

/* For Propane's kernels; with a library they may differ (docs/blas.md). */
TEST(the_number_of_threads_changes_no_bit) {
    static float one[LARGE_Z], more[LARGE_Z];
    propane_error err = {0};
    EXPECT_OK(propane_set_blas("off", &err));
    EXPECT_OK(pool_set_threads(1, &err));
    product(true, NULL, one);
    pool_stop();
    EXPECT_OK(pool_set_threads(3, &err));
    for (int threads = 0; threads <= 3; threads++) { /* 0 means all of the pool's */
        memset(more, 0, sizeof more);
        product(true, &(propane_compile_options){.size = sizeof(propane_compile_options), .threads = threads}, more);
        EXPECT_MSG(memcmp(one, more, sizeof one) == 0, "%d of 3 threads give other bits than a pool of one", threads);
    }
}

/* The plan is one matrix product and one elementwise step, and its profile counts the runs. */
TEST(the_profile_counts) {
    propane_error err = {0};
    propane_module *m = NULL;
    void *device = NULL;
    driver_program program = {.arena = arena_create()};
    driver_buffer b[3] = {{.bytes = X * 4}, {.bytes = Y * 4}, {.bytes = Z * 4}}, *in[2] = {&b[0], &b[1]},
                  *out[1] = {&b[2]};
    EXPECT_OK(propane_module_parse(PRODUCT, strlen(PRODUCT), "product", NULL, &m, &err));
    EXPECT_OK(cpu_driver.open("", &device, &err));
    EXPECT_OK(cpu_driver.compile(device, mil_module_function(m, NULL, &err), NULL, &program, &err));
    for (int i = 0; i < 3; i++) EXPECT_OK(cpu_driver.buffer_create(device, b[i].bytes, &b[i], &err));
    cpu_profile_enable(&program, true);
    propane_completion done = {.size = sizeof done};
    for (int i = 0; i < 3; i++)
        EXPECT_OK(cpu_driver.execute(device, &(driver_execution){&program, in, out}, &done, &err));
    cpu_profile_row row;
    const cpu_program *p = program.impl;
    cpu_profile_get(&program, 0, &row);
    EXPECT(cpu_profile_count(&program) == 2 && p->gemm_count == 1 && p->tile_count == 1 && p->copy_count == 0);
    EXPECT(row.runs == 3 && row.ns > 0 && row.flops == 2.0 * 33 * 65 * 40 && !strcmp(row.kind, "gemm"));
    cpu_profile_reset(&program);
    cpu_profile_get(&program, 0, &row);
    EXPECT(row.runs == 0);
    for (int i = 0; i < 3; i++) cpu_driver.buffer_free(device, &b[i]);
    cpu_driver.program_free(device, &program);
    cpu_driver.close(device);
    propane_module_free(m);
    arena_free(program.arena);
}

TEST(refusals_name_the_value) {
    static const char source[] =
        CONFORMANCE_HEAD "    func main<ios18>(tensor<uint32, [3]> x) {\n"
                         "        tensor<uint32, [3]> y = identity(x = x)[name = string(\"y\")];\n"
                         "    } -> (y);\n}\n";
    propane_error err = {0};
    propane_device *d = conformance_open();
    propane_module *m = NULL;
    EXPECT_OK(propane_module_parse(source, strlen(source), "t.mil", NULL, &m, &err));
    EXPECT_FAIL(propane_program_supported(d, m, NULL, &err), PROPANE_ERR_UNSUPPORTED, "'x'");
    propane_module_free(m);
    propane_device_close(d);
}

int main(int argc, char **argv) {
    static const test_case more[] = {T(bf16_rounds_the_operands_of_products), T(the_number_of_threads_changes_no_bit),
                                     T(the_profile_counts), T(refusals_name_the_value)};
    static const conformance_driver driver = {.title = "drivers/cpu", .uri = "cpu", .more = more, .more_count = 4};
    return conformance_main(&driver, argc, argv);
}
