/* SPDX-License-Identifier: MIT
 * The straight-through estimator. The gradient through quantize and dequantize equals that of the program with a clip
 * in their place, which is checked against finite differences. Inputs are on the grid, where both programs compute the
 * same values, and beyond both of its ends.
 */
#include <math.h>
#include <string.h>

#include "core/grad/grad.h"
#include "core/mil/text/mil_text.h"
#include "support/grad_check.h"
#include "support/test.h"

#define HEAD "program(1.3)\n{\n    func main<ios17>(tensor<fp32, [2, 3]> x, tensor<fp32, [2, 3]> w) {\n"
#define TAIL                                                                                                           \
    "        tensor<fp32, [2, 3]> a = mul(x = d, y = w);\n        tensor<fp32, [2, 3]> z = mul(x = a, y = d);\n    } " \
    "-> (z);\n}\n"
#define F32 "tensor<fp32, [2, 3]>"

typedef struct pair {
    const char *quantized, *clipped;
} pair;

static const pair pairs[] = {
    {HEAD
     "        tensor<int8, [2, 3]> q = quantize(input = x, zero_point = int8(-3), scale = fp32(0.25), output_dtype = "
     "string(\"int8\"));\n        " F32 " d = dequantize(input = q, zero_point = int8(-3), scale = fp32(0.25));\n" TAIL,
     /* 0.25 * (-128 + 3) to 0.25 * (127 + 3) */
     HEAD "        " F32 " d = clip(x = x, alpha = fp32(-31.25), beta = fp32(32.5));\n" TAIL},
    /* One scale per column, unsigned, without a zero point. */
    {HEAD "        tensor<uint8, [2, 3]> q = quantize(input = x, scale = tensor<fp32, [3]>([0.5, 0.25, 0.125]), axis = "
          "int32(-1), "
          "output_dtype = string(\"uint8\"));\n        " F32
          " d = dequantize(input = q, scale = tensor<fp32, [3]>([0.5, 0.25, 0.125]), axis = int32(1));\n" TAIL,
     HEAD "        " F32 " low = maximum(x = x, y = fp32(0));\n        " F32
          " d = minimum(x = low, y = tensor<fp32, [3]>([127.5, 63.75, 31.875]));\n" TAIL},
    /* Bytes that are moved before they become floats again. */
    {HEAD "        tensor<int8, [2, 3]> q = quantize(input = x, scale = fp32(0.25), output_dtype = string(\"int8\"));\n"
          "        tensor<int8, [3, 2]> t = transpose(x = q, perm = tensor<int32, [2]>([1, 0]));\n"
          "        tensor<int8, [2, 3]> r = reshape(x = t, shape = tensor<int32, [2]>([2, 3]));\n"
          "        tensor<int8, [2, 6]> c = concat(values = (r, q), axis = int32(1), interleave = bool(false));\n"
          "        tensor<int8, [2, 3]> s = slice_by_size(x = c, begin = tensor<int32, [2]>([0, 2]), size = "
          "tensor<int32, [2]>([2, "
          "3]));\n        " F32 " d = dequantize(input = s, scale = fp32(0.25));\n" TAIL,
     HEAD "        " F32 " q = clip(x = x, alpha = fp32(-32), beta = fp32(31.75));\n"
          "        tensor<fp32, [3, 2]> t = transpose(x = q, perm = tensor<int32, [2]>([1, 0]));\n"
          "        " F32 " r = reshape(x = t, shape = tensor<int32, [2]>([2, 3]));\n"
          "        tensor<fp32, [2, 6]> c = concat(values = (r, q), axis = int32(1), interleave = bool(false));\n"
          "        " F32
          " d = slice_by_size(x = c, begin = tensor<int32, [2]>([0, 2]), size = tensor<int32, [2]>([2, 3]));\n" TAIL},
};

static mil_module *parse(const char *program) {
    propane_error err = {0};
    mil_module *m = NULL;
    EXPECT_OK(mil_parse(program, strlen(program), "quantize.mil", NULL, &m, &err));
    return m;
}

/* Computes z, d_x and d_w for the adjoint `seed`. */
static mil_tensor *gradients(const char *program, const mil_tensor *in, arena *a) {
    propane_error err = {0};
    mil_module *m = parse(program);
    mil_function *joint = NULL;
    mil_tensor *out = NULL;
    EXPECT_OK(grad_function(m->functions, "joint", NULL, 0, &joint, &err));
    EXPECT_OK(mil_verify(m, &err));
    EXPECT_OK(mil_eval_function(joint, in, false, a, &out, &err));
    EXPECT(joint->result_count == 3);
    mil_module_free(m);
    return out;
}

TEST(straight_through) {
    /* On the grid of every program, and beyond the ends of each. */
    double x[] = {1.5, -2.25, 40, -300, 3.5, 200}, w[] = {0.3, -1.1, 2.2, 0.7, -0.4, 1.9},
           dz[] = {1, -2, 0.5, 3, 0.25, -1};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        mil_module *m = parse(pairs[i].clipped);
        const mil_type type = m->functions->params[0]->type;
        const mil_tensor in[] = {{.type = type, .data = x}, {.type = type, .data = w}, {.type = type, .data = dz}};
        arena *a = arena_create();
        (void)grad_check(m->functions, in, 5, 1e-6, "clipped");
        const mil_tensor *got = gradients(pairs[i].quantized, in, a), *want = gradients(pairs[i].clipped, in, a);
        for (int k = 0; k < 3; k++)
            for (int e = 0; e < 6; e++)
                EXPECT_MSG(fabs(got[k].data[e] - want[k].data[e]) <= 1e-9 * (1 + fabs(want[k].data[e])),
                           "pair %zu, result %d[%d]: %g, not %g", i, k, e, got[k].data[e], want[k].data[e]);
        arena_free(a);
        mil_module_free(m);
    }
}

SUITE("grad/quantize", T(straight_through))
