/* SPDX-License-Identifier: MIT
 * What a plan's training step would cost on a chip: the engine's part from the model of src/ane/chip, the host's from
 * assumed rates of that chip's processor (cost_step.h), and how the two overlap as train/step orders their queues.
 * Estimated, never measured.
 */
#ifndef LM_STEP_PARTITION_COST_H
#define LM_STEP_PARTITION_COST_H

#include "ane/chip/cost_rates.h"
#include "lm/step/partition.h"
#include "train/optim/moments.h"

/* One kernel, all its calls in a step. */
typedef struct partition_kernel_cost {
    const partition_kernel *kernel;
    int calls;
    double ms, energy_mj, utilisation, bytes; /* host kernels: energy and utilisation 0 */
} partition_kernel_cost;

/* How a plan is trained. */
typedef struct partition_training {
    weight_mode weights;
    int64_t accumulate; /* batches to an update */
    moment_form moments;
    bool lagged; /* --clip-norm lagged: weights move as soon as their gradients are complete */
    bool early; /* --overlap early: the same for exact ones, if all guesses are right; of a cost: where they are made */
    const cost_rates *rates; /* NULL: what is assumed of the chip's host */
} partition_training;

typedef struct partition_cost {
    const chip *chip;
    partition_training how;
    double engine_ms;  /* device kernels, one after the other */
    double staging_ms; /* host kernels that only convert and add the residual stream */
    double host_ms;    /* other host kernels in the chain: norms, and the head where the plan leaves it there */
    double loss_ms;
    double products_ms;  /* weight gradients: beside the engine, as far as its queue lets them */
    double exposed_ms;   /* what of them, and of waiting for the host's queue, makes a batch longer than its chain */
    double pass_ms;      /* forward and backward of one batch */
    double sweep_ms;     /* AdamW and writing the weights where the device reads them, per batch */
    double update_ms;    /* what of that the batches do not hide, and what it slows them down by */
    double recompile_ms; /* per batch: baked weights compiled, or weights to reload loaded again */
    double compile_ms;   /* once, before the first step: programs that no update makes again */
    double step_ms;      /* pass, update and recompile, per batch */
    double low_ms, high_ms;
    double energy_j;                 /* of the engine */
    double host_j, memory_j, idle_j; /* per batch: the processor while it computes, what it moves, a machine at rest */
    double host_busy_ms;             /* all the processor's work of a batch, beside the engine or not */
    double engine_flops, host_flops; /* of a batch */
    double utilisation;              /* engine arithmetic against its roof over the whole step */
    double tokens_per_s;
    int programs, compiles, reloads; /* compiled once; compiled again, loaded again after each update */
    int restarts_per_100;            /* exec() restarts in 100 updates with a budget of 119 compiles */
    int kernel_count;
    partition_kernel_cost *kernels;
} partition_cost;

static inline double partition_cost_joules(const partition_cost *c) {
    return c->energy_j + c->host_j + c->memory_j + c->idle_j;
}
double partition_update_bytes(moment_form form); /* moved by AdamW, a parameter */
PROPANE_CHECK propane_status partition_cost_on(const partition *p, const chip *c, const partition_training *how,
                                               arena *a, partition_cost *out, propane_error *err);

#endif
