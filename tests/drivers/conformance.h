/* SPDX-License-Identifier: MIT
 * One suite for every driver. A driver's test file describes the driver and calls this suite. Tests that the driver
 * cannot pass are reported as skipped, each with its reason.
 */
#ifndef TESTS_DRIVERS_CONFORMANCE_H
#define TESTS_DRIVERS_CONFORMANCE_H

#include "support/test.h"

typedef struct conformance_excuse {
    const char *test, *reason;
} conformance_excuse;

typedef struct conformance_driver {
    const char *title; /* "drivers/cpu" */
    const char *uri;
    const conformance_excuse *excuses;
    int excuse_count;
    const test_case *more; /* tests only for this driver */
    int more_count;
} conformance_driver;

int conformance_main(const conformance_driver *driver, int argc, char **argv);

/* For the driver's own tests: return a device, and a program for it compiled from MIL text. */
propane_device *conformance_open(void);
propane_program *conformance_compile(propane_device *device, const char *text);
/* Compiles the text, fills the inputs in order from fp32 values, runs it once and returns the values of the first
 * output. */
void conformance_run(const char *text, const float *const *inputs, float *output, int output_count);
/* Does the same on the device of that uri. `done` may be NULL. */
void conformance_run_on(const char *uri, const char *text, const float *const *inputs, float *output, int output_count,
                        propane_completion *done);

#define CONFORMANCE_HEAD                                                                                               \
    "program(1.3)\n[buildInfo = dict<string, string>({{\"coremlc-component-MIL\", \"3510.2.1\"}})]\n{\n"

#endif
