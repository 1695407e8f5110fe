/* SPDX-License-Identifier: MIT
 * What emits the steps of an operation: one row a family (families.def), in the file of the family.
 */
#ifndef CPU_PLAN_TABLE_H
#define CPU_PLAN_TABLE_H

#include "cpu/cpu_family.h"
#include "cpu/cpu_view.h"

typedef struct planner planner;

/* Exactly one way runs an operation: `tile`, `view` or `emit`. */
typedef struct cpu_emitter {
    /* Elementwise, reductions, softmax: may become part of a fused loop. */
    bool (*tile)(const mil_op *op);
    /* No work, only another view of its operand; false: needs a dense copy of the operand first. */
    bool (*view)(const mil_op *op, int result, const cpu_view *source, cpu_view *out);
    /* Where the operand must lie so that result 0 lies in `target`; NULL: cannot be turned round. */
    bool (*unview)(const mil_op *op, const cpu_view *target, cpu_view *out);
    /* Adds the steps. */
    propane_status (*emit)(planner *p, const mil_op *op, propane_error *err);
    /* Whether emit takes this very operation; NULL: always. */
    bool (*takes)(const mil_op *op);
    /* The family that is asked next where this one says no; the slow meaning, unless it is another one. */
    cpu_family otherwise;
} cpu_emitter;

#define FAMILY(name) extern const cpu_emitter cpu_emitter_##name;
#define LOWERING(name)
#include "cpu/families.def"

/* The family that runs this very operation: the one that ops.def names, or what replaces it. */
cpu_family cpu_family_of(const mil_op *op);
const cpu_emitter *cpu_emitter_of(const mil_op *op);

#endif
