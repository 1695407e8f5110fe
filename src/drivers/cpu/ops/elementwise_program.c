/* SPDX-License-Identifier: MIT
 * From a node of elementwise operations, reductions and softmax to a tile program: instructions, the iteration space with
 * as few dimensions as its views allow, the tile's size. The order of the instructions is loop_schedule.c's.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/int_math.h"
#include "drivers/cpu/ops/elementwise_program.h"
#include "drivers/cpu/ops/emitters.h"
#include "drivers/cpu/plan/facts.h"

#define COLUMN_FLOATS  24576 /* of one register of a column tile: it lives in the second-level cache */
#define COLUMN_CHUNK   4096  /* of one register of a column tile that goes over the fold in passes: first-level cache */
#define COLUMN_TILES   4     /* wide tiles read memory in long lines, but every core wants one */
#define PART           16384 /* elements of a column tile that are a task of their own in each pass */
#define PART_WIDTH     1024  /* columns of such a tile: whole rows, as memory is read fastest */
#define PART_CHUNK     2048  /* as COLUMN_CHUNK, for tiles in parts */
#define ROW_FLOATS     4096  /* of rows that a tile holds whole, side by side */
#define STRIP          2048  /* floats of an elementwise tile */
#define TASK_WORK      16384.0 /* element operations that are worth a task */
#define TASKS_A_THREAD 8

/* ---- instructions ------------------------------------------------------------------------------------------------------- */

static int new_register(loop_builder *t, loop_class klass) {
    if (t->register_count == LOOP_MAX_REGISTERS) {
        if (!t->status)
            t->status = mil_op_fail(t->p->current, t->err, PROPANE_ERR_LIMIT, "more than %d values in one fused step",
                                    LOOP_MAX_REGISTERS);
        return 0;
    }
    t->registers[t->register_count] = (loop_register){.klass = klass, .slot = 0, .direct = -1};
    return t->register_count++;
}

static loop_instr *new_instr(loop_builder *t, loop_kind kind, int code, loop_class klass) {
    if (t->instr_count == LOOP_MAX_INSTRS) {
        if (!t->status)
            t->status = mil_op_fail(t->p->current, t->err, PROPANE_ERR_LIMIT,
                                    "more than %d instructions in one fused step", LOOP_MAX_INSTRS);
        return &t->instrs[0];
    }
    loop_instr *i = &t->instrs[t->instr_count++];
    *i = (loop_instr){.kind = (unsigned char)kind,
                      .code = (unsigned char)code,
                      .klass = (unsigned char)klass,
                      .dst = -1,
                      .src = {-1, -1, -1},
                      .view = -1};
    return i;
}

static void read_register(loop_instr *i, int slot, int reg) { i->src[slot] = (short)reg; }

static int unary(loop_builder *t, int code, loop_class klass, int x, double p, double q) {
    loop_instr *i = new_instr(t, LOOP_UNARY, code, klass);
    read_register(i, 0, x);
    i->p = (float)p;
    i->q = (float)q;
    int dst = new_register(t, klass);
    i->dst = (short)dst;
    return dst;
}

static int scalar(loop_builder *t, double value) {
    int r = new_register(t, LOOP_SCALAR);
    t->registers[r].slot = -1;
    t->registers[r].value = (float)value;
    return r;
}

static void remember(loop_builder *t, const mil_value *v, int reg) {
    if (t->value_count == LOOP_MAX_REGISTERS) return; /* new_register has failed by then */
    t->values[t->value_count] = v;
    t->registers_of[t->value_count++] = reg;
}

static int64_t fold_stride_sum(const loop_builder *t, const int64_t *stride) {
    int64_t n = 0;
    for (int d = 0; d < t->node->shape.rank; d++)
        if (t->node->axes >> d & 1) n |= stride[d];
    return n;
}

/* One number for each line of a tile: a weight beside its channel's positions. */
static bool repeats_along_lines(const loop_builder *t, const int64_t *stride) {
    for (int d = t->node->shape.rank - 1; d >= 0; d--)
        if (t->node->shape.dim[d] != 1) return !(t->has_axes && t->node->axes >> d & 1) && stride[d] == 0;
    return false;
}

