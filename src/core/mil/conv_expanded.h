/* SPDX-License-Identifier: MIT
 * Declares the expansion of conv_quantized into a convolution.
 */
#ifndef CORE_MIL_CONV_EXPANDED_H
#define CORE_MIL_CONV_EXPANDED_H

#include "core/mil/build.h"

/* Builds a conv_quantized as a convolution whose weights are computed in fp32. Returns the convolution's result, cast
 * to the element type of op's result, or NULL with the reason in b->err. */
mil_value *mil_conv_expanded(mil_builder *b, const mil_op *op);

#endif
