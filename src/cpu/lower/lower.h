/* SPDX-License-Identifier: MIT
 * MIL to simpler MIL: operations written out in others that the planner fuses. One function a family of families.def;
 * each writes the operation out in front of itself and replaces its uses, or leaves it alone (then it runs through its
 * slow meaning). Sees MIL only: no graph, no memory, no kernels.
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
/* Small results of constants alone become known; `work` has what is needed meanwhile. */
PROPANE_CHECK propane_status cpu_lower_constants(mil_function *f, arena *work, propane_error *err);

#endif
