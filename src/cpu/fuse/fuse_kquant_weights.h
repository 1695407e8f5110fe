/* SPDX-License-Identifier: MIT
 * Whether operations make weights of blocks, for fuse_quantized_weights.c.
 */
#ifndef CPU_FUSE_FUSE_KQUANT_WEIGHTS_H
#define CPU_FUSE_FUSE_KQUANT_WEIGHTS_H

#include "cpu/plan/graph.h"

typedef struct kquant_match {
    cpu_stored_weights found;
    const mil_op **ops; /* that make the matrix of it, in g->work; nothing else reads what they make */
    int count;
} kquant_match;

/* `v`, a matrix [out, in] behind reshapes. *matches: it is such weights. */
PROPANE_CHECK propane_status cpu_fuse_match_kquant(cpu_graph *g, const mil_value *v, int64_t out, int64_t in,
                                                   bool *matches, kquant_match *m, propane_error *err);

#endif
