/* SPDX-License-Identifier: MIT
 * A fused loop under construction: instructions over views of one iteration space, before they become a loop_program.
 * Emitters (ops/emit_elementwise.c) write the instructions. loop_simplify.c reduces their number, loop_space.c finds
 * the loops and the tile, and loop_schedule.c the order and the placement of registers.
 */
#ifndef CPU_LOOP_LOOP_DRAFT_H
#define CPU_LOOP_LOOP_DRAFT_H

#include "cpu/loop/loop.h"

#define LOOP_MAX_INSTRS 320

typedef struct loop_operand {
    cpu_view view;
    int64_t stride[LOOP_MAX_RANK]; /* in the iteration space */
    const cpu_signed_row *pick;    /* rows picked from the second-to-last dimension; NULL if none are picked */
    bool store;
} loop_operand;

typedef struct loop_draft {
    arena *arena, *work; /* arena: the program's; work: temporary */
    mil_type shape;      /* the iteration space */
    unsigned axes;       /* one bit per reduced axis */
    bool has_axes;
    int instr_count, view_count, register_count;
    loop_instr instrs[LOOP_MAX_INSTRS];
    loop_operand views[LOOP_MAX_REGISTERS];
    loop_register registers[LOOP_MAX_REGISTERS];
} loop_draft;

/* Returns true if one tile can hold all elements of a reduction. Operations that read the elements again after the
 * reduction require this. */
bool cpu_loop_fits(const mil_type *shape, unsigned axes);
int64_t cpu_loop_reduced_count(const mil_type *shape, unsigned axes);

/* Exchanges the axes of the iteration space if most images have their channels innermost, so that loops follow
 * memory. */
void cpu_loop_turn_channels(loop_draft *t);
/* Finds the loops, with as few dimensions as the views allow, and fills in the program's views. */
PROPANE_CHECK propane_status cpu_loop_space(loop_draft *t, loop_program *out, propane_error *err);
/* Chooses rows, width and chunk of a tile. They depend only on shapes, never on the number of threads. */
void cpu_loop_tile(loop_program *out, bool has_axes, bool passes);
/* Counts tiles and chooses how many form a task. `work` is the number of operations per element. */
void cpu_loop_tasks(const loop_draft *t, loop_program *out, double work, int threads);

/* Reduces the number of instructions without changing the meaning. */
void cpu_loop_combine(loop_draft *t);
/* Sorts the instructions into passes over the fold. Returns false if the fold must be held whole; there is then a
 * single pass over all of it. */
bool cpu_loop_order(loop_draft *t, loop_program *out);
/* Chooses which registers are computed directly where they are stored, and places the others. Returns the scratch bytes
 * per worker. */
int64_t cpu_loop_registers(loop_draft *t, const loop_program *out);

#endif
