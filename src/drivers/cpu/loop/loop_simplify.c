/* SPDX-License-Identifier: MIT
 * Owns what makes a tile program shorter: each instruction is a sweep over a chunk, and sweeps are what tiles take. Its one
 * idea: a product that nothing else reads goes into what reads it, a sum (fused multiply-add) or a reduction (sum of
 * products), and a number by which everything is multiplied goes to the reduced factor beside it. Refuses what would round
 * where MIL's own types round: programs that round each result are left as they are.
 */
#include <string.h>

#include "drivers/cpu/ops/elementwise_program.h"

static int uses(const tile_builder *t, int reg) {
    int n = 0;
    for (int i = 0; i < t->instr_count; i++)
        for (int k = 0; k < 3; k++) n += t->instrs[i].src[k] == reg;
    return n;
}

static bool is_class(const tile_builder *t, int reg, tile_class klass) { return t->registers[reg].klass == klass; }

static bool is_constant(const tile_builder *t, int reg) {
    return is_class(t, reg, TILE_SCALAR) && t->registers[reg].slot < 0;
}

static bool is_binary(const tile_instr *i, int code) { return i->kind == TILE_BINARY && i->code == code; }

/* The instruction that makes `reg`, if it is a product of that form that only one operand reads; -1: it is not. */
static int only_product(const tile_builder *t, int reg) {
    if (reg < 0 || !is_class(t, reg, TILE_FULL) || uses(t, reg) != 1) return -1;
    for (int i = 0; i < t->instr_count; i++)
        if (t->instrs[i].dst == reg) return is_binary(&t->instrs[i], CPU_MAP_mul) ? i : -1;
    return -1;
}

static void drop(tile_builder *t, int index) {
    t->instr_count--;
    memmove(&t->instrs[index], &t->instrs[index + 1], (size_t)(t->instr_count - index) * sizeof t->instrs[0]);
}

/* Which operand of a product is of the class; -1: none. */
static int operand_in(const tile_builder *t, const tile_instr *i, tile_class klass) {
    for (int k = 0; k < 2; k++)
        if (is_class(t, i->src[k], klass) && (klass != TILE_SCALAR || is_constant(t, i->src[k]))) return k;
    return -1;
}

/* Multiplies the reduced operand `slot` of the product at `index` by a constant, once a position. */
static bool scale_reduced(tile_builder *t, int index, int slot, int constant) {
    if (t->instr_count == TILE_MAX_INSTRS || t->register_count == TILE_MAX_REGISTERS) return false;
    const int reg = t->register_count++;
    t->registers[reg] = (tile_register){.klass = TILE_REDUCED, .direct = -1};
    memmove(&t->instrs[index + 1], &t->instrs[index], (size_t)(t->instr_count - index) * sizeof t->instrs[0]);
    t->instr_count++;
    tile_instr *scale = &t->instrs[index], *product = scale + 1;
    *scale = (tile_instr){.kind = TILE_BINARY,
                          .code = CPU_MAP_mul,
                          .klass = TILE_REDUCED,
                          .dst = (short)reg,
                          .src = {product->src[slot], (short)constant, -1},
                          .view = -1};
    product->src[slot] = (short)reg;
    return true;
}

/* (x c) r and (x r) c, with c a constant and r reduced, become x (r c). */
static bool move_constant(tile_builder *t, int index) {
    const tile_instr *outer = &t->instrs[index];
    if (!is_binary(outer, CPU_MAP_mul) || outer->klass != TILE_FULL) return false;
    for (int k = 0; k < 2; k++) {
        const int from = only_product(t, outer->src[k]), other = outer->src[1 - k];
        if (from < 0) continue;
        const tile_instr *inner = &t->instrs[from];
        const int reduced = operand_in(t, inner, TILE_REDUCED), constant = operand_in(t, inner, TILE_SCALAR);
        if (is_constant(t, other) && reduced >= 0 && is_class(t, inner->src[1 - reduced], TILE_FULL)) {
            const int was = outer->dst, now = inner->dst;
            if (!scale_reduced(t, from, reduced, other)) return false;
            drop(t, index + 1);
            for (int i = 0; i < t->instr_count; i++)
                for (int s = 0; s < 3; s++)
                    if (t->instrs[i].src[s] == was) t->instrs[i].src[s] = (short)now;
            return true;
        }
        if (is_class(t, other, TILE_REDUCED) && constant >= 0 && is_class(t, inner->src[1 - constant], TILE_FULL)) {
            const int factor = inner->src[constant];
            t->instrs[index].src[k] = inner->src[1 - constant];
            if (!scale_reduced(t, index, 1 - k, factor)) {
                t->instrs[index].src[k] = t->instrs[from].dst;
                return false;
            }
            drop(t, from);
            return true;
        }
    }
    return false;
}

/* a b + c and c - a b. */
static bool take_product(tile_builder *t, int index) {
    tile_instr *sum = &t->instrs[index];
    const bool adds = is_binary(sum, CPU_MAP_add), subtracts = is_binary(sum, CPU_MAP_sub);
    if ((!adds && !subtracts) || sum->klass != TILE_FULL) return false;
    for (int k = 1; k >= (adds ? 0 : 1); k--) {
        const int from = only_product(t, sum->src[k]);
        if (from < 0) continue;
        const tile_instr *product = &t->instrs[from];
        const int full = operand_in(t, product, TILE_FULL);
        if (full < 0) continue;
        const short x = product->src[full], y = product->src[1 - full], rest = sum->src[1 - k];
        *sum = (tile_instr){
            .kind = TILE_FMA, .code = subtracts, .klass = TILE_FULL, .dst = sum->dst, .src = {x, y, rest}, .view = -1};
        drop(t, from);
        return true;
    }
    return false;
}

/* The sum of squares or of products. */
static bool reduce_product(tile_builder *t, int index) {
    tile_instr *reduce = &t->instrs[index];
    if (reduce->kind != TILE_REDUCE || reduce->code != CPU_REDUCE_SUM || reduce->src[1] >= 0) return false;
    const int reg = reduce->src[0];
    if (uses(t, reg) != 1) return false;
    for (int i = 0; i < t->instr_count; i++) {
        const tile_instr *from = &t->instrs[i];
        if (from->dst != reg || from->klass != TILE_FULL) continue;
        const bool square = (from->kind == TILE_UNARY && from->code == CPU_MAP_square) ||
                            (is_binary(from, CPU_MAP_mul) && from->src[0] == from->src[1]);
        if (square) {
            reduce->code = CPU_REDUCE_SUMSQ;
            reduce->src[0] = from->src[0];
        } else if (is_binary(from, CPU_MAP_mul) && is_class(t, from->src[0], TILE_FULL) &&
                   is_class(t, from->src[1], TILE_FULL)) {
            reduce->src[0] = from->src[0];
            reduce->src[1] = from->src[1];
        } else {
            return false;
        }
        drop(t, i);
        return true;
    }
    return false;
}

void cpu_tile_combine(tile_builder *t) {
    if (!t->p->options.fuse || t->p->options.round_each) return;
    static bool (*const rules[])(tile_builder *, int) = {move_constant, reduce_product, take_product};
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++)
        for (int i = 0; i < t->instr_count;) i = rules[r](t, i) ? 0 : i + 1;
}
