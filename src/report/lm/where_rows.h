/* SPDX-License-Identifier: MIT
 * Declares the rows of `propane where`. There is one per unit of a chip and plan, and its figures are for 1,000 tokens.
 */
#ifndef REPORT_LM_WHERE_ROWS_H
#define REPORT_LM_WHERE_ROWS_H

#include "ane/chip/cost_units.h"
#include "core/base/arena.h"
#include "lm/arch/config.h"
#include "lm/arch/lora.h"

/* The unit of a row. WHERE_OTHERS is the engine as published trainers use it. That use has been measured, in contrast
 * to Propane's own plans on the engine (WHERE_ENGINE). */
typedef enum where_unit { WHERE_ENGINE, WHERE_OTHERS, WHERE_PROCESSOR, WHERE_GPU } where_unit;
typedef enum where_goal { WHERE_TIME, WHERE_JOULES, WHERE_BACKGROUND, WHERE_GOALS } where_goal;
const char *where_unit_name(where_unit unit); /* "engine" */

typedef struct where_question {
    const char *model, *data;
    const model_config *config;
    cost_work_kind kind;
    where_goal goal;
    const model_lora *lora; /* for COST_WORK_LORA */
    int64_t batch, context, accumulate;
    const char *stream; /* type of plan layer's residual: "fp16", "fp32", or NULL for the one that the chip accepts */
} where_question;

typedef struct where_row {
    where_unit unit;
    const char *plan;                          /* "layer, head device, weights inputs"; for a GPU, the software */
    bool known;                                /* false if there are no figures; `reason` then explains why */
    double ms, low_ms, high_ms;                /* for 1,000 tokens */
    double joules, low_joules, high_joules;    /* for 1,000 tokens; 0 if not known */
    double engine_j, host_j, memory_j, idle_j; /* for an engine's row */
    double host_share, host_ms; /* the processor's fraction of the floating-point operations, and its working time */
    double memory;              /* bytes, as a lower bound; 0 if not known */
    double compile_s;
    const char *reason, *error, *line; /* an explanation; the error on held-out measurements; the command to run */
} where_row;

enum { WHERE_ROWS = 6 };
typedef struct where_rows {
    where_row list[WHERE_ROWS];
    int count, best;  /* best: index of the best row for the goal, or -1 */
    int rival;        /* index of another unit's row that is no worse within both rows' errors, or -1 */
    int others;       /* index of the row of published trainers, or -1 */
    bool contradicts; /* the best row is an engine's, but published trainers are slower on it than on another unit */
} where_rows;

PROPANE_CHECK propane_status where_rows_make(const where_question *q, const chip *c, arena *a, where_rows *out,
                                             propane_error *err);

#endif
