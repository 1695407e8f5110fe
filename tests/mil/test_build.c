/* SPDX-License-Identifier: MIT
 * The builder: straight-line code makes a verified function, the first error is kept, constants are shared, and edits
 * preserve order.
 */
#include "core/base/memory.h"
#include "core/mil/build.h"
#include "core/mil/text/mil_text.h"
#include "support/test.h"

static mil_type shape(mil_dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d) {
    return mil_type_tensor(dtype, 4, (int64_t[]){a, b, c, d});
}

/* Builds attention on [1,8,1,16] with two heads of four, using most of the short calls once. */
static mil_function *attention(mil_builder *b, mil_module *m, const char *name) {
    mil_build_begin(b, m, name, MIL_IOS18);
    b->stage = "attn.qkv";
    mil_value *x = mil_build_param(b, "x", shape(MIL_fp16, 1, 8, 1, 16));
    mil_value *w = mil_build_param(b, "w", shape(MIL_fp16, 8, 8, 1, 1));
    mil_value *q = mil_build_conv1x1(b, x, w);
    mil_value *k = mil_build_conv1x1(b, x, w);
    b->stage = "attn.scores";
    int64_t heads[] = {1, 2, 4, 16}, perm[] = {0, 1, 3, 2}, flat[] = {1, 8, 1, 16}, axes[] = {1};
    mil_value *qh = mil_build_transpose(b, mil_build_reshape(b, q, heads, 4), perm, 4);
    mil_value *kh = mil_build_reshape(b, k, heads, 4);
    mil_value *s = mil_build_binary_scalar(b, MIL_OP_mul, mil_build_matmul(b, qh, kh, false, false), 0.5);
    mil_value *p = mil_build_softmax(b, s, -1);
    mil_value *o = mil_build_transpose(b, mil_build_matmul(b, p, kh, false, true), perm, 4);
    mil_value *y = mil_build_reshape(b, o, flat, 4);
    mil_value *sum = mil_build_reduce(b, MIL_OP_reduce_sum, y, axes, 1, true);
    mil_value *wide = mil_build_cast(b, mil_build_binary(b, MIL_OP_add, y, sum), MIL_fp32);
    int64_t begin[] = {0, 0, 0, 0}, size[] = {1, 8, 1, 8}, second[] = {0, 0, 0, 8};
    mil_value *halves[] = {mil_build_slice(b, wide, second, size), mil_build_slice(b, wide, begin, size)};
    mil_build_result(b, mil_build_concat(b, halves, 2, 3));
    return b->function;
}

static int count_ops(const mil_function *f, mil_opcode code) {
    int count = 0;
    for (const mil_op *op = f->first; op; op = op->next) count += op->info->code == code;
    return count;
}

TEST(straight_code_gives_a_verified_function) {
    propane_error err = {0};
    mil_module *m = mil_module_create("b"), *again;
    mil_builder b;
    mil_function *f = attention(&b, m, "main");
    EXPECT_OK(mil_build_end(&b, &err));
    EXPECT(f->results[0]->type.dtype == MIL_fp32 && f->results[0]->type.dim[3] == 16);
    EXPECT(count_ops(f, MIL_OP_conv) == 2);
    EXPECT_TEXT(f->last->stage, "attn.scores");
    text out = {0};
    mil_print(&out, m, NULL);
    EXPECT_OK(mil_parse(out.data, out.length, "again", NULL, &again, &err));
    EXPECT(again->functions->op_count == f->op_count);
    text_deinit(&out);
    mil_module_free(m);
    mil_module_free(again);
}

