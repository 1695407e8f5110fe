/* SPDX-License-Identifier: MIT
 * Selects the emitter for layers with constant weights that fuse_conv.c and fuse_bottleneck.c found.
 */
#include "cpu/ops/emit_conv_nhwc.h"
#include "cpu/ops/emitters.h"

propane_status cpu_emit_fused_conv(planner *p, const cpu_node *node, propane_error *err) {
    if (node->conv->first) return cpu_conv_emit_bottleneck(p, node->conv, err);
    if (node->conv->depthwise) return cpu_conv_emit_depthwise(p, node->conv, err);
    return cpu_conv_emit_direct(p, node->conv, err);
}
