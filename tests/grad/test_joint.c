/* SPDX-License-Identifier: MIT
 * The joint function as a whole: a transformer layer with grouped queries against finite differences, values used
 * twice, unused parameters, thin adjoints, names, stages, and refusals.
 */
#include <math.h>

#include "core/base/memory.h"
#include "core/grad/grad.h"
#include "support/grad_check.h"
#include "support/grad_model.h"
#include "support/test.h"

static mil_value *param(mil_builder *b, const char *name, int64_t rows, int64_t columns) {
    return mil_build_param(b, name, mil_type_tensor(MIL_fp32, 2, (int64_t[]){rows, columns}));
}

static void end(mil_builder *b) {
    propane_error err = {0};
    EXPECT_OK(mil_build_end(b, &err));
}

static mil_function *joint_of(const mil_function *f, const char *const *wrt, int count) {
    propane_error err = {0};
    mil_function *joint = NULL;
    EXPECT_OK(grad_function(f, "joint", wrt, count, &joint, &err));
    EXPECT_OK(mil_verify(f->module, &err));
    return joint;
}

static int ops_of(const mil_function *f, mil_opcode code) {
    int count = 0;
    for (const mil_op *op = f->first; op; op = op->next) count += op->info->code == code;
    return count;
}

/* Largest seen: 7.5e-9. */
TEST(transformer_layers) {
    static const grad_model models[] = {
        {1, 6, 5, 2, 2, 4, 7}, {2, 6, 4, 4, 2, 2, 5}, {2, 4, 3, 4, 1, 2, 6},
        {1, 8, 6, 6, 3, 4, 9}, {3, 4, 1, 2, 1, 2, 3},
    };
    double worst = 0;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        mil_module *m = mil_module_create("layer");
        const mil_function *f = grad_model_build(m, "layer", &models[i], MIL_fp32);
        worst = fmax(worst, grad_check_drawn(f, MIL_DRAW_any, 0, 40 + i, 1e-6, "transformer layer"));
        mil_module_free(m);
    }
    printf("grad/joint: transformer layers, largest difference %.1e\n", worst);
}

TEST(names_order_and_stages) {
    propane_error err = {0};
    mil_module *m = mil_module_create("layer");
    const mil_function *f = grad_model_build(m, "layer", &(grad_model){1, 4, 3, 2, 1, 2, 3}, MIL_fp16);
    mil_function *joint = joint_of(f, NULL, 0);
    EXPECT(joint->param_count == f->param_count + 1 && joint->result_count == 1 + f->param_count);
    EXPECT_TEXT(joint->params[0]->name, "x");
    EXPECT_TEXT(joint->params[f->param_count]->name, "d_y");
    EXPECT_TEXT(joint->results[0]->name, "y");
    EXPECT_TEXT(joint->results[1]->name, "d_x");
    EXPECT_TEXT(joint->results[10]->name, "d_w2");
    for (int i = 0; i < f->param_count; i++) EXPECT(mil_type_equal(&joint->results[1 + i]->type, &f->params[i]->type));
    int forward = 0, backward = 0;
    for (const mil_op *op = joint->first; op; op = op->next) {
        if (op->info->code == MIL_OP_const) continue;
        *(op->backward ? &backward : &forward) += 1;
        /* The two residual sums have the stages around them; every other op has one. */
        EXPECT_MSG(op->stage || op->info->code == MIL_OP_add, "%s has no stage", op->results[0]->name);
    }
    printf("grad/joint: %d forward and %d backward ops\n", forward, backward);
    EXPECT(backward > forward / 2 && backward < 3 * forward);
    EXPECT_OK(mil_verify(m, &err));
    mil_module_free(m);
}

/* y = (a + a) * (a * b), and a again as a second result. */
TEST(values_used_twice_and_two_results) {
    mil_module *m = mil_module_create("twice");
    mil_builder b;
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *x = param(&b, "x", 2, 3), *w = param(&b, "w", 1, 3);
    mil_value *a = mil_build_unary(&b, MIL_OP_tanh, x);
    mil_value *y = mil_build_binary(&b, MIL_OP_mul, mil_build_binary(&b, MIL_OP_add, a, a),
                                    mil_build_binary(&b, MIL_OP_mul, a, w));
    mil_build_result(&b, y);
    mil_build_result(&b, a);
    end(&b);
    grad_check_drawn(b.function, MIL_DRAW_any, 0, 5, 1e-6, "used twice");
    mil_module_free(m);
}

