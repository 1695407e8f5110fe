/* SPDX-License-Identifier: MIT
 * Recognises operations that reconstruct weights in blocks, for fuse_quantized_weights.c.
 */
#ifndef CPU_FUSE_FUSE_KQUANT_WEIGHTS_H
#define CPU_FUSE_FUSE_KQUANT_WEIGHTS_H

#include "cpu/plan/graph.h"

typedef struct kquant_match {
    cpu_stored_weights found;
    /* The operations that reconstruct the matrix, allocated in g->work; nothing else reads their results. */
    const mil_op **ops;
    int count;
} kquant_match;

/* Examines `v`, from which reshapes may make a matrix [out, in]. Sets *matches to whether it consists of such weights;
 * *m then describes them. */
PROPANE_CHECK propane_status cpu_fuse_match_kquant(cpu_graph *g, const mil_value *v, int64_t out, int64_t in,
                                                   bool *matches, kquant_match *m, propane_error *err);

#endif
