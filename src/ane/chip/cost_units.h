/* SPDX-License-Identifier: MIT
 * What the same work would take on the other two units of a chip: on the processor by a model of three parts, on the
 * GPU by what others state. Estimated, never measured here.
 */
#ifndef ANE_CHIP_COST_UNITS_H
#define ANE_CHIP_COST_UNITS_H

#include "ane/chip/cost_step.h"

typedef enum cost_work_kind { COST_WORK_FULL, COST_WORK_LORA, COST_WORK_FORWARD, COST_WORK_COUNT } cost_work_kind;

/* A batch. */
typedef struct cost_work {
    cost_work_kind kind;
    double flops;        /* all of it */
    double elements;     /* layers x width x positions */
    double update_bytes; /* that AdamW moves, its share of an update */
} cost_work;

typedef struct cost_unit {
    double ms, joules;                         /* 0 joules: not known */
    double products_ms, element_ms, update_ms; /* of the processor */
    const char *software, *source;             /* of the GPU's figure */
} cost_unit;

void cost_processor(const chip *c, const cost_work *work, cost_unit *out);
/* false: no source has a rate of such work on this chip. Adapters go at the rate of full training. */
bool cost_gpu(const chip *c, const cost_work *work, cost_unit *out);

/* Median relative errors on published steps that no constant was fitted to: nine of engines (`propane estimate
 * --points`), four of a processor, all of an M2 Pro (tests/train/test_where.c has them). */
#define COST_ENGINE_ERROR    0.17
#define COST_PROCESSOR_ERROR 0.11

#endif
