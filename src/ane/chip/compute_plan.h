/* SPDX-License-Identifier: MIT
 * A plan that Core ML made on a Mac, out of a file: which device it prefers for each operation, which others it allows.
 * MLComputePlan is an interface, not a format; every tool that dumps it picks its own keys. So a plan is read by what
 * it must hold: objects that name an operation and a device, at any depth. Keys that public tools use are lists in
 * compute_plan.c.
 */
#ifndef ANE_CHIP_COMPUTE_PLAN_H
#define ANE_CHIP_COMPUTE_PLAN_H

#include "core/base/json.h"

typedef enum compute_device { COMPUTE_NONE, COMPUTE_CPU, COMPUTE_GPU, COMPUTE_ENGINE } compute_device;

enum { COMPUTE_NAMES = 8 };

typedef struct compute_row {
    const char *op;                                      /* without the opset: "conv" */
    const char *function, *units, *names[COMPUTE_NAMES]; /* units: that the plan was made for; NULL: not told */
    int name_count;
    compute_device preferred;
    unsigned supported; /* bit compute_device; 0: not known */
    double cost;        /* share of the whole, negative: not known */
} compute_row;

typedef struct compute_plan { /* strings belong to `json` */
    json_t *json;
    compute_row *rows;
    int count;
} compute_plan;

/* A file, or a folder NAME.mlperf with report.json. Of a file with plans for several settings of the compute units, that for CPU
 * and engine is taken, else that for all. A file without such objects is refused; so is a device that is none. */
PROPANE_CHECK propane_status compute_plan_read(const char *path, compute_plan *out, propane_error *err);
void compute_plan_deinit(compute_plan *plan);
const char *compute_device_name(compute_device device);

#endif
