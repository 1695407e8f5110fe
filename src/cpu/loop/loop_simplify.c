/* SPDX-License-Identifier: MIT
 * Shortens tile programs. Each instruction is a sweep over a chunk, and the time for a tile is the sum of the times of
 * its sweeps. A multiplication whose result has only one reader is merged into that reader, an addition (fused
 * multiply-add) or a reduction (sum of products). A constant factor of all elements moves to a reduced factor next to
 * it. Programs that round each result are left unchanged, because this would change their rounding.
 */
#include <string.h>

#include "cpu/loop/loop_draft.h"

static int loop_simplify_uses(const loop_draft *t, int reg) {
    int n = 0;
    for (int i = 0; i < t->instr_count; i++)
        for (int k = 0; k < 3; k++) n += t->instrs[i].src[k] == reg;
    return n;
}

static bool loop_simplify_is_class(const loop_draft *t, int reg, loop_class extent) {
    return t->registers[reg].extent == extent;
}

static bool loop_simplify_is_constant(const loop_draft *t, int reg) {
    return loop_simplify_is_class(t, reg, LOOP_SCALAR) && t->registers[reg].slot < 0;
}

static bool loop_simplify_is_binary(const loop_instr *i, int code) { return i->kind == LOOP_BINARY && i->code == code; }

/* Returns the index of the multiplication that makes `reg`, if `reg` is FULL and only one operand reads it; otherwise
 * -1. */
static int loop_simplify_only_product(const loop_draft *t, int reg) {
    if (reg < 0 || !loop_simplify_is_class(t, reg, LOOP_FULL) || loop_simplify_uses(t, reg) != 1) return -1;
    for (int i = 0; i < t->instr_count; i++)
        if (t->instrs[i].dst == reg) return loop_simplify_is_binary(&t->instrs[i], CPU_ELEMENTWISE_mul) ? i : -1;
    return -1;
}

static void loop_simplify_drop(loop_draft *t, int index) {
    t->instr_count--;
    memmove(&t->instrs[index], &t->instrs[index + 1], (size_t)(t->instr_count - index) * sizeof t->instrs[0]);
}

/* Returns which operand of a multiplication is of the class, or -1 if neither is. A SCALAR operand must be a
 * constant. */
static int loop_simplify_operand_in(const loop_draft *t, const loop_instr *i, loop_class extent) {
    for (int k = 0; k < 2; k++)
        if (loop_simplify_is_class(t, i->src[k], extent) &&
            (extent != LOOP_SCALAR || loop_simplify_is_constant(t, i->src[k])))
            return k;
    return -1;
}

/* Multiplies the reduced operand `slot` of the multiplication at `index` by a constant, once per position. */
static bool loop_simplify_scale_reduced(loop_draft *t, int index, int slot, int constant) {
    if (t->instr_count == LOOP_MAX_INSTRS || t->register_count == LOOP_MAX_REGISTERS) return false;
    const int reg = t->register_count++;
    t->registers[reg] = (loop_register){.extent = LOOP_REDUCED, .direct = -1};
    memmove(&t->instrs[index + 1], &t->instrs[index], (size_t)(t->instr_count - index) * sizeof t->instrs[0]);
    t->instr_count++;
    loop_instr *scale = &t->instrs[index], *product = scale + 1;
    *scale = (loop_instr){.kind = LOOP_BINARY,
                          .code = CPU_ELEMENTWISE_mul,
                          .extent = LOOP_REDUCED,
                          .dst = (short)reg,
                          .src = {product->src[slot], (short)constant, -1},
                          .view = -1};
    product->src[slot] = (short)reg;
    return true;
}

