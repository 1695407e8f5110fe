/* SPDX-License-Identifier: MIT
 * Each pass separately: the operations that it removes, and those that it must leave. Results keep their names and
 * bits.
 */
#include "core/base/memory.h"
#include "core/pass/pass.h"
#include "support/random_program.h"
#include "support/test.h"

static const pass_options fold_only = {.fold = true}, simplify_only = {.simplify = true}, share_only = {.share = true},
                          drop_only = {.drop_unused = true},
                          simplify_and_drop = {.simplify = true, .drop_unused = true};

static mil_type f32(int rank, const int64_t *dim) { return mil_type_tensor(MIL_fp32, rank, dim); }
#define DIM(...)                                                                                                       \
    (int64_t[]) { __VA_ARGS__ }

static int ops_but_constants(const mil_function *f) {
    int count = 0;
    for (const mil_op *op = f->first; op; op = op->next) count += op->info->code != MIL_OP_const;
    return count;
}

static int ops_of(const mil_function *f, mil_opcode code) {
    int count = 0;
    for (const mil_op *op = f->first; op; op = op->next) count += op->info->code == code;
    return count;
}

/* A function of x [2,3,4] whose body one of the makers below writes; `want` ops must remain, not counting constants. */
typedef mil_value *(*body)(mil_builder *b, mil_value *x);

static void check(body make, const pass_options *options, int want, const char *what) {
    propane_error err = {0};
    mil_module *m = mil_module_create("pass");
    arena *a = arena_create();
    mil_builder b;
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *x = mil_build_param(&b, "x", f32(3, DIM(2, 3, 4)));
    mil_build_result(&b, mil_build_unary(&b, MIL_OP_exp, make(&b, x)));
    EXPECT_OK(mil_build_end(&b, &err));
    const char *name = b.function->results[0]->name;
    double data[24];
    for (int i = 0; i < 24; i++) data[i] = (double)(float)(0.1 * i - 1.05);
    mil_tensor in = {x->type, data}, *before, *after;
    EXPECT_OK(mil_eval_function(b.function, &in, true, a, &before, &err));
    EXPECT_OK(pass_run(b.function, options, &err));
    EXPECT_OK(mil_verify(m, &err));
    EXPECT_OK(mil_eval_function(b.function, &in, true, a, &after, &err));
    EXPECT_MSG(mil_type_equal(&before->type, &after->type) &&
                   memcmp(before->data, after->data, (size_t)mil_type_count(&before->type) * sizeof(double)) == 0,
               "%s: another result", what);
    EXPECT_TEXT(b.function->results[0]->name, name);
    EXPECT_MSG(ops_but_constants(b.function) == want + 1, "%s: %d ops are left, not %d", what,
               ops_but_constants(b.function) - 1, want);
    arena_free(a);
    mil_module_free(m);
}

