/* SPDX-License-Identifier: MIT
 * Choosing the shape of inputs that a file leaves open; for the readers of text and packages.
 */
#ifndef CORE_MIL_RESOLVE_SHAPES_H
#define CORE_MIL_RESOLVE_SHAPES_H

#include "core/mil/coreml/package.h"

/* Fills the open dimensions of an input's type: from the options, else from `standard`, else from what the file
 * describes; checks them against what it allows. `feature` and `standard` may be NULL. */
PROPANE_CHECK propane_status mil_open_settle(const mil_read_options *options, const char *source, const char *name,
                                             const mil_feature *feature, const mil_type *standard, mil_type *type,
                                             propane_error *err);
/* Every chosen shape belongs to an input. */
PROPANE_CHECK propane_status mil_open_check(const mil_module *m, const mil_read_options *options, propane_error *err);

/* Whether what `op` gives must wait for values of a run, where that may be; its function is late then. */
bool mil_read_late(const mil_read_options *options, const mil_op *op);

#endif
