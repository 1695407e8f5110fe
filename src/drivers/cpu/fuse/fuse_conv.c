/* SPDX-License-Identifier: MIT
 * Layers with constant weights, as inference has them: which operations become one (a convolution or a linear layer, the
 * sum behind it, the activation behind that), and which images have their channels next to one another in memory: the
 * results of such layers, and of what is elementwise, a pool or a mean behind them. A layer's kernels are in conv.h.
 *
 * Whatever else reads such an image finds strides and copies, as from any other view. Weights that are inputs (training),
 * fp16 and bf16, one-dimensional and three-dimensional convolutions stay with emit_conv_nchw.c and emit_matmul.c.
 */
#include <math.h>
#include <string.h>

#include "drivers/cpu/conv/conv.h"
#include "drivers/cpu/conv/conv_layers.h"
#include "mil/ops/shape_util.h"

enum {
    LEAST_ROWS = 4,     /* of a linear layer: fewer are bound by reading the weights */
    LEAST_CHANNELS = 8, /* that a convolution makes */
    MOST_TAPS = 1024,
};

#define CLOSED 1e-7 /* a gate that rounding alone keeps from being 0 */

/* ---- finding layers ------------------------------------------------------------------------------------------------- */

static bool is_constant(const mil_value *v) { return v && v->konst && v->konst->data && v->type.dtype == MIL_fp32; }

static bool is_linear(const mil_op *op) {
    if (op->info->code != MIL_OP_linear || !is_constant(mil_in(op, "weight"))) return false;
    const mil_value *w = mil_in(op, "weight"), *y = op->results[0];
    if (y->type.rank < 2) return false;
    return mil_type_count(&y->type) / w->type.dim[0] >= LEAST_ROWS && w->type.dim[1] > 0;
}

bool cpu_plan_is_image_conv(const mil_op *op, mil_conv *c) {
    if (op->info->code != MIL_OP_conv || !is_constant(mil_in(op, "weight"))) return false;
    if (mil_conv_read(op, c, NULL) || c->spatial != 2 || c->out[0] * c->out[1] < 2 || c->n < 1) return false;
    if (c->in[0] < 2 || c->in[1] < 2 || c->kernel[0] * c->kernel[1] > MOST_TAPS) return false;
    if (c->groups == 1) return c->c_out >= LEAST_CHANNELS && c->c_in > 0;
    return c->groups == c->c_in && c->c_out == c->c_in && c->c_out >= LEAST_CHANNELS;
}

static bool is_layer(const mil_op *op) {
    mil_conv c;
    if (op->result_count != 1 || op->results[0]->type.dtype != MIL_fp32 || !mil_type_count(&op->results[0]->type))
        return false;
    if (!is_linear(op) && !cpu_plan_is_image_conv(op, &c)) return false;
    const mil_value *bias = mil_in(op, "bias");
    return mil_in(op, "x")->type.dtype == MIL_fp32 && !mil_in(op, "x")->konst && (!bias || is_constant(bias));
}

typedef struct growing {
    planner *p;
    cpu_plan_layer layer;
    const mil_op *ops[8];
    int count;
} growing;

int cpu_plan_readers(const planner *p, const mil_value *v, const mil_op **out, int most) {
    int count = 0, found = 0;
    for (int i = p->op_of[v->id] + 1; i < p->op_count && found < p->uses[v->id]; i++)
        for (int k = 0; k < p->ops[i]->info->param_count; k++)
            for (int j = 0; j < p->ops[i]->operands[k].count; j++) {
                if (p->ops[i]->operands[k].values[j] != v) continue;
                found++;
                if (count && out[count - 1] == p->ops[i]) continue;
                if (count == most) return -1;
                out[count++] = p->ops[i];
            }
    return found == p->uses[v->id] ? count : -1;
}

bool cpu_plan_op_is_free(const planner *p, const mil_op *op) {
    const cpu_plan_node *n = &p->nodes[p->node_of[p->op_of[op->results[0]->id]]];
    return n->kind == CPU_PLAN_NODE_TILE && n->op_count == 1;
}

