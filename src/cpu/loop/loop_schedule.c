/* SPDX-License-Identifier: MIT
 * Chooses the order in which a tile program's instructions run, and the places of its registers.
 *
 * A value that needs a reduction of the whole fold has a level: one more than the level of the reduced value. Pass n
 * traverses the fold once, in chunks that stay in L1, and computes what the reductions of that level need. The last
 * pass computes what is stored. A value that several passes need is loaded and computed again in each. That is cheaper
 * than keeping it, unless it needs an elementary function. In that case, and for softmax, the fold is held whole in one
 * pass.
 */
#include <string.h>

#include "cpu/loop/loop_draft.h"

/* Returns true if it is cheaper to compute the value again than to keep it. */
static bool loop_schedule_is_cheap(const loop_instr *i) {
    static const bool dear[CPU_ELEMENTWISE_COUNT] = {
        [CPU_ELEMENTWISE_exp] = true,          [CPU_ELEMENTWISE_exp2] = true,      [CPU_ELEMENTWISE_log] = true,
        [CPU_ELEMENTWISE_sin] = true,          [CPU_ELEMENTWISE_cos] = true,       [CPU_ELEMENTWISE_tanh] = true,
        [CPU_ELEMENTWISE_erf] = true,          [CPU_ELEMENTWISE_sigmoid] = true,   [CPU_ELEMENTWISE_silu] = true,
        [CPU_ELEMENTWISE_gelu] = true,         [CPU_ELEMENTWISE_gelu_tanh] = true, [CPU_ELEMENTWISE_softplus] = true,
        [CPU_ELEMENTWISE_gelu_sigmoid] = true, [CPU_ELEMENTWISE_elu] = true,       [CPU_ELEMENTWISE_pow] = true,
    };
    return (i->kind != LOOP_UNARY && i->kind != LOOP_BINARY) || !dear[i->code];
}

static bool loop_schedule_is_wide(const loop_instr *i) { return i->extent == LOOP_FULL || i->extent == LOOP_LINE; }

/* ---- one pass ---------------------------------------------------------------------------------------------------- */

/* Puts stores after all other instructions, so that a value may be stored over an operand. */
static void loop_schedule_order_whole(loop_draft *t, loop_program *out) {
    loop_instr sorted[LOOP_MAX_INSTRS];
    int n = 0;
    for (int stores = 0; stores < 2; stores++)
        for (int i = 0; i < t->instr_count; i++)
            if ((t->instrs[i].kind == LOOP_STORE) == stores) sorted[n++] = t->instrs[i];
    memcpy(t->instrs, sorted, (size_t)n * sizeof *sorted);
    out->pass_count = 1;
    out->passes[0] = (loop_pass){0, 0, n};
}

/* ---- several passes ---------------------------------------------------------------------------------------------- */

typedef struct sorter {
    loop_draft *t;
    int level[LOOP_MAX_REGISTERS];
    int last; /* the last pass over the fold, which contains all stores of FULL values */
    bool needed[LOOP_MAX_REGISTERS];
    bool made[LOOP_MAX_REGISTERS];  /* computed in an earlier pass */
    short name[LOOP_MAX_REGISTERS]; /* register number in this pass */
    loop_instr sorted[LOOP_MAX_INSTRS];
    int count;
} sorter;

static int loop_schedule_source_level(const sorter *s, const loop_instr *i) {
    int level = 0;
    for (int k = 0; k < 3; k++)
        if (i->src[k] >= 0 && s->level[i->src[k]] > level) level = s->level[i->src[k]];
    return level;
}

/* Returns the pass in which the instruction must run for each chunk, or -1 if it runs in every pass that needs its
 * result. */
static int loop_schedule_pass_of(const sorter *s, const loop_instr *i) {
    if (i->kind == LOOP_REDUCE) return loop_schedule_source_level(s, i);
    return i->kind == LOOP_STORE && i->extent == LOOP_FULL ? s->last : -1;
}

static bool loop_schedule_find_levels(sorter *s) {
    const loop_draft *t = s->t;
    for (int i = 0; i < t->instr_count; i++) {
        const loop_instr *in = &t->instrs[i];
        int level = loop_schedule_source_level(s, in);
        if (in->kind == LOOP_SOFTMAX || in->kind == LOOP_LOG_SUM_EXP) return false;
        if ((in->kind == LOOP_REDUCE || (in->kind == LOOP_STORE && in->extent == LOOP_FULL)) && level > s->last)
            s->last = level;
        if (in->dst >= 0) s->level[in->dst] = level + (in->kind == LOOP_REDUCE);
    }
    return s->last + 2 <= LOOP_MAX_PASSES;
}