static int load(loop_builder *t, const mil_value *v) {
    raw_view *raw = &t->views[t->view_count];
    if (t->view_count == LOOP_MAX_REGISTERS ||
        (!t->status && (t->status = cpu_emit_operand(t->p, v, &raw->view, t->err))))
        return new_register(t, LOOP_FULL);
    if (t->status) return 0;
    const mil_type *shape = &t->node->shape;
    cpu_view_spread(&raw->view, shape->rank, shape->dim, raw->stride);
    raw->store = false;
    int64_t any = 0;
    for (int d = 0; d < shape->rank; d++) any |= raw->stride[d];
    loop_class klass = !any                                              ? LOOP_SCALAR
                       : t->has_axes && !fold_stride_sum(t, raw->stride) ? LOOP_REDUCED
                       : repeats_along_lines(t, raw->stride)             ? LOOP_LINE
                                                                         : LOOP_FULL;
    loop_instr *i = new_instr(t, LOOP_LOAD, 0, klass);
    i->view = (short)t->view_count++;
    int dst = new_register(t, klass);
    i->dst = (short)dst;
    return dst;
}

/* The operand's lines, picked: a load of its own. */
static int build_pick(loop_builder *t, const mil_op *op) {
    int view = t->view_count, reg = load(t, mil_in(op, "y"));
    if (t->status) return reg;
    t->views[view].pick = cpu_signed_rows_read(t->p->arena, op);
    if (!t->views[view].pick) t->status = cpu_program_no_memory(t->err);
    return reg;
}

static int register_of(loop_builder *t, const mil_value *v) {
    for (int i = 0; i < t->value_count; i++)
        if (t->values[i] == v) return t->registers_of[i];
    int reg = v->konst && mil_type_count(&v->konst->type) == 1 ? scalar(t, mil_const_f64(v->konst, 0)) : load(t, v);
    remember(t, v, reg);
    return reg;
}

static int spread(loop_builder *t, int x, loop_class klass) {
    if (t->registers[x].klass == klass) return x;
    loop_instr *i = new_instr(t, LOOP_SPREAD, 0, klass);
    read_register(i, 0, x);
    int dst = new_register(t, klass);
    i->dst = (short)dst;
    return dst;
}

static loop_class class_of(const loop_builder *t, const mil_value *result) {
    return mil_shape_equal(&result->type, &t->node->shape) || !t->has_axes ? LOOP_FULL : LOOP_REDUCED;
}

static int binary(loop_builder *t, int code, loop_class klass, int x, int y) {
    if (t->registers[x].klass != klass && t->registers[y].klass != klass) x = spread(t, x, klass);
    loop_instr *i = new_instr(t, LOOP_BINARY, code, klass);
    read_register(i, 0, x);
    read_register(i, 1, y);
    int dst = new_register(t, klass);
    i->dst = (short)dst;
    return dst;
}

static int build_select(loop_builder *t, const mil_op *op, loop_class klass) {
    static const char *const names[3] = {"cond", "a", "b"};
    int src[3];
    for (int k = 0; k < 3; k++) {
        src[k] = register_of(t, mil_in(op, names[k]));
        if (t->registers[src[k]].klass != LOOP_SCALAR) src[k] = spread(t, src[k], klass);
    }
    loop_instr *i = new_instr(t, LOOP_SELECT, 0, klass);
    for (int k = 0; k < 3; k++) read_register(i, k, src[k]);
    int dst = new_register(t, klass);
    i->dst = (short)dst;
    return dst;
}

/* A parameter of the row, if it has it. */
static double number(loop_builder *t, const mil_op *op, const char *name, double standard) {
    double value = standard;
    if (mil_op_param(op->info, name) >= 0 && !t->status) t->status = mil_attr_float(op, name, &value, t->err);
    return value;
}

