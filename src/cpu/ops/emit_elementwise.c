/* SPDX-License-Identifier: MIT
 * Emits operations that become part of a fused loop: elementwise operations, casts, reductions and softmax. Owns the
 * choice of these operations, and the translation of their nodes to instructions (loop_draft.h). Integer arithmetic is
 * handled by emit_elementwise_f64.c, because loops compute in fp32.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/base/int_math.h"
#include "core/mil/ops/shape_util.h"
#include "cpu/loop/loop_box.h"
#include "cpu/loop/loop_draft.h"
#include "cpu/ops/emitters.h"
#include "cpu/plan/facts.h"

static bool emit_elementwise_loop_float(const mil_value *v) {
    return v->type.dtype == MIL_fp32 || v->type.dtype == MIL_fp16 || v->type.dtype == MIL_bool;
}

static bool emit_elementwise_takes_floats(const mil_op *op) {
    if (op->result_count != 1 || !emit_elementwise_loop_float(op->results[0])) return false;
    for (int k = 0; k < op->info->param_count; k++)
        for (int j = 0; j < op->operands[k].count; j++) {
            const mil_value *v = op->operands[k].values[j];
            mil_class c = op->info->params[k].type_class;
            bool tensor = c == MIL_CLASS_FLOAT || c == MIL_CLASS_NUM || c == MIL_CLASS_CHOSEN || c == MIL_CLASS_BOOL ||
                          c == MIL_CLASS_TENSOR;
            if (tensor && !emit_elementwise_loop_float(v)) return false;
        }
    return true;
}

static bool emit_elementwise_takes_cast(const mil_op *op) {
    mil_dtype from = mil_in(op, "x")->type.dtype, to = op->results[0]->type.dtype;
    if (!cpu_loop_dtype(from) || !cpu_loop_dtype(to)) return false;
    return mil_dtype_is_float(from) || mil_dtype_is_float(to) || from == MIL_bool || to == MIL_bool;
}

/* Returns true for reductions that a fused loop supports. A reduction of a scalar, over no axis at all, is not
 * supported. */
static bool emit_elementwise_takes_reduce(const mil_op *op) {
    return emit_elementwise_takes_floats(op) && mil_in(op, "x")->type.rank > 0;
}

const cpu_emitter cpu_emitter_map = {.tile = emit_elementwise_takes_floats, .otherwise = CPU_FAMILY_scalar};
const cpu_emitter cpu_emitter_select = {.tile = emit_elementwise_takes_floats, .otherwise = CPU_FAMILY_scalar};
const cpu_emitter cpu_emitter_gelu = {.tile = emit_elementwise_takes_floats, .otherwise = CPU_FAMILY_scalar};
const cpu_emitter cpu_emitter_cast = {.tile = emit_elementwise_takes_cast, .otherwise = CPU_FAMILY_scalar};
const cpu_emitter cpu_emitter_reduce = {.tile = emit_elementwise_takes_reduce, .otherwise = CPU_FAMILY_scalar};
const cpu_emitter cpu_emitter_softmax = {.tile = emit_elementwise_takes_reduce, .otherwise = CPU_FAMILY_scalar};
const cpu_emitter cpu_emitter_pick = {.tile = cpu_signed_rows_is};

typedef struct elementwise_builder {
    planner *p;
    const cpu_node *node;
    propane_error *err;
    propane_status status;
    loop_draft l;
    int value_count;
    const mil_value *values[LOOP_MAX_REGISTERS]; /* the values that have a register */
    int registers_of[LOOP_MAX_REGISTERS];
    double work; /* flops per element */
} elementwise_builder;

/* ---- instructions ------------------------------------------------------------------------------------------------ */

static int emit_elementwise_new_register(elementwise_builder *t, loop_class extent) {
    if (t->l.register_count == LOOP_MAX_REGISTERS) {
        if (!t->status)
            t->status = mil_op_fail(t->p->current, t->err, PROPANE_ERR_LIMIT, "more than %d values in one fused step",
                                    LOOP_MAX_REGISTERS);
        return 0;
    }
    t->l.registers[t->l.register_count] = (loop_register){.extent = extent, .slot = 0, .direct = -1};
    return t->l.register_count++;
}

