/* SPDX-License-Identifier: MIT
 * The part of propane estimate that is about models: see estimate_model.c.
 */
#ifndef CLI_CMD_ESTIMATE_MODEL_H
#define CLI_CMD_ESTIMATE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "chip/chip.h"

typedef struct estimate_model_options {
    const char *plan, *weights;
    int64_t batch, context, accumulate;
    bool compare, per_op, json;
} estimate_model_options;

/* A model in any form, a config.json, or the name of a model that is known. */
bool estimate_is_model(const char *path);
PROPANE_CHECK propane_status estimate_model(const char *path, const chip *const *chips, int chip_count,
                                            const estimate_model_options *o, propane_error *err);

#endif