TEST(equal_constants_are_shared) {
    propane_error err = {0};
    mil_module *m = mil_module_create("b");
    mil_builder b;
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *x = mil_build_param(&b, "x", shape(MIL_fp16, 1, 1, 1, 2));
    EXPECT(mil_build_int(&b, 3) == mil_build_int(&b, 3));
    EXPECT(mil_build_int(&b, 3) != mil_build_int(&b, 4));
    EXPECT(mil_build_bool(&b, true) == mil_build_bool(&b, true));
    EXPECT(mil_build_text(&b, "valid") == mil_build_text(&b, "valid"));
    EXPECT(mil_build_scalar(&b, MIL_fp16, 0.5) == mil_build_scalar(&b, MIL_fp16, 0.5));
    EXPECT(mil_build_scalar(&b, MIL_fp16, 0.5) != mil_build_scalar(&b, MIL_fp32, 0.5));
    EXPECT(mil_build_ints(&b, (int64_t[]){1, 2}, 2) == mil_build_ints(&b, (int64_t[]){1, 2}, 2));
    EXPECT(mil_build_ints(&b, (int64_t[]){3}, 1) != mil_build_int(&b, 3));
    mil_build_result(&b, mil_build_unary(&b, MIL_OP_relu, x));
    EXPECT_OK(mil_build_end(&b, &err));
    EXPECT(count_ops(b.function, MIL_OP_const) == 8);
    mil_module_free(m);
}

TEST(names_are_made_unique) {
    mil_module *m = mil_module_create("b");
    mil_builder b;
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *x = mil_build_param(&b, "relu", shape(MIL_fp16, 1, 1, 1, 2));
    EXPECT_TEXT(mil_build_unary(&b, MIL_OP_relu, x)->name, "relu_1");
    EXPECT_TEXT(mil_build_unary(&b, MIL_OP_relu, x)->name, "relu_2");
    mil_argument a[] = {{"x", 1, &x}};
    EXPECT_TEXT(mil_build_op(&b, MIL_OP_relu, "mine", a, 1)->results[0]->name, "mine");
    EXPECT_TEXT(mil_build_op(&b, MIL_OP_relu, "mine", a, 1)->results[0]->name, "mine_1");
    mil_value *axis = mil_build_int(&b, 3), *parts = mil_build_int(&b, 2);
    mil_argument split[] = {{"x", 1, &x}, {"num_splits", 1, &parts}, {"axis", 1, &axis}};
    mil_op *op = mil_build_op(&b, MIL_OP_split, "half", split, 3);
    EXPECT(op && op->result_count == 2);
    EXPECT_TEXT(op->results[1]->name, "half_1");
    EXPECT(mil_build_op(&b, MIL_OP_relu, "no name", a, 1) == NULL);
    EXPECT_TEXT(b.err.text, "b: function 'f': 'no name' is not a valid name; use letters, digits, _ . and @, and "
                            "do not begin with a digit");
    mil_module_free(m);
}

TEST(the_first_error_stays) {
    propane_error err = {0};
    mil_module *m = mil_module_create("b");
    mil_builder b;
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *x = mil_build_param(&b, "x", shape(MIL_fp16, 1, 2, 1, 2));
    mil_value *y = mil_build_param(&b, "y", shape(MIL_fp16, 1, 3, 1, 2));
    mil_value *sum = mil_build_binary(&b, MIL_OP_add, x, y); /* shapes that do not broadcast */
    EXPECT(sum == NULL);
    EXPECT(mil_build_softmax(&b, sum, 9) == NULL);
    EXPECT(mil_build_int(&b, 1) == NULL && mil_build_const(&b, "c", &x->type, NULL) == NULL);
    mil_build_result(&b, NULL);
    EXPECT_FAIL(mil_build_end(&b, &err), PROPANE_ERR_INVALID, "b: function 'f': add");
    mil_build_begin(&b, m, "f", MIL_IOS18);
    EXPECT_FAIL(mil_build_end(&b, &err), PROPANE_ERR_INVALID, "function 'f' already exists");
    mil_build_begin(&b, m, "g", MIL_IOS18);
    mil_build_result(&b, mil_build_unary(&b, MIL_OP_relu, x)); /* of another function: it is a parameter of f */
    EXPECT_FAIL(mil_build_end(&b, &err), PROPANE_ERR_INVALID, "belongs to another function");
    mil_module_free(m);
}