/* Marks what `pass` computes for each chunk. */
static void loop_schedule_find_needed(sorter *s, int pass) {
    const loop_draft *t = s->t;
    memset(s->needed, 0, sizeof s->needed);
    for (int i = t->instr_count - 1; i >= 0; i--) {
        const loop_instr *in = &t->instrs[i];
        int own = loop_schedule_pass_of(s, in);
        bool wanted = own >= 0 ? own == pass : loop_schedule_is_wide(in) && in->dst >= 0 && s->needed[in->dst];
        for (int k = 0; k < 3 && wanted; k++)
            if (in->src[k] >= 0) s->needed[in->src[k]] = true;
    }
}

static bool loop_schedule_append(sorter *s, const loop_instr *in, bool again) {
    loop_draft *t = s->t;
    if (s->count == LOOP_MAX_INSTRS || (again && t->register_count == LOOP_MAX_REGISTERS)) return false;
    loop_instr *to = &s->sorted[s->count++];
    *to = *in;
    for (int k = 0; k < 3; k++)
        if (in->src[k] >= 0) to->src[k] = s->name[in->src[k]];
    if (in->dst < 0) return true;
    if (again) {
        s->name[in->dst] = (short)t->register_count;
        t->registers[t->register_count++] = t->registers[in->dst];
    }
    to->dst = s->name[in->dst];
    return true;
}

/* Sorts the instructions for each chunk of this pass: first the computations, then the stores. */
static bool loop_schedule_sort_chunk(sorter *s, int pass) {
    const loop_draft *t = s->t;
    loop_schedule_find_needed(s, pass);
    for (int stores = 0; stores < 2; stores++)
        for (int i = 0; i < t->instr_count; i++) {
            const loop_instr *in = &t->instrs[i];
            int own = loop_schedule_pass_of(s, in);
            if ((in->kind == LOOP_STORE) != stores) continue;
            if (own >= 0 ? own != pass : !loop_schedule_is_wide(in) || in->dst < 0 || !s->needed[in->dst]) continue;
            bool again = loop_schedule_is_wide(in) && in->dst >= 0 && s->made[in->dst];
            if (again && !loop_schedule_is_cheap(in)) return false;
            if (!loop_schedule_append(s, in, again)) return false;
            if (in->dst >= 0) s->made[in->dst] = true;
        }
    return true;
}

/* Sorts the instructions that run once before the chunks of a pass, using the results of earlier reductions. The pass
 * after the last traversal stores reduced values. */
static bool loop_schedule_sort_once(sorter *s, int pass) {
    const loop_draft *t = s->t;
    for (int stores = 0; stores < 2; stores++)
        for (int i = 0; i < t->instr_count; i++) {
            const loop_instr *in = &t->instrs[i];
            if (loop_schedule_is_wide(in) || in->kind == LOOP_REDUCE || (in->kind == LOOP_STORE) != stores) continue;
            int own = stores ? s->last + 1 : loop_schedule_source_level(s, in);
            if (own == pass && !loop_schedule_append(s, in, false)) return false;
        }
    return true;
}

static bool loop_schedule_order_passes(loop_draft *t, loop_program *out) {
    sorter *s = ARENA_NEW(t->work, sorter);
    const int registers = t->register_count;
    if (!s) return false;
    s->t = t;
    for (int r = 0; r < registers; r++) s->name[r] = (short)r;
    bool fits = loop_schedule_find_levels(s);
    for (int pass = 0; fits && pass <= s->last + 1; pass++) {
        loop_pass *own = &out->passes[pass];
        own->once = s->count;
        fits = loop_schedule_sort_once(s, pass);
        own->chunk = s->count;
        if (fits && pass <= s->last) fits = loop_schedule_sort_chunk(s, pass);
        own->end = s->count;
        out->pass_count = pass + 1;
    }
    if (!fits) {
        t->register_count = registers;
        return false;
    }
    memcpy(t->instrs, s->sorted, (size_t)s->count * sizeof *s->sorted);
    t->instr_count = s->count;
    return true;
}

