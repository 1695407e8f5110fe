/* SPDX-License-Identifier: MIT
 * Says which operation of a function a device refuses, by which known rule, and writes the smallest program that it
 * refuses. For compiling: the sentence becomes the error's.
 */
#ifndef CORE_REFUSAL_REFUSAL_H
#define CORE_REFUSAL_REFUSAL_H

#include "core/mil/mil.h"
#include "propane.h"

/* May a compile that ended with this status have been refused for what is in the program? */
bool refusal_is(propane_status status);

/* `f` (NULL without `folder`) was refused, *err says why. Compiles parts of it with `options` (of which neither
 * function nor donor is looked at), and replaces the text; the status stays. The smallest program becomes the new
 * folder `folder`, or `folder`-2, ... where there is one, with model.mil and its weights. `folder` NULL: the text says
 * how to ask for that, where the device does not name operations. Returns err's status. */
propane_status refusal_explain(propane_device *device, const mil_function *f, const propane_compile_options *options,
                               const char *folder, propane_error *err);

#endif
