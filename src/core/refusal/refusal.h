/* SPDX-License-Identifier: MIT
 * Finds out which operation of a function a device refuses and by which known rule, and writes the smallest refused
 * program. The explanation becomes the error text of a compilation.
 */
#ifndef CORE_REFUSAL_REFUSAL_H
#define CORE_REFUSAL_REFUSAL_H

#include "core/mil/mil.h"
#include "propane.h"

/* Returns true if a compile with this status may have been refused because of the program's content. */
bool refusal_is(propane_status status);

/* Explains why `f` was refused with the error *err; `f` may be NULL only if `folder` is NULL. Compiles parts of `f`
 * with `options`, ignoring their function and donor. Replaces the text of *err, but not its status. The smallest
 * refused program is written, as model.mil and its weights, to the new folder `folder`, or `folder`-2, ... if that
 * exists. If `folder` is NULL, nothing is compiled; if the device does not name operations, the text then explains how
 * to request this. Returns err's status. */
propane_status refusal_explain(propane_device *device, const mil_function *f, const propane_compile_options *options,
                               const char *folder, propane_error *err);

#endif
