/* SPDX-License-Identifier: MIT
 * The parser beyond the golden cases: the in-memory form, bounds, speed, and running out of memory.
 */
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/mil.h"
#include "core/mil/text/mil_text.h"
#include "propane.h"
#include "support/failing.h"
#include "support/test.h"

static mil_module *parse(const char *program) {
    propane_error err = {0};
    mil_module *m = NULL;
    propane_status status = mil_parse(program, strlen(program), "t.mil", NULL, &m, &err);
    EXPECT_MSG(status == PROPANE_OK, "%s", err.text);
    return m;
}

TEST(keeps_what_the_text_says) {
    propane_error err = {0};
    mil_module *m = parse("program(1.5)\n[buildInfo = dict<string, string>({{\"a\", \"b\"}, {\"c\", \"\"}})]\n{\n"
                          "func f<ios16>(tensor<fp16, [2, 3]> x) {\n"
                          "  int32 a = const()[name = string(\"a\"), val = int32(-1)];\n"
                          "  tensor<fp16, [2, 3]> y = softmax(axis = a, x = x)[name = string(\"L\")];\n"
                          "} -> (y);\n}\n");
    EXPECT(m->version_major == 1 && m->version_minor == 5);
    EXPECT(m->build_info_count == 2);
    EXPECT_TEXT(m->build_info[1].key, "c");
    EXPECT_TEXT(m->build_info[1].value, "");
    mil_function *f = mil_module_function(m, NULL, &err);
    EXPECT(f && f->opset == MIL_IOS16 && f->param_count == 1 && f->result_count == 1 && f->op_count == 2);
    const mil_op *op = f->last;
    int64_t axis;
    EXPECT_OK(mil_attr_int(op, "axis", &axis, &err));
    EXPECT(axis == -1);
    EXPECT(mil_in(op, "x") == f->params[0] && op->results[0] == f->results[0]);
    EXPECT_TEXT(op->label, "L");
    EXPECT(op->line == 6 && op->column == 3 && op->results[0]->line == 6);
    EXPECT(mil_in(op, "axis")->constant && !mil_in(op, "axis")->is_inline);
    EXPECT(mil_module_function(m, "g", &err) == NULL);
    EXPECT_TEXT(err.text, "t.mil: there is no function 'g'; the program has: f");
    mil_module_free(m);
}

TEST(defaults_come_from_the_row) {
    propane_error err = {0};
    mil_module *m = parse("program(1.3){func f<ios16>(tensor<fp16, [2, 3]> x) {tensor<fp16, [2, 3]> y = gelu(x = x);"
                          "tensor<fp16, [2, 3]> z = rsqrt(x = y); fp16 s = reduce_sum(x = z);} -> (s);}");
    const mil_op *gelu = m->functions->first, *rsqrt = gelu->next, *sum = rsqrt->next;
    const char *mode;
    double epsilon;
    bool keep = true;
    int64_t axes[2 * MIL_MAX_RANK];
    int count;
    EXPECT_OK(mil_attr_text(gelu, "mode", &mode, &err));
    EXPECT_TEXT(mode, "EXACT");
    EXPECT_OK(mil_attr_float(rsqrt, "epsilon", &epsilon, &err));
    EXPECT(epsilon == 1e-12);
    EXPECT_OK(mil_attr_bool(sum, "keep_dims", &keep, &err));
    EXPECT(!keep);
    EXPECT_OK(mil_attr_ints(sum, "axes", axes, &count, &err));
    EXPECT(count == 0 && mil_in(sum, "axes") == NULL);
    mil_module_free(m);
}

TEST(public_calls) {
    propane_error err = {0};
    propane_module *m = NULL;
    EXPECT_FAIL(propane_module_read("no/such.mil", &m, &err), PROPANE_ERR_NOT_FOUND, "no/such.mil");
    EXPECT(m == NULL);
    EXPECT_FAIL(propane_module_parse("x", 1, NULL, NULL, &m, &err), PROPANE_ERR_INVALID,
                "text:1:1: expected 'program'");
    EXPECT_FAIL(propane_module_parse(NULL, 0, NULL, NULL, &m, &err), PROPANE_ERR_INVALID, "NULL");
    const char blob[] =
        "program(1.3){func f<ios16>() {tensor<fp16, [4]> a = const()[val = tensor<fp16, [4]>(BLOBFILE(path "
        "= string(\"@model_path/weights/w.bin\"), offset = uint64(192)))];} -> (a);}";
    EXPECT_OK(propane_module_parse(blob, strlen(blob), NULL, "tests/mil/cases", &m, &err));
    EXPECT(mil_const_f64(m->functions->results[0]->constant, 2) == -3.0);
    propane_module_free(m);
    propane_module_free(NULL);
    char *dir = test_temp_dir(), path[700];
    snprintf(path, sizeof path, "%s/p.mil", dir);
    EXPECT_OK(file_write(path, blob, strlen(blob), &err));
    EXPECT_FAIL(propane_module_read(path, &m, &err), PROPANE_ERR_NOT_FOUND, "p.mil:1:85: cannot open");
    EXPECT_FAIL(propane_module_read(dir, &m, &err), PROPANE_ERR_INVALID, dir);
    mem_free(dir);
    EXPECT_FAIL(propane_module_parse(blob, strlen(blob), NULL, NULL, &m, &err), PROPANE_ERR_INVALID, "has no folder");
}

