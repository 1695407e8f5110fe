/* SPDX-License-Identifier: MIT
 * Turns MIL into simpler MIL: operations are expanded into others that the planner fuses. There is one function per
 * LOWERING row of families.def. Each function inserts the expansion before the operation and replaces the uses of its
 * results, or leaves the operation unchanged. An unchanged operation runs through its slow reference. These functions
 * see only MIL: no graph, no memory, no kernels.
 */
#ifndef CPU_LOWER_LOWER_H
#define CPU_LOWER_LOWER_H

#include "core/base/arena.h"
#include "core/mil/build.h"
#include "core/mil/mil.h"
#include "core/mil/ops.h"

#define FAMILY(name)
#define LOWERING(name) PROPANE_CHECK propane_status cpu_lower_##name(mil_builder *b, mil_op *op, propane_error *err);
#include "cpu/families.def"

/* The stages, in this order. */
PROPANE_CHECK propane_status cpu_lower_function(mil_function *f, propane_error *err);
PROPANE_CHECK propane_status cpu_lower_permutations(mil_function *f, propane_error *err);
/* Computes small results of constant operands; `work` is for temporary memory. */
PROPANE_CHECK propane_status cpu_lower_constants(mil_function *f, arena *work, propane_error *err);

#endif
