/* SPDX-License-Identifier: MIT
 * Weight gradients as matrix products on the device. The matrix products in a weight-gradient kernel become a separate
 * function, and the rest of the kernel adds up their results. The products pass as values dw_P from the first function
 * to the second.
 */
#ifndef LM_STEP_GRADIENT_PRODUCTS_H
#define LM_STEP_GRADIENT_PRODUCTS_H

#include "core/mil/build.h"

#define GRADIENT_POSITIONS 2048 /* most positions in one product's sum; an engine slows down beyond this number */

/* Splits off the results d_P of `f` that are dY X' over the windows of a batch. `products` computes dw_P, [parts*O,I],
 * in the type of the taps. A part covers as many whole windows as fit into GRADIENT_POSITIONS, or an equal share of a
 * longer window. `sums` is `f` with parameters dw_P instead of the products. Both are set to NULL if there is no such
 * result. */
PROPANE_CHECK propane_status gradient_products_split(const mil_function *f, mil_module *into, const char *products_name,
                                                     const char *sums_name, mil_function **products,
                                                     mil_function **sums, propane_error *err);

#endif
