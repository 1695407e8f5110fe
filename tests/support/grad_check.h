/* SPDX-License-Identifier: MIT
 * Checks a function's gradient against central finite differences, all in double (mil_eval_function), and builds one-op
 * functions from short texts.
 */
#ifndef TESTS_SUPPORT_GRAD_CHECK_H
#define TESTS_SUPPORT_GRAD_CHECK_H

#include "core/base/rng.h"
#include "core/mil/build.h"

/* Draws a value for a parameter, of its type: legal, and away from kinks as `draw` requires. `taken` holds the values
 * drawn earlier for this function (for MIL_DRAW_apart). */
typedef struct grad_draws {
    rng random;
    mil_draw draw;
    int below; /* integers are 0 .. below-1 */
    double taken[4096];
    int taken_count;
} grad_draws;
void grad_draw(grad_draws *d, const mil_type *type, double *out);

/* Differentiates f by all its float parameters and compares with (L(x+h) - L(x-h)) / 2h, where L is the sum of random
 * weights times results, at up to 60 elements per parameter. `inputs` are in the order of f's parameters. Fails the
 * running test with a message on an error, or if the difference exceeds `tolerance` times the tensor's largest
 * gradient. Returns the largest difference seen. Removes nothing: the joint function stays in the module. */
double grad_check(const mil_function *f, const mil_tensor *inputs, uint64_t seed, double tolerance, const char *what);
/* Does the same only for the parameters with smooth[i]; NULL means all. */
double grad_check_some(const mil_function *f, const mil_tensor *inputs, const bool *smooth, uint64_t seed,
                       double tolerance, const char *what);
/* Does the same with drawn inputs. */
double grad_check_drawn(const mil_function *f, mil_draw draw, int below, uint64_t seed, double tolerance,
                        const char *what);

/* Builds one op from a text of blank-separated arguments:
 *     x[2,3]        a float parameter      x?[2,3]  a bool one      x%5[2,3]  an int32 one with values below 5
 *     x#[2,3]       a random float constant
 *     axis=-1       an int32 scalar        a=0.5    a float scalar (with a point)      keep=true   a bool
 *     axes={0,1}    an int32 list          mask={true,false}   a bool list             mode='X'    text
 * The same name again adds to a variadic parameter. Results become the function's. */
mil_function *grad_spec(mil_module *m, const char *name, mil_opcode code, const char *spec, int *below);

#endif