static loop_instr *emit_elementwise_new_instr(elementwise_builder *t, loop_kind kind, int code, loop_class extent) {
    if (t->l.instr_count == LOOP_MAX_INSTRS) {
        if (!t->status)
            t->status = mil_op_fail(t->p->current, t->err, PROPANE_ERR_LIMIT,
                                    "more than %d instructions in one fused step", LOOP_MAX_INSTRS);
        return &t->l.instrs[0];
    }
    loop_instr *i = &t->l.instrs[t->l.instr_count++];
    *i = (loop_instr){.kind = (unsigned char)kind,
                      .code = (unsigned char)code,
                      .extent = (unsigned char)extent,
                      .dst = -1,
                      .src = {-1, -1, -1},
                      .view = -1};
    return i;
}

static void emit_elementwise_read_register(loop_instr *i, int slot, int reg) { i->src[slot] = (short)reg; }

static int emit_elementwise_unary(elementwise_builder *t, int code, loop_class extent, int x, double p, double q) {
    loop_instr *i = emit_elementwise_new_instr(t, LOOP_UNARY, code, extent);
    emit_elementwise_read_register(i, 0, x);
    i->p = (float)p;
    i->q = (float)q;
    int dst = emit_elementwise_new_register(t, extent);
    i->dst = (short)dst;
    return dst;
}

static int emit_elementwise_scalar(elementwise_builder *t, double value) {
    int r = emit_elementwise_new_register(t, LOOP_SCALAR);
    t->l.registers[r].slot = -1;
    t->l.registers[r].value = (float)value;
    return r;
}

static void emit_elementwise_remember(elementwise_builder *t, const mil_value *v, int reg) {
    if (t->value_count == LOOP_MAX_REGISTERS) return; /* emit_elementwise_new_register has already failed then */
    t->values[t->value_count] = v;
    t->registers_of[t->value_count++] = reg;
}

static int64_t emit_elementwise_fold_stride_sum(const elementwise_builder *t, const int64_t *stride) {
    int64_t n = 0;
    for (int d = 0; d < t->node->shape.rank; d++)
        if (t->node->axes >> d & 1) n |= stride[d];
    return n;
}

/* Returns true if an operand has one number per line of a tile, such as a weight for all positions of its channel. */
static bool emit_elementwise_repeats_along_lines(const elementwise_builder *t, const int64_t *stride) {
    for (int d = t->node->shape.rank - 1; d >= 0; d--)
        if (t->node->shape.dim[d] != 1) return !(t->l.has_axes && t->node->axes >> d & 1) && stride[d] == 0;
    return false;
}

static int emit_elementwise_load(elementwise_builder *t, const mil_value *v) {
    loop_operand *raw = &t->l.views[t->l.view_count];
    if (t->l.view_count == LOOP_MAX_REGISTERS ||
        (!t->status && (t->status = cpu_emit_operand(t->p, v, &raw->view, t->err))))
        return emit_elementwise_new_register(t, LOOP_FULL);
    if (t->status) return 0;
    const mil_type *shape = &t->node->shape;
    cpu_view_spread(&raw->view, shape->rank, shape->dim, raw->stride);
    raw->store = false;
    int64_t any = 0;
    for (int d = 0; d < shape->rank; d++) any |= raw->stride[d];
    loop_class extent = !any                                                                 ? LOOP_SCALAR
                        : t->l.has_axes && !emit_elementwise_fold_stride_sum(t, raw->stride) ? LOOP_REDUCED
                        : emit_elementwise_repeats_along_lines(t, raw->stride)               ? LOOP_LINE
                                                                                             : LOOP_FULL;
    loop_instr *i = emit_elementwise_new_instr(t, LOOP_LOAD, 0, extent);
    i->view = (short)t->l.view_count++;
    int dst = emit_elementwise_new_register(t, extent);
    i->dst = (short)dst;
    return dst;
}

/* Builds a separate load of the operand's picked lines. */
static int emit_elementwise_build_pick(elementwise_builder *t, const mil_op *op) {
    int view = t->l.view_count, reg = emit_elementwise_load(t, mil_in(op, "y"));
    if (t->status) return reg;
    t->l.views[view].pick = cpu_signed_rows_read(t->p->arena, op);
    if (!t->l.views[view].pick) t->status = cpu_program_no_memory(t->err);
    return reg;
}

static int emit_elementwise_register_of(elementwise_builder *t, const mil_value *v) {
    for (int i = 0; i < t->value_count; i++)
        if (t->values[i] == v) return t->registers_of[i];
    int reg = v->constant && mil_type_count(&v->constant->type) == 1
                  ? emit_elementwise_scalar(t, mil_const_f64(v->constant, 0))
                  : emit_elementwise_load(t, v);
    emit_elementwise_remember(t, v, reg);
    return reg;
}

