/* SPDX-License-Identifier: MIT
 * Rewrites of a kernel's function that training needs. They add the residual stream around a half of a layer, compute
 * in fp32 on the host, sum weight gradients over several batches, cut long sums into parts, make weights constants, and
 * cut parameters out of a single input.
 */
#ifndef LM_STEP_KERNEL_REWRITE_H
#define LM_STEP_KERNEL_REWRITE_H

#include "core/mil/build.h"

#define TRAIN_SQUARES "square_"

/* Copies `half` with its parameter x in the type `stream` (fp32 or fp16); x is cast to the half's type (stage "enter").
 * With `residual`, the copy's result is called "out" and is x plus the half's result, in the type `stream` (stage
 * "residual"). Otherwise the copy returns the half's result with its name and type unchanged. */
PROPANE_CHECK propane_status train_wrap(const mil_function *half, const char *name, mil_dtype stream, bool residual,
                                        mil_function **out, propane_error *err);

/* Copies `f` with all computation in fp32. Parameters and results keep their types, except that results called d_P for
 * a name P in `sums` become fp32. With `accumulate`, each such result is added to a parameter sum_P of type fp32. */
PROPANE_CHECK propane_status train_promote(const mil_function *f, mil_module *into, const char *name,
                                           const char *const *sums, int sum_count, bool accumulate, mil_function **out,
                                           propane_error *err);

/* Adds a result square_P (TRAIN_SQUARES) to `f` for each result that is called d_P for a name P in `names`. square_P is
 * the fp32 sum of the squares of all elements of d_P. */
PROPANE_CHECK propane_status train_add_squares(mil_function *f, const char *const *names, int count,
                                               propane_error *err);

/* Copies `f` and cuts matrix products of a transposed weight and an activation of more than `bytes` along the summed
 * dimension. A cut product becomes one batched product over equal parts, each with an activation of at most `bytes`,
 * followed by a sum of the parts. Nothing is sliced, because a part consists of consecutive rows. Sets *out to NULL if
 * no product is that large, or if no number of parts up to TRAIN_PARTS_MOST divides its sum. */
#define TRAIN_PARTS_MOST 256
PROPANE_CHECK propane_status train_cut_sums(const mil_function *f, mil_module *into, const char *name, int64_t bytes,
                                            mil_function **out, propane_error *err);

/* Sets *data to the dense data, in the parameter's type, of a parameter that is to become a constant. Leaves *data NULL
 * if the parameter is to remain one. */
typedef propane_status (*train_constant)(void *context, const mil_value *param, const void **data, propane_error *err);
PROPANE_CHECK propane_status train_bake(const mil_function *f, mil_module *into, const char *name,
                                        train_constant constant, void *context, mil_function **out, propane_error *err);

/* Returns the value that replaces parameter `index` in the new function, such as a slice of another parameter. */
typedef mil_value *(*train_cut_param)(void *context, mil_builder *b, int index);
PROPANE_CHECK propane_status train_cut(const mil_function *f, mil_module *into, const char *name, train_cut_param cut,
                                       void *context, mil_function **out, propane_error *err);

#endif
