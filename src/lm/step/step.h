/* SPDX-License-Identifier: MIT
 * The training step: embed, forward kernels, loss, backward kernels with the weight gradients beside them, AdamW.
 * Programs, buffers and requests are made once; a step allocates nothing (with baked weights, compiling again does).
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
    propane_device *shared; /* used instead of an own one, outlives the step; `device` says which it is */
    const char *device;     /* uri; the host's kernels run on a cpu device, which is this one if it is a cpu */
    bool two_queues;        /* the host's kernels have a queue of their own even on a cpu */
    weight_mode weights;
    moment_form moments;
    bool accumulate; /* several batches a step will be wanted */
    bool bf16; /* products may round their operands to bfloat16 (PROPANE_PRECISION_BF16); sums and the rest stay fp32 */
    bool overlap; /* an update goes on beside kernels of a device that is not the host: see train_step_settle */
    bool early;   /* with `overlap`: memory for updates that are guessed, 4 bytes a parameter and its moments' */
    /* the folder for the smallest program that the device refuses (core/refusal/refusal.h); NULL: none */
    const char *bisect;
    timeline *timeline; /* borrowed; NULL: nothing is recorded */
    bool recompute;     /* keep the inputs of the layers' halves alone, compute the rest again for the backward pass */
    /* [model_weights_total]: which tensors are learnt; copied. NULL: all, or with adapters only those */
    const bool *trained;
} train_step_options;

typedef struct train_step train_step;

/* `weights` stays the caller's and must outlive the step; it holds the master weights. */
PROPANE_CHECK propane_status train_step_create(const train_step_options *options, model_weights *weights,
                                               train_step **out, propane_error *err);
void train_step_free(train_step *s);
const partition *train_step_partition(const train_step *s);

/* Forward, loss and backward of one batch, [B][S] each. `first`: gradients start anew, otherwise they are added to.
 * They are those of loss_scale times the mean loss. */
PROPANE_CHECK propane_status train_step_batch(train_step *s, const int32_t *inputs, const int32_t *targets, bool first,
                                              double loss_scale, double *loss, propane_error *err);
/* While it is set, batches and evaluations are of pairs of windows, and their loss is the preference's, which receives
 * what came out of each; NULL: cross-entropy. Borrowed. */
void train_step_prefer(train_step *s, preference *p);
/* Ranks of one training (train/dist/allreduce.h) add up their gradients. While it is set, train_step_batch hands each
 * gradient over as soon as its last kernel has run, on the calling thread, and calls `finish` at the end; NULL:
 * alone. */
typedef struct train_reduce {
    void *context;
    propane_status (*ready)(void *context, int tensor, float *gradient, propane_error *err);
    propane_status (*finish)(void *context, propane_error *err);
} train_reduce;
void train_step_reduce(train_step *s, const train_reduce *reduce); /* borrowed */
/* order [train_step_learnt_count]: the tensors as the backward pass makes their gradients. Here and below they are
 * numbered among those that are learnt. */
void train_step_gradient_order(const train_step *s, int *order);
/* From now on the norm is taken of these pieces only and the update moves these only; what the device reads follows
 * with train_step_publish. */
typedef struct train_piece {
    int tensor;
    int64_t begin, end;
} train_piece;
PROPANE_CHECK propane_status train_step_own(train_step *s, const train_piece *pieces, int count, propane_error *err);

/* Forward and loss only; `nats` [B][S] may be NULL. Without `accumulate` the gradients of the batch before are gone
 * then. */
PROPANE_CHECK propane_status train_step_evaluate(train_step *s, const int32_t *inputs, const int32_t *targets,
                                                 double *nats, double *loss, propane_error *err);
PROPANE_CHECK propane_status train_step_gradient_norm(train_step *s, double *norm, propane_error *err);
/* AdamW over all weights; their copies on the device follow, except baked ones: see refresh. With `overlap` it may
 * still be under way when this returns: batches and evaluations wait for what they need, and before anybody else looks
 * at the master weights, they settle it. A failure that comes later is reported by settle and by the next batch. */
