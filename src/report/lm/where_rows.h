/* SPDX-License-Identifier: MIT
 * The rows of `propane where`, one per unit of a chip and plan, each for 1,000 tokens.
 */
#ifndef REPORT_LM_WHERE_ROWS_H
#define REPORT_LM_WHERE_ROWS_H

#include "ane/chip/cost_units.h"
#include "core/base/arena.h"
#include "lm/arch/config.h"
#include "lm/arch/lora.h"

/* WHERE_OTHERS is an engine as published trainers use it, for which there are measurements; there are none for
 * Propane's own plans. */
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
    const char *stream; /* of plan layer: "fp16", "fp32", or NULL for what the chip takes */
} where_question;

typedef struct where_row {
    where_unit unit;
    const char *plan;                          /* "layer, head device, weights inputs"; for a GPU the software */
    bool known;                                /* if false, there are no figures, and `reason` explains it */
    double ms, low_ms, high_ms;                /* for 1,000 tokens */
    double joules, low_joules, high_joules;    /* for 1,000 tokens; 0 if not known */
    double engine_j, host_j, memory_j, idle_j; /* for an engine's row */
    double host_share, host_ms; /* the processor's fraction of the operations, and the time for which it works */
    double memory;              /* bytes, as a lower bound; 0 if not known */
    double compile_s;
    const char *reason, *error, *line; /* the reason in words; the held-out error; the command to run */
} where_row;

enum { WHERE_ROWS = 6 };
typedef struct where_rows {
    where_row list[WHERE_ROWS];
    int count, best;  /* -1 if there is none for this goal */
    int rival;        /* another unit's row within the errors of both, or -1 */
    int others;       /* the row of published trainers, or -1 */
    bool contradicts; /* the best row is an engine's, but published trainers are slower on it than on another unit */
} where_rows;

PROPANE_CHECK propane_status where_rows_make(const where_question *q, const chip *c, arena *a, where_rows *out,
                                             propane_error *err);

#endif
