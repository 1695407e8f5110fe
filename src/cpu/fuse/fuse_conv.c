/* SPDX-License-Identifier: MIT
 * Finds layers with constant weights, as inference has them. The operations of a layer become one node: a convolution
 * or a linear layer, the sum after it, and the activation after that. plan_channels.c then places images with adjacent
 * channels in memory. A layer's kernels are in conv_ukernel.h.
 *
 * Weights that are inputs (training), fp16 and bf16, and one-dimensional and three-dimensional convolutions stay with
 * emit_conv_nchw.c and emit_matmul.c.
 */
#include <math.h>
#include <string.h>

#include "core/mil/ops.h"
#include "cpu/cpu_program.h"
#include "cpu/fuse/fuse.h"
#include "cpu/plan/facts.h"
#include "cpu/plan/table.h"
#include "cpu/simd/elementwise.h"

enum { LEAST_ROWS = 4 }; /* of a linear layer; with fewer, reading the weights dominates */

#define CLOSED 1e-7 /* a gate of at most this value is 0 except for rounding */

/* ---- finding layers ---------------------------------------------------------------------------------------------- */

static bool fuse_conv_is_linear(const mil_op *op) {
    if (op->info->code != MIL_OP_linear || !cpu_plan_is_known(mil_in(op, "weight"))) return false;
    const mil_value *w = mil_in(op, "weight"), *y = op->results[0];
    if (y->type.rank < 2) return false;
    return mil_type_count(&y->type) / w->type.dim[0] >= LEAST_ROWS && w->type.dim[1] > 0;
}

static bool fuse_conv_is_layer(const mil_op *op) {
    mil_conv c;
    if (op->result_count != 1 || op->results[0]->type.dtype != MIL_fp32 || !mil_type_count(&op->results[0]->type))
        return false;
    if (!fuse_conv_is_linear(op) && !cpu_plan_is_image_conv(op, &c)) return false;
    const mil_value *bias = mil_in(op, "bias");
    return mil_in(op, "x")->type.dtype == MIL_fp32 && !mil_in(op, "x")->constant && (!bias || cpu_plan_is_known(bias));
}

typedef struct growing {
    cpu_graph *g;
    cpu_fused_conv layer;
    const mil_op *ops[8];
    int count;
} growing;

static bool fuse_conv_same_type(const mil_op *op, const mil_value *v) {
    return op->result_count == 1 && mil_type_equal(&op->results[0]->type, &v->type);
}

static double fuse_conv_number(const mil_op *op, const char *name) {
    double value = 0;
    return mil_op_param(op->info, name) >= 0 && !mil_attr_float(op, name, &value, NULL) ? value : 0;
}

/* Returns the code of a function with one operand in elementwise.h; -1 if there is none. */
static int fuse_conv_unary_code(const mil_op *op) {
    const cpu_family family = cpu_family_of(op);
    const char *mode = "EXACT";
    if (family == CPU_FAMILY_map) return cpu_code_of(op) < CPU_ELEMENTWISE_UNARY_END ? cpu_code_of(op) : -1;
    if (family != CPU_FAMILY_gelu || mil_attr_text(op, "mode", &mode, NULL)) return -1;
    return !strcmp(mode, "TANH_APPROXIMATION")      ? CPU_ELEMENTWISE_gelu_tanh
           : !strcmp(mode, "SIGMOID_APPROXIMATION") ? CPU_ELEMENTWISE_gelu_sigmoid
                                                    : CPU_ELEMENTWISE_gelu;
}

static void fuse_conv_set_function(cpu_fused_conv *l, const mil_op *op, int code) {
    l->p = fuse_conv_number(op, mil_op_param(op->info, "alpha") >= 0 ? "alpha" : "epsilon");
    l->q = fuse_conv_number(op, "beta");
    if (code == CPU_ELEMENTWISE_relu || code == CPU_ELEMENTWISE_relu6) {
        l->low = 0;
        l->high = code == CPU_ELEMENTWISE_relu6 ? 6 : l->high;
    } else if (code == CPU_ELEMENTWISE_clip) {
        l->low = l->p;
        l->high = l->q;
    } else {
        l->map = code;
    }
}

/* Absorbs x * f(x), where f is a sigmoid or sigmoid_hard. */
static bool fuse_conv_take_product(growing *w, const mil_value *v, const mil_op **users) {
    const mil_op *gate = users[0], *mul = users[1], *only[1];
    int code = fuse_conv_unary_code(gate);
    if ((code != CPU_ELEMENTWISE_sigmoid_hard && code != CPU_ELEMENTWISE_sigmoid) || mul->info->code != MIL_OP_mul)
        return false;
    const mil_value *x = mil_in(mul, "x"), *y = mil_in(mul, "y"), *s = gate->results[0];
    if (!((x == v && y == s) || (x == s && y == v)) || cpu_graph_readers(w->g, s, only, 1) != 1) return false;
    if (!cpu_graph_is_free(w->g, gate) || !cpu_graph_is_free(w->g, mul) || !fuse_conv_same_type(gate, v) ||
        !fuse_conv_same_type(mul, v))
        return false;
    fuse_conv_set_function(&w->layer, gate, code);
    w->layer.map = code == CPU_ELEMENTWISE_sigmoid ? CPU_ELEMENTWISE_silu : -1;
    w->layer.swish = code == CPU_ELEMENTWISE_sigmoid_hard;
    w->ops[w->count++] = gate;
    w->ops[w->count++] = mul;
    w->layer.result = mul->results[0];
    return true;
}

/* Absorbs x < alpha ? 0 : x before such a product, which some models contain, if the gate is 0 below alpha in any
 * case. */
