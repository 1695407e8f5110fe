/* SPDX-License-Identifier: MIT
 * propane eval --logits and --gradients.
 */
#ifndef CLI_CMD_EVAL_GRADIENTS_H
#define CLI_CMD_EVAL_GRADIENTS_H

#include "infer/generate.h"

typedef struct eval_step {
    const char *plan, *precision, *device;
} eval_step;

/* A tensor "logits" [count, vocab]: after each id, given those before it. */
PROPANE_CHECK propane_status eval_logits(infer *m, const model_weights *w, const int32_t *ids, int64_t count,
                                         const char *path, propane_error *err);
/* One sequence: inputs are all ids but the last, targets all but the first. */
PROPANE_CHECK propane_status eval_gradients(model_weights *w, const int32_t *ids, int64_t count, const eval_step *how,
                                            const char *path, double *loss, propane_error *err);

#endif
