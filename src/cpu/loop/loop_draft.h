/* SPDX-License-Identifier: MIT
 * A fused loop while it is made: instructions over views of one iteration space, before they are a loop_program.
 * Emitters (ops/emit_elementwise.c) write the instructions; loop_simplify.c makes them fewer, loop_space.c finds the
 * loops and the tile, loop_schedule.c the order and where registers lie.
 */
#ifndef CPU_LOOP_LOOP_DRAFT_H
#define CPU_LOOP_LOOP_DRAFT_H

#include "cpu/loop/loop.h"

#define LOOP_MAX_INSTRS 320

typedef struct loop_operand {
    cpu_view view;
    int64_t stride[LOOP_MAX_RANK]; /* over the iteration space */
    const cpu_signed_row *pick;    /* rows of the last dimension but one; NULL: as they lie */
    bool store;
} loop_operand;

typedef struct loop_draft {
    arena *arena, *work; /* of the program; for what is needed meanwhile */
    mil_type shape;      /* the iteration space */
    unsigned axes;       /* bit per reduced one */
    bool has_axes;
    int instr_count, view_count, register_count;
    loop_instr instrs[LOOP_MAX_INSTRS];
    loop_operand views[LOOP_MAX_REGISTERS];
    loop_register registers[LOOP_MAX_REGISTERS];
} loop_draft;

/* Elements of a reduction that one tile can hold when what follows needs all of them at once. */
bool cpu_loop_fits(const mil_type *shape, unsigned axes);
int64_t cpu_loop_reduced_count(const mil_type *shape, unsigned axes);

/* Images whose channels lie innermost: the iteration space is walked in that order, too. */
void cpu_loop_turn_channels(loop_draft *t);
/* The loops: as few dimensions as the views allow. Fills in the program's views. */
PROPANE_CHECK propane_status cpu_loop_space(loop_draft *t, loop_program *out, propane_error *err);
/* Rows, width and chunk of a tile. They depend on shapes alone, never on the number of threads. */
void cpu_loop_tile(loop_program *out, bool has_axes, bool passes);
/* Tiles and how many of them are a task; `work`: operations an element. */
void cpu_loop_tasks(const loop_draft *t, loop_program *out, double work, int threads);

/* Fewer instructions with the same meaning. */
void cpu_loop_combine(loop_draft *t);
/* Sorts the instructions into passes over the fold; false: it must be held whole, the one pass is then over all of
 * it. */
bool cpu_loop_order(loop_draft *t, loop_program *out);
/* Which registers are computed straight where they are stored to, and where the others lie: bytes of a worker. */
int64_t cpu_loop_registers(loop_draft *t, const loop_program *out);

#endif
