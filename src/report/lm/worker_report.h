/* SPDX-License-Identifier: MIT
 * Declares the part of propane_estimate_training for several workers.
 */
#ifndef REPORT_LM_WORKER_REPORT_H
#define REPORT_LM_WORKER_REPORT_H

#include "ane/chip/chip.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "lm/arch/config.h"

/* Reports the cost of each method on one chip, as text in `to` or as objects in the array `json`. In `o`, `workers`
 * must be set and all defaults filled in. */
PROPANE_CHECK propane_status api_worker_estimate(const model_config *config, const propane_training_estimate_options *o,
                                                 const chip *c, json_t *json, text *to, propane_error *err);

#endif
