/* SPDX-License-Identifier: MIT
 * Declares the measurement of `propane where --trial`: the cost of training on this machine.
 */
#ifndef APPS_PROPANE_CMD_WHERE_TRIAL_H
#define APPS_PROPANE_CMD_WHERE_TRIAL_H

#include <stdbool.h>

#include "propane.h"

typedef struct where_trial {
    const char *model, *data;
    int64_t layers, width, heads;                  /* sizes of a model without weights; 0 if it has weights */
    const char *stream;                            /* --stream of the engine's run; NULL for train's default */
    const char *mode;                              /* "full" or "lora"; NULL for both, if the model has weights */
    int64_t lora_rank, batch, context, accumulate; /* lora_rank 0 means 8 */
    double seconds;                                /* least time of training after the warm-up */
    bool json;
} where_trial;

/* Trains in separate processes, one per unit and mode, and prints a table or JSON. The row of a unit that could not be
 * measured has the reason. Fails if no unit could be measured. */
PROPANE_CHECK propane_status where_trial_run(const where_trial *t, propane_error *err);

#endif
