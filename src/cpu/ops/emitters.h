/* SPDX-License-Identifier: MIT
 * The emitters of nodes, one per kind, and emitters that others fall back on.
 */
#ifndef CPU_OPS_EMITTERS_H
#define CPU_OPS_EMITTERS_H

#include "cpu/plan/emit.h"

PROPANE_CHECK propane_status cpu_emit_elementwise(planner *p, const cpu_node *node, propane_error *err);
PROPANE_CHECK propane_status cpu_emit_matmul(planner *p, const cpu_node *node, propane_error *err);
PROPANE_CHECK propane_status cpu_emit_attention(planner *p, const cpu_node *node, propane_error *err);
PROPANE_CHECK propane_status cpu_emit_fused_conv(planner *p, const cpu_node *node, propane_error *err);

/* Emit an operation that its own family does not support. */
PROPANE_CHECK propane_status cpu_emit_reference(planner *p, const mil_op *op, propane_error *err);
PROPANE_CHECK propane_status cpu_emit_spread(planner *p, const mil_op *op, propane_error *err);
bool cpu_emit_takes_scatter(const mil_op *op);
PROPANE_CHECK propane_status cpu_emit_scatter(planner *p, const mil_op *op, propane_error *err);

#endif
