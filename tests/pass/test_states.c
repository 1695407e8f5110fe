/* SPDX-License-Identifier: MIT
 * States as inputs and outputs, and fp16 programs in fp32. They compute the same as the reference evaluation of the
 * program with states, or without rounding.
 */
#include "core/mil/ops.h"
#include "core/mil/text/mil_text.h"
#include "core/pass/pass.h"
#include "support/test.h"

static mil_module *parse(const char *program) {
    propane_error err = {0};
    mil_module *m = NULL;
    EXPECT_OK(mil_parse(program, strlen(program), "t", NULL, &m, &err));
    return m;
}

/* Reads before and after writes, a state that is only read, a result that is a read, and a value written twice. */
static const char program[] =
    "program(1.3)\n{\n    func main<ios18>(fp16 x, state<fp16> a, state<fp16> b, state<fp16> c) {\n"
    "        fp16 a0 = read_state(input = a);\n        fp16 a1 = add(x = a0, y = x);\n"
    "        write_state(input = a, data = a1);\n        fp16 a2 = read_state(input = a);\n"
    "        fp16 a3 = coreml_update_state(state = a, value = x);\n        fp16 b0 = read_state(input = b);\n"
    "        fp16 sum = add(x = a0, y = a2);\n        fp16 more = add(x = sum, y = b0);\n"
    "        write_state(input = c, data = a1);\n        fp16 y = add(x = more, y = a3);\n"
    "        fp16 last = read_state(input = c);\n    } -> (y, last, b0);\n}\n";

static void values(mil_tensor *t, const mil_function *f, const double *from, double *room) {
    for (int i = 0; i < f->param_count; i++) {
        room[i] = from[i];
        t[i] = (mil_tensor){f->params[i]->type, &room[i]};
    }
}

TEST(states_become_inputs_and_outputs) {
    propane_error err = {0};
    mil_module *m = parse(program);
    mil_function *f = m->functions;
    arena *a = arena_create();
    mil_tensor in[4], *with, *without;
    double room[4];
    const double given[] = {3, 10, 100, 1000};
    values(in, f, given, room);
    EXPECT_OK(mil_eval_function(f, in, true, a, &with, &err));
    EXPECT_OK(pass_states(f, &err));
    EXPECT(f->param_count == 4 && f->result_count == 5); /* b is only read */
    EXPECT_TEXT(f->results[0]->name, "y");
    EXPECT_TEXT(f->results[1]->name, "last");
    EXPECT_TEXT(f->results[3]->name, "a_out");
    EXPECT_TEXT(f->results[4]->name, "c_out");
    values(in, f, given, room);
    EXPECT_OK(mil_eval_function(f, in, true, a, &without, &err));
    for (int i = 0; i < 3; i++) EXPECT_MSG(with[i].data[0] == without[i].data[0], "result %d", i);
    EXPECT(with[0].data[0] == 10 + 13 + 100 + 3 && with[1].data[0] == 13);
    EXPECT(without[3].data[0] == with[3].data[0] && without[3].data[0] == 3);  /* a */
    EXPECT(without[4].data[0] == with[5].data[0] && without[4].data[0] == 13); /* c */
    arena_free(a);
    mil_module_free(m);
}

TEST(fp16_becomes_fp32) {
    static const char half[] =
        "program(1.3)\n{\n    func main<ios17>(tensor<fp16, [2]> x, bool p) {\n"
        "        fp16 third = const()[val = fp16(0x1.554p-2)];\n        tensor<fp16, [2]> y = mul(x = x, y = third);\n"
        "        tensor<fp16, [2]> w = cond(pred = p) {\n            tensor<fp16, [2]> a = mul(x = y, y = third);\n"
        "        } -> (a), {\n            tensor<fp32, [2]> b = cast(x = y, dtype = \"fp32\");\n"
        "            tensor<fp16, [2]> c = cast(x = b, dtype = \"fp16\");\n        } -> (c);\n"
        "        tensor<fp16, [2]> z = add(x = w, y = fp16(0x1p-14));\n    } -> (z);\n}\n";
    propane_error err = {0};
    for (int p = 0; p < 2; p++) {
        mil_module *m = parse(half);
        mil_function *f = m->functions;
        arena *a = arena_create();
        double x[] = {1.25, -3}, flag = p;
        mil_tensor in[] = {{f->params[0]->type, x}, {f->params[1]->type, &flag}}, *exact, *rounded;
        EXPECT_OK(mil_eval_function(f, in, false, a, &exact, &err));
        EXPECT_OK(pass_retype_fp32(f, &err));
        EXPECT(f->params[0]->type.dtype == MIL_fp32 && f->results[0]->type.dtype == MIL_fp32);
        in[0].type = f->params[0]->type;
        EXPECT_OK(mil_eval_function(f, in, true, a, &rounded, &err));
        /* Largest seen: 0 and 1.5e-8. */
        for (int i = 0; i < 2; i++) {
            const double off = exact[0].data[i] - rounded[0].data[i];
            EXPECT_MSG(off < 1e-7 && off > -1e-7, "%d: off by %g", i, off);
        }
        arena_free(a);
        mil_module_free(m);
    }
}

TEST(states_in_blocks_are_refused) {
    static const char nested[] =
        "program(1.3)\n{\n    func main<ios18>(fp16 x, bool p, state<fp16> a) {\n        fp16 y = cond(pred = p) {\n"
        "            fp16 b = read_state(input = a);\n        } -> (b), {} -> (x);\n    } -> (y);\n}\n";
    propane_error err = {0};
    mil_module *m = parse(nested);
    EXPECT_FAIL(pass_states(m->functions, &err), PROPANE_ERR_UNSUPPORTED, "state 'a' is used inside a block");
    mil_module_free(m);
}

SUITE("pass/states", T(states_become_inputs_and_outputs), T(fp16_becomes_fp32), T(states_in_blocks_are_refused))
