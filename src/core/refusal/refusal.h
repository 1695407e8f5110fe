/* SPDX-License-Identifier: MIT
 * Finds out which operation of a function a device refuses and by which known rule, and writes the smallest refused
 * program. For compiling: the explanation becomes the error text.
 */
#ifndef CORE_REFUSAL_REFUSAL_H
#define CORE_REFUSAL_REFUSAL_H

#include "core/mil/mil.h"
#include "propane.h"

/* Returns true if a compile with this status may have been refused because of the program's content. */
bool refusal_is(propane_status status);

/* Explains why `f` (NULL only if there is no `folder`) was refused with *err. Compiles parts of it with `options`,
 * ignoring their function and donor, and replaces the text; the status stays. The smallest refused program is written
 * to a new folder `folder`, or `folder`-2, ... if that exists, as model.mil and its weights. If `folder` is NULL, the
 * text explains how to request this when the device does not name operations. Returns err's status. */
propane_status refusal_explain(propane_device *device, const mil_function *f, const propane_compile_options *options,
                               const char *folder, propane_error *err);

#endif