#define BODY(name) static mil_value *name(mil_builder *b, mil_value *x)
#define ONE(code, ...)                                                                                                 \
    first(mil_build_op(b, MIL_OP_##code, NULL, (mil_argument[]){__VA_ARGS__}, COUNT((mil_argument[]){__VA_ARGS__})))
#define COUNT(...) (int)(sizeof(__VA_ARGS__) / sizeof(mil_argument))
static mil_value *first(mil_op *op) { return op ? op->results[0] : NULL; }
static mil_value *twice(mil_builder *b, mil_value *x, const int64_t *p, const int64_t *q) {
    return mil_build_transpose(b, mil_build_transpose(b, x, p, 3), q, 3);
}

BODY(identity) { return mil_build_unary(b, MIL_OP_identity, mil_build_unary(b, MIL_OP_identity, x)); }
BODY(times_one) {
    return mil_build_binary_scalar(b, MIL_OP_mul, mil_build_binary(b, MIL_OP_mul, mil_build_scalar(b, MIL_fp32, 1), x),
                                   1);
}
BODY(plus_zero) { return mil_build_binary_scalar(b, MIL_OP_sub, mil_build_binary_scalar(b, MIL_OP_add, x, 0), 0); }
BODY(over_one) { return mil_build_binary_scalar(b, MIL_OP_pow, mil_build_binary_scalar(b, MIL_OP_real_div, x, 1), 1); }
BODY(times_two) { return mil_build_binary_scalar(b, MIL_OP_mul, x, 2); }
BODY(zero_minus) { return mil_build_binary(b, MIL_OP_sub, mil_build_scalar(b, MIL_fp32, 0), x); }
BODY(broadcasting_one) { /* x*ones that enlarges x must stay */
    double ones[4] = {1, 1, 1, 1};
    mil_type type = f32(3, DIM(1, 1, 4));
    mil_value *small = mil_build_reduce(b, MIL_OP_reduce_sum, x, DIM(2), 1, true);
    return mil_build_binary(b, MIL_OP_mul, small, mil_build_const_f64(b, "ones", &type, ones));
}
BODY(transposes_cancel) { return twice(b, x, DIM(2, 0, 1), DIM(1, 2, 0)); }
BODY(transposes_join) { return twice(b, x, DIM(2, 0, 1), DIM(2, 0, 1)); }
BODY(transposes_do_not_commute) { return twice(b, x, DIM(0, 2, 1), DIM(1, 0, 2)); }
BODY(transpose_in_order) { return mil_build_transpose(b, x, DIM(0, 1, -1), 3); }
BODY(reshapes_join) { return mil_build_reshape(b, mil_build_reshape(b, x, DIM(4, 6), 2), DIM(3, 8), 2); }
BODY(reshapes_cancel) { return mil_build_reshape(b, mil_build_reshape(b, x, DIM(4, 6), 2), DIM(2, 3, 4), 3); }
BODY(expanded_and_squeezed) {
    mil_value *axes = mil_build_ints(b, DIM(1), 1), *wide = ONE(expand_dims, {"x", 1, &x}, {"axes", 1, &axes});
    return ONE(squeeze, {"x", 1, &wide}, {"axes", 1, &axes});
}
BODY(casts_cancel) {
    mil_value *half = mil_build_cast(b, x, MIL_fp16), *wide = mil_build_cast(b, half, MIL_fp32);
    return mil_build_cast(b, mil_build_cast(b, wide, MIL_fp16), MIL_fp32); /* fp32 > 16 > 32 > 16 > 32: two remain */
}
BODY(cast_to_itself) { return mil_build_cast(b, x, MIL_fp32); }
BODY(narrowing_stays) { return mil_build_cast(b, mil_build_cast(b, x, MIL_fp16), MIL_fp32); }
BODY(reversed_twice) {
    mil_value *axes = mil_build_ints(b, DIM(0, 2), 2), *back = ONE(reverse, {"x", 1, &x}, {"axes", 1, &axes});
    return ONE(reverse, {"x", 1, &back}, {"axes", 1, &axes});
}
BODY(single_sum) {
    mil_value *flat = mil_build_reshape(b, x, DIM(1, 24), 2);
    return mil_build_reduce(b, MIL_OP_reduce_sum, flat, DIM(0), 1, false);
}
BODY(slice_of_all) { return mil_build_slice(b, x, DIM(0, 0, 0), DIM(2, 3, 4)); }
BODY(slice_of_some) { return mil_build_slice(b, x, DIM(0, 1, 0), DIM(2, 2, 4)); }
BODY(concat_of_one) { return mil_build_concat(b, &x, 1, 1); }
BODY(pad_of_nothing) {
    mil_value *pad = mil_build_ints(b, DIM(0, 0), 2), *reps = mil_build_ints(b, DIM(1, 1, 1), 3);
    x = ONE(pad, {"x", 1, &x}, {"pad", 1, &pad});
    return ONE(tile, {"x", 1, &x}, {"reps", 1, &reps});
}

TEST(simplify) {
    static const struct {
        body make;
        int want;
        const char *what;
    } all[] = {
#define CASE(name, want) {name, want, #name}
        CASE(identity, 0),           CASE(times_one, 0),
        CASE(plus_zero, 0),          CASE(over_one, 0),
        CASE(times_two, 1),          CASE(zero_minus, 1),
        CASE(broadcasting_one, 2),   CASE(transposes_cancel, 0),
        CASE(transposes_join, 1),    CASE(transposes_do_not_commute, 1),
        CASE(transpose_in_order, 0), CASE(reshapes_join, 1),
        CASE(reshapes_cancel, 0),    CASE(expanded_and_squeezed, 0),
        CASE(casts_cancel, 2),       CASE(cast_to_itself, 0),
        CASE(narrowing_stays, 2),    CASE(reversed_twice, 0),
        CASE(single_sum, 1),         CASE(slice_of_all, 0),
        CASE(slice_of_some, 1),      CASE(concat_of_one, 0),
        CASE(pad_of_nothing, 0),
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        check(all[i].make, &simplify_and_drop, all[i].want, all[i].what);
}

/* ---- fold -------------------------------------------------------------------------------------------------------- */

BODY(constants) {
    double data[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    mil_type type = f32(2, DIM(4, 3));
    mil_value *k = mil_build_const_f64(b, "k", &type, data);
    k = mil_build_unary(b, MIL_OP_sqrt, mil_build_transpose(b, k, DIM(1, 0), 2)); /* [3,4] */
    mil_value *parts[2] = {mil_build_slice(b, k, DIM(0, 0), DIM(1, 4)), mil_build_slice(b, k, DIM(1, 0), DIM(2, 4))};
    return mil_build_binary(b, MIL_OP_add, x, mil_build_concat(b, parts, 2, 0));
}
BODY(infinite) {
    mil_value *k = mil_build_unary(b, MIL_OP_exp, mil_build_scalar(b, MIL_fp32, 1000));
    return mil_build_binary(b, MIL_OP_minimum, x, k);
}
BODY(large) { /* 1.5 Mi elements: left alone */
    mil_value *shape = mil_build_ints(b, DIM(3, 1 << 19), 2), *value = mil_build_scalar(b, MIL_fp32, 0.5);
    mil_value *k = ONE(fill, {"shape", 1, &shape}, {"value", 1, &value});
    return mil_build_binary(b, MIL_OP_add, x, mil_build_slice(b, k, DIM(0, 0), DIM(3, 4)));
}

TEST(fold) {
    check(constants, &fold_only, 1, "constants");
    check(infinite, &fold_only, 1, "infinite");
    check(large, &fold_only, 3, "large");
    /* Attributes that need a constant accept a folded one. */
    check(constants, &pass_all, 1, "constants, all passes");
}

/* int8 weights are small on purpose. */
TEST(compressed_weights_stay) {
    propane_error err = {0};
    mil_module *m = mil_module_create("pass");
    mil_builder b;
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *x = mil_build_param(&b, "x", f32(2, DIM(2, 3)));
    mil_type bytes = mil_type_tensor(MIL_int8, 2, DIM(3, 4));
    mil_value *data = mil_build_const_f64(&b, "data", &bytes, (double[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    mil_value *zero = mil_build_scalar(&b, MIL_int8, 0), *scale = mil_build_scalar(&b, MIL_fp32, 0.5),
              *axis = mil_build_int(&b, 0);
    mil_op *w = mil_build_op(
        &b, MIL_OP_constexpr_affine_dequantize, "w",
        (mil_argument[]){
            {"quantized_data", 1, &data}, {"zero_point", 1, &zero}, {"scale", 1, &scale}, {"axis", 1, &axis}},
        4);
    EXPECT_MSG(w != NULL, "%s", b.err.text);
    mil_build_result(&b, mil_build_matmul(&b, x, w->results[0], false, false));
    EXPECT_OK(mil_build_end(&b, &err));
    EXPECT_OK(pass_run(b.function, &pass_all, &err));
    EXPECT(ops_of(b.function, MIL_OP_constexpr_affine_dequantize) == 1);
    mil_module_free(m);
}

/* ---- share and drop ---------------------------------------------------------------------------------------------- */

BODY(equal_expressions) {
    double data[4] = {1, 2, 3, 4};
    mil_type type = f32(1, DIM(4));
    mil_value *sum[2];
    for (int i = 0; i < 2; i++) { /* equal constants, equal chains: 2 x 3 ops */
        mil_value *k = mil_build_const_f64(b, "k", &type, data);
        sum[i] = mil_build_softmax(b, mil_build_unary(b, MIL_OP_tanh, mil_build_binary(b, MIL_OP_mul, x, k)), -1);
    }
    return mil_build_binary(b, MIL_OP_sub, sum[0], sum[1]);
}
BODY(other_attribute) { /* softmax over another axis is a different op */
    return mil_build_binary(b, MIL_OP_sub, mil_build_softmax(b, x, 1), mil_build_softmax(b, x, 2));
}
BODY(other_order) { /* x - y is not y - x */
    mil_value *y = mil_build_unary(b, MIL_OP_sin, x);
    return mil_build_binary(b, MIL_OP_mul, mil_build_binary(b, MIL_OP_sub, x, y),
                            mil_build_binary(b, MIL_OP_sub, y, x));
}
BODY(equal_splits) {
    mil_value *axis = mil_build_int(b, 2), *count = mil_build_int(b, 2);
    mil_op *s[2];
    for (int i = 0; i < 2; i++)
        s[i] = mil_build_op(b, MIL_OP_split, NULL,
                            (mil_argument[]){{"x", 1, &x}, {"num_splits", 1, &count}, {"axis", 1, &axis}}, 3);
    return mil_build_binary(b, MIL_OP_sub, s[0]->results[0], s[1]->results[1]);
}
BODY(unused) {
    mil_build_unary(b, MIL_OP_tanh, mil_build_unary(b, MIL_OP_exp, x));
    mil_build_unary(b, MIL_OP_exp, x);
    return mil_build_unary(b, MIL_OP_sin, x);
}

TEST(share_and_drop) {
    check(equal_expressions, &share_only, 4, "equal_expressions");
    check(other_attribute, &share_only, 3, "other_attribute");
    check(other_order, &share_only, 4, "other_order");
    check(equal_splits, &share_only, 2, "equal_splits");
    check(unused, &drop_only, 1, "unused");
    check(unused, &simplify_only, 4, "unused, not asked for");
}

/* Equal ops that are both results, an identity that is a result, and parameters all stay. */
TEST(results_and_parameters_stay) {
    propane_error err = {0};
    mil_module *m = mil_module_create("pass");
    mil_builder b;
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *x = mil_build_param(&b, "x", f32(1, DIM(4)));
    mil_build_param(&b, "unused", f32(1, DIM(4)));
    mil_value *v[5];
    v[0] = mil_build_unary(&b, MIL_OP_exp, x);
    v[1] = mil_build_unary(&b, MIL_OP_exp, x);
    v[2] = mil_build_unary(&b, MIL_OP_identity, x);
    v[3] = mil_build_unary(&b, MIL_OP_exp, mil_build_scalar(&b, MIL_fp32, 1));
    v[4] = mil_build_unary(&b, MIL_OP_identity, v[0]);
    for (int i = 0; i < 5; i++) mil_build_result(&b, v[i]);
    EXPECT_OK(mil_build_end(&b, &err));
    static const char *const names[] = {"r0", "r1", "r2", "r3", "r4"};
    for (int i = 0; i < 5; i++) EXPECT_OK(mil_rename(b.function, v[i], names[i], &err));
    EXPECT_OK(pass_run(b.function, &pass_all, &err));
    EXPECT_OK(mil_verify(m, &err));
    EXPECT(b.function->param_count == 2 && b.function->result_count == 5 && ops_but_constants(b.function) == 5);
    for (int i = 0; i < 5; i++) EXPECT_TEXT(b.function->results[i]->name, names[i]);
    mil_module_free(m);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

TEST(names_sort_as_declared) {
    propane_error err = {0};
    mil_module *m = mil_module_create("pass");
    mil_builder b;
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *z = mil_build_param(&b, "z", f32(1, DIM(4))), *a = mil_build_param(&b, "a", f32(1, DIM(4)));
    mil_value *sum = mil_build_binary(&b, MIL_OP_add, z, a), *product = mil_build_binary(&b, MIL_OP_mul, sum, a);
    mil_build_result(&b, product);
    mil_build_result(&b, sum);
    EXPECT_OK(mil_build_end(&b, &err));
    EXPECT_OK(mil_rename(b.function, product, "y", &err));
    const char **params, **results;
    EXPECT_OK(pass_name_io(b.function, &params, &results, &err));
    EXPECT_OK(mil_verify(m, &err));
    const mil_function *f = b.function;
    EXPECT_TEXT(f->params[0]->name, "i000_z");
    EXPECT_TEXT(f->params[1]->name, "i001_a");
    EXPECT_TEXT(f->results[0]->name, "o000_y");
    EXPECT_TEXT(f->results[1]->name, "o001_add");
    EXPECT_TEXT(params[0], "z");
    EXPECT_TEXT(params[1], "a");
    EXPECT_TEXT(results[0], "y");
    EXPECT_TEXT(results[1], "add");
    mil_module_free(m);
}

TEST(more_than_a_thousand_names) {
    propane_error err = {0};
    mil_module *m = mil_module_create("pass");
    mil_builder b;
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *sum = NULL;
    for (int i = 0; i < 1200; i++) {
        char name[20];
        snprintf(name, sizeof name, "p%d", i);
        mil_value *p = mil_build_param(&b, name, f32(1, DIM(1)));
        sum = sum ? mil_build_binary(&b, MIL_OP_add, sum, p) : p;
    }
    mil_build_result(&b, sum);
    EXPECT_OK(mil_build_end(&b, &err));
    const char **params, **results;
    EXPECT_OK(pass_name_io(b.function, &params, &results, &err));
    for (int i = 1; i < 1200; i++) EXPECT(strcmp(b.function->params[i - 1]->name, b.function->params[i]->name) < 0);
    mil_module_free(m);
}

/* Each allocation fails once: the result is a status, and the function is still legal. */
TEST(no_memory) {
    propane_error err = {0};
    for (uint64_t n = 1; n < 2000; n++) {
        mil_module *m = mil_module_create("pass");
        mil_function *f = random_program(m, "f", 3, 40);
        mem_fail_at(n);
        propane_status status = pass_run(f, &pass_all, &err);
        mem_fail_at(0);
        EXPECT(status == PROPANE_OK || status == PROPANE_ERR_MEMORY);
        bool done = status == PROPANE_OK;
        mil_module_free(m);
        if (done) {
            EXPECT(n > 3);
            return;
        }
    }
    EXPECT(!"never succeeded");
}

SUITE("pass/pass", T(simplify), T(fold), T(compressed_weights_stay), T(share_and_drop), T(results_and_parameters_stay),
      T(names_sort_as_declared), T(more_than_a_thousand_names), T(no_memory))
