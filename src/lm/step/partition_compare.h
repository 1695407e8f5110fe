/* SPDX-License-Identifier: MIT
 * The cost of a model's training step on a chip for every way to cut it: plans, places of the head, weight modes,
 * places of weight gradients, moment formats and batches, listed next to each other. Costs are estimated, never
 * measured.
 */
#ifndef LM_STEP_PARTITION_COMPARE_H
#define LM_STEP_PARTITION_COMPARE_H

#include "lm/step/partition_cost.h"

/* Batch sizes, and the number of batches per update. */
typedef struct partition_batches {
    int64_t batch, accumulate;
} partition_batches;

typedef struct partition_question {
    const char *plan, *weights; /* NULL means all */
    const char *gradients;      /* NULL means "host" and "device" (partition_options.products) */
    const char *head, *moments; /* NULL means all, but only heads that differ; "auto" is the plan's default */
    bool lagged, early;         /* as in partition_training */
    const partition_batches *batches;
    int batch_count;
    int64_t context;
    /* NULL if all weights are trained; otherwise only the adapters are, and the base is frozen */
    const model_lora *lora;
    bool half_stream;        /* plan "layer" with partition_options.half_stream */
    const cost_rates *rates; /* NULL for the rates assumed for the chip's host */
} partition_question;

typedef struct partition_candidate {
    const partition *partition; /* owned by the comparison */
    partition_cost cost;
    char refused[400]; /* the known rule of the chip that refuses it, or "" if none does */
    int number;        /* among all, in the order of the names, batches and modes */
} partition_candidate;

typedef struct partition_comparison {
    partition_candidate *list; /* those that no rule refuses first, then by speed, then by number */
    int count;
    partition **partitions;
    int partition_count;
    arena *arena;
} partition_comparison;

/* An unknown plan yields no candidates. Call partition_comparison_free whatever the status. */
PROPANE_CHECK propane_status partition_compare(const model_config *config, const partition_question *q, const chip *c,
                                               partition_comparison *out, propane_error *err);
void partition_comparison_free(partition_comparison *p);
/* "plan six, head on the device, weights inputs, moments fp32" */
void partition_candidate_print(const partition_candidate *c, text *out);

#endif