/* silu where the same step has the sigmoid of the same value, too (its gradient): one exponential for both. */
static int build_silu(loop_builder *t, const mil_op *op, loop_class klass) {
    const mil_value *v = mil_in(op, "x");
    int sigmoid = -1, x = spread(t, register_of(t, v), klass);
    for (int i = 0; i < t->node->op_count && sigmoid < 0; i++) {
        const mil_op *other = t->node->ops[i];
        if (other->info->code != MIL_OP_sigmoid || mil_in(other, "x") != v) continue;
        for (int k = 0; k < t->value_count; k++)
            if (t->values[k] == other->results[0]) sigmoid = t->registers_of[k];
        if (sigmoid >= 0 || t->p->g.options.round_each) continue;
        sigmoid = unary(t, CPU_ELEMENTWISE_sigmoid, klass, x, 0, 0);
        remember(t, other->results[0], sigmoid);
    }
    if (sigmoid < 0) return unary(t, CPU_ELEMENTWISE_silu, klass, x, 0, 0);
    return binary(t, CPU_ELEMENTWISE_mul, klass, unary(t, CPU_ELEMENTWISE_clip, klass, x, -200, (double)INFINITY),
                  sigmoid);
}

static int build_map(loop_builder *t, const mil_op *op, int code, loop_class klass) {
    if (code == CPU_ELEMENTWISE_silu) return build_silu(t, op, klass);
    int x = register_of(t, op->operands[0].values[0]);
    if (code >= CPU_ELEMENTWISE_UNARY_END) return binary(t, code, klass, x, register_of(t, op->operands[1].values[0]));
    bool has_alpha = mil_op_param(op->info, "alpha") >= 0;
    double p = has_alpha ? number(t, op, "alpha", 0) : number(t, op, "epsilon", 0);
    return unary(t, code, klass, spread(t, x, klass), p, number(t, op, "beta", 0));
}

static int build_gelu(loop_builder *t, const mil_op *op, loop_class klass) {
    const char *mode = "EXACT";
    if (!t->status) t->status = mil_attr_text(op, "mode", &mode, t->err);
    if (t->status) return 0;
    int code = !strcmp(mode, "TANH_APPROXIMATION")      ? CPU_ELEMENTWISE_gelu_tanh
               : !strcmp(mode, "SIGMOID_APPROXIMATION") ? CPU_ELEMENTWISE_gelu_sigmoid
                                                        : CPU_ELEMENTWISE_gelu;
    return unary(t, code, klass, spread(t, register_of(t, mil_in(op, "x")), klass), 0, 0);
}

static int build_cast(loop_builder *t, const mil_op *op, loop_class klass) {
    int x = spread(t, register_of(t, mil_in(op, "x")), klass);
    mil_dtype to = op->results[0]->type.dtype, from = mil_in(op, "x")->type.dtype;
    int code = to == MIL_bool                       ? CPU_ELEMENTWISE_to_bool
               : !mil_dtype_is_float(to)            ? CPU_ELEMENTWISE_trunc
               : to == MIL_fp16 && from != MIL_fp16 ? CPU_ELEMENTWISE_round_f16
                                                    : CPU_ELEMENTWISE_copy;
    return unary(t, code, klass, x, 0, 0);
}

/* Row of ops.def to kernel, and what is done to the combined value. */
static int build_reduce(loop_builder *t, const mil_op *op, int fold) {
    static const cpu_reduce_code codes[] = {
        [CPU_FOLD_sum] = CPU_REDUCE_SUM,     [CPU_FOLD_mean] = CPU_REDUCE_SUM,
        [CPU_FOLD_max] = CPU_REDUCE_MAX,     [CPU_FOLD_min] = CPU_REDUCE_MIN,
        [CPU_FOLD_prod] = CPU_REDUCE_PROD,   [CPU_FOLD_l1] = CPU_REDUCE_SUMABS,
        [CPU_FOLD_l2] = CPU_REDUCE_SUMSQ,    [CPU_FOLD_sum_square] = CPU_REDUCE_SUMSQ,
        [CPU_FOLD_log_sum] = CPU_REDUCE_SUM, [CPU_FOLD_log_sum_exp] = CPU_REDUCE_SUM,
    };
    int x = spread(t, register_of(t, mil_in(op, "x")), LOOP_FULL);
    loop_instr *i =
        new_instr(t, fold == CPU_FOLD_log_sum_exp ? LOOP_LOG_SUM_EXP : LOOP_REDUCE, codes[fold], LOOP_REDUCED);
    read_register(i, 0, x);
    int dst = new_register(t, LOOP_REDUCED);
    i->dst = (short)dst;
    double n = (double)cpu_plan_reduced_count(&t->node->shape, t->node->axes);
    if (fold == CPU_FOLD_mean) return unary(t, CPU_ELEMENTWISE_affine, LOOP_REDUCED, dst, 1 / n, 0);
    if (fold == CPU_FOLD_l2) return unary(t, CPU_ELEMENTWISE_sqrt, LOOP_REDUCED, dst, 0, 0);
    if (fold == CPU_FOLD_log_sum) return unary(t, CPU_ELEMENTWISE_log, LOOP_REDUCED, dst, 0, 0);
    return dst;
}

