/* SPDX-License-Identifier: MIT
 * Emitters of steps: one row per family (families.def), in the family's file.
 */
#ifndef CPU_PLAN_TABLE_H
#define CPU_PLAN_TABLE_H

#include "cpu/cpu_family.h"
#include "cpu/cpu_view.h"

typedef struct planner planner;

/* Exactly one of `tile`, `view` or `emit` runs an operation. */
typedef struct cpu_emitter {
    /* Returns true if the operation (elementwise, reduction or softmax) may become part of a fused loop. */
    bool (*tile)(const mil_op *op);
    /* Sets *out to the view of the operand that is the result, so that no step is needed. Returns false if the operand
     * must first be copied to dense memory. */
    bool (*view)(const mil_op *op, int result, const cpu_view *source, cpu_view *out);
    /* Sets *out to where the operand must be so that result 0 is in `target`; returns false if that is impossible. NULL
     * if no view of the family can be inverted. */
    bool (*unview)(const mil_op *op, const cpu_view *target, cpu_view *out);
    /* Adds the steps. */
    propane_status (*emit)(planner *p, const mil_op *op, propane_error *err);
    /* Returns true if emit supports this particular operation. NULL means always. */
    bool (*takes)(const mil_op *op);
    /* The family to try next if this one declines; by default the slow reference implementation. */
    cpu_family otherwise;
} cpu_emitter;

#define FAMILY(name) extern const cpu_emitter cpu_emitter_##name;
#define LOWERING(name)
#include "cpu/families.def"

/* Returns the family that runs this particular operation: the one that ops.def names, or its replacement. */
cpu_family cpu_family_of(const mil_op *op);
const cpu_emitter *cpu_emitter_of(const mil_op *op);

#endif
