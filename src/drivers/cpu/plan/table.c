/* SPDX-License-Identifier: MIT
 * Owns the choice of the family that runs an operation.
 */
#include "drivers/cpu/plan/table.h"

#include "drivers/cpu/signed_rows.h"

static const cpu_emitter *const table_rows[CPU_FAMILY_COUNT] = {
#define FAMILY(name)   [CPU_FAMILY_##name] = &cpu_emitter_##name,
#define LOWERING(name) [CPU_FAMILY_lower_##name] = &cpu_emitter_reference,
#include "drivers/cpu/families.def"
};

cpu_family cpu_family_of(const mil_op *op) {
    const cpu_family named = cpu_family_named(op);
    const cpu_emitter *e = table_rows[named];
    if (cpu_signed_rows_is(op)) return CPU_FAMILY_pick;
    if (e->takes && !e->takes(op)) return CPU_FAMILY_reference;
    if (!e->tile || e->tile(op)) return named;
    return table_rows[CPU_FAMILY_scalar]->takes(op) ? CPU_FAMILY_scalar : CPU_FAMILY_reference;
}

const cpu_emitter *cpu_emitter_of(const mil_op *op) { return table_rows[cpu_family_of(op)]; }
