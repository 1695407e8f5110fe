/* SPDX-License-Identifier: MIT
 * The rows of `propane where`: one a unit of a chip and a plan, each for 1,000 tokens.
 */
#ifndef REPORT_LM_WHERE_ROWS_H
#define REPORT_LM_WHERE_ROWS_H

#include "ane/chip/cost_units.h"
#include "core/base/arena.h"
#include "lm/arch/config.h"
#include "lm/arch/lora.h"

/* WHERE_OTHERS: an engine as published trainers use it, for which there are measurements; Propane's own plans have
 * none. */
typedef enum where_unit { WHERE_ENGINE, WHERE_OTHERS, WHERE_PROCESSOR, WHERE_GPU } where_unit;
typedef enum where_goal { WHERE_TIME, WHERE_JOULES, WHERE_BACKGROUND, WHERE_GOALS } where_goal;
const char *where_unit_name(where_unit unit); /* "engine" */

typedef struct where_question {
    const char *model, *data;
    const model_config *config;
    cost_work_kind kind;
    where_goal goal;
    const model_lora *lora; /* of COST_WORK_LORA */
    int64_t batch, context, accumulate;
} where_question;

typedef struct where_row {
    where_unit unit;
    const char *plan;                          /* "layer, head device, weights inputs"; of a GPU the software */
    bool known;                                /* false: no figures, and `reason` says why */
    double ms, low_ms, high_ms;                /* of 1,000 tokens */
    double joules;                             /* likewise; 0: not known */
    double engine_j, host_j, memory_j, idle_j; /* of an engine's row */
    double host_share, host_ms; /* the processor's part of the operations, of 1; the time that it works */
    double memory;              /* bytes, at least; 0: not known */
    double compile_s;
    const char *reason, *error, *line; /* in words; the held-out error; the command to run */
} where_row;

enum { WHERE_ROWS = 6 };
typedef struct where_rows {
    where_row list[WHERE_ROWS];
    int count, best;  /* -1: none by this goal */
    int rival;        /* another unit's row within the errors of both; -1: none */
    int others;       /* the row of published trainers; -1: none */
    bool contradicts; /* the best is an engine's, and published trainers are slower there than another unit */
} where_rows;

PROPANE_CHECK propane_status where_rows_make(const where_question *q, const chip *c, arena *a, where_rows *out,
                                             propane_error *err);

#endif
