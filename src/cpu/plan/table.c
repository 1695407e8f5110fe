/* SPDX-License-Identifier: MIT
 * Owns the choice of the family that runs an operation.
 */
#include "cpu/plan/table.h"

static const cpu_emitter *const table_rows[CPU_FAMILY_COUNT] = {
#define FAMILY(name)   [CPU_FAMILY_##name] = &cpu_emitter_##name,
#define LOWERING(name) [CPU_FAMILY_lower_##name] = &cpu_emitter_reference,
#include "cpu/families.def"
};

cpu_family cpu_family_of(const mil_op *op) {
    cpu_family f = cpu_family_named(op);
    for (const cpu_emitter *e = table_rows[f]; (e->takes && !e->takes(op)) || (e->tile && !e->tile(op));
         e = table_rows[f])
        f = e->otherwise;
    return f;
}

const cpu_emitter *cpu_emitter_of(const mil_op *op) { return table_rows[cpu_family_of(op)]; }