static int build_softmax(loop_builder *t, const mil_op *op) {
    int x = spread(t, register_of(t, mil_in(op, "x")), LOOP_FULL);
    loop_instr *i = new_instr(t, LOOP_SOFTMAX, 0, LOOP_FULL);
    read_register(i, 0, x);
    int dst = new_register(t, LOOP_FULL);
    i->dst = (short)dst;
    return dst;
}

static void build_op(loop_builder *t, const mil_op *op) {
    const cpu_family family = cpu_family_of(op);
    const mil_value *v = op->results[0];
    loop_class klass = class_of(t, v);
    int reg;
    for (int i = 0; i < t->value_count; i++)
        if (t->values[i] == v) return; /* made with another one */
    if (family == CPU_FAMILY_softmax)
        reg = build_softmax(t, op);
    else if (family == CPU_FAMILY_reduce)
        reg = build_reduce(t, op, cpu_code_of(op));
    else if (family == CPU_FAMILY_select)
        reg = build_select(t, op, klass);
    else if (family == CPU_FAMILY_gelu)
        reg = build_gelu(t, op, klass);
    else if (family == CPU_FAMILY_cast)
        reg = build_cast(t, op, klass);
    else if (family == CPU_FAMILY_pick)
        reg = build_pick(t, op);
    else
        reg = build_map(t, op, cpu_code_of(op), klass);
    if (t->p->g.options.round_each && v->type.dtype == MIL_fp16)
        reg = unary(t, CPU_ELEMENTWISE_round_f16, t->registers[reg].klass, reg, 0, 0);
    t->work += op->info->flops_per_element > 0 ? op->info->flops_per_element : 2;
    remember(t, v, reg);
}

/* ---- stores ------------------------------------------------------------------------------------------------------------ */

static bool read_outside(const loop_builder *t, const mil_value *v) {
    int inside = 0;
    for (int i = 0; i < t->node->op_count; i++)
        for (int k = 0; k < t->node->ops[i]->info->param_count; k++)
            for (int j = 0; j < t->node->ops[i]->operands[k].count; j++)
                inside += t->node->ops[i]->operands[k].values[j] == v;
    return t->p->g.uses[v->id] > inside;
}

