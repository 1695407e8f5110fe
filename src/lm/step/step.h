/* SPDX-License-Identifier: MIT
 * The training step: embedding, forward kernels, loss, backward kernels with the weight gradients in parallel, and
 * AdamW. Programs, buffers and requests are made once. A step allocates memory only if it compiles baked weights again.
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
    /* an open device to use, which must outlive the step; `device` is then its uri. NULL opens `device` */
    propane_device *shared;
    /* uri of the device, or NULL for "cpu". The host's kernels run on the same device if it is a cpu device, else on
     * another one */
    const char *device;
    bool two_queues; /* the host's kernels have a separate queue even if `device` is a cpu device */
    weight_mode weights;
    moment_form moments;
    bool accumulate; /* there will be several batches per step */
    /* matrix products may round their operands to bfloat16 (PROPANE_PRECISION_BF16); sums and all other operations stay
     * fp32 */
    bool bf16;
    /* an update runs in parallel with the kernels of a device other than the host (see train_step_settle) */
    bool overlap;
    bool early; /* with `overlap`: allocate memory for speculative updates, 4 bytes per parameter plus its moments */
    /* the folder that receives the smallest program that the device refuses (core/refusal/refusal.h); NULL writes
     * none */
    const char *bisect;
    timeline *timeline; /* borrowed; NULL records nothing */
    /* keep only the inputs of the layers' halves and recompute all other values for the backward pass */
    bool recompute;
    /* [model_weights_total]: marks the trained tensors; copied. NULL means all or, with adapters, only the adapters. */
    const bool *trained;
} train_step_options;

typedef struct train_step train_step;

/* Returns whether the frozen model of a run with adapters can keep the form of its file (lm/arch/stored_weights.h). If
 * not, train_step_create makes fp32 masters. */
bool train_step_keeps_base(const char *device, bool two_queues, weight_mode weights, mil_dtype precision);

/* `weights` holds the master weights, or a frozen model in the form of its file. The caller keeps `weights`, which must
 * outlive the step. */
PROPANE_CHECK propane_status train_step_create(const train_step_options *options, model_weights *weights,
                                               train_step **out, propane_error *err);
void train_step_free(train_step *s);

/* Runs forward pass, loss and backward pass of one batch; `inputs` and `targets` are [B][S]. The gradients are those of
 * loss_scale times the mean loss. They overwrite the previous ones if `first` is true and are added to them
 * otherwise. */
PROPANE_CHECK propane_status train_step_batch(train_step *s, const int32_t *inputs, const int32_t *targets, bool first,
                                              double loss_scale, double *loss, propane_error *err);
/* While `p` is set, batches and evaluations consist of pairs of windows. Their loss is the preference loss, and each of
 * them writes its results to `p`. NULL selects cross-entropy. `p` is borrowed. */
void train_step_prefer(train_step *s, preference *p);
/* How the ranks of one training run (train/dist/allreduce.h) sum their gradients. train_step_batch calls `ready` for
 * each gradient as soon as its last kernel has run, and `finish` at the end, both on the calling thread. */
typedef struct train_reduce {
    void *context;
    propane_status (*ready)(void *context, int tensor, float *gradient, propane_error *err);
    propane_status (*finish)(void *context, propane_error *err);
} train_reduce;
void train_step_reduce(train_step *s, const train_reduce *reduce); /* borrowed; NULL means a single rank */
/* Sets order [train_step_updated_count] to the tensors in the order in which the backward pass makes their gradients.
 * In `order`, train_reduce and train_piece, tensors are numbered among the trained ones. */
void train_step_gradient_order(const train_step *s, int *order);
/* Elements [begin, end) of a tensor. train_step_own restricts the norm and the update to such pieces;
 * train_step_publish then brings the device's copies up to date. */
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
/* Applies AdamW to all trained weights and updates their copies on the device, except baked ones (see
 * train_step_refresh). With `overlap`, the update may still be running when this function returns. Batches and
 * evaluations wait for the weights that they need; all other code must call train_step_settle before it reads the
 * master weights. If the update fails later, train_step_settle and the next batch return the error. */
