/* SPDX-License-Identifier: MIT
 * What training steps of one model would cost on a chip in every way that there is to cut them: plans, places of the
 * head, weight modes, places of weight gradients, forms of moments and batches side by side. Estimated, never measured.
 */
#ifndef LM_STEP_PARTITION_COMPARE_H
#define LM_STEP_PARTITION_COMPARE_H

#include "lm/step/partition_cost.h"

/* Batches at a time, and how many of them make an update. */
typedef struct partition_batches {
    int64_t batch, accumulate;
} partition_batches;

typedef struct partition_question {
    const char *plan, *weights; /* NULL: all there are */
    const char *gradients;      /* NULL: "host" and "device" (partition_options.products) */
    const char *head, *moments; /* NULL: all there are, of heads those that differ; "auto" is the plan's own */
    bool lagged, early;         /* as in partition_training */
    const partition_batches *batches;
    int batch_count;
    int64_t context;
    const model_lora *lora;  /* NULL: all weights are trained; else the adapters alone, the base is frozen */
    const cost_rates *rates; /* NULL: what is assumed of the chip's host */
} partition_question;

typedef struct partition_candidate {
    const partition *partition; /* the comparison's */
    partition_cost cost;
    char refused[400]; /* by which known rule of the chip; "": by none */
    int number;        /* among all, in the order of the names, batches and modes */
} partition_candidate;

typedef struct partition_comparison {
    partition_candidate *list; /* those that no rule refuses first, the fastest first; equals by number */
    int count;
    partition **partitions;
    int partition_count;
    arena *arena;
} partition_comparison;

/* A plan that is not known gives no candidates. Whatever the status: partition_comparison_free. */
PROPANE_CHECK propane_status partition_compare(const model_config *config, const partition_question *q, const chip *c,
                                               partition_comparison *out, propane_error *err);
void partition_comparison_free(partition_comparison *p);
/* "plan six, head on the device, weights inputs, moments fp32" */
void partition_candidate_print(const partition_candidate *c, text *out);

#endif
