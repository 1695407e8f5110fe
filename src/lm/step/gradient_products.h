/* SPDX-License-Identifier: MIT
 * Weight gradients as products of the device: of a kernel that makes weight gradients, the products of two taps become
 * a function of their own, and what remains adds their results up. Values dw_P pass between the two.
 */
#ifndef LM_STEP_GRADIENT_PRODUCTS_H
#define LM_STEP_GRADIENT_PRODUCTS_H

#include "core/mil/build.h"

#define GRADIENT_POSITIONS 2048 /* of a product's sum, at most: an engine slows down beyond */

/* Of `f`, the results d_P that are dY X' over the windows of a batch. `products` computes dw_P, [parts*O,I] in the type
 * of the taps: as many whole windows to a part as GRADIENT_POSITIONS takes, or equal parts of a longer window. `sums`
 * is `f` with parameters dw_P in their place. Both stay NULL where there is no such result. */
PROPANE_CHECK propane_status gradient_products_split(const mil_function *f, mil_module *into, const char *products_name,
                                                     const char *sums_name, mil_function **products,
                                                     mil_function **sums, propane_error *err);

#endif
