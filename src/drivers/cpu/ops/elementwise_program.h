/* SPDX-License-Identifier: MIT
 * What the files that make a tile program share: elementwise_program.c reads the node, loop_simplify.c makes the program shorter,
 * loop_schedule.c puts its instructions in the order in which they run. Nobody else includes this.
 */
#ifndef CPU_OPS_ELEMENTWISE_PROGRAM_H
#define CPU_OPS_ELEMENTWISE_PROGRAM_H

#include "drivers/cpu/loop/loop.h"
#include "drivers/cpu/plan/emit.h"

#define LOOP_MAX_INSTRS 320

typedef struct raw_view {
    cpu_view view;
    int64_t stride[LOOP_MAX_RANK]; /* over the node's shape */
    const cpu_signed_row *pick;    /* lines of the last dimension but one; NULL: as they lie */
    bool store;
} raw_view;

typedef struct loop_builder {
    planner *p;
    const cpu_node *node;
    propane_error *err;
    propane_status status;
    bool has_axes;
    int instr_count, view_count, register_count, value_count;
    loop_instr instrs[LOOP_MAX_INSTRS];
    raw_view views[LOOP_MAX_REGISTERS];
    loop_register registers[LOOP_MAX_REGISTERS];
    const mil_value *values[LOOP_MAX_REGISTERS]; /* what register_of knows */
    int registers_of[LOOP_MAX_REGISTERS];
    double work; /* flops of an element */
} loop_builder;

/* Fewer instructions with the same meaning. */
void cpu_loop_combine(loop_builder *t);
/* Sorts the instructions into passes over the fold; false: it must be held whole, the one pass is then over all of it. */
bool cpu_loop_order(loop_builder *t, loop_program *out);
/* Which registers are computed straight where they are stored to, and where the others lie: bytes of a worker. */
int64_t cpu_loop_registers(loop_builder *t, const loop_program *out);

#endif