static void fuse_conv_take_threshold(growing *w, const mil_value *v, const mil_op **users) {
    const growing before = *w;
    const mil_op *less = users[0], *select = users[1], *next[2];
    if (less->info->code != MIL_OP_less || select->info->code != MIL_OP_select || mil_in(less, "x") != v) return;
    const mil_value *alpha = mil_in(less, "y"), *zero = mil_in(select, "a"), *y = select->results[0];
    if (!alpha->constant || mil_type_count(&alpha->type) != 1 || !zero->constant || mil_type_count(&zero->type) != 1)
        return;
    if (mil_const_f64(zero->constant, 0) != 0 || mil_in(select, "cond") != less->results[0] || mil_in(select, "b") != v)
        return;
    if (cpu_graph_readers(w->g, less->results[0], next, 1) != 1 || !cpu_graph_is_free(w->g, less) ||
        !cpu_graph_is_free(w->g, select))
        return;
    if (!fuse_conv_same_type(select, v) || cpu_graph_readers(w->g, y, next, 2) != 2) return;
    w->ops[w->count++] = less;
    w->ops[w->count++] = select;
    w->layer.least = mil_const_f64(alpha->constant, 0);
    const bool taken = fuse_conv_take_product(w, y, next) && w->layer.swish && w->layer.p > 0;
    if (!taken || w->layer.p * w->layer.least + w->layer.q > CLOSED) *w = before;
}

static void fuse_conv_take_function(growing *w) {
    const mil_value *v = w->layer.result;
    const mil_op *users[2];
    int count = cpu_graph_readers(w->g, v, users, 2);
    if (count == 2 && !fuse_conv_take_product(w, v, users)) fuse_conv_take_threshold(w, v, users);
    if (count != 1 || !cpu_graph_is_free(w->g, users[0]) || !fuse_conv_same_type(users[0], v)) return;
    int code = fuse_conv_unary_code(users[0]);
    if (code < 0) return;
    fuse_conv_set_function(&w->layer, users[0], code);
    w->ops[w->count++] = users[0];
    w->layer.result = users[0]->results[0];
}

static void fuse_conv_take_sum(growing *w) {
    const mil_value *v = w->layer.result;
    const mil_op *users[1];
    if (cpu_graph_readers(w->g, v, users, 1) != 1 || users[0]->info->code != MIL_OP_add) return;
    const mil_value *x = mil_in(users[0], "x"), *y = mil_in(users[0], "y"), *other = x == v ? y : x;
    if (other == v || other->constant || !mil_type_equal(&other->type, &v->type) || !cpu_graph_is_free(w->g, users[0]))
        return;
    w->layer.other = other;
    w->ops[w->count++] = users[0];
    w->layer.result = users[0]->results[0];
}

/* Absorbs a multiplication by one factor per channel before a 1x1 convolution (squeeze and excitation). */
static void fuse_conv_take_gate(growing *w) {
    const cpu_graph *g = w->g;
    const mil_op *op = w->layer.op, *only[1];
    const mil_value *x = mil_in(op, "x");
    mil_conv c;
    if (!cpu_plan_is_image_conv(op, &c) || c.groups != 1 || c.kernel[0] * c.kernel[1] != 1 || g->op_of[x->id] < 0)
        return;
    mil_op *mul = g->ops[g->op_of[x->id]];
    if (mul->info->code != MIL_OP_mul || !cpu_graph_is_free(g, mul) || cpu_graph_readers(g, x, only, 1) != 1) return;
    for (int turn = 0; turn < 2; turn++) {
        const mil_value *image = mil_in(mul, turn ? "y" : "x"), *gate = mil_in(mul, turn ? "x" : "y");
        const mil_type *t = &gate->type;
        if (image->constant || gate->constant || !mil_type_equal(&image->type, &x->type)) continue;
        if (t->dtype != MIL_fp32 || t->rank != 4 || t->dim[1] != c.c_in || t->dim[2] * t->dim[3] != 1) continue;
        if (t->dim[0] != 1 && t->dim[0] != c.n) continue;
        w->layer.x = image;
        w->layer.gate = gate;
        w->ops[1] = op;
        w->ops[0] = mul;
        w->count = 2;
        return;
    }
}

static propane_status fuse_conv_apply(cpu_graph *g, int i, bool *fired, propane_error *err) {
    const mil_op *op = g->ops[i];
    const cpu_node *own = cpu_graph_node(g, op);
    if (!fuse_conv_is_layer(op) || own->op_count != 1 || (own->kind != CPU_NODE_OP && own->kind != CPU_NODE_GEMM))
        return PROPANE_OK;
    growing w = {.g = g, .ops = {op}, .count = 1};
    w.layer = (cpu_fused_conv){.op = op,
                               .x = mil_in(op, "x"),
                               .result = op->results[0],
                               .map = -1,
                               .least = -INFINITY,
                               .low = -INFINITY,
                               .high = INFINITY};
    mil_conv c;
    w.layer.depthwise = cpu_plan_is_image_conv(op, &c) && c.groups > 1;
    fuse_conv_take_gate(&w);
    if (!w.layer.depthwise) fuse_conv_take_sum(&w);
    fuse_conv_take_function(&w);
    const cpu_fused_conv *layer = arena_copy(g->work, &w.layer, sizeof w.layer);
    cpu_node *node = layer ? cpu_graph_merge(g, w.ops, w.count) : NULL;
    if (!node) return cpu_program_no_memory(err);
    node->kind = CPU_NODE_FUSED_CONV;
    node->conv = layer;
    *fired = true;
    return PROPANE_OK;
}

const cpu_fuse_rule cpu_fuse_conv = {
    .name = "conv", .not_with = CPU_FUSE_NOT_ROUNDED | CPU_FUSE_NOT_BF16, .apply = fuse_conv_apply};