TEST(wrong_calls_are_refused) {
    mil_module *m = mil_module_create("b");
    mil_builder b;
    mil_type type = shape(MIL_fp16, 1, 2, 1, 2), empty = shape(MIL_fp16, 1, 0, 1, 1);
    const double large[4] = {0, 1e9, 0, 0};
#define REFUSED(call, part)                                                                                            \
    do {                                                                                                               \
        static int number;                                                                                             \
        char name[60];                                                                                                 \
        snprintf(name, sizeof name, "f%d_%d", __LINE__, number++);                                                     \
        mil_build_begin(&b, m, name, MIL_IOS15);                                                                       \
        mil_value *x = mil_build_param(&b, "x", type);                                                                 \
        (void)x;                                                                                                       \
        EXPECT((call) == NULL);                                                                                        \
        EXPECT_MSG(strstr(b.err.text, part), "'%s' and not '%s'", b.err.text, part);                                   \
    } while (0)
    REFUSED(mil_build_param(&b, "x", type), "the name 'x' is taken");
    REFUSED(mil_build_param(&b, "y", empty), "dimension 1 is 0");
    REFUSED(mil_build_const(&b, "c", &empty, large), "constant 'c' has an invalid type");
    REFUSED(mil_build_const_f64(&b, "c", &type, large), "constant 'c': element 1, 1e+09, does not fit into fp16");
    REFUSED(mil_build_scalar(&b, MIL_int32, 0.5), "the number 0.5 does not fit into int32");
    REFUSED(mil_build_ints(&b, (int64_t[]){(int64_t)1 << 40}, 1), "does not fit into int32");
    REFUSED(mil_build_ints(&b, NULL, 0), "a list cannot have 0 numbers");
    REFUSED(mil_build_unary(&b, MIL_OP_relu, NULL), "the argument x is missing");
    REFUSED(mil_build_binary_scalar(&b, MIL_OP_add, NULL, 1), "x is NULL");
    REFUSED(mil_build_op(&b, MIL_OP_relu, NULL, (mil_argument[]){{"y", 1, &x}}, 1), "it has no argument 'y'");
    REFUSED(mil_build_op(&b, MIL_OP_quantize, NULL, NULL, 0), "quantize requires ios17 or later, but function");
#undef REFUSED
    mil_module_free(m);
}

TEST(insertion_and_edits) {
    propane_error err = {0};
    mil_module *m = mil_module_create("b");
    mil_builder b;
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *x = mil_build_param(&b, "x", shape(MIL_fp16, 1, 2, 1, 2));
    mil_value *r = mil_build_unary(&b, MIL_OP_relu, x), *t = mil_build_unary(&b, MIL_OP_tanh, r);
    mil_build_result(&b, t);
    EXPECT_OK(mil_build_end(&b, &err));
    mil_build_resume(&b, b.function);
    b.before = t->def;
    mil_value *h = mil_build_binary_scalar(&b, MIL_OP_mul, r, 0.5);
    b.before = b.function->first; /* the constant at the head, so the op goes after it */
    mil_value *early = mil_build_binary_scalar(&b, MIL_OP_mul, x, 0.25);
    EXPECT(early && early->def->next == r->def && h->def->next == t->def);
    mil_replace_uses(b.function, r, h);
    /* h is now its own operand, which the caller must correct. */
    EXPECT(mil_in(t->def, "x") == h && mil_in(h->def, "x") == h);
    h->def->operands[0].values[0] = early;
    EXPECT_OK(mil_verify(m, &err));
    mil_op_remove(r->def);
    EXPECT_OK(mil_verify(m, &err));
    EXPECT(count_ops(b.function, MIL_OP_relu) == 0);
    b.before = NULL;
    EXPECT_TEXT(mil_build_unary(&b, MIL_OP_relu, t)->name, "relu"); /* the name is free again */
    EXPECT_OK(mil_rename(b.function, t, "out", &err));
    EXPECT_OK(mil_rename(b.function, t, "out", &err));
    EXPECT_FAIL(mil_rename(b.function, t, "x", &err), PROPANE_ERR_INVALID, "that name is taken");
    EXPECT_FAIL(mil_rename(b.function, t, "", &err), PROPANE_ERR_INVALID, "not legal");
    EXPECT_OK(mil_verify(m, &err));
    mil_value *half = mil_in(h->def, "y");
    mil_replace_uses(b.function, half, mil_in(early->def, "y"));
    mil_op_remove(half->def);
    mil_value *again = mil_build_scalar(&b, MIL_fp16, 0.5); /* not the constant that was removed */
    EXPECT(again && again != half);
    EXPECT_OK(mil_verify(m, &err));
    mil_module_free(m);
}

