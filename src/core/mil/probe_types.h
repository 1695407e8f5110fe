/* SPDX-License-Identifier: MIT
 * Types of an operation that waits for the values of a run, where no file says them.
 */
#ifndef CORE_MIL_PROBE_TYPES_H
#define CORE_MIL_PROBE_TYPES_H

#include "core/mil/mil.h"

/* Types of the results with open dimensions; `types` has room for MIL_MAX_RESULTS. The error is the operation's own, where it is
 * possible with no values. */
PROPANE_CHECK propane_status mil_probe_types(mil_op *op, mil_type *types, int *count, propane_error *err);

#endif