static int emit_elementwise_spread(elementwise_builder *t, int x, loop_class extent) {
    if (t->l.registers[x].extent == extent) return x;
    loop_instr *i = emit_elementwise_new_instr(t, LOOP_SPREAD, 0, extent);
    emit_elementwise_read_register(i, 0, x);
    int dst = emit_elementwise_new_register(t, extent);
    i->dst = (short)dst;
    return dst;
}

static loop_class emit_elementwise_class_of(const elementwise_builder *t, const mil_value *result) {
    return mil_shape_equal(&result->type, &t->node->shape) || !t->l.has_axes ? LOOP_FULL : LOOP_REDUCED;
}

static int emit_elementwise_binary(elementwise_builder *t, int code, loop_class extent, int x, int y) {
    if (t->l.registers[x].extent != extent && t->l.registers[y].extent != extent)
        x = emit_elementwise_spread(t, x, extent);
    loop_instr *i = emit_elementwise_new_instr(t, LOOP_BINARY, code, extent);
    emit_elementwise_read_register(i, 0, x);
    emit_elementwise_read_register(i, 1, y);
    int dst = emit_elementwise_new_register(t, extent);
    i->dst = (short)dst;
    return dst;
}

static int emit_elementwise_build_select(elementwise_builder *t, const mil_op *op, loop_class extent) {
    static const char *const names[3] = {"cond", "a", "b"};
    int src[3];
    for (int k = 0; k < 3; k++) {
        src[k] = emit_elementwise_register_of(t, mil_in(op, names[k]));
        if (t->l.registers[src[k]].extent != LOOP_SCALAR) src[k] = emit_elementwise_spread(t, src[k], extent);
    }
    loop_instr *i = emit_elementwise_new_instr(t, LOOP_SELECT, 0, extent);
    for (int k = 0; k < 3; k++) emit_elementwise_read_register(i, k, src[k]);
    int dst = emit_elementwise_new_register(t, extent);
    i->dst = (short)dst;
    return dst;
}

/* Returns a parameter of the operation, or `standard` if its row in ops.def does not have the parameter. */
static double emit_elementwise_number(elementwise_builder *t, const mil_op *op, const char *name, double standard) {
    double value = standard;
    if (mil_op_param(op->info, name) >= 0 && !t->status) t->status = mil_attr_float(op, name, &value, t->err);
    return value;
}

/* Builds silu. If the same step also has the sigmoid of the same value (for its gradient), one exponential serves
 * both. */
static int emit_elementwise_build_silu(elementwise_builder *t, const mil_op *op, loop_class extent) {
    const mil_value *v = mil_in(op, "x");
    int sigmoid = -1, x = emit_elementwise_spread(t, emit_elementwise_register_of(t, v), extent);
    for (int i = 0; i < t->node->op_count && sigmoid < 0; i++) {
        const mil_op *other = t->node->ops[i];
        if (other->info->code != MIL_OP_sigmoid || mil_in(other, "x") != v) continue;
        for (int k = 0; k < t->value_count; k++)
            if (t->values[k] == other->results[0]) sigmoid = t->registers_of[k];
        if (sigmoid >= 0 || t->p->g.options.round_each) continue;
        sigmoid = emit_elementwise_unary(t, CPU_ELEMENTWISE_sigmoid, extent, x, 0, 0);
        emit_elementwise_remember(t, other->results[0], sigmoid);
    }
    if (sigmoid < 0) return emit_elementwise_unary(t, CPU_ELEMENTWISE_silu, extent, x, 0, 0);
    return emit_elementwise_binary(t, CPU_ELEMENTWISE_mul, extent,
                                   emit_elementwise_unary(t, CPU_ELEMENTWISE_clip, extent, x, -200, (double)INFINITY),
                                   sigmoid);
}

static int emit_elementwise_build_map(elementwise_builder *t, const mil_op *op, int code, loop_class extent) {
    if (code == CPU_ELEMENTWISE_silu) return emit_elementwise_build_silu(t, op, extent);
    int x = emit_elementwise_register_of(t, op->operands[0].values[0]);
    if (code >= CPU_ELEMENTWISE_UNARY_END)
        return emit_elementwise_binary(t, code, extent, x, emit_elementwise_register_of(t, op->operands[1].values[0]));
    bool has_alpha = mil_op_param(op->info, "alpha") >= 0;
    double p = has_alpha ? emit_elementwise_number(t, op, "alpha", 0) : emit_elementwise_number(t, op, "epsilon", 0);
    return emit_elementwise_unary(t, code, extent, emit_elementwise_spread(t, x, extent), p,
                                  emit_elementwise_number(t, op, "beta", 0));
}

