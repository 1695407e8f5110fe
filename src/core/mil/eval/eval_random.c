/* SPDX-License-Identifier: MIT
 * Owns the meanings of the ops that draw random numbers. The numbers come from core/base/rng.h (xoshiro256** seeded by
 * splitmix64), started with `seed`, in the order of the elements. A program has no hidden state, so the same seed
 * yields the same numbers in every run. The value -1, which leaves the choice to the device, is a seed like any other.
 */
#include <math.h>
#include <string.h>

#include "core/base/rng.h"
#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

static propane_status eval_random_start(const mil_eval_args *a, rng *r, propane_error *err) {
    int64_t seed = 0;
    PROPANE_TRY(mil_attr_int(a->op, "seed", &seed, err));
    rng_init(r, (uint64_t)seed);
    return PROPANE_OK;
}

propane_status mil_eval_random_bernoulli(const mil_eval_args *a, propane_error *err) {
    const int64_t count = mil_type_count(&a->out[0].type);
    double p = 0.0;
    rng r;
    PROPANE_TRY(eval_random_start(a, &r, err));
    PROPANE_TRY(mil_attr_float(a->op, "prob", &p, err));
    for (int64_t i = 0; i < count; i++) a->out[0].data[i] = rng_unit(&r) < p;
    return PROPANE_OK;
}

propane_status mil_eval_random_normal(const mil_eval_args *a, propane_error *err) {
    const int64_t count = mil_type_count(&a->out[0].type);
    double mean = 0.0, deviation = 0.0;
    rng r;
    PROPANE_TRY(eval_random_start(a, &r, err));
    PROPANE_TRY(mil_attr_float(a->op, "mean", &mean, err));
    PROPANE_TRY(mil_attr_float(a->op, "stddev", &deviation, err));
    for (int64_t i = 0; i < count; i++) a->out[0].data[i] = mean + deviation * rng_normal(&r);
    return PROPANE_OK;
}

propane_status mil_eval_random_uniform(const mil_eval_args *a, propane_error *err) {
    const int64_t count = mil_type_count(&a->out[0].type);
    double low = 0.0, high = 0.0;
    rng r;
    PROPANE_TRY(eval_random_start(a, &r, err));
    PROPANE_TRY(mil_attr_float(a->op, "low", &low, err));
    PROPANE_TRY(mil_attr_float(a->op, "high", &high, err));
    for (int64_t i = 0; i < count; i++) a->out[0].data[i] = low + (high - low) * rng_unit(&r);
    return PROPANE_OK;
}

/* Returns the first category whose cumulative probability exceeds a uniform number. */
static double eval_random_draw_category(const double *x, int64_t count, bool logits, double unit) {
    double top = -INFINITY, total = 0.0, sum = 0.0;
    for (int64_t k = 0; k < count; k++) top = x[k] > top ? x[k] : top;
    for (int64_t k = 0; k < count; k++) total += logits ? exp(x[k] - top) : x[k];
    for (int64_t k = 0; k < count; k++) {
        sum += logits ? exp(x[k] - top) : x[k];
        if (unit * total < sum) return (double)k;
    }
    return (double)(count - 1);
}

propane_status mil_eval_random_categorical(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    const int64_t size = a->out[0].type.dim[a->out[0].type.rank - 1], classes = x->type.dim[x->type.rank - 1];
    const int64_t rows = mil_type_count(&x->type) / classes;
    const char *mode = NULL;
    rng r;
    PROPANE_TRY(eval_random_start(a, &r, err));
    PROPANE_TRY(mil_attr_text(a->op, "mode", &mode, err));
    for (int64_t row = 0; row < rows; row++)
        for (int64_t s = 0; s < size; s++)
            a->out[0].data[row * size + s] =
                eval_random_draw_category(x->data + row * classes, classes, !strcmp(mode, "logits"), rng_unit(&r));
    return PROPANE_OK;
}
