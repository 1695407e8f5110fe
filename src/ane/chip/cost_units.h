/* SPDX-License-Identifier: MIT
 * Declares estimates of the time of the same work on the other two units of a chip. The processor's time comes from a
 * model of three parts, and the GPU's from published figures. Propane measured neither.
 */
#ifndef ANE_CHIP_COST_UNITS_H
#define ANE_CHIP_COST_UNITS_H

#include "ane/chip/cost_step.h"

typedef enum cost_work_kind { COST_WORK_FULL, COST_WORK_LORA, COST_WORK_FORWARD, COST_WORK_COUNT } cost_work_kind;

/* The work of one batch. */
typedef struct cost_work {
    cost_work_kind kind;
    double flops;        /* in total */
    double elements;     /* layers x width x positions */
    double update_bytes; /* moved by AdamW: the batch's share of one update */
} cost_work;

typedef struct cost_unit {
    double ms, joules;                         /* joules: 0 if not known */
    double products_ms, element_ms, update_ms; /* the processor's parts */
    const char *software, *source;             /* software and source of the GPU's figure */
} cost_unit;

void cost_processor(const chip *c, const cost_work *work, cost_unit *out);
/* Returns false if no source has a rate for such work on this chip. Adapters use the rate of full training. */
bool cost_gpu(const chip *c, const cost_work *work, cost_unit *out);

/* Median relative errors on published steps that were not used to fit any constant: nine steps on engines (`propane
 * estimate --points`), and four on a processor, all on an M2 Pro (listed in tests/train/test_where.c). */
#define COST_ENGINE_ERROR    0.17
#define COST_PROCESSOR_ERROR 0.11

#endif