static int emit_elementwise_build_gelu(elementwise_builder *t, const mil_op *op, loop_class extent) {
    const char *mode = "EXACT";
    if (!t->status) t->status = mil_attr_text(op, "mode", &mode, t->err);
    if (t->status) return 0;
    int code = !strcmp(mode, "TANH_APPROXIMATION")      ? CPU_ELEMENTWISE_gelu_tanh
               : !strcmp(mode, "SIGMOID_APPROXIMATION") ? CPU_ELEMENTWISE_gelu_sigmoid
                                                        : CPU_ELEMENTWISE_gelu;
    return emit_elementwise_unary(
        t, code, extent, emit_elementwise_spread(t, emit_elementwise_register_of(t, mil_in(op, "x")), extent), 0, 0);
}

static int emit_elementwise_build_cast(elementwise_builder *t, const mil_op *op, loop_class extent) {
    int x = emit_elementwise_spread(t, emit_elementwise_register_of(t, mil_in(op, "x")), extent);
    mil_dtype to = op->results[0]->type.dtype, from = mil_in(op, "x")->type.dtype;
    int code = to == MIL_bool                       ? CPU_ELEMENTWISE_to_bool
               : !mil_dtype_is_float(to)            ? CPU_ELEMENTWISE_trunc
               : to == MIL_fp16 && from != MIL_fp16 ? CPU_ELEMENTWISE_round_f16
                                                    : CPU_ELEMENTWISE_copy;
    return emit_elementwise_unary(t, code, extent, x, 0, 0);
}

/* Builds a reduction by its kernel, and the function that is applied to the combined value. */
static int emit_elementwise_build_reduce(elementwise_builder *t, const mil_op *op, int fold) {
    static const cpu_reduce_code codes[] = {
        [CPU_FOLD_sum] = CPU_REDUCE_SUM,     [CPU_FOLD_mean] = CPU_REDUCE_SUM,
        [CPU_FOLD_max] = CPU_REDUCE_MAX,     [CPU_FOLD_min] = CPU_REDUCE_MIN,
        [CPU_FOLD_prod] = CPU_REDUCE_PROD,   [CPU_FOLD_l1] = CPU_REDUCE_SUMABS,
        [CPU_FOLD_l2] = CPU_REDUCE_SUMSQ,    [CPU_FOLD_sum_square] = CPU_REDUCE_SUMSQ,
        [CPU_FOLD_log_sum] = CPU_REDUCE_SUM, [CPU_FOLD_log_sum_exp] = CPU_REDUCE_SUM,
    };
    int x = emit_elementwise_spread(t, emit_elementwise_register_of(t, mil_in(op, "x")), LOOP_FULL);
    loop_instr *i = emit_elementwise_new_instr(t, fold == CPU_FOLD_log_sum_exp ? LOOP_LOG_SUM_EXP : LOOP_REDUCE,
                                               codes[fold], LOOP_REDUCED);
    emit_elementwise_read_register(i, 0, x);
    int dst = emit_elementwise_new_register(t, LOOP_REDUCED);
    i->dst = (short)dst;
    double n = (double)cpu_loop_reduced_count(&t->node->shape, t->node->axes);
    if (fold == CPU_FOLD_mean) return emit_elementwise_unary(t, CPU_ELEMENTWISE_affine, LOOP_REDUCED, dst, 1 / n, 0);
    if (fold == CPU_FOLD_l2) return emit_elementwise_unary(t, CPU_ELEMENTWISE_sqrt, LOOP_REDUCED, dst, 0, 0);
    if (fold == CPU_FOLD_log_sum) return emit_elementwise_unary(t, CPU_ELEMENTWISE_log, LOOP_REDUCED, dst, 0, 0);
    return dst;
}

