/* SPDX-License-Identifier: MIT
 * `propane where --trial`: what training takes on this machine, measured.
 */
#ifndef APPS_PROPANE_CMD_WHERE_TRIAL_H
#define APPS_PROPANE_CMD_WHERE_TRIAL_H

#include <stdbool.h>

#include "propane.h"

typedef struct where_trial {
    const char *model, *data;
    const char *mode;                              /* "full" or "lora"; NULL: both, where the model has weights */
    int64_t lora_rank, batch, context, accumulate; /* lora_rank 0: 8 */
    double seconds;                                /* of training, after the first step */
    bool json;
} where_trial;

/* Trains in processes of their own, one a unit and mode, and prints a table or JSON. A unit that is not here has a row
 * that says why; fails where none could be measured. */
PROPANE_CHECK propane_status where_trial_run(const where_trial *t, propane_error *err);

#endif
