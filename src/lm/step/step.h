/* SPDX-License-Identifier: MIT
 * The training step: embedding, forward kernels, loss, backward kernels with the weight gradients in parallel, and
 * AdamW. Programs, buffers and requests are made once. A step allocates nothing, except that compiling baked weights
 * again does.
 */
#ifndef LM_STEP_STEP_H
#define LM_STEP_STEP_H

#include "core/base/timeline.h"
#include "lm/step/partition.h"
#include "lm/step/preference.h"
#include "train/optim/adamw.h"
#include "train/train_run.h"

typedef struct train_step_options {
    partition_options partition;
    propane_device *shared; /* used instead of opening a device, and outlives the step; `device` is its uri */
    const char *device;     /* uri; the host's kernels run on a cpu device, which is this one if it is a cpu */
    bool two_queues;        /* the host's kernels have a separate queue even on a cpu */
    weight_mode weights;
    moment_form moments;
    bool accumulate; /* there will be several batches per step */
    /* matrix products may round their operands to bfloat16 (PROPANE_PRECISION_BF16); sums and the rest stay fp32 */
    bool bf16;
    bool overlap; /* an update runs in parallel with kernels of a device that is not the host: see train_step_settle */
    bool early;   /* with `overlap`: allocate memory for speculative updates, 4 bytes per parameter plus its moments */
    /* the folder for the smallest program that the device refuses (core/refusal/refusal.h), or NULL for none */
    const char *bisect;
    timeline *timeline; /* borrowed; NULL records nothing */
    bool recompute;     /* keep only the inputs of the layers' halves and recompute the rest for the backward pass */
    /* [model_weights_total]: marks the trained tensors; copied. NULL means all or, with adapters, only the adapters. */
    const bool *trained;
} train_step_options;

typedef struct train_step train_step;

/* Returns whether a frozen model below adapters can keep the form of its file (lm/arch/stored_weights.h); otherwise
 * train_step_create makes fp32 masters. */
bool train_step_keeps_base(const char *device, bool two_queues, weight_mode weights, mil_dtype precision);

/* `weights` holds the master weights, or a frozen model in the form of its file. It belongs to the caller and must
 * outlive the step. */
PROPANE_CHECK propane_status train_step_create(const train_step_options *options, model_weights *weights,
                                               train_step **out, propane_error *err);
void train_step_free(train_step *s);

/* Runs forward pass, loss and backward pass of one batch, [B][S] each. With `first` the gradients are overwritten,
 * otherwise they are added to. They are the gradients of loss_scale times the mean loss. */
PROPANE_CHECK propane_status train_step_batch(train_step *s, const int32_t *inputs, const int32_t *targets, bool first,
                                              double loss_scale, double *loss, propane_error *err);
/* While `p` is set, batches and evaluations consist of pairs of windows. Their loss is the preference loss, and `p`
 * receives the results of each. NULL selects cross-entropy. Borrowed. */
void train_step_prefer(train_step *s, preference *p);
/* Ranks of one training run (train/dist/allreduce.h) sum their gradients. While it is set, train_step_batch calls
 * `ready` for each gradient as soon as its last kernel has run, and `finish` at the end, on the calling thread. NULL
 * means a single rank. */
typedef struct train_reduce {
    void *context;
    propane_status (*ready)(void *context, int tensor, float *gradient, propane_error *err);
    propane_status (*finish)(void *context, propane_error *err);
} train_reduce;
void train_step_reduce(train_step *s, const train_reduce *reduce); /* borrowed */
/* Sets order [train_step_updated_count] to the tensors in the order in which the backward pass makes their gradients.
 * Here and below, tensors are numbered among the trained ones. */
void train_step_gradient_order(const train_step *s, int *order);
/* Restricts the norm and the update to these pieces. train_step_publish brings the device's copies up to date. */
typedef struct train_piece {
    int tensor;
    int64_t begin, end;
} train_piece;
PROPANE_CHECK propane_status train_step_own(train_step *s, const train_piece *pieces, int count, propane_error *err);

/* Runs only the forward pass and the loss; `nats` [B][S] may be NULL. Without `accumulate`, the gradients of the
 * previous batch are lost. */
PROPANE_CHECK propane_status train_step_evaluate(train_step *s, const int32_t *inputs, const int32_t *targets,
                                                 double *nats, double *loss, propane_error *err);