static int emit_elementwise_build_softmax(elementwise_builder *t, const mil_op *op) {
    int x = emit_elementwise_spread(t, emit_elementwise_register_of(t, mil_in(op, "x")), LOOP_FULL);
    loop_instr *i = emit_elementwise_new_instr(t, LOOP_SOFTMAX, 0, LOOP_FULL);
    emit_elementwise_read_register(i, 0, x);
    int dst = emit_elementwise_new_register(t, LOOP_FULL);
    i->dst = (short)dst;
    return dst;
}

static void emit_elementwise_build_op(elementwise_builder *t, const mil_op *op) {
    const cpu_family family = cpu_family_of(op);
    const mil_value *v = op->results[0];
    loop_class extent = emit_elementwise_class_of(t, v);
    int reg;
    for (int i = 0; i < t->value_count; i++)
        if (t->values[i] == v) return; /* another operation has made this value already */
    if (family == CPU_FAMILY_softmax)
        reg = emit_elementwise_build_softmax(t, op);
    else if (family == CPU_FAMILY_reduce)
        reg = emit_elementwise_build_reduce(t, op, cpu_code_of(op));
    else if (family == CPU_FAMILY_select)
        reg = emit_elementwise_build_select(t, op, extent);
    else if (family == CPU_FAMILY_gelu)
        reg = emit_elementwise_build_gelu(t, op, extent);
    else if (family == CPU_FAMILY_cast)
        reg = emit_elementwise_build_cast(t, op, extent);
    else if (family == CPU_FAMILY_pick)
        reg = emit_elementwise_build_pick(t, op);
    else
        reg = emit_elementwise_build_map(t, op, cpu_code_of(op), extent);
    if (t->p->g.options.round_each && v->type.dtype == MIL_fp16)
        reg = emit_elementwise_unary(t, CPU_ELEMENTWISE_round_f16, t->l.registers[reg].extent, reg, 0, 0);
    t->work += op->info->flops_per_element > 0 ? op->info->flops_per_element : 2;
    emit_elementwise_remember(t, v, reg);
}

/* ---- stores ------------------------------------------------------------------------------------------------------ */

static bool emit_elementwise_read_outside(const elementwise_builder *t, const mil_value *v) {
    int inside = 0;
    for (int i = 0; i < t->node->op_count; i++)
        MIL_FOR_OPERANDS (t->node->ops[i], operand) inside += operand == v;
    return t->p->g.uses[v->id] > inside;
}

/* Sets the strides of a result over the node's shape. A reduction may have dropped its axes. */
static void emit_elementwise_result_strides(const elementwise_builder *t, const cpu_view *v, int64_t *stride) {
    const mil_type *shape = &t->node->shape;
    if (v->rank == shape->rank) {
        cpu_view_spread(v, shape->rank, shape->dim, stride);
        return;
    }
    for (int d = 0, own = 0; d < shape->rank; d++) {
        bool folded = t->node->axes >> d & 1;
        stride[d] = folded || shape->dim[d] == 1 ? 0 : v->stride[own];
        own += !folded;
    }
}

static void emit_elementwise_store(elementwise_builder *t, const mil_value *v) {
    loop_operand *raw = &t->l.views[t->l.view_count];
    if (t->status) return;
    if (t->l.view_count == LOOP_MAX_REGISTERS) {
        t->status = mil_op_fail(v->def, t->err, PROPANE_ERR_LIMIT, "more than %d operands in one fused step",
                                LOOP_MAX_REGISTERS);
        return;
    }
    if ((t->status = cpu_emit_result(t->p, v, &raw->view, t->err))) return;
    emit_elementwise_result_strides(t, &raw->view, raw->stride);
    raw->store = true;
    int reg = emit_elementwise_register_of(t, v);
    loop_class extent = t->l.registers[reg].extent;
    assert(extent != LOOP_SCALAR);
    loop_instr *i = emit_elementwise_new_instr(t, LOOP_STORE, 0, extent);
    emit_elementwise_read_register(i, 0, reg);
    i->view = (short)t->l.view_count++;
}

/* ---- emission ---------------------------------------------------------------------------------------------------- */

static bool emit_elementwise_same_layout(const cpu_view *a, const cpu_view *b) {
    if (a->dtype != b->dtype || a->rank != b->rank || a->offset || b->offset) return false;
    for (int d = 0; d < a->rank; d++)
        if (a->dim[d] != b->dim[d] || (a->dim[d] != 1 && a->stride[d] != b->stride[d])) return false;
    return true;
}

/* Declares which stores may overwrite which loads. Both must have the same layout, and the loop must not use the load's
 * buffer in any other way. */
