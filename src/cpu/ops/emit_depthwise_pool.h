/* SPDX-License-Identifier: MIT
 * Convolutions with one input channel per group, on planes in NCHW layout.
 */
#ifndef CPU_OPS_EMIT_DEPTHWISE_POOL_H
#define CPU_OPS_EMIT_DEPTHWISE_POOL_H

#include "cpu/plan/emit.h"

bool cpu_window_takes_conv(const mil_op *op);
PROPANE_CHECK propane_status cpu_window_emit_conv(planner *p, const mil_op *op, propane_error *err);

#endif
