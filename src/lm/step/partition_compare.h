/* SPDX-License-Identifier: MIT
 * Compares the costs of a model's training step on a chip over all ways to run the step: plans, places of the head,
 * weight modes, places of weight gradients, moment formats and batches. Costs are estimated, never measured.
 */
#ifndef LM_STEP_PARTITION_COMPARE_H
#define LM_STEP_PARTITION_COMPARE_H

#include "lm/step/partition_cost.h"

/* The batch size, and the number of batches per update. */
typedef struct partition_batches {
    int64_t batch, accumulate;
} partition_batches;

typedef struct partition_question {
    const char *plan, *weights; /* NULL means all plans, and all weight modes but "patched" */
    const char *gradients;      /* NULL means "host" and "device" (partition_options.gradients) */
    /* NULL means heads on the "host" and on the "device", or all moment formats. Head "auto" is the plan's default */
    const char *head, *moments;
    bool lagged, early; /* as in partition_training */
    const partition_batches *batches;
    int batch_count;
    int64_t context;
    /* NULL if all weights are trained; otherwise only these adapters are trained, and the base is frozen */
    const model_lora *lora;
    bool half_stream;        /* plan "layer" is compared with partition_options.half_stream */
    const cost_rates *rates; /* NULL for the rates assumed for the chip's host */
} partition_question;

typedef struct partition_candidate {
    const partition *partition; /* owned by the comparison */
    partition_cost cost;
    char refused[400]; /* why a known rule of the chip refuses the candidate, or "" if none does */
    int number;        /* position in the order in which the candidates were made */
} partition_candidate;

typedef struct partition_comparison {
    /* candidates that no rule refuses come first; each group is sorted by speed, then by number */
    partition_candidate *list;
    int count;
    partition **partitions;
    int partition_count;
    arena *arena;
} partition_comparison;

/* Compares all candidates that `q` allows. An unknown plan yields no candidates. Call partition_comparison_free even if
 * this returns an error. */
PROPANE_CHECK propane_status partition_compare(const model_config *config, const partition_question *q, const chip *c,
                                               partition_comparison *out, propane_error *err);
void partition_comparison_free(partition_comparison *p);
/* Appends a description such as "plan six, head on the device, weights inputs, moments fp32". */
void partition_candidate_print(const partition_candidate *c, text *out);

#endif
