/* SPDX-License-Identifier: MIT
 * Fusions: rules over the graph (plan/graph.h). A rule is tried at each operation in turn. If the rule's pattern begins
 * or ends at that operation, the rule merges nodes and sets the kind of the merged node. fuse.c lists the rules in
 * order; each is in a separate file.
 */
#ifndef CPU_FUSE_FUSE_H
#define CPU_FUSE_FUSE_H

#include "cpu/plan/graph.h"

/* Options of the plan that disable a rule. */
enum {
    CPU_FUSE_NOT_ROUNDED = 1, /* round_each: the rule's step would not round between the operations */
    CPU_FUSE_NOT_BF16 = 2     /* bf16: the rule's kernels do not round operands to bf16 */
};

typedef struct cpu_fuse_rule {
    const char *name;
    unsigned not_with;
    /* Sets *fired if it changed the graph at g->ops[i]. */
    propane_status (*apply)(cpu_graph *g, int i, bool *fired, propane_error *err);
} cpu_fuse_rule;

extern const cpu_fuse_rule cpu_fuse_attention, cpu_fuse_conv, cpu_fuse_bottleneck, cpu_fuse_quantized_weights,
    cpu_fuse_cast, cpu_fuse_batch_sum, cpu_fuse_residual, cpu_fuse_squares, cpu_fuse_elementwise, cpu_fuse_siblings;

/* Applies the rules in order and counts them in g->fired. */
PROPANE_CHECK propane_status cpu_fuse(cpu_graph *g, propane_error *err);
int cpu_fuse_rule_count(void);
const char *cpu_fuse_rule_name(int rule);

/* Returns the last result that a matrix product's node computes so far. fuse_batch_sum, fuse_residual and fuse_squares,
 * in this order, absorb the operation that reads it. NULL if the operation is not a matrix product with a separate
 * node. */
const mil_value *cpu_fuse_product_result(const cpu_graph *g, const mil_op *product);

#endif