/* Returns true if tiles hold rows whole in any case: nothing is reduced, or the rows of a reduced last axis are short
 * enough for L1. */
static bool loop_schedule_holds_rows(const loop_draft *t, const loop_program *out) {
    int64_t fold = 1;
    for (int d = 0; d < out->fold_rank; d++) fold *= out->fold[d];
    return !t->has_axes || (!out->columns && fold <= LOOP_CHUNK_FLOATS);
}

bool cpu_loop_order(loop_draft *t, loop_program *out) {
    if (!loop_schedule_holds_rows(t, out) && loop_schedule_order_passes(t, out)) return true;
    loop_schedule_order_whole(t, out);
    return false;
}

/* ---- registers --------------------------------------------------------------------------------------------------- */

/* Finds registers that may be computed directly in the memory where they are stored. No instruction after that may read
 * a load, because its memory could be the same. If the fold has parts, only FULL registers qualify: every part computes
 * the others, but only one task stores them. */
static void loop_schedule_find_direct(loop_draft *t, bool parts) {
    bool is_load[LOOP_MAX_REGISTERS] = {false};
    int last_read_of_load = -1;
    for (int i = 0; i < t->instr_count; i++) {
        const loop_instr *in = &t->instrs[i];
        if (in->kind == LOOP_LOAD) is_load[in->dst] = true;
        for (int k = 0; k < 3; k++)
            if (in->src[k] >= 0 && is_load[in->src[k]]) last_read_of_load = i;
    }
    for (int i = 0; i < t->instr_count; i++) {
        const loop_instr *in = &t->instrs[i];
        if (in->kind != LOOP_STORE || t->views[in->view].view.dtype != MIL_fp32) continue;
        if (parts && in->extent != LOOP_FULL) continue;
        for (int j = 0; j < t->instr_count; j++)
            if (t->instrs[j].dst == in->src[0] && j >= last_read_of_load && t->instrs[j].kind != LOOP_LOAD &&
                t->instrs[j].kind != LOOP_REDUCE)
                t->registers[in->src[0]].direct = in->view;
    }
}

/* Assigns slots. After a register's last read, its slot is free for the next register of its class. The result of a
 * chunked reduction keeps its slot through all chunks. */
int64_t cpu_loop_registers(loop_draft *t, const loop_program *out) {
    int64_t fold = 1;
    for (int d = 0; d < out->fold_rank; d++) fold *= d ? out->fold[d] : out->chunk;
    int64_t size[4];
    size[LOOP_REDUCED] = (out->rows * out->width * 2 + 15) / 16 * 16;
    size[LOOP_FULL] = (out->rows * out->width * fold + 15) / 16 * 16;
    size[LOOP_SCALAR] = 16;
    size[LOOP_LINE] = (out->rows * fold + 15) / 16 * 16;
    int last[LOOP_MAX_REGISTERS];
    loop_schedule_find_direct(t, out->parts > 1);
    for (int r = 0; r < t->register_count; r++) last[r] = -1;
    for (int i = 0; i < t->instr_count; i++)
        for (int k = 0; k < 3; k++)
            if (t->instrs[i].src[k] >= 0) last[t->instrs[i].src[k]] = i;
    int64_t free_slots[4][LOOP_MAX_REGISTERS], end = 0;
    int free_count[4] = {0};
    bool keep[LOOP_MAX_REGISTERS] = {false};
    for (int i = 0; i < t->instr_count; i++) {
        const loop_instr *in = &t->instrs[i];
        for (int k = 0; k < 3; k++) {
            int r = in->src[k];
            if (r < 0 || last[r] != i || t->registers[r].slot < 0 || keep[r]) continue;
            bool twice = (k > 0 && in->src[0] == r) || (k > 1 && in->src[1] == r);
            loop_class c = t->registers[r].extent;
            if (!twice) free_slots[c][free_count[c]++] = t->registers[r].slot;
        }
        if (in->dst < 0) continue;
        loop_register *r = &t->registers[in->dst];
        keep[in->dst] = in->kind == LOOP_REDUCE;
        if (!keep[in->dst] && free_count[r->extent]) {
            r->slot = free_slots[r->extent][--free_count[r->extent]];
        } else {
            r->slot = end;
            end += size[r->extent];
        }
    }
    return end * (int64_t)sizeof(float);
}
