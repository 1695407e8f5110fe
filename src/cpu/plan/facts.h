/* SPDX-License-Identifier: MIT
 * Predicates on a single operation, for fusions and emitters.
 */
#ifndef CPU_PLAN_FACTS_H
#define CPU_PLAN_FACTS_H

#include "core/mil/mil.h"
#include "core/mil/ops/shape_util.h"

/* True for matmul, linear, and convolutions that are a single matrix product. */
bool cpu_plan_is_product(const mil_op *op);
/* True for identity, reshape, expand_dims and squeeze: the same elements in the same order. */
bool cpu_plan_keeps_order(const mil_op *op);

/* Returns one bit per axis of a reduction or softmax that fused loops support; 0 for elementwise and other
 * operations. */
unsigned cpu_plan_tile_axes(const mil_op *op);

/* True for a softmax along the last dimension. */
bool cpu_plan_is_row_softmax(const mil_op *op);
/* Returns the number of rows of the causal mask that an addition adds, or 0 if it adds none. The mask is a square
 * constant of 0 up to the diagonal and of -9000 or less after it. */
int64_t cpu_plan_adds_mask(const mil_op *op);

/* True for a convolution of images with constant weights, or a pool, that the channels-last kernels support. */
bool cpu_plan_is_image_conv(const mil_op *op, mil_conv *c);
bool cpu_plan_is_image_pool(const mil_op *op, mil_conv *c);
/* True for an fp32 constant whose data is present. */
bool cpu_plan_is_known(const mil_value *v);

#endif