/* The strides of a result over the node's shape; a reduction may have dropped its axes. */
static void result_strides(const loop_builder *t, const cpu_view *v, int64_t *stride) {
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

static void store(loop_builder *t, const mil_value *v) {
    raw_view *raw = &t->views[t->view_count];
    if (t->status) return;
    if (t->view_count == LOOP_MAX_REGISTERS) {
        t->status = mil_op_fail(v->def, t->err, PROPANE_ERR_LIMIT, "more than %d operands in one fused step",
                                LOOP_MAX_REGISTERS);
        return;
    }
    if ((t->status = cpu_emit_result(t->p, v, &raw->view, t->err))) return;
    result_strides(t, &raw->view, raw->stride);
    raw->store = true;
    int reg = register_of(t, v);
    loop_class klass = t->registers[reg].klass;
    assert(klass != LOOP_SCALAR);
    loop_instr *i = new_instr(t, LOOP_STORE, 0, klass);
    read_register(i, 0, reg);
    i->view = (short)t->view_count++;
}

/* ---- the iteration space ------------------------------------------------------------------------------------------------ */

typedef struct space {
    int rank[3];                /* outer, fold, inner */
    int axis[3][LOOP_MAX_RANK]; /* axes of the node's shape; merged ones: the innermost */
    int64_t dim[3][LOOP_MAX_RANK];
} space;

static bool mergeable(const loop_builder *t, int a, int b, int64_t below) {
    const int lines = t->node->shape.rank - 2;
    for (int v = 0; v < t->view_count; v++)
        if (t->views[v].pick && (a == lines || b == lines)) return false;
    for (int v = 0; v < t->view_count; v++)
        if (t->views[v].stride[a] != t->views[v].stride[b] * below) return false;
    return true;
}

static void add_axis(const loop_builder *t, space *s, int part, int axis) {
    int64_t dim = t->node->shape.dim[axis];
    int last = s->rank[part] - 1;
    if (last >= 0 && mergeable(t, s->axis[part][last], axis, dim)) {
        s->axis[part][last] = axis;
        s->dim[part][last] *= dim;
        return;
    }
    s->axis[part][s->rank[part]] = axis;
    s->dim[part][s->rank[part]++] = dim;
}

/* The inner dimension is the last of the kept ones, if nothing folded comes behind it, with those before it that follow on
 * in memory and have nothing folded between. */
static void make_space(const loop_builder *t, space *s) {
    const mil_type *shape = &t->node->shape;
    unsigned axes = t->has_axes ? t->node->axes : 0;
    memset(s, 0, sizeof *s);
    int kept[LOOP_MAX_RANK], kept_count = 0;
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dim[d] == 1) continue;
        if (axes >> d & 1)
            add_axis(t, s, 1, d);
        else
            kept[kept_count++] = d;
    }
    int outer_count = kept_count;
    if (!cpu_plan_reduces_last(shape, axes) && kept_count) {
        outer_count--;
        while (outer_count > 0 && kept[outer_count - 1] + 1 == kept[outer_count] &&
               mergeable(t, kept[outer_count - 1], kept[outer_count], shape->dim[kept[outer_count]]))
            outer_count--;
        for (int k = outer_count; k < kept_count; k++) add_axis(t, s, 2, kept[k]);
        /* merging is pairwise: it can leave more than one; all but the last are outer then */
        while (s->rank[2] > 1) {
            s->rank[2] = 0;
            outer_count++;
            for (int k = outer_count; k < kept_count; k++) add_axis(t, s, 2, kept[k]);
        }
    }
    for (int k = 0; k < outer_count; k++) add_axis(t, s, 0, kept[k]);
}

/* Columns side by side in a tile that goes over the fold in passes. */
static int64_t column_width(const loop_program *t) {
    int64_t width = 256, others = 1;
    for (int d = 0; d < t->outer_rank; d++) others *= t->outer[d];
    while (width > 64 && others * div_up(t->inner, width) < COLUMN_TILES) width /= 2;
    return width;
}

/* Tiles so large that their fold is cut in parts: those are as wide as can be. */
static void choose_parts(loop_program *out, int64_t fold, int64_t below) {
    int64_t width = min_i64(out->inner, PART_WIDTH);
    if (fold * width < 2 * PART) return;
    int64_t chunk = min_i64(max_i64(PART_CHUNK / (below * width), 1), out->fold[0]);
    int64_t length = max_i64(PART / (below * width) / chunk, 1) * chunk;
    if (length >= out->fold[0]) return;
    out->width = width;
    out->chunk = chunk;
    out->part_length = length;
    out->parts = div_up(out->fold[0], length);
}

/* Rows, width and chunk of a tile. They depend on shapes alone, never on the number of threads. */
static void choose_tile(loop_program *out, bool has_axes, bool passes) {
    int64_t fold = 1, below = 1, rows = out->outer_rank ? out->outer[out->outer_rank - 1] : 1;
    for (int d = 0; d < out->fold_rank; d++) fold *= out->fold[d];
    for (int d = 1; d < out->fold_rank; d++) below *= out->fold[d];
    int64_t whole_chunk = out->fold_rank ? out->fold[0] : 1;
    out->rows = 1;
    out->width = 1;
    out->chunk = whole_chunk;
    out->parts = 1;
    if (!has_axes) {
        out->width = min_i64(out->inner, STRIP);
        if (out->width == out->inner) out->rows = min_i64(max_i64(STRIP / out->width, 1), rows);
    } else if (out->columns) {
        int64_t width = passes ? column_width(out) : COLUMN_FLOATS / fold / 16 * 16;
        out->width = min_i64(max_i64(min_i64(width, 512), 16), out->inner);
        if (passes) out->chunk = min_i64(max_i64(COLUMN_CHUNK / (below * out->width), 1), whole_chunk);
        if (passes && out->fold_rank) choose_parts(out, fold, below);
    } else {
        if (passes) out->chunk = min_i64(max_i64(LOOP_CHUNK_FLOATS / below, 1), whole_chunk);
        out->rows = min_i64(max_i64(ROW_FLOATS / fold, 1), rows);
    }
}

