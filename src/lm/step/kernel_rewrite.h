/* SPDX-License-Identifier: MIT
 * Rewrites of a kernel's function that training needs: the residual stream around a half of a layer, arithmetic in fp32
 * on the host, sums of weight gradients over several batches, long sums in parts, weights as constants, parameters cut
 * out of one.
 */
#ifndef LM_STEP_KERNEL_REWRITE_H
#define LM_STEP_KERNEL_REWRITE_H

#include "core/mil/build.h"

#define TRAIN_SQUARES "square_"

/* `half` with its x and its result in fp32: x is cast to the half's type (stage "enter"); with `residual`, the result,
 * called "out", is x plus the half's (stage "residual"), otherwise it is the half's own, under its own name. */
PROPANE_CHECK propane_status train_wrap(const mil_function *half, const char *name, bool residual, mil_function **out,
                                        propane_error *err);

/* `f` computed in fp32 throughout: parameters and results keep their types, except results called d_P for a name P in
 * `sums`, which become fp32. With `accumulate`, each of those is added to a parameter sum_P of its type. */
PROPANE_CHECK propane_status train_promote(const mil_function *f, mil_module *into, const char *name,
                                           const char *const *sums, int sum_count, bool accumulate, mil_function **out,
                                           propane_error *err);

/* To `f`, for each of its results called d_P for a name P in `names`: a result square_P (TRAIN_SQUARES), fp32, the sum
 * of the squares of all of d_P. */
PROPANE_CHECK propane_status train_add_squares(mil_function *f, const char *const *names, int count,
                                               propane_error *err);

/* `f` with its products of a weight's columns and an activation of more than `bytes` cut along the summed dimension:
 * equal parts whose activation is at most that large, one batched product, then the sum of its parts. Nothing is
 * sliced: parts are rows that lie one after the other. *out stays NULL where no product is that large, or no number of
 * parts up to TRAIN_PARTS_MOST divides it. */
#define TRAIN_PARTS_MOST 256
PROPANE_CHECK propane_status train_cut_sums(const mil_function *f, mil_module *into, const char *name, int64_t bytes,
                                            mil_function **out, propane_error *err);

/* The dense data, in the parameter's type, of a parameter that shall become a constant; *data stays NULL if it is to
 * remain a parameter. */
typedef propane_status (*train_constant)(void *context, const mil_value *param, const void **data, propane_error *err);
PROPANE_CHECK propane_status train_bake(const mil_function *f, mil_module *into, const char *name,
                                        train_constant constant, void *context, mil_function **out, propane_error *err);

/* What stands for parameter `index`, made in the new function: a piece of a parameter of its own, for instance. */
typedef mil_value *(*train_cut_param)(void *context, mil_builder *b, int index);
PROPANE_CHECK propane_status train_cut(const mil_function *f, mil_module *into, const char *name, train_cut_param cut,
                                       void *context, mil_function **out, propane_error *err);

#endif
