/* SPDX-License-Identifier: MIT
 * Owns the amount of work of an op: flops from its row or its shapes, bytes of its operands and results. An op whose
 * results are known at compile time costs nothing.
 */
#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

/* Count the multiply-adds of ops that are sums of products, from the geometry that the shape rules read. */
static double cost_matmul_products(const mil_op *op) {
    mil_matmul m;
    if (mil_matmul_read(op, &m, NULL)) return 0.0;
    return (double)mil_type_count(&m.result) * (double)m.k;
}

static double cost_linear_products(const mil_op *op) {
    return (double)mil_type_count(&op->results[0]->type) * (double)mil_in(op, "weight")->type.dim[1];
}

static double cost_conv_products(const mil_op *op) {
    mil_conv c;
    if (mil_conv_read(op, &c, NULL)) return 0.0;
    double products = (double)mil_type_count(&op->results[0]->type) * (double)(c.c_in / c.groups);
    for (int d = 0; d < c.spatial; d++) products *= (double)c.kernel[d];
    return products;
}

static double cost_conv_transpose_products(const mil_op *op) {
    mil_conv c;
    if (mil_conv_transpose_read(op, &c, NULL)) return 0.0;
    double products = (double)mil_type_count(&mil_in(op, "x")->type) * (double)(c.c_out / c.groups);
    for (int d = 0; d < c.spatial; d++) products *= (double)c.kernel[d];
    return products;
}

static double cost_recurrent_products(const mil_op *op) {
    mil_recurrent r;
    if (mil_recurrent_read(op, &r, NULL)) return 0.0;
    return (double)(r.steps * r.batch * r.directions) * (double)(r.gates * r.hidden) * (double)(r.inputs + r.hidden);
}

static double cost_einsum_products(const mil_op *op) {
    mil_einsum e;
    if (mil_einsum_read(op, &e, NULL)) return 0.0;
    double products = 1.0;
    for (int l = 0; l < e.label_count; l++) products *= (double)e.size[l];
    return products;
}

/* Counts the scores and the weighted sum. The softmax between them, at 12 flops per element, counts as 6
 * multiply-adds. */
static double cost_sdpa_products(const mil_op *op) {
    mil_sdpa s;
    if (mil_sdpa_read(op, &s, NULL)) return 0.0;
    return (double)s.batch * (double)s.l * (double)s.s * (double)(s.e + s.v + 6);
}

static const struct product_rule {
    mil_rule rule;
    double (*products)(const mil_op *op);
} product_rules[] = {
    {mil_shape_rule_matmul, cost_matmul_products},
    {mil_shape_rule_linear, cost_linear_products},
    {mil_shape_rule_conv, cost_conv_products},
    {mil_shape_rule_einsum, cost_einsum_products},
    {mil_shape_rule_sdpa, cost_sdpa_products},
    {mil_shape_rule_conv_quantized, cost_conv_products},
    {mil_shape_rule_conv_transpose, cost_conv_transpose_products},
    {mil_shape_rule_recurrent, cost_recurrent_products},
};

static double cost_flops_of(const mil_op *op, bool *is_matrix) {
    double results = 0.0;
    for (int k = 0; k < op->result_count; k++) results += (double)mil_type_count(&op->results[k]->type);
    if (op->info->flops_per_element >= 0.0) return op->info->flops_per_element * results;
    for (size_t k = 0; k < sizeof product_rules / sizeof product_rules[0]; k++)
        if (op->info->rule == product_rules[k].rule) {
            *is_matrix = true;
            return 2.0 * product_rules[k].products(op);
        }
    return -op->info->flops_per_element * (double)mil_type_count(&op->operands[0].values[0]->type); /* other ops */
}

/* Returns whether operands of the class are data, not attributes. */
static bool cost_is_data(mil_class type_class) {
    return type_class < MIL_CLASS_K_INT || type_class == MIL_CLASS_K_TENSOR;
}

void mil_op_cost(const mil_op *op, mil_cost *out) {
    bool known = true;
    *out = (mil_cost){0};
    for (int k = 0; k < op->result_count; k++) known &= op->results[k]->constant != NULL;
    if (known) return;
    out->flops = cost_flops_of(op, &out->is_matrix);
    for (int p = 0; p < op->info->param_count; p++) {
        if (!cost_is_data(op->info->params[p].type_class)) continue;
        for (int k = 0; k < op->operands[p].count; k++) {
            const mil_value *v = op->operands[p].values[k];
            const double bytes = (double)mil_type_bytes(&v->type);
            out->bytes_in += bytes;
            if (v->constant) out->bytes_const += bytes;
        }
    }
    for (int k = 0; k < op->result_count; k++) out->bytes_out += (double)mil_type_bytes(&op->results[k]->type);
}
