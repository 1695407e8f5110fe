/* SPDX-License-Identifier: MIT
 * Owns the types and shapes of the ops that draw random numbers.
 */
#include <string.h>

#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

#define BAD(...) mil_op_fail(op, err, PROPANE_ERR_INVALID, __VA_ARGS__)

/* The result has the element type of the parameters, or fp32 if all are left out. */
static propane_status shape_random_drawn(const mil_op *op, const char *first, const char *second, mil_type *out,
                                         int *out_count, propane_error *err) {
    const mil_value *a = mil_in(op, first), *b = second ? mil_in(op, second) : NULL;
    mil_type result = {.dtype = a ? a->type.dtype : b ? b->type.dtype : MIL_fp32};
    int64_t count = 1, seed = 0;
    PROPANE_TRY(mil_attr_int(op, "seed", &seed, err));
    if (a && b && a->type.dtype != b->type.dtype)
        return BAD("%s is %s, but %s is %s", first, mil_dtype_get(a->type.dtype)->name, second,
                   mil_dtype_get(b->type.dtype)->name);
    PROPANE_TRY(mil_attr_vector(op, "shape", MIL_MAX_RANK, result.dim, &result.rank, err));
    for (int d = 0; d < result.rank; d++) {
        if (result.dim[d] < 1) return BAD("shape[%d] is %lld", d, (long long)result.dim[d]);
        if (result.dim[d] > MIL_MAX_COUNT / count) return BAD("the result would have more than 2^40 elements");
        count *= result.dim[d];
    }
    out[0] = result;
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_random_bernoulli(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    double p = 0.0;
    PROPANE_TRY(mil_attr_float(op, "prob", &p, err));
    if (!(p >= 0.0 && p <= 1.0)) return BAD("prob is %g; it must be 0 to 1", p);
    return shape_random_drawn(op, "prob", NULL, out, out_count, err);
}
propane_status mil_shape_rule_random_normal(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    double deviation = 0.0;
    PROPANE_TRY(mil_attr_float(op, "stddev", &deviation, err));
    if (!(deviation >= 0.0)) return BAD("stddev is %g; it must not be negative", deviation);
    return shape_random_drawn(op, "mean", "stddev", out, out_count, err);
}
propane_status mil_shape_rule_random_uniform(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    double low = 0.0, high = 0.0;
    PROPANE_TRY(mil_attr_float(op, "low", &low, err));
    PROPANE_TRY(mil_attr_float(op, "high", &high, err));
    if (!(low <= high)) return BAD("low is %g and high is %g; low must not be above high", low, high);
    return shape_random_drawn(op, "low", "high", out, out_count, err);
}

propane_status mil_shape_rule_random_categorical(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const char *mode = NULL;
    int64_t size = 0, seed = 0;
    PROPANE_TRY(mil_attr_text(op, "mode", &mode, err));
    PROPANE_TRY(mil_attr_int(op, "size", &size, err));
    PROPANE_TRY(mil_attr_int(op, "seed", &seed, err));
    if (strcmp(mode, "logits") != 0 && strcmp(mode, "probs") != 0)
        return BAD("mode is \"%.40s\"; it must be logits or probs", mode);
    PROPANE_TRY(mil_shape_rule_same(op, out, out_count, err));
    if (out->rank < 1) return BAD("x is a scalar; its last dimension must be the categories");
    if (size < 1 || size > INT32_MAX) return BAD("size is %lld; it must be at least 1", (long long)size);
    out->dim[out->rank - 1] = size;
    return PROPANE_OK;
}
