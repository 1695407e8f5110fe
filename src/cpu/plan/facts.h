/* SPDX-License-Identifier: MIT
 * What an operation is, as fusions and emitters ask: predicates on the operation alone.
 */
#ifndef CPU_PLAN_FACTS_H
#define CPU_PLAN_FACTS_H

#include "core/mil/mil.h"
#include "core/mil/ops/shape_util.h"

/* matmul, linear, and convolutions that are one product. */
bool cpu_plan_is_product(const mil_op *op);
/* identity, reshape, expand_dims, squeeze: the same elements in the same order. */
bool cpu_plan_keeps_order(const mil_op *op);

/* Bit per axis of a reduction or softmax that fused loops take; 0: elementwise, or something else. */
unsigned cpu_plan_tile_axes(const mil_op *op);

/* A softmax along the last dimension. */
bool cpu_plan_is_row_softmax(const mil_op *op);
/* Rows of the causal mask that the sum adds, a square constant of 0 and, after the diagonal, -9000 or less; 0: it adds
 * none. */
int64_t cpu_plan_adds_mask(const mil_op *op);

/* A convolution of images with constant weights that the channels-last kernels take, a pool that they take. */
bool cpu_plan_is_image_conv(const mil_op *op, mil_conv *c);
bool cpu_plan_is_image_pool(const mil_op *op, mil_conv *c);
/* A constant of fp32 that is there. */
bool cpu_plan_is_known(const mil_value *v);

#endif
