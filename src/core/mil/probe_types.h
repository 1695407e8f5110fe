/* SPDX-License-Identifier: MIT
 * Declares the derivation of result types that no file declares, for an operation that waits for the values of a run.
 */
#ifndef CORE_MIL_PROBE_TYPES_H
#define CORE_MIL_PROBE_TYPES_H

#include "core/mil/mil.h"

/* Sets the types of the results, with open dimensions; `types` has room for MIL_MAX_RESULTS. If no probed values make
 * the operation possible, returns the operation's own error. */
PROPANE_CHECK propane_status mil_probe_types(mil_op *op, mil_type *types, int *count, propane_error *err);

#endif