/* What repeats along lines of the node's shape does so in the tile, too, unless its axes were changed over. */
static void check_lines(loop_builder *t, loop_program *out) {
    for (int i = 0; i < t->instr_count; i++) {
        loop_instr *in = &t->instrs[i];
        if (in->kind != LOOP_LOAD || in->klass != LOOP_LINE) continue;
        if ((out->columns || !t->has_axes) && out->views[in->view].inner == 0) continue;
        in->klass = LOOP_FULL;
        t->registers[in->dst].klass = LOOP_FULL;
    }
    for (int i = 0; i < t->instr_count; i++)
        if (t->instrs[i].view >= 0) out->views[t->instrs[i].view].klass = t->instrs[i].klass;
}

static propane_status fill_space(loop_builder *t, loop_program *out, propane_error *err) {
    space s;
    make_space(t, &s);
    out->outer_rank = s.rank[0];
    out->fold_rank = s.rank[1];
    memcpy(out->outer, s.dim[0], sizeof out->outer);
    memcpy(out->fold, s.dim[1], sizeof out->fold);
    out->inner = s.rank[2] ? s.dim[2][0] : 1;
    out->columns = t->has_axes && (s.rank[2] || !s.rank[1]);
    out->view_count = t->view_count;
    out->views = ARENA_ARRAY(t->p->arena, t->view_count + 1, loop_view);
    if (!out->views) return cpu_program_no_memory(err);
    for (int v = 0; v < t->view_count; v++) {
        loop_view *to = &out->views[v];
        const raw_view *from = &t->views[v];
        to->at = cpu_view_ref(&from->view);
        to->dtype = from->view.dtype;
        to->element = cpu_view_dtype_bytes(from->view.dtype);
        to->pick = from->pick;
        for (int d = 0; d < s.rank[0]; d++) to->outer[d] = from->stride[s.axis[0][d]];
        for (int d = 0; d < s.rank[1]; d++) to->fold[d] = from->stride[s.axis[1][d]];
        to->inner = s.rank[2] ? from->stride[s.axis[2][0]] : 0;
    }
    return PROPANE_OK;
}

/* ---- emission ------------------------------------------------------------------------------------------------------------ */

static bool same_layout(const cpu_view *a, const cpu_view *b) {
    if (a->dtype != b->dtype || a->rank != b->rank || a->offset || b->offset) return false;
    for (int d = 0; d < a->rank; d++)
        if (a->dim[d] != b->dim[d] || (a->dim[d] != 1 && a->stride[d] != b->stride[d])) return false;
    return true;
}

/* Which stores may go over which loads: the same layout, and nothing else of that buffer is read here. */
static propane_status tell_sharing(loop_builder *t) {
    for (int s = 0; s < t->view_count; s++) {
        if (!t->views[s].store) continue;
        for (int l = 0; l < t->view_count; l++) {
            const cpu_view *from = &t->views[l].view;
            if (t->views[l].store || t->views[l].pick || !same_layout(from, &t->views[s].view)) continue;
            bool only = true;
            for (int o = 0; o < t->view_count; o++)
                if (t->views[o].view.buffer == from->buffer &&
                    (t->views[o].pick || !cpu_view_equal(&t->views[o].view, from)))
                    only = false;
            if (only) PROPANE_TRY(cpu_emit_may_share(t->p, from, &t->views[s].view, t->err));
        }
    }
    return PROPANE_OK;
}

static void split_tasks(const loop_builder *t, loop_program *out, int64_t count) {
    out->row_chunks = out->outer_rank ? div_up(out->outer[out->outer_rank - 1], out->rows) : 1;
    out->width_chunks = div_up(out->inner, out->width);
    out->tiles = count ? out->row_chunks * out->width_chunks : 0;
    for (int d = 0; d + 1 < out->outer_rank; d++) out->tiles *= out->outer[d];
    double total = (double)count * (t->work + 2 * t->view_count);
    int64_t tasks = (int64_t)(total / TASK_WORK);
    tasks = min_i64(max_i64(tasks, 1), (int64_t)t->p->threads * TASKS_A_THREAD);
    out->tiles_a_task = max_i64(div_up(out->tiles, tasks), 1);
}