static mil_function *copy_function(mil_module *to, const mil_function *f, propane_error *err) {
    mil_builder b;
    mil_value **map = mem_array((size_t)f->value_count, sizeof *map);
    mil_build_begin(&b, to, "copy", f->opset);
    for (int i = 0; i < f->param_count; i++)
        map[f->params[i]->id] = mil_build_param(&b, f->params[i]->name, f->params[i]->type);
    for (const mil_op *op = f->first; op; op = op->next) (void)mil_build_copy(&b, op, map);
    for (int i = 0; i < f->result_count; i++) mil_build_result(&b, map[f->results[i]->id]);
    mem_free(map);
    EXPECT_MSG(mil_build_end(&b, err) == PROPANE_OK, "%s", err->text);
    return b.function;
}

TEST(copies_into_another_module_stand_alone) {
    propane_error err = {0};
    mil_module *from = mil_module_create("a"), *to = mil_module_create("a");
    mil_builder b;
    mil_function *f = attention(&b, from, "copy");
    float table[64];
    for (int i = 0; i < 64; i++) table[i] = (float)i;
    mil_type type = shape(MIL_fp32, 1, 4, 1, 16);
    mil_build_result(&b, mil_build_unary(&b, MIL_OP_relu, mil_build_const(&b, "table", &type, table)));
    EXPECT_OK(mil_build_end(&b, &err));
    text before = {0}, after = {0};
    mil_print(&before, from, NULL);
    mil_function *copy = copy_function(to, f, &err);
    EXPECT_TEXT(copy->last->prev->prev->stage, "attn.scores");
    mil_module_free(from);
    mil_print(&after, to, NULL);
    EXPECT_TEXT(after.data, before.data);
    mil_module_free(to);
    mil_module *parsed; /* literals in argument lists are copied, too */
    const char program[] = "program(1.3){func f<ios18>(tensor<fp16, [2]> x) {tensor<fp16, [2]> y = add(x = x, y = "
                           "fp16(2)); tensor<fp16, [2]> z = softmax(x = y, axis = int32(0));} -> (z);}";
    EXPECT_OK(mil_parse(program, strlen(program), "p", NULL, &parsed, &err));
    to = mil_module_create("a");
    copy = copy_function(to, parsed->functions, &err);
    mil_module_free(parsed);
    EXPECT(mil_const_f64(mil_in(copy->first, "y")->constant, 0) == 2.0);
    mil_module_free(to);
    text_deinit(&before);
    text_deinit(&after);
}

TEST(no_memory_is_an_error) {
    propane_error err = {0};
    uint64_t n = 1;
    for (;; n++) {
        mil_builder b;
        mem_fail_at(n);
        mil_module *m = mil_module_create("b");
        propane_status status = PROPANE_ERR_MEMORY;
        if (m) {
            attention(&b, m, "main");
            status = mil_build_end(&b, &err);
        }
        mem_fail_at(0);
        mil_module_free(m);
        if (status == PROPANE_OK) break;
        EXPECT_MSG(status == PROPANE_ERR_MEMORY, "request %llu: %s", (unsigned long long)n, err.text);
    }
    EXPECT(n > 3);
}

SUITE("mil/build", T(straight_code_gives_a_verified_function), T(equal_constants_are_shared), T(names_are_made_unique),
      T(the_first_error_stays), T(wrong_calls_are_refused), T(insertion_and_edits),
      T(copies_into_another_module_stand_alone), T(no_memory_is_an_error))
