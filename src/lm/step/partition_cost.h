/* SPDX-License-Identifier: MIT
 * The cost of a plan's training step on a chip. The engine's part comes from the model in src/ane/chip, the host's from
 * assumed rates of that chip's processor (cost_step.h). How the two overlap follows the order in which lm/step fills
 * its queues. Costs are estimated, never measured.
 */
#ifndef LM_STEP_PARTITION_COST_H
#define LM_STEP_PARTITION_COST_H

#include "ane/chip/cost_rates.h"
#include "lm/step/partition.h"
#include "train/optim/moments.h"

/* One kernel, summed over all its calls in a step. */
typedef struct partition_kernel_cost {
    const partition_kernel *kernel;
    int calls;
    double ms, energy_mj, utilisation, bytes; /* for host kernels, energy and utilisation are 0 */
} partition_kernel_cost;

/* How a plan is trained. */
typedef struct partition_training {
    weight_mode weights;
    int64_t accumulate; /* batches per update */
    moment_form moments;
    bool lagged; /* --clip-norm lagged: weights are updated as soon as their gradients are complete */
    /* --overlap early: exact clipping with speculative updates, all of which are assumed to be confirmed. In a
     * partition_cost, false if the plan does not allow speculative updates */
    bool early;
    const cost_rates *rates; /* NULL for the rates assumed for the chip's host */
} partition_training;

typedef struct partition_cost {
    const chip *chip;
    partition_training how;
    double engine_ms;  /* device kernels, one after the other */
    double staging_ms; /* host kernels that only convert and add the residual stream */
    double host_ms;    /* other host kernels in the chain: norms, and the head if the plan leaves it there */
    double loss_ms;
    double products_ms; /* weight gradients, which overlap with the engine as far as its queue allows */
    /* time by which weight gradients, and waits for the host's queue, make a batch longer than its chain */
    double exposed_ms;
    double pass_ms;  /* forward and backward of one batch */
    double sweep_ms; /* AdamW plus writing the weights for the device, per batch */
    /* the part of sweep_ms that the batches do not hide, plus the time by which the update slows them down */
    double update_ms;
    double recompile_ms; /* time per batch to recompile baked weights or to load weights again */
    double compile_ms;   /* once, before the first step, for programs that no update recompiles */
    double step_ms;      /* pass, update and recompile, per batch */
    double low_ms, high_ms;
    double energy_j;                 /* the engine's energy */
    double host_j, memory_j, idle_j; /* per batch: the processor while it computes, memory traffic, an idle machine */
    double host_busy_ms;             /* all processor work of a batch, whether or not it overlaps with the engine */
    double engine_flops, host_flops; /* per batch */
    double utilisation;              /* engine arithmetic relative to its peak over the whole step */
    double tokens_per_s;
    /* of weights that are constants of programs; a weight in two programs counts twice */
    double constant_bytes;
    int programs, compiles, reloads; /* programs compiled once; compiles and loads after each update */
    int restarts_per_100;            /* exec() restarts in 100 updates with a budget of 119 compiles */
    int kernel_count;
    partition_kernel_cost *kernels;
} partition_cost;

static inline double partition_cost_joules(const partition_cost *c) {
    return c->energy_j + c->host_j + c->memory_j + c->idle_j;
}
double partition_update_bytes(moment_form form); /* bytes that AdamW reads and writes per parameter */
PROPANE_CHECK propane_status partition_cost_on(const partition *p, const chip *c, const partition_training *how,
                                               arena *a, partition_cost *out, propane_error *err);

#endif
