/* SPDX-License-Identifier: MIT
 * Runs a program on any device, with inputs and results as doubles.
 */
#ifndef TESTS_SUPPORT_DEVICE_RUN_H
#define TESTS_SUPPORT_DEVICE_RUN_H

#include "core/mil/ops.h"
#include "propane.h"

/* Runs `f`, the module's function; got[k] is its result k, which the caller frees with mem_free. Returns false with
 * the reason in `err` if the device refuses the program; nothing is then allocated. Any other failure fails the
 * running test with `label`. */
bool device_run(propane_device *d, mil_module *m, const mil_function *f, const mil_tensor *inputs, const char *label,
                double **got, propane_error *err);

#endif
