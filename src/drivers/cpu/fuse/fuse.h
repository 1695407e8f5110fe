/* SPDX-License-Identifier: MIT
 * Fusions: rules that merge nodes of the graph (plan/graph.h) and say what a node is. fuse.c has them in order.
 */
#ifndef CPU_FUSE_FUSE_H
#define CPU_FUSE_FUSE_H

#include "drivers/cpu/plan/graph.h"

PROPANE_CHECK propane_status cpu_fuse(cpu_graph *g, propane_error *err);

/* fuse_causal_band.c: where a causal mask makes zeros that products can leave out. */
PROPANE_CHECK propane_status cpu_fuse_causal_bands(cpu_graph *g, propane_error *err);
/* fuse_attention.c: the products and the softmax of an attention, forward or backward. */
PROPANE_CHECK propane_status cpu_fuse_attention(cpu_graph *g, propane_error *err);
/* fuse_conv.c: convolutions and linear layers with constant weights, what is added to them and the function after it. */
PROPANE_CHECK propane_status cpu_fuse_convs(cpu_graph *g, propane_error *err);
/* fuse_bottleneck.c: several of those. */
PROPANE_CHECK propane_status cpu_fuse_bottlenecks(cpu_graph *g, propane_error *err);
/* fuse_quantized_weights.c: products that read weights as they are stored, in few bits. */
PROPANE_CHECK propane_status cpu_fuse_quantized_weights(cpu_graph *g, propane_error *err);

#endif
