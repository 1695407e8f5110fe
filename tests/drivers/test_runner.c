/* SPDX-License-Identifier: MIT
 * core/device/runner.h: own and lent buffers, bindings, refusals.
 */
#include <string.h>

#include "core/device/runner.h"
#include "support/test.h"

static propane_error err;
static propane_device *device;
static propane_program *program;

static const char source[] =
    "program(1.3)\n{\n    func main<ios17>(tensor<fp32, [1, 4]> a, tensor<fp32, [1, 4]> b) {\n"
    "        tensor<fp32, [1, 4]> y = sub(x = a, y = b)[name = string(\"y\")];\n    } -> (y);\n}\n";

static void begin(void) {
    propane_module *m = NULL;
    EXPECT_OK(propane_device_open("cpu", &device, &err));
    EXPECT_OK(propane_module_parse(source, strlen(source), "source", NULL, &m, &err));
    EXPECT_OK(propane_program_compile(device, m, NULL, &program, &err));
    propane_module_free(m);
}

static void end(void) {
    propane_program_free(program);
    propane_device_close(device);
}

static void expect_difference(runner *r) {
    static const float a[] = {5, 7, 9, 11}, b[] = {1, 2, 3, 4};
    float y[4] = {0};
    EXPECT_OK(runner_write(r, 0, PROPANE_FP32, a, &err));
    EXPECT_OK(runner_write(r, 1, PROPANE_FP32, b, &err));
    EXPECT_OK(runner_run(r, NULL, &err));
    EXPECT_OK(runner_read(r, 2, PROPANE_FP32, y, &err));
    for (int i = 0; i < 4; i++) EXPECT(y[i] == a[i] - b[i]);
}

TEST(inputs_come_first_and_every_buffer_is_made) {
    runner r;
    begin();
    EXPECT(runner_io_count(program) == 3);
    EXPECT_OK(runner_open(&r, device, program, NULL, NULL, &err));
    EXPECT(r.inputs == 2 && r.count == 3);
    EXPECT_TEXT(runner_io(&r, 1)->name, "b");
    EXPECT_TEXT(r.bindings[2].name, "y");
    expect_difference(&r);
    runner_close(&r);
    runner_close(&r); /* zeroed at this point */
    end();
}

/* Lends only the buffer for `a`. */
static propane_status lend_first(void *context, const propane_io *io, int index, propane_buffer **out, bool *lent,
                                 propane_error *e) {
    (void)io, (void)e;
    *lent = index == 0;
    if (*lent) *out = context;
    return PROPANE_OK;
}

TEST(a_lent_buffer_outlives_its_runners) {
    runner one, two;
    begin();
    EXPECT_OK(runner_open(&one, device, program, NULL, NULL, &err));
    EXPECT_OK(runner_open(&two, device, program, lend_first, one.bindings[0].buffer, &err));
    EXPECT(two.bindings[0].buffer == one.bindings[0].buffer && two.bindings[1].buffer != one.bindings[1].buffer);
    expect_difference(&two);
    runner_close(&two);
    expect_difference(&one);
    runner_close(&one);
    end();
}

static propane_status refuse_second(void *context, const propane_io *io, int index, propane_buffer **out, bool *lent,
                                    propane_error *e) {
    (void)context, (void)out, (void)lent;
    return index < 1 ? PROPANE_OK : propane_fail(e, PROPANE_ERR_LIMIT, "no room for '%s'", io->name);
}

TEST(what_is_refused_leaves_nothing_behind) {
    runner r;
    propane_request *request = NULL;
    begin();
    EXPECT_FAIL(runner_open(&r, device, program, refuse_second, NULL, &err), PROPANE_ERR_LIMIT, "no room for 'b'");
    runner_close(&r);
    EXPECT_OK(runner_open(&r, device, program, NULL, NULL, &err));
    EXPECT_FAIL(runner_bind(program, lend_first, r.bindings[0].buffer, &request, &err), PROPANE_ERR_INVALID,
                "there is no buffer for 'b'");
    EXPECT(!request);
    runner_close(&r);
    end();
}

/* A session that keeps every value of a large program has very many small buffers: each takes little more than its
 * bytes, and is aligned, zeroed and separate. */
TEST(small_buffers_of_cpu_take_no_page_each) {
    enum { COUNT = 256, BYTES = 64, PAGE = 4096 };
    propane_device *d = NULL;
    propane_buffer *b[COUNT];
    unsigned char *at[COUNT];
    int pages = 0;
    propane_status status = PROPANE_OK;
    EXPECT_OK(propane_device_open("cpu", &d, &err));
    for (int i = 0; i < COUNT && !status; i++) /* without EXPECT, which allocates, too */
        status = propane_buffer_create(d, BYTES, &b[i], &err);
    EXPECT_OK(status);
    for (int i = 0; i < COUNT; i++) {
        bool met = false;
        EXPECT_OK(propane_buffer_lock(b[i], true, (void **)&at[i], &err));
        EXPECT((uintptr_t)at[i] % 64 == 0);
        for (int k = 0; k < BYTES; k++) EXPECT(at[i][k] == 0);
        memset(at[i], i, BYTES);
        for (int k = 0; k < i; k++) met |= (uintptr_t)at[k] / PAGE == (uintptr_t)at[i] / PAGE;
        pages += !met;
    }
    EXPECT_MSG(pages < COUNT / 2, "%d pages for %d buffers", pages, COUNT);
    for (int i = 0; i < COUNT; i++) {
        for (int k = 0; k < BYTES; k++) EXPECT(at[i][k] == i);
        propane_buffer_unlock(b[i]);
        propane_buffer_free(b[i]);
    }
    propane_device_close(d);
}

SUITE("drivers/runner", T(inputs_come_first_and_every_buffer_is_made), T(a_lent_buffer_outlives_its_runners),
      T(what_is_refused_leaves_nothing_behind), T(small_buffers_of_cpu_take_no_page_each))