PROPANE_CHECK propane_status train_step_update(train_step *s, const adamw_step *how, propane_error *err);
PROPANE_CHECK propane_status train_step_settle(train_step *s, propane_error *err);
/* The next batch brings this update with it: with `overlap` weights move as soon as their gradients are complete. To be
 * called before the last batch of a step, instead of train_step_update. */
void train_step_update_beside(train_step *s, const adamw_step *how);
/* The same as a guess, which train_step_update confirms after the batch, or corrects: the bits are those of a step
 * without it. Not confirmed before the next batch, it has never been. Does nothing where a step has no such updates. */
void train_step_update_guess(train_step *s, const adamw_step *how);
/* After the master weights were changed from outside. */
PROPANE_CHECK propane_status train_step_publish(train_step *s, propane_error *err);

/* Baked weights that are not up to date are compiled again. Must be called between an update and the next batch; does
 * nothing with weights as inputs. */
PROPANE_CHECK propane_status train_step_refresh(train_step *s, propane_error *err);
int train_step_compiles(const train_step *s);      /* of the device, so far */
int train_step_compile_limit(const train_step *s); /* the device's own; 0: none */
/* In words: how the device's programs were made, and what it chose when it was opened; "": nothing to say. */
const char *train_step_sharing(const train_step *s);
const char *train_step_device_note(const train_step *s);
int train_step_refresh_cost(const train_step *s); /* compiles that the next refresh makes; 0: up to date */

bool train_step_trains(const train_step *s, int tensor);
/* The tensors that are learnt, in the registry's order. */
int train_step_learnt_count(const train_step *s);
int train_step_learnt(const train_step *s, int index);
/* First or second (`which` 1 or 2) moments of a tensor; NULL where it is not learnt. */
float *train_step_moment(train_step *s, int which, int tensor);
/* Moments that are stored in fewer bytes are a copy in fp32, until the next call: this takes the copy back. */
void train_step_moment_keep(train_step *s, int which, int tensor);
/* Elements [begin, end) of it are another rank's: what holds them whole pages goes back to the system. */
void train_step_moment_discard(train_step *s, int which, int tensor, int64_t begin, int64_t end);
/* What the optimiser keeps: gradients and moments. */
size_t train_step_state_bytes(const train_step *s);
/* Dropout of the adapters' inputs in the batch to come: its first sequence is seeded by `key`, the next one by `key` +
 * 1, so that parts of a batch drop what the whole does. 0: none, as in evaluations. Does nothing where the model has no
 * dropout. */
PROPANE_CHECK propane_status train_step_dropout(train_step *s, uint64_t key, propane_error *err);
/* Copies the gradient of a tensor that is learnt; count as in the registry. */
PROPANE_CHECK propane_status train_step_gradient(train_step *s, int tensor, float *out, propane_error *err);
/* What a kernel of the plan, by its index, has come to since the step was made. */
typedef struct train_kernel_time {
    const char *name;
    bool host;
    int64_t calls, ns;
    int64_t engine_ns;   /* by the engine's own clock; negative: not given */
    int64_t repeats;     /* runs that the device cancelled and got again */
    double flops, bytes; /* of one call, as the plan counts them: what a causal mask spares is in them */
} train_kernel_time;
int train_step_kernel_count(const train_step *s);
train_kernel_time train_step_kernel_time(const train_step *s, int kernel);
/* Nanoseconds since the last call: kernels on the device, kernels and own code on the host. */
void train_step_times(train_step *s, int64_t *device_ns, int64_t *host_ns);
/* What the device's kernels came to since the last call. */
train_simulated train_step_simulated(train_step *s);
/* What values that pass between kernels take beyond the gradients, whose memory they may share. */
size_t train_step_activation_bytes(const train_step *s);

#endif