PROPANE_CHECK propane_status train_step_update(train_step *s, const adamw_step *how, propane_error *err);
PROPANE_CHECK propane_status train_step_settle(train_step *s, propane_error *err);
/* Makes this update part of the next batch. With `overlap`, weights are updated as soon as their gradients are
 * complete. Call this function before the last batch of a step, instead of train_step_update. */
void train_step_update_in_batch(train_step *s, const adamw_step *how);
/* Makes this update part of the next batch speculatively: after the batch, train_step_update confirms or corrects the
 * update. The resulting bits are the same as without speculation. An update that is not confirmed before the next batch
 * is undone. Does nothing if the step does not support speculative updates. */
void train_step_update_speculative(train_step *s, const adamw_step *how);
/* Must be called after the master weights were changed from outside. */
PROPANE_CHECK propane_status train_step_publish(train_step *s, propane_error *err);

/* Compiles programs again whose baked weights are out of date. Must be called between an update and the next batch.
 * Does nothing if all weights are inputs. */
PROPANE_CHECK propane_status train_step_refresh(train_step *s, propane_error *err);
int train_step_compiles(const train_step *s);      /* compiles by the device so far */
int train_step_compile_limit(const train_step *s); /* the device's limit; 0 means none */
/* Return, in words, how the device's programs were made, and what the device chose when it was opened. Both return ""
 * if there is nothing to report. */
const char *train_step_sharing(const train_step *s);
const char *train_step_device_note(const train_step *s);
/* Returns the number of compiles that the next refresh makes, which is 0 if no baked weights are out of date. */
int train_step_refresh_cost(const train_step *s);

bool train_step_trains(const train_step *s, int tensor);
/* The trained tensors, in the registry's order. */
int train_step_updated_count(const train_step *s);
int train_step_updated(const train_step *s, int index);
/* Returns the first or second moments (`which` 1 or 2) of a tensor. Returns NULL if the tensor is not trained or an
 * update failed. */
float *train_step_moment(train_step *s, int which, int tensor);
/* Writes back the copy that train_step_moment returned. Moments stored in fewer than 4 bytes are returned as an fp32
 * copy, which is valid until the next call of train_step_moment. Does nothing for fp32 moments. */
void train_step_moment_keep(train_step *s, int which, int tensor);
/* Marks the moments [begin, end) as unused, because another rank owns these elements. Pages that hold no other moments
 * are returned to the system. */
void train_step_moment_discard(train_step *s, int which, int tensor, int64_t begin, int64_t end);
/* Fills in the dropout of the adapters' inputs for the next batch. The first sequence is seeded with `key`, the next
 * one with `key` + 1, so parts of a batch drop the same elements as the whole batch. Key 0 drops nothing, as
 * evaluations need. Does nothing if the model has no dropout. */
PROPANE_CHECK propane_status train_step_dropout(train_step *s, uint64_t key, propane_error *err);
/* Copies the gradient of a trained tensor; its element count is in the registry. */
PROPANE_CHECK propane_status train_step_gradient(train_step *s, int tensor, float *out, propane_error *err);
/* Totals of one kernel of the plan since the step was made. */
typedef struct train_kernel_time {
    const char *name;
    bool host;
    int64_t calls, ns;
    int64_t engine_ns;   /* measured by the engine's clock; negative if the device does not report it */
    int64_t repeats;     /* runs that were submitted again because the device had cancelled them */
    double flops, bytes; /* per call, as the plan counts them, including operations that a causal mask skips */
} train_kernel_time;
int train_step_kernel_count(const train_step *s);
train_kernel_time train_step_kernel_time(const train_step *s, int kernel);
/* Sets *device_ns to the time of the device's kernels since the last call, and *host_ns to the time of the host's
 * kernels and of other code on the host. */
void train_step_times(train_step *s, int64_t *device_ns, int64_t *host_ns);
/* Returns the totals of the simulated kernels since the last call. */
train_simulated train_step_simulated(train_step *s);
/* Returns the bytes of the values that pass between kernels. Gradients, whose memory the values may share, are not
 * counted. */
size_t train_step_activation_bytes(const train_step *s);

#endif
