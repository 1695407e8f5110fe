/* SPDX-License-Identifier: MIT
 * Tests programs with very many states, inputs and outputs: each is found by its name and has the right value.
 */
#include "core/base/text.h"
#include "support/test.h"

static propane_error err;

static propane_session *opened(text *program, const char *device) {
    propane_module *module = NULL;
    propane_session *s = NULL;
    const propane_session_options options = {.size = sizeof options, .device = device};
    EXPECT(!program->failed);
    EXPECT_OK(propane_module_parse(program->data, program->length, "many.mil", NULL, &module, &err));
    EXPECT_OK(propane_session_open_module(module, &options, &s, &err));
    text_deinit(program);
    return s;
}

static float run_and_get(propane_session *s, const char *name) {
    float y = -1;
    EXPECT_OK(propane_session_run(s, NULL, &err));
    EXPECT_OK(propane_session_get(s, name, PROPANE_FP32, &y, 1, &err));
    return y;
}

/* In a matrix, inputs times outputs would not fit in an int. */
static void expect_inputs_and_outputs(const char *device, int count) {
    text t = {0};
    char last[20];
    const float x = 3, zero = 0;
    text_printf(&t, "program(1.3)\n{\nfunc main<ios18>(");
    for (int i = 0; i < count; i++) text_printf(&t, "%stensor<fp16, [1]> x%d", i ? ", " : "", i);
    text_printf(&t, ") {\n");
    for (int i = 0; i < count; i++)
        text_printf(&t, "tensor<fp16, [1]> y%d = square(x = x%d)[name = string(\"y%d\")];\n", i, i, i);
    text_printf(&t, "} -> (");
    for (int i = 0; i < count; i++) text_printf(&t, "%sy%d", i ? ", " : "", i);
    text_printf(&t, ");\n}\n");
    propane_session *s = opened(&t, device);
    for (int i = 0; i < count; i++) {
        snprintf(last, sizeof last, "x%d", i);
        EXPECT_OK(propane_session_set(s, last, PROPANE_FP32, i == count - 1 ? &x : &zero, 1, &err));
    }
    snprintf(last, sizeof last, "y%d", count - 1);
    EXPECT(run_and_get(s, last) == 9 && run_and_get(s, "y0") == 0);
    propane_session_close(s);
}

TEST(inputs_and_outputs) {
    expect_inputs_and_outputs("cpu", 47000);
    expect_inputs_and_outputs("sim:m4?refuse=0", 1000);
}

TEST(states) {
    enum { COUNT = 10000 };
    text t = {0};
    const float x = 2;
    text_printf(&t, "program(1.3)\n{\nfunc main<ios18>(");
    for (int i = 0; i < COUNT; i++) text_printf(&t, "state<tensor<fp16, [1]>> s%d, ", i);
    text_printf(&t, "tensor<fp16, [1]> x) {\n");
    for (int i = 0; i < COUNT; i++)
        text_printf(&t,
                    "tensor<fp16, [1]> r%d = read_state(input = s%d)[name = string(\"r%d\")];\n"
                    "tensor<fp16, [1]> w%d = add(x = r%d, y = x)[name = string(\"w%d\")];\n"
                    "write_state(data = w%d, input = s%d)[name = string(\"q%d\")];\n",
                    i, i, i, i, i, i, i, i, i);
    text_printf(&t, "} -> (w%d);\n}\n", COUNT - 1);
    propane_session *s = opened(&t, "cpu");
    EXPECT_OK(propane_session_set(s, "x", PROPANE_FP32, &x, 1, &err));
    EXPECT(run_and_get(s, "w9999") == 2 && run_and_get(s, "w9999") == 4 && run_and_get(s, "s17") == 6);
    propane_session_close(s);
}

SUITE("api/many", T(inputs_and_outputs), T(states))
