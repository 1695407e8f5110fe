/* SPDX-License-Identifier: MIT
 * Declares the choice of a shape for inputs that a file leaves open, for the readers of text and packages.
 */
#ifndef CORE_MIL_RESOLVE_SHAPES_H
#define CORE_MIL_RESOLVE_SHAPES_H

#include "core/mil/coreml/package.h"

/* Fills in the open dimensions of an input's type from the options, else from `standard`, else from the file's
 * description. Checks the shape against those that the file allows. `feature` and `standard` may be NULL. */
PROPANE_CHECK propane_status mil_open_settle(const mil_read_options *options, const char *source, const char *name,
                                             const mil_feature *feature, const mil_type *standard, mil_type *type,
                                             propane_error *err);
/* Checks that every chosen shape belongs to an input. */
PROPANE_CHECK propane_status mil_open_check(const mil_module *m, const mil_read_options *options, propane_error *err);

/* Returns whether the types of op's results must wait for values of a run, and makes its function late if so. Always
 * false in blocks, for ops with blocks, and unless the options allow late functions. */
bool mil_read_late(const mil_read_options *options, const mil_op *op);

#endif