static bool same_type(const mil_op *op, const mil_value *v) {
    return op->result_count == 1 && mil_type_equal(&op->results[0]->type, &v->type);
}

static double number(const mil_op *op, const char *name) {
    double value = 0;
    return mil_op_param(op->info, name) >= 0 && !mil_attr_float(op, name, &value, NULL) ? value : 0;
}

/* A function of one operand, as elementwise.h knows it; -1: none. */
static int unary_code(const mil_op *op) {
    const cpu_plan_binding *b = cpu_plan_binding_of(op);
    const char *mode = "EXACT";
    if (b == &cpu_bind_map) return cpu_plan_code_of(op) < CPU_ELEMENTWISE_UNARY_END ? cpu_plan_code_of(op) : -1;
    if (b != &cpu_bind_gelu || mil_attr_text(op, "mode", &mode, NULL)) return -1;
    return !strcmp(mode, "TANH_APPROXIMATION")      ? CPU_ELEMENTWISE_gelu_tanh
           : !strcmp(mode, "SIGMOID_APPROXIMATION") ? CPU_ELEMENTWISE_gelu_sigmoid
                                                    : CPU_ELEMENTWISE_gelu;
}

static void set_function(cpu_plan_layer *l, const mil_op *op, int code) {
    l->p = number(op, mil_op_param(op->info, "alpha") >= 0 ? "alpha" : "epsilon");
    l->q = number(op, "beta");
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

/* x * f(x) for a sigmoid or its straight form. */
static bool take_product(growing *g, const mil_value *v, const mil_op **users) {
    const mil_op *gate = users[0], *mul = users[1], *only[1];
    int code = unary_code(gate);
    if ((code != CPU_ELEMENTWISE_sigmoid_hard && code != CPU_ELEMENTWISE_sigmoid) || mul->info->code != MIL_OP_mul)
        return false;
    const mil_value *x = mil_in(mul, "x"), *y = mil_in(mul, "y"), *s = gate->results[0];
    if (!((x == v && y == s) || (x == s && y == v)) || cpu_plan_readers(g->p, s, only, 1) != 1) return false;
    if (!cpu_plan_op_is_free(g->p, gate) || !cpu_plan_op_is_free(g->p, mul) || !same_type(gate, v) ||
        !same_type(mul, v))
        return false;
    set_function(&g->layer, gate, code);
    g->layer.map = code == CPU_ELEMENTWISE_sigmoid ? CPU_ELEMENTWISE_silu : -1;
    g->layer.swish = code == CPU_ELEMENTWISE_sigmoid_hard;
    g->ops[g->count++] = gate;
    g->ops[g->count++] = mul;
    g->layer.result = mul->results[0];
    return true;
}

/* The same of x < alpha ? 0 : x, as some write it, where the gate is closed below alpha anyway. */
static void take_threshold(growing *g, const mil_value *v, const mil_op **users) {
    const growing before = *g;
    const mil_op *less = users[0], *select = users[1], *next[2];
    if (less->info->code != MIL_OP_less || select->info->code != MIL_OP_select || mil_in(less, "x") != v) return;
    const mil_value *alpha = mil_in(less, "y"), *zero = mil_in(select, "a"), *y = select->results[0];
    if (!alpha->konst || mil_type_count(&alpha->type) != 1 || !zero->konst || mil_type_count(&zero->type) != 1) return;
    if (mil_const_f64(zero->konst, 0) != 0 || mil_in(select, "cond") != less->results[0] || mil_in(select, "b") != v)
        return;
    if (cpu_plan_readers(g->p, less->results[0], next, 1) != 1 || !cpu_plan_op_is_free(g->p, less) ||
        !cpu_plan_op_is_free(g->p, select))
        return;
    if (!same_type(select, v) || cpu_plan_readers(g->p, y, next, 2) != 2) return;
    g->ops[g->count++] = less;
    g->ops[g->count++] = select;
    g->layer.least = mil_const_f64(alpha->konst, 0);
    const bool taken = take_product(g, y, next) && g->layer.swish && g->layer.p > 0;
    if (!taken || g->layer.p * g->layer.least + g->layer.q > CLOSED) *g = before;
}

static void take_function(growing *g) {
    const mil_value *v = g->layer.result;
    const mil_op *users[2];
    int count = cpu_plan_readers(g->p, v, users, 2);
    if (count == 2 && !take_product(g, v, users)) take_threshold(g, v, users);
    if (count != 1 || !cpu_plan_op_is_free(g->p, users[0]) || !same_type(users[0], v)) return;
    int code = unary_code(users[0]);
    if (code < 0) return;
    set_function(&g->layer, users[0], code);
    g->ops[g->count++] = users[0];
    g->layer.result = users[0]->results[0];
}

static void take_sum(growing *g) {
    const mil_value *v = g->layer.result;
    const mil_op *users[1];
    if (cpu_plan_readers(g->p, v, users, 1) != 1 || users[0]->info->code != MIL_OP_add) return;
    const mil_value *x = mil_in(users[0], "x"), *y = mil_in(users[0], "y"), *other = x == v ? y : x;
    if (other == v || other->konst || !mil_type_equal(&other->type, &v->type) || !cpu_plan_op_is_free(g->p, users[0]))
        return;
    g->layer.other = other;
    g->ops[g->count++] = users[0];
    g->layer.result = users[0]->results[0];
}

/* The factors of the channels that a 1x1 convolution reads (squeeze and excitation). */
static void take_gate(growing *g) {
    const planner *p = g->p;
    const mil_op *op = g->layer.op, *only[1];
    const mil_value *x = mil_in(op, "x");
    mil_conv c;
    if (!cpu_plan_is_image_conv(op, &c) || c.groups != 1 || c.kernel[0] * c.kernel[1] != 1 || p->op_of[x->id] < 0)
        return;
    mil_op *mul = p->ops[p->op_of[x->id]];
    if (mul->info->code != MIL_OP_mul || !cpu_plan_op_is_free(p, mul) || cpu_plan_readers(p, x, only, 1) != 1) return;
    for (int turn = 0; turn < 2; turn++) {
        const mil_value *image = mil_in(mul, turn ? "y" : "x"), *gate = mil_in(mul, turn ? "x" : "y");
        const mil_type *t = &gate->type;
        if (image->konst || gate->konst || !mil_type_equal(&image->type, &x->type)) continue;
        if (t->dtype != MIL_fp32 || t->rank != 4 || t->dim[1] != c.c_in || t->dim[2] * t->dim[3] != 1) continue;
        if (t->dim[0] != 1 && t->dim[0] != c.n) continue;
        g->layer.x = image;
        g->layer.gate = gate;
        g->ops[1] = op;
        g->ops[0] = mul;
        g->count = 2;
        return;
    }
}

static propane_status take_layer(growing *g, propane_error *err) {
    planner *p = g->p;
    const cpu_plan_layer *layer = arena_copy(p->work, &g->layer, sizeof g->layer);
    mil_op **ops = arena_copy(p->work, g->ops, (size_t)g->count * sizeof *g->ops);
    if (!layer || !ops) return cpu_plan_no_memory(p, err);
    const int into = p->op_of[ops[0]->results[0]->id], last = p->op_of[ops[g->count - 1]->results[0]->id];
    for (int i = 1; i < g->count; i++) {
        const int at = p->op_of[ops[i]->results[0]->id];
        p->nodes[at].dead = true;
        p->nodes[at].op_count = 0;
        p->node_of[at] = into;
    }
    p->nodes[into] =
        (cpu_plan_node){.kind = CPU_PLAN_NODE_LAYER, .op_count = g->count, .ops = ops, .last = last, .layer = layer};
    return PROPANE_OK;
}

propane_status cpu_plan_find_layers(planner *p, propane_error *err) {
    if (p->options.bf16 || p->options.round_each) return PROPANE_OK;
    for (int i = 0; i < p->op_count; i++) {
        if (!is_layer(p->ops[i]) || p->nodes[i].kind != CPU_PLAN_NODE_OP) continue;
        growing g = {.p = p, .ops = {p->ops[i]}, .count = 1};
        g.layer = (cpu_plan_layer){.op = p->ops[i],
                                   .x = mil_in(p->ops[i], "x"),
                                   .result = p->ops[i]->results[0],
                                   .map = -1,
                                   .least = -INFINITY,
                                   .low = -INFINITY,
                                   .high = INFINITY};
        mil_conv c;
        g.layer.depthwise = cpu_plan_is_image_conv(p->ops[i], &c) && c.groups > 1;
        take_gate(&g);
        if (!g.layer.depthwise) take_sum(&g);
        take_function(&g);
        PROPANE_TRY(take_layer(&g, err));
    }
    return cpu_plan_find_blocks(p, err);
}

/* ---- places --------------------------------------------------------------------------------------------------------- */

/* [N, C, H, W] as it lies with its channels innermost. */
static cpu_view channels_last(const mil_type *type, int buffer) {
    cpu_view v = cpu_view_dense(type, buffer);
    v.stride[1] = 1;
    v.stride[3] = type->dim[1];
    v.stride[2] = type->dim[3] * v.stride[3];
    return v;
}

bool cpu_view_is_channels_last(const cpu_view *v) {
    return v->rank == 4 && v->stride[1] == 1 && v->dim[1] > 1 && v->dim[2] * v->dim[3] > 1 && v->stride[3] >= v->dim[1];
}

static bool lies_so(const planner *p, const mil_value *v) {
    return !v->konst && p->is_placed[v->id] && cpu_view_is_channels_last(&p->placed[v->id]);
}

static propane_status place(planner *p, const mil_value *v, propane_error *err) {
    if (p->is_placed[v->id] || v->konst || v->type.rank != 4 || v->type.dtype != MIL_fp32) return PROPANE_OK;
    if (v->type.dim[1] < 2 || v->type.dim[2] * v->type.dim[3] < 2) return PROPANE_OK;
    int b = cpu_plan_buffer_add(p, CPU_PLAN_TEMP, mil_type_count(&v->type) * cpu_plan_dtype_bytes(MIL_fp32));
    if (b < 0) return cpu_plan_no_memory(p, err);
    p->placed[v->id] = channels_last(&v->type, b);
    p->is_placed[v->id] = true;
    return PROPANE_OK;
}

/* Results of a fused step that reads such an image in its whole extent. */
static propane_status place_tile(planner *p, const cpu_plan_node *n, propane_error *err) {
    bool reads = false;
    for (int i = 0; i < n->op_count; i++)
        for (int k = 0; k < n->ops[i]->info->param_count; k++)
            for (int j = 0; j < n->ops[i]->operands[k].count; j++) {
                const mil_value *v = n->ops[i]->operands[k].values[j];
                reads |= lies_so(p, v) && mil_shape_equal(&v->type, &n->shape);
            }
    for (int i = 0; i < n->op_count && reads; i++)
        if (mil_shape_equal(&n->ops[i]->results[0]->type, &n->shape)) PROPANE_TRY(place(p, n->ops[i]->results[0], err));
    return PROPANE_OK;
}

propane_status cpu_plan_place_channels(planner *p, propane_error *err) {
    for (int i = 0; i < p->order_count; i++) {
        const cpu_plan_node *n = &p->nodes[p->order[i]];
        mil_conv c;
        if (n->kind == CPU_PLAN_NODE_LAYER && n->layer->op->info->code == MIL_OP_conv)
            PROPANE_TRY(place(p, n->layer->last ? n->layer->last->result : n->layer->result, err));
        else if (n->kind == CPU_PLAN_NODE_TILE)
            PROPANE_TRY(place_tile(p, n, err));
        else if (n->kind == CPU_PLAN_NODE_OP && cpu_plan_is_image_pool(n->ops[0], &c) &&
                 lies_so(p, mil_in(n->ops[0], "x")))
            PROPANE_TRY(place(p, n->ops[0]->results[0], err));
    }
    return PROPANE_OK;
}

/* ---- what the kernels' planning shares ------------------------------------------------------------------------------ */

propane_status cpu_plan_as_channels(planner *p, const mil_value *makes, const mil_type *type, cpu_view *v,
                                    propane_error *err) {
    if (v->stride[1] == 1 || v->dim[1] == 1) return PROPANE_OK;
    const int b = cpu_plan_buffer_add(p, CPU_PLAN_TEMP, mil_type_count(type) * cpu_plan_dtype_bytes(type->dtype));
    if (b < 0) return cpu_plan_no_memory(p, err);
    const cpu_view from = *v;
    *v = channels_last(type, b);
    return cpu_plan_copy(p, makes, &from, v, err);
}

propane_status cpu_plan_channels_result(planner *p, const mil_value *v, cpu_view *out, cpu_view *at,
                                        propane_error *err) {
    PROPANE_TRY(cpu_plan_result(p, v, out, err));
    *at = *out;
    if (out->stride[1] == 1 || out->dim[1] == 1) return PROPANE_OK;
    const int b = cpu_plan_buffer_add(p, CPU_PLAN_TEMP, mil_type_count(&v->type) * cpu_plan_dtype_bytes(out->dtype));
    if (b < 0) return cpu_plan_no_memory(p, err);
    *at = channels_last(&v->type, b);
    return PROPANE_OK;
}

propane_status cpu_plan_channels_constant(planner *p, int64_t floats, float **out, cpu_plan_ref *at,
                                          propane_error *err) {
    unsigned char *memory = arena_alloc(p->work, (size_t)floats * sizeof(float) + 64);
    if (!memory) return cpu_plan_no_memory(p, err);
    memory += (64 - (uintptr_t)memory % 64) % 64;
    memset(memory, 0, (size_t)floats * sizeof(float));
    const int b = cpu_plan_buffer_add(p, CPU_PLAN_CONST, floats * (int64_t)sizeof(float));
    if (b < 0) return cpu_plan_no_memory(p, err);
    p->buffers[b].data = memory;
    cpu_plan_touch(p, b);
    *out = (float *)(void *)memory;
    *at = (cpu_plan_ref){b, 0};
    return PROPANE_OK;
}

cpu_conv_finish cpu_plan_finish_of(const cpu_plan_layer *l) {
    return (cpu_conv_finish){l->swish, (float)l->least, (float)l->p, (float)l->q, (float)l->low, (float)l->high};
}

propane_status cpu_conv_plan_end(planner *p, const cpu_plan_layer *l, int64_t channels, int64_t multiple,
                                 cpu_conv_end *out, propane_error *err) {
    const mil_value *bias = mil_in(l->op, "bias");
    float *to;
    out->finish = cpu_plan_finish_of(l);
    out->map = l->map >= 0 ? cpu_elementwise_kernels_of(p->options.isa)->unary[l->map] : NULL;
    out->p = (float)l->p, out->q = (float)l->q;
    if (!bias) return PROPANE_OK;
    out->has_bias = true;
    PROPANE_TRY(cpu_plan_channels_constant(p, (channels + multiple - 1) / multiple * multiple, &to, &out->bias, err));
    const int64_t step = mil_type_count(&bias->type) == 1 ? 0 : 1; /* one for all is allowed */
    for (int64_t c = 0; c < channels; c++) to[c] = ((const float *)bias->konst->data)[c * step];
    return PROPANE_OK;
}

propane_status cpu_plan_emit_layer(planner *p, const cpu_plan_node *node, propane_error *err) {
    if (node->layer->first) return cpu_conv_emit_bottleneck(p, node->layer, err);
    if (node->layer->depthwise) return cpu_conv_emit_depthwise(p, node->layer, err);
    return cpu_conv_emit_direct(p, node->layer, err);
}

const cpu_conv_kernels *cpu_conv_kernels_of(cpu_isa isa) {
    switch (isa) {
#if defined(__x86_64__)
    case CPU_ISA_AVX2: return &cpu_conv_kernels_avx2;
    case CPU_ISA_AVX512:
    case CPU_ISA_AVX512_BF16: return &cpu_conv_kernels_avx512;
#elif defined(__aarch64__)
    case CPU_ISA_NEON: return &cpu_conv_kernels_neon;
#endif
    default: return &cpu_conv_kernels_plain;
    }
}