PROPANE_CHECK propane_status train_step_gradient_norm(train_step *s, double *norm, propane_error *err);
/* Applies AdamW to all weights and updates their copies on the device, except baked ones (see train_step_refresh). With
 * `overlap` it may still be running when this returns. Batches and evaluations wait for what they need; anyone else
 * must call train_step_settle before reading the master weights. A later failure is reported by settle and by the next
 * batch. */
PROPANE_CHECK propane_status train_step_update(train_step *s, const adamw_step *how, propane_error *err);
PROPANE_CHECK propane_status train_step_settle(train_step *s, propane_error *err);
/* Makes this update part of the next batch: with `overlap`, weights are updated as soon as their gradients are
 * complete. Call it before the last batch of a step, instead of train_step_update. */
void train_step_update_in_batch(train_step *s, const adamw_step *how);
/* The same, speculatively: train_step_update confirms or corrects it after the batch; the bits are the same as without
 * it. If it is not confirmed before the next batch, it is undone. Does nothing if a step does not support such
 * updates. */
void train_step_update_speculative(train_step *s, const adamw_step *how);
/* Must be called after the master weights were changed from outside. */
PROPANE_CHECK propane_status train_step_publish(train_step *s, propane_error *err);

/* Compiles baked weights that are out of date. Must be called between an update and the next batch; does nothing with
 * weights as inputs. */
PROPANE_CHECK propane_status train_step_refresh(train_step *s, propane_error *err);
int train_step_compiles(const train_step *s);      /* compiles by the device so far */
int train_step_compile_limit(const train_step *s); /* the device's limit; 0 means none */
/* Describes in words how the device's programs were made and what it chose when it was opened. "" if there is nothing
 * to report. */
const char *train_step_sharing(const train_step *s);
const char *train_step_device_note(const train_step *s);
int train_step_refresh_cost(const train_step *s); /* compiles that the next refresh makes; 0 if all is up to date */

bool train_step_trains(const train_step *s, int tensor);
/* The trained tensors, in the registry's order. */
int train_step_updated_count(const train_step *s);
int train_step_updated(const train_step *s, int index);
/* Returns the first or second (`which` 1 or 2) moments of a tensor, or NULL if it is not trained. */
float *train_step_moment(train_step *s, int which, int tensor);
/* Moments stored in fewer bytes are returned as an fp32 copy, which is valid until the next call. This function writes
 * the copy back. */
void train_step_moment_keep(train_step *s, int which, int tensor);
/* Elements [begin, end) belong to another rank. Whole pages that hold only such elements are returned to the system. */
void train_step_moment_discard(train_step *s, int which, int tensor, int64_t begin, int64_t end);
/* Fills in the dropout of the adapters' inputs for the next batch. Its first sequence is seeded with `key`, the next
 * one with `key` + 1, so parts of a batch drop the same elements as the whole. 0 means none, as in evaluations. Does
 * nothing if the model has no dropout. */
PROPANE_CHECK propane_status train_step_dropout(train_step *s, uint64_t key, propane_error *err);
/* Copies the gradient of a trained tensor; its element count is in the registry. */
PROPANE_CHECK propane_status train_step_gradient(train_step *s, int tensor, float *out, propane_error *err);
/* Totals of one kernel of the plan, by its index, since the step was made. */
typedef struct train_kernel_time {
    const char *name;
    bool host;
    int64_t calls, ns;
    int64_t engine_ns;   /* measured by the engine's clock; negative if it is not provided */
    int64_t repeats;     /* runs that the device cancelled and that were submitted again */
    double flops, bytes; /* per call, as the plan counts them, including what a causal mask skips */
} train_kernel_time;
int train_step_kernel_count(const train_step *s);
train_kernel_time train_step_kernel_time(const train_step *s, int kernel);
/* Nanoseconds since the last call: kernels on the device; kernels and other code on the host. */
void train_step_times(train_step *s, int64_t *device_ns, int64_t *host_ns);
/* Totals of the device's kernels since the last call. */
train_simulated train_step_simulated(train_step *s);
/* Returns the bytes of values that pass between kernels, without the gradients, whose memory they may share. */
size_t train_step_activation_bytes(const train_step *s);

#endif
