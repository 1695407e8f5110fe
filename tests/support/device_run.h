/* SPDX-License-Identifier: MIT
 * A program with its inputs as doubles on any device, and its results as doubles.
 */
#ifndef TESTS_SUPPORT_DEVICE_RUN_H
#define TESTS_SUPPORT_DEVICE_RUN_H

#include "core/mil/ops.h"
#include "propane.h"

/* `f`: the module's function; got[k]: its result k, mem_free it. False: the device refuses the program, with its reason in
 * `err`, and nothing is allocated. Whatever else goes wrong fails the running test with `label`. */
bool device_run(propane_device *d, mil_module *m, const mil_function *f, const mil_tensor *inputs, const char *label,
                double **got, propane_error *err);

#endif