static propane_status finish(loop_builder *t, propane_error *err) {
    planner *p = t->p;
    loop_program *out = ARENA_NEW(p->arena, loop_program);
    if (!out) return cpu_program_no_memory(err);
    out->map = cpu_elementwise_kernels_of(p->g.options.isa);
    out->table = cpu_reduce_kernels_of(p->g.options.isa);
    PROPANE_TRY(fill_space(t, out, err));
    check_lines(t, out);
    cpu_loop_combine(t);
    bool passes = cpu_loop_order(t, out);
    choose_tile(out, t->has_axes, passes);
    out->scratch_bytes = round_up(cpu_loop_registers(t, out), 64);
    for (int i = 0; i < t->instr_count; i++)
        if (t->instrs[i].kind == LOOP_REDUCE) t->instrs[i].place = (short)out->reductions++;
    int64_t count = mil_type_count(&t->node->shape);
    split_tasks(t, out, count);
    out->instr_count = t->instr_count;
    out->register_count = t->register_count;
    out->instrs = arena_copy(p->arena, t->instrs, (size_t)t->instr_count * sizeof *t->instrs);
    out->registers = arena_copy(p->arena, t->registers, (size_t)t->register_count * sizeof *t->registers);
    if (!out->instrs || !out->registers) return cpu_program_no_memory(err);
    PROPANE_TRY(cpu_emit_scratch(p, out->scratch_bytes * p->threads, &out->scratch, err));
    int64_t partial = out->parts > 1 ? out->parts * out->reductions * out->width * (int64_t)sizeof(float) : 0;
    if (partial) PROPANE_TRY(cpu_emit_scratch(p, partial, &out->partial, err));
    double bytes = 0;
    for (int v = 0; v < t->view_count; v++) {
        cpu_emit_touch(p, t->views[v].view.buffer);
        bytes += (double)cpu_view_count(&t->views[v].view) * cpu_view_dtype_bytes(t->views[v].view.dtype);
    }
    PROPANE_TRY(tell_sharing(t));
    const mil_op *last = t->node->ops[t->node->op_count - 1];
    p->program->tile_count++;
    p->program->fused_ops += t->node->op_count;
    return cpu_emit_step(p, cpu_loop_run, out, "tile", last->results[0], t->work * (double)count, bytes, err);
}

/* Images whose channels lie innermost: the iteration space is walked in that order, too. */
static propane_status turn_channels(loop_builder *t) {
    static const int order[4] = {0, 2, 3, 1};
    cpu_node *turned = arena_copy(t->p->work, t->node, sizeof *t->node);
    int so = 0, other = 0;
    if (!turned) return cpu_program_no_memory(t->err);
    for (int v = 0; v < t->view_count && t->node->shape.rank == 4; v++) {
        const int64_t *s = t->views[v].stride;
        if (!s[1] || !s[3]) continue;
        if (s[1] < s[3])
            so++;
        else
            other++;
    }
    if (so <= other || cpu_graph_takes_rows(t->node)) return PROPANE_OK;
    turned->axes = 0;
    for (int d = 0; d < 4; d++) {
        turned->shape.dim[d] = t->node->shape.dim[order[d]];
        turned->axes |= (t->node->axes >> order[d] & 1) << d;
    }
    for (int v = 0; v < t->view_count; v++) {
        const raw_view was = t->views[v];
        for (int d = 0; d < 4; d++) t->views[v].stride[d] = was.stride[order[d]];
    }
    t->node = turned;
    return PROPANE_OK;
}

propane_status cpu_emit_elementwise(planner *p, const cpu_node *node, propane_error *err) {
    loop_builder *t = ARENA_NEW(p->work, loop_builder);
    if (!t) return cpu_program_no_memory(err);
    t->p = p;
    t->node = node;
    t->err = err;
    t->has_axes = node->axes != 0;
    for (int i = 0; i < node->op_count && !t->status; i++) {
        p->current = node->ops[i];
        build_op(t, node->ops[i]);
    }
    for (int i = 0; i < node->op_count && !t->status; i++)
        if (read_outside(t, node->ops[i]->results[0])) store(t, node->ops[i]->results[0]);
    if (t->status) return t->status;
    PROPANE_TRY(turn_channels(t));
    return finish(t, err);
}