/* Every prefix of a program is refused with a position, and none reads past its end. */
TEST(every_prefix_is_refused) {
    propane_error err = {0};
    char *data;
    size_t length;
    EXPECT_OK(file_read("tests/mil/cases/idiom_heads.mil", 1 << 20, &data, &length, &err));
    length = (size_t)(strstr(data, "// >>>") - data);
    while (length && data[length - 1] == '\n') length--;
    for (size_t n = 0; n < length; n++) {
        char *part = malloc(n + 1); /* a separate allocation, so that the sanitizer sees a read past its end */
        memcpy(part, data, n);
        mil_module *m = NULL;
        propane_status status = mil_parse(part, n, "p", "tests/mil/cases", &m, &err);
        EXPECT_MSG(status == PROPANE_ERR_INVALID && strncmp(err.text, "p:", 2) == 0, "prefix of %zu bytes: %s", n,
                   err.text);
        free(part);
    }
    mem_free(data);
}

static void long_program(text *out, int ops) {
    text_append(out, "program(1.3)\n{\n    func main<ios18>(tensor<fp16, [1, 64, 1, 32]> v0) {\n");
    for (int i = 0; i < ops; i += 2) {
        text_printf(out, "        fp16 c%d = const()[name = string(\"c%d\"), val = fp16(0x1.8p-%d)];\n", i, i, i % 10);
        text_printf(out, "        tensor<fp16, [1, 64, 1, 32]> v%d = mul(x = v%d, y = c%d)[name = string(\"v%d\")];\n",
                    i + 2, i, i, i + 2);
    }
    text_printf(out, "    } -> (v%d);\n}\n", ops);
}

/* The time that it takes is measured by bench_check. */
TEST(five_thousand_operations) {
    propane_error err = {0};
    text program = {0};
    mil_module *m;
    long_program(&program, 5000);
    EXPECT_OK(mil_parse(program.data, program.length, "long", NULL, &m, &err));
    EXPECT(m->functions->op_count == 5000);
    mil_module_free(m);
    text_deinit(&program);
}

TEST(large_literals_are_linear) {
    propane_error err = {0};
    text program = {0};
    enum { COUNT = 1 << 20 };
    text_printf(&program, "program(1.3){func f<ios18>() {tensor<fp32, [%d]> a = const()[val = tensor<fp32, [%d]>([",
                COUNT, COUNT);
    for (int i = 0; i < COUNT; i++) text_printf(&program, "%s%d.5", i ? "," : "", i % 100);
    text_append(&program, "])];} -> (a);}");
    mil_module *m;
    EXPECT_OK(mil_parse(program.data, program.length, "large", NULL, &m, &err));
    const mil_const *c = m->functions->results[0]->constant;
    EXPECT(c->bytes == 4 * COUNT && mil_const_f64(c, COUNT - 1) == (COUNT - 1) % 100 + 0.5);
    EXPECT_MSG(arena_bytes(m->arena) < 2 * program.length, "%zu bytes for %zu of text", arena_bytes(m->arena),
               program.length);
    mil_module_free(m);
    text_deinit(&program);
}

/* A literal with few elements allocates no memory for a type that promises many. */
TEST(a_promise_takes_no_memory) {
    propane_error err = {0};
    mil_module *m;
    const char lie[] = "program(1.3){func f<ios18>() {tensor<fp32, [1048576, 1048576]> a = const()[val = "
                       "tensor<fp32, [1048576, 1048576]>([1])];} -> (a);}";
    EXPECT_FAIL(mil_parse(lie, strlen(lie), "lie", NULL, &m, &err), PROPANE_ERR_INVALID, "the type has 1099511627776");
}

static propane_status parse_once(void *context, text *result, propane_error *err) {
    const text *program = context;
    mil_module *m = NULL;
    PROPANE_TRY(mil_parse(program->data, program->length, "m", NULL, &m, err));
    text_printf(result, "%d operations", m->functions->op_count);
    mil_module_free(m);
    return result->failed ? propane_fail_memory(err, 0) : PROPANE_OK;
}

TEST(no_memory_is_an_error) {
    text program = {0};
    long_program(&program, 60);
    EXPECT(test_each_failing_allocation("mil_parse", parse_once, &program) > 10);
    text_deinit(&program);
}

SUITE("mil/parse", T(keeps_what_the_text_says), T(defaults_come_from_the_row), T(public_calls),
      T(every_prefix_is_refused), T(five_thousand_operations), T(large_literals_are_linear),
      T(a_promise_takes_no_memory), T(no_memory_is_an_error))
