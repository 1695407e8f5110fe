/* SPDX-License-Identifier: MIT
 * Types of an operation that waits for the values of a run, if no file declares them.
 */
#ifndef CORE_MIL_PROBE_TYPES_H
#define CORE_MIL_PROBE_TYPES_H

#include "core/mil/mil.h"

/* Sets the types of the results, with open dimensions; `types` has room for MIL_MAX_RESULTS. If the operation is
 * possible for no values, returns the operation's own error. */
PROPANE_CHECK propane_status mil_probe_types(mil_op *op, mil_type *types, int *count, propane_error *err);

#endif
