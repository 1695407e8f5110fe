/* SPDX-License-Identifier: MIT
 * The verifier on modules that text cannot express: they are built correctly and then broken.
 */
#include "core/mil/build.h"
#include "core/mil/text/mil_text.h"
#include "support/test.h"

static mil_module *sample(void) {
    propane_error err = {0};
    mil_module *m = mil_module_create("s");
    mil_builder b;
    mil_build_begin(&b, m, "main", MIL_IOS16);
    mil_value *x = mil_build_param(&b, "x", mil_type_tensor(MIL_fp16, 2, (int64_t[]){2, 3}));
    mil_value *y = mil_build_unary(&b, MIL_OP_relu, x);
    mil_build_result(&b, mil_build_softmax(&b, y, -1));
    EXPECT_OK(mil_build_end(&b, &err));
    EXPECT_OK(mil_verify(m, &err));
    return m;
}

/* softmax is the last op, and relu the one before it. */
#define BROKEN(change, part)                                                                                           \
    do {                                                                                                               \
        propane_error err = {0};                                                                                       \
        mil_module *m = sample();                                                                                      \
        mil_function *f = m->functions;                                                                                \
        mil_op *softmax = f->last, *relu = softmax->prev;                                                              \
        (void)relu;                                                                                                    \
        change;                                                                                                        \
        EXPECT_FAIL(mil_verify(m, &err), PROPANE_ERR_INVALID, part);                                                   \
        mil_module_free(m);                                                                                            \
    } while (0)

TEST(operands) {
    BROKEN(softmax->operands[0].count = 0, "softmax 'softmax': the argument x is missing; softmax has: x, axis");
    BROKEN(softmax->operands[0].values[0] = softmax->results[0], "x is 'softmax', which is not defined before it");
    BROKEN(f->params[0]->type.dtype = MIL_int32, "relu 'relu': x must be fp16 or fp32; x is tensor<int32, [2, 3]>");
    BROKEN(softmax->operands[1].values[0] = relu->results[0],
           "axis must be a single int32; relu is tensor<fp16, [2, 3]>");
    BROKEN(softmax->operands[1].values[0]->constant = NULL, "the constant's type differs from its value's");
    mil_value *two[2];
    BROKEN((two[0] = two[1] = relu->results[0], softmax->operands[0] = (mil_operand){2, two}),
           "x takes one value, not 2");
}

TEST(results) {
    BROKEN(relu->results[0]->type.dim[1] = 4,
           "result 'relu' is declared as tensor<fp16, [2, 4]>, but the operation returns tensor<fp16, [2, 3]>");
    BROKEN(f->result_count = 0, "function 'main': it has no results");
    BROKEN(f->results[0] = f->params[0], "result 'x' is also a parameter");
    BROKEN(relu->results[0]->name = "1st", "'1st' is not a valid name");
    BROKEN(relu->results[0]->name = "softmax", "the name 'softmax' is used twice");
    BROKEN(relu->results[0]->id = f->params[0]->id, "'relu' is defined twice");
    BROKEN(relu->results[0]->id = 1000, "'relu' is defined twice");
    BROKEN(relu->result_count = 0, "it returns 1 result instead of 0");
}

TEST(functions) {
    BROKEN(f->name = "a b", "function 'a b': the name is invalid");
    BROKEN(f->opset = MIL_OPSET_NONE, "it has no opset");
    BROKEN(f->params[0]->type.dim[0] = 0, "'x' has an invalid type: dimension 0 is 0; it must be at least 1");
    BROKEN(f->params[0]->type.dim[0] = (int64_t)1 << 40, "it has more than 2^40 elements");
    BROKEN(f->params[0]->type.rank = 9, "its rank is 9; it must be from 0 to 8");
    BROKEN(m->functions = NULL, "s: the program has no functions");
}

/* The limit is 2^40 elements: 2^20 x 2^20. */
TEST(the_largest_type) {
    propane_error err = {0};
    mil_module *m = mil_module_create("s");
    mil_builder b;
    mil_build_begin(&b, m, "main", MIL_IOS16);
    mil_value *x = mil_build_param(&b, "x", mil_type_tensor(MIL_fp16, 2, (int64_t[]){1 << 20, 1 << 20}));
    mil_build_result(&b, mil_build_unary(&b, MIL_OP_relu, x));
    EXPECT_OK(mil_build_end(&b, &err));
    mil_module_free(m);
}

SUITE("mil/verify", T(operands), T(results), T(functions), T(the_largest_type))