/* A result that is a parameter, two parameters with one adjoint, and an unused parameter. */
TEST(identities_and_unused_parameters) {
    propane_error err = {0};
    mil_module *m = mil_module_create("plain");
    arena *a = arena_create();
    mil_builder b;
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *x = param(&b, "x", 2, 2), *y = param(&b, "y", 2, 2);
    param(&b, "unused", 1, 3);
    mil_value *p = mil_build_param(&b, "whole", mil_type_tensor(MIL_int32, 1, (int64_t[]){2}));
    mil_build_result(&b, mil_build_binary(&b, MIL_OP_add, x, y));
    mil_build_result(&b, mil_build_unary(&b, MIL_OP_identity, p));
    end(&b);
    mil_function *joint = joint_of(b.function, NULL, 0);
    EXPECT(joint->param_count == 5 && joint->result_count == 5);
    EXPECT_TEXT(joint->results[2]->name, "d_x");
    EXPECT_TEXT(joint->results[3]->name, "d_y");
    EXPECT_TEXT(joint->results[4]->name, "d_unused");
    double one[] = {1, 2, 3, 4}, whole[] = {1, 2}, none[] = {5, 5, 5}, dz[] = {10, 20, 30, 40};
    mil_tensor in[] = {{x->type, one}, {y->type, one}, {joint->params[2]->type, none}, {p->type, whole}, {x->type, dz}},
               *out;
    EXPECT_OK(mil_eval_function(joint, in, false, a, &out, &err));
    for (int i = 0; i < 4; i++) EXPECT(out[2].data[i] == dz[i] && out[3].data[i] == dz[i]);
    for (int i = 0; i < 3; i++) EXPECT(out[4].data[i] == 0);
    arena_free(a);
    mil_module_free(m);
}

/* Computes only what is requested: with x only, no weight gradient is made. */
TEST(only_what_is_wanted) {
    mil_module *m = mil_module_create("wanted");
    mil_builder b;
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *x = param(&b, "x", 2, 3), *w = param(&b, "w", 3, 4);
    mil_build_result(&b, mil_build_matmul(&b, x, w, false, false));
    end(&b);
    mil_function *joint = joint_of(b.function, (const char *const[]){"w"}, 1);
    EXPECT(joint->result_count == 2 && ops_of(joint, MIL_OP_matmul) == 2);
    EXPECT_TEXT(joint->results[1]->name, "d_w");
    mil_module_free(m);
}

/* The gradient of a sum is broadcast by the multiplication that uses it, so nothing is tiled. */
TEST(sums_stay_thin) {
    mil_module *m = mil_module_create("thin");
    mil_builder b;
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *x = param(&b, "x", 4, 5);
    mil_value *square = mil_build_unary(&b, MIL_OP_square, x);
    mil_build_result(&b, mil_build_reduce(&b, MIL_OP_reduce_sum, square, (int64_t[]){1}, 1, true));
    mil_value *scaled = mil_build_binary(&b, MIL_OP_mul, mil_build_unary(&b, MIL_OP_exp, x), param(&b, "w", 1, 5));
    mil_build_result(&b, mil_build_reduce(&b, MIL_OP_reduce_sum, scaled, (int64_t[]){0, 1}, 2, false));
    end(&b);
    grad_check_drawn(b.function, MIL_DRAW_any, 0, 9, 1e-6, "thin");
    mil_function *joint = joint_of(b.function, (const char *const[]){"x"}, 1);
    EXPECT(ops_of(joint, MIL_OP_tile) <= 1);
    mil_module_free(m);
}

/* If a thin adjoint meets a broadcast operand, the sum over the repetitions counts each of them. */
TEST(thin_adjoints_are_filled_for_broadcasts) {
    static const mil_opcode codes[] = {MIL_OP_add, MIL_OP_sub, MIL_OP_mul, MIL_OP_real_div, MIL_OP_maximum};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        for (int order = 0; order < 2; order++) {
            mil_module *m = mil_module_create("thin");
            mil_builder b;
            mil_build_begin(&b, m, "f", MIL_IOS18);
            mil_value *x = param(&b, "x", 4, 5), *w = param(&b, "w", 1, 5);
            mil_value *y = mil_build_binary(&b, codes[i], order ? w : x, order ? x : w);
            mil_build_result(&b, mil_build_reduce(&b, MIL_OP_reduce_sum, y, (int64_t[]){0}, 1, false));
            end(&b);
            grad_check_drawn(b.function, MIL_DRAW_apart, 0, 20 + i, 1e-6, mil_op_get(codes[i])->name);
            mil_module_free(m);
        }
}