static propane_status emit_elementwise_declare_sharing(elementwise_builder *t) {
    for (int s = 0; s < t->l.view_count; s++) {
        if (!t->l.views[s].store) continue;
        for (int l = 0; l < t->l.view_count; l++) {
            const cpu_view *from = &t->l.views[l].view;
            if (t->l.views[l].store || t->l.views[l].pick || !emit_elementwise_same_layout(from, &t->l.views[s].view))
                continue;
            bool only = true;
            for (int o = 0; o < t->l.view_count; o++)
                if (t->l.views[o].view.buffer == from->buffer &&
                    (t->l.views[o].pick || !cpu_view_equal(&t->l.views[o].view, from)))
                    only = false;
            if (only) PROPANE_TRY(cpu_emit_may_share(t->p, from, &t->l.views[s].view, t->err));
        }
    }
    return PROPANE_OK;
}

static propane_status emit_elementwise_finish(elementwise_builder *t, propane_error *err) {
    planner *p = t->p;
    loop_program *out = ARENA_NEW(p->arena, loop_program);
    if (!out) return cpu_program_no_memory(err);
    out->map = &p->g.options.kernels->elementwise;
    out->table = &p->g.options.kernels->reduce;
    PROPANE_TRY(cpu_loop_space(&t->l, out, err));
    if (p->g.options.fuse && !p->g.options.round_each) cpu_loop_combine(&t->l);
    bool passes = cpu_loop_order(&t->l, out);
    cpu_loop_tile(out, t->l.has_axes, passes);
    out->scratch_bytes = round_up(cpu_loop_registers(&t->l, out), 64);
    for (int i = 0; i < t->l.instr_count; i++)
        if (t->l.instrs[i].kind == LOOP_REDUCE) t->l.instrs[i].place = (short)out->reductions++;
    cpu_loop_tasks(&t->l, out, t->work, p->threads);
    out->instr_count = t->l.instr_count;
    out->register_count = t->l.register_count;
    out->instrs = arena_copy(p->arena, t->l.instrs, (size_t)t->l.instr_count * sizeof *t->l.instrs);
    out->registers = arena_copy(p->arena, t->l.registers, (size_t)t->l.register_count * sizeof *t->l.registers);
    if (!out->instrs || !out->registers) return cpu_program_no_memory(err);
    PROPANE_TRY(cpu_emit_scratch(p, out->scratch_bytes * p->threads, &out->scratch, err));
    int64_t partial = out->parts > 1 ? out->parts * out->reductions * out->width * (int64_t)sizeof(float) : 0;
    if (partial) PROPANE_TRY(cpu_emit_scratch(p, partial, &out->partial, err));
    double bytes = 0;
    for (int v = 0; v < t->l.view_count; v++) {
        cpu_emit_touch(p, t->l.views[v].view.buffer);
        bytes += (double)cpu_view_count(&t->l.views[v].view) * cpu_view_dtype_bytes(t->l.views[v].view.dtype);
    }
    PROPANE_TRY(emit_elementwise_declare_sharing(t));
    const mil_op *last = t->node->ops[t->node->op_count - 1];
    p->program->tile_count++;
    p->program->fused_ops += t->node->op_count;
    return cpu_emit_step(p, cpu_loop_run, out, "tile", last->results[0],
                         t->work * (double)mil_type_count(&t->node->shape), bytes, err);
}

propane_status cpu_emit_elementwise(planner *p, const cpu_node *node, propane_error *err) {
    elementwise_builder *t = p->loop_builder ? p->loop_builder : ARENA_NEW(p->work, elementwise_builder);
    if (!t) return cpu_program_no_memory(err);
    p->loop_builder = t;
    *t = (elementwise_builder){.p = p, .node = node, .err = err};
    t->l.arena = p->arena;
    t->l.work = p->work;
    t->l.shape = node->shape;
    t->l.axes = node->axes;
    t->l.has_axes = node->axes != 0;
    for (int i = 0; i < node->op_count && !t->status; i++) {
        p->current = node->ops[i];
        emit_elementwise_build_op(t, node->ops[i]);
    }
    for (int i = 0; i < node->op_count && !t->status; i++)
        if (emit_elementwise_read_outside(t, node->ops[i]->results[0]))
            emit_elementwise_store(t, node->ops[i]->results[0]);
    if (t->status) return t->status;
    cpu_loop_turn_channels(&t->l);
    return emit_elementwise_finish(t, err);
}
