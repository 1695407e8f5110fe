/* SPDX-License-Identifier: MIT
 * Declares the reading of a plan that Core ML made on a Mac. A plan gives the preferred device and the allowed devices
 * of each operation. MLComputePlan is an interface, not a format, and every tool that writes it to a file picks its own
 * keys. So a plan is recognised by what it must contain: objects at any depth that name an operation and a device.
 * compute_plan.c lists the keys of public tools.
 */
#ifndef ANE_CHIP_COMPUTE_PLAN_H
#define ANE_CHIP_COMPUTE_PLAN_H

#include "core/base/json.h"

typedef enum compute_device { COMPUTE_NONE, COMPUTE_CPU, COMPUTE_GPU, COMPUTE_ENGINE } compute_device;

enum { COMPUTE_NAMES = 8 };

typedef struct compute_row {
    const char *op; /* without the opset: "conv" */
    const char *function, *units,
        *names[COMPUTE_NAMES]; /* units: the compute units for which the plan was made; NULL if not stated */
    int name_count;
    compute_device preferred;
    unsigned supported; /* bit compute_device; 0 if not known */
    double cost;        /* share of the whole; negative if not known */
} compute_row;

typedef struct compute_plan { /* `json` owns the strings */
    json_t *json;
    compute_row *rows;
    int count;
} compute_plan;

/* Reads a file, or report.json in a folder such as NAME.mlperf. If the file has plans for several settings of the
 * compute units, the plan for CPU and engine is used, else the plan for all units. Refuses a file without such objects,
 * and an unknown device. */
PROPANE_CHECK propane_status compute_plan_read(const char *path, compute_plan *out, propane_error *err);
void compute_plan_deinit(compute_plan *plan);
const char *compute_device_name(compute_device device);

#endif