/* The gradient of the gradient: the joint function is an ordinary function. */
TEST(second_derivatives) {
    propane_error err = {0};
    mil_module *m = mil_module_create("second");
    mil_builder b;
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *x = param(&b, "x", 2, 3), *w = param(&b, "w", 3, 3);
    mil_value *y =
        mil_build_softmax(&b, mil_build_matmul(&b, mil_build_unary(&b, MIL_OP_silu, x), w, false, false), -1);
    mil_build_result(&b, y);
    end(&b);
    EXPECT_OK(mil_rename(b.function, y, "y", &err));
    mil_function *joint = joint_of(b.function, NULL, 0);
    EXPECT_FAIL(grad_function(joint, "again", NULL, 0, &joint, &err), PROPANE_ERR_INVALID, "'d_y'");
    joint = m->functions->next;
    EXPECT_OK(mil_rename(joint, joint->params[2], "seed", &err));
    EXPECT_OK(mil_rename(joint, joint->results[1], "first_x", &err));
    EXPECT_OK(mil_rename(joint, joint->results[2], "first_w", &err));
    grad_check_drawn(joint, MIL_DRAW_any, 0, 11, 1e-6, "second derivatives");
    mil_module_free(m);
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

/* Lists have gradients only after pass_unroll has written them out. */
static mil_function *listed(mil_module *m) {
    mil_builder b;
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *x = param(&b, "x", 2, 3), *w = param(&b, "w", 2, 3), *at = mil_build_int(&b, 0);
    mil_value *shape = mil_build_ints(&b, (int64_t[]){2, 3}, 2), *type = mil_build_text(&b, "fp32");
    mil_op *l =
        mil_build_op(&b, MIL_OP_make_list, "l", (mil_argument[]){{"elem_shape", 1, &shape}, {"dtype", 1, &type}}, 2);
    mil_op *with = mil_build_op(&b, MIL_OP_list_write, "with",
                                (mil_argument[]){{"ls", 1, l->results}, {"index", 1, &at}, {"value", 1, &x}}, 3);
    mil_op *d =
        mil_build_op(&b, MIL_OP_list_read, "d", (mil_argument[]){{"ls", 1, with->results}, {"index", 1, &at}}, 2);
    mil_build_result(&b, mil_build_binary(&b, MIL_OP_mul, d->results[0], w));
    end(&b);
    return b.function;
}

TEST(operations_without_a_gradient) {
    propane_error err = {0};
    mil_module *m = mil_module_create("listed.mil");
    mil_function *f = listed(m), *joint = f;
    EXPECT_FAIL(grad_function(f, "joint", NULL, 0, &joint, &err), PROPANE_ERR_UNSUPPORTED, "list_read 'd'");
    EXPECT(joint == NULL && m->function_count == 1 && m->functions->next == NULL);
    EXPECT(strstr(err.text, "no gradient") != NULL && strstr(err.text, "listed.mil") != NULL);
    /* The refused op is not on the path to w. */
    EXPECT_OK(grad_function(f, "joint", (const char *const[]){"w"}, 1, &joint, &err));
    EXPECT(joint->result_count == 2);
    mil_module_free(m);
}

TEST(wrong_requests) {
    propane_error err = {0};
    mil_module *m = mil_module_create("wrong");
    mil_builder b;
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *x = param(&b, "x", 2, 3), *i = mil_build_param(&b, "i", mil_type_tensor(MIL_int32, 1, (int64_t[]){2}));
    mil_build_result(&b, mil_build_unary(&b, MIL_OP_exp, x));
    mil_build_result(&b, mil_build_unary(&b, MIL_OP_identity, i));
    end(&b);
    mil_function *joint;
    EXPECT_FAIL(grad_function(b.function, "joint", (const char *const[]){"z"}, 1, &joint, &err), PROPANE_ERR_NOT_FOUND,
                "no parameter 'z'");
    EXPECT_FAIL(grad_function(b.function, "joint", (const char *const[]){"i"}, 1, &joint, &err), PROPANE_ERR_INVALID,
                "'i' of function 'f' is int32");
    EXPECT_FAIL(grad_function(b.function, "f", NULL, 0, &joint, &err), PROPANE_ERR_INVALID, "'f'");
    EXPECT(m->function_count == 1);
    mil_module_free(m);
}

/* Every allocation that can fail fails once: the result is a status, and nothing is left behind in the module. */
TEST(no_memory) {
    propane_error err = {0};
    for (uint64_t n = 1; n < 200; n++) {
        mil_module *m = mil_module_create("memory");
        const mil_function *f = grad_model_build(m, "layer", &(grad_model){1, 4, 3, 2, 1, 2, 3}, MIL_fp16);
        mil_function *joint = NULL;
        mem_fail_at(n);
        propane_status status = grad_function(f, "joint", NULL, 0, &joint, &err);
        mem_fail_at(0);
        EXPECT(status == PROPANE_OK || (status == PROPANE_ERR_MEMORY && !joint && m->function_count == 1));
        mil_module_free(m);
        if (status == PROPANE_OK && n > 1) return;
    }
    EXPECT(!"never succeeded");
}

SUITE("grad/joint", T(transformer_layers), T(names_order_and_stages), T(values_used_twice_and_two_results),
      T(identities_and_unused_parameters), T(only_what_is_wanted), T(sums_stay_thin),
      T(thin_adjoints_are_filled_for_broadcasts), T(second_derivatives), T(operations_without_a_gradient),
      T(wrong_requests), T(no_memory))
