/* SPDX-License-Identifier: MIT
 * Owns the list of fusions, in the order in which they are tried: from large and specific to general.
 *
 *   attention          softmax(Q K' + mask) V and its gradient: one step, no matrix of scores
 *   conv               a layer with constant weights, a tensor added to it and the function after it
 *   bottleneck         1x1 convolution, depthwise convolution, 1x1 convolution or mean
 *   quantized_weights  a matrix product reads weights in their stored form, with few bits
 *   cast               a matrix product reads fp16 instead of fp32
 *   batch_sum          a matrix product sums its results over the batch
 *   residual           a matrix product adds another tensor to its results
 *   squares            a matrix product sums the squares of its results
 *   elementwise        a fused loop absorbs the makers of its operands
 *   siblings           a fused loop absorbs another one that reads the same operand
 *
 * A new rule needs a file with a cpu_fuse_rule, its name in fuse.h and its place here. It also needs two tests in
 * tests/cpu/test_fuse.c: the smallest program to which it applies, and the most similar one to which it does not.
 */
#include "cpu/fuse/fuse.h"

#include "cpu/cpu_program.h"
#include "cpu/plan/facts.h"

static const cpu_fuse_rule *const fuse_rules[] = {
    &cpu_fuse_attention, &cpu_fuse_conv,     &cpu_fuse_bottleneck, &cpu_fuse_quantized_weights, &cpu_fuse_cast,
    &cpu_fuse_batch_sum, &cpu_fuse_residual, &cpu_fuse_squares,    &cpu_fuse_elementwise,       &cpu_fuse_siblings,
};

enum { FUSE_RULES = sizeof fuse_rules / sizeof fuse_rules[0] };

int cpu_fuse_rule_count(void) { return FUSE_RULES; }

const char *cpu_fuse_rule_name(int rule) { return fuse_rules[rule]->name; }

propane_status cpu_fuse(cpu_graph *g, propane_error *err) {
    const unsigned with =
        (g->options.round_each ? CPU_FUSE_NOT_ROUNDED : 0u) | (g->options.bf16 ? CPU_FUSE_NOT_BF16 : 0u);
    g->fired = ARENA_ARRAY(g->work, FUSE_RULES, int);
    g->weights = ARENA_ARRAY(g->work, g->f->value_count + 1, cpu_stored_weights);
    if (!g->fired || !g->weights) return cpu_program_no_memory(err);
    for (int r = 0; r < FUSE_RULES && g->options.fuse; r++)
        for (int i = 0; i < g->op_count && !(fuse_rules[r]->not_with & with); i++) {
            bool fired = false;
            PROPANE_TRY(fuse_rules[r]->apply(g, i, &fired, err));
            g->fired[r] += fired;
        }
    return PROPANE_OK;
}

const mil_value *cpu_fuse_product_result(const cpu_graph *g, const mil_op *product) {
    const cpu_node *node = cpu_graph_node(g, product);
    if (node->kind != CPU_NODE_GEMM || !cpu_plan_is_product(product)) return NULL;
    return (node->added ? node->added : node->folded ? node->folded : product)->results[0];
}