/* (x c) r and (x r) c, with c a constant and r reduced, become x (r c). */
static bool loop_simplify_move_constant(loop_draft *t, int index) {
    const loop_instr *outer = &t->instrs[index];
    if (!loop_simplify_is_binary(outer, CPU_ELEMENTWISE_mul) || outer->extent != LOOP_FULL) return false;
    for (int k = 0; k < 2; k++) {
        const int from = loop_simplify_only_product(t, outer->src[k]), other = outer->src[1 - k];
        if (from < 0) continue;
        const loop_instr *inner = &t->instrs[from];
        const int reduced = loop_simplify_operand_in(t, inner, LOOP_REDUCED),
                  constant = loop_simplify_operand_in(t, inner, LOOP_SCALAR);
        if (loop_simplify_is_constant(t, other) && reduced >= 0 &&
            loop_simplify_is_class(t, inner->src[1 - reduced], LOOP_FULL)) {
            const int was = outer->dst, now = inner->dst;
            if (!loop_simplify_scale_reduced(t, from, reduced, other)) return false;
            loop_simplify_drop(t, index + 1);
            for (int i = 0; i < t->instr_count; i++)
                for (int s = 0; s < 3; s++)
                    if (t->instrs[i].src[s] == was) t->instrs[i].src[s] = (short)now;
            return true;
        }
        if (loop_simplify_is_class(t, other, LOOP_REDUCED) && constant >= 0 &&
            loop_simplify_is_class(t, inner->src[1 - constant], LOOP_FULL)) {
            const int factor = inner->src[constant];
            t->instrs[index].src[k] = inner->src[1 - constant];
            if (!loop_simplify_scale_reduced(t, index, 1 - k, factor)) {
                t->instrs[index].src[k] = t->instrs[from].dst;
                return false;
            }
            loop_simplify_drop(t, from);
            return true;
        }
    }
    return false;
}

/* Forms a b + c and c - a b. */
static bool loop_simplify_take_product(loop_draft *t, int index) {
    loop_instr *sum = &t->instrs[index];
    const bool adds = loop_simplify_is_binary(sum, CPU_ELEMENTWISE_add),
               subtracts = loop_simplify_is_binary(sum, CPU_ELEMENTWISE_sub);
    if ((!adds && !subtracts) || sum->extent != LOOP_FULL) return false;
    for (int k = 1; k >= (adds ? 0 : 1); k--) {
        const int from = loop_simplify_only_product(t, sum->src[k]);
        if (from < 0) continue;
        const loop_instr *product = &t->instrs[from];
        const int full = loop_simplify_operand_in(t, product, LOOP_FULL);
        if (full < 0) continue;
        const short x = product->src[full], y = product->src[1 - full], rest = sum->src[1 - k];
        *sum = (loop_instr){
            .kind = LOOP_FMA, .code = subtracts, .extent = LOOP_FULL, .dst = sum->dst, .src = {x, y, rest}, .view = -1};
        loop_simplify_drop(t, from);
        return true;
    }
    return false;
}

/* Forms the sum of squares or of products. */
static bool loop_simplify_reduce_product(loop_draft *t, int index) {
    loop_instr *reduce = &t->instrs[index];
    if (reduce->kind != LOOP_REDUCE || reduce->code != CPU_REDUCE_SUM || reduce->src[1] >= 0) return false;
    const int reg = reduce->src[0];
    if (loop_simplify_uses(t, reg) != 1) return false;
    for (int i = 0; i < t->instr_count; i++) {
        const loop_instr *from = &t->instrs[i];
        if (from->dst != reg || from->extent != LOOP_FULL) continue;
        const bool square = (from->kind == LOOP_UNARY && from->code == CPU_ELEMENTWISE_square) ||
                            (loop_simplify_is_binary(from, CPU_ELEMENTWISE_mul) && from->src[0] == from->src[1]);
        if (square) {
            reduce->code = CPU_REDUCE_SUMSQ;
            reduce->src[0] = from->src[0];
        } else if (loop_simplify_is_binary(from, CPU_ELEMENTWISE_mul) &&
                   loop_simplify_is_class(t, from->src[0], LOOP_FULL) &&
                   loop_simplify_is_class(t, from->src[1], LOOP_FULL)) {
            reduce->src[0] = from->src[0];
            reduce->src[1] = from->src[1];
        } else {
            return false;
        }
        loop_simplify_drop(t, i);
        return true;
    }
    return false;
}

void cpu_loop_combine(loop_draft *t) {
    static bool (*const rules[])(loop_draft *, int) = {loop_simplify_move_constant, loop_simplify_reduce_product,
                                                       loop_simplify_take_product};
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++)
        for (int i = 0; i < t->instr_count;) i = rules[r](t, i) ? 0 : i + 1;
}
