/* SPDX-License-Identifier: MIT
 * A training run: options, data and model in, a checkpoint in a run folder out. Resumed from its checkpoint, a run goes on
 * bit for bit as if it had not been interrupted; with baked weights and a compile budget it asks to be started again when
 * the budget is used up.
 *
 * A run folder holds config.json, checkpoint.safetensors (weights under their Hugging Face names, moments as
 * optimizer.1.NAME and optimizer.2.NAME, the run's state in the metadata) and, once it is done, model.safetensors (weights
 * only). With adapters the checkpoint holds those alone, and instead of model.safetensors there are adapter_config.json and
 * adapter_model.safetensors (model/arch/lora.h).
 */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "train/data/jsonl.h"
#include "train/dist/mpi.h"
#include "train/optim/scaler.h"
#include "train/step/step.h"

#define TRAIN_CHECKPOINT "checkpoint.safetensors"
#define TRAIN_MODEL      "model.safetensors"
#define TRAIN_CONFIG     "config.json"

typedef struct train_options {
    int64_t steps, batch, context, accumulate;
    double lr, min_lr;
    int64_t warmup;
    double weight_decay, beta1, beta2, epsilon, clip; /* clip 0: none */
    int64_t seed;
    double held_out;        /* part of the data, at its end */
    const char *precision;  /* "fp32", "fp16", "bf16" */
    const char *plan;       /* "layer", "six", "ten" */
    const char *weights;    /* "inputs", "packed", "baked" */
    const char *device;     /* uri */
    int64_t compile_budget; /* programs that one process may compile for the device; 0: the device's own limit */
    int64_t eval_interval, eval_batches; /* 0: never; there is one at the end, too */
    int64_t checkpoint_interval;         /* 0: at the end only */
    const char *run_dir;                 /* NULL: nothing is written */
    bool resume;                         /* go on from the run folder's checkpoint */
    bool two_queues;                     /* as in train_step_options */
    int64_t
        compact_vocab; /* 1: only ids that occur in the data have rows and are predicted (train/data/compact_vocab.h) */
    mpi *mpi;          /* borrowed; NULL: alone. `batch` is that of all ranks together */
    const char *wire;  /* "fp32", "bf16", "fp16": gradients between ranks */
    bool shard;        /* moments are kept once among all ranks */
    int64_t bucket;    /* bytes of gradients that travel together; 0: the standard */
    int64_t pack;      /* several examples of instruction data in a window: 1 or 0 */
    const char *chat;  /* chat format of instruction data; "": the model's own */
    const char *trainable,
        *freeze;       /* lists of patterns of tensor names: what is learnt, what of it is not; "": all, none */
    int64_t recompute; /* 1: activations are computed again for the backward pass, see train_step_options */
    int64_t lora_rank; /* 0: no adapters */
    double lora_alpha, lora_dropout;
    const char *lora_targets; /* modules or patterns, separated by commas; "": what the architecture usually adapts */
    const char *adapter;      /* folder of an adapter to begin with, which has rank, alpha and targets; "": a new one */
    const char *base;         /* the model that the adapters are for, for messages and the adapter's configuration */
} train_options;

void train_options_default(train_options *o);

/* What to learn from and with. Everything is borrowed until the trainer is freed, except `config` and `initial`. */
typedef struct train_input {
    const model_config *config;
    model_weights
        *initial;       /* NULL: random. Their memory changes hands: it holds nothing afterwards. A resumed run ignores
                             * them, except with adapters, where they are the model that the run was begun with */
    const void *tokens; /* little endian, see token_bytes */
    int token_bytes;    /* 2 or 4 */
    int64_t token_count;
    const train_examples *examples; /* instruction data; then `tokens` is NULL and token_count counts theirs */
    const char *source;             /* where the tokens are from, for messages */
    const char *tokenizer_hash;     /* "" : not known */
    const int32_t *bytes_of_token;  /* [vocab]: of text; NULL: nats per byte are not known */
    uint64_t token_sum;             /* the trainer's own: tells other data of the same length */
} train_input;

typedef struct train_report {
    int64_t step; /* 1 after the first */
    double loss;  /* nats per token, mean over the step's batches */
    double lr, loss_scale, gradient_norm;
    bool skipped; /* a gradient was not finite: the weights did not move */
    double tokens_per_s, device_ms, host_ms;
    train_simulated simulated; /* then device_ms is a model's, too */
} train_report;

typedef struct train_evaluation {
    int64_t step;
    double val_loss;          /* nats per token */
    double val_nats_per_byte; /* negative: not known */
} train_evaluation;

/* Each may be NULL. */
typedef struct train_callbacks {
    void *context;
    void (*on_step)(void *context, const train_report *report);
    void (*on_evaluation)(void *context, const train_evaluation *evaluation);
    void (*on_checkpoint)(void *context, int64_t step, const char *path);
} train_callbacks;

typedef struct trainer trainer;

/* Checks the options (messages name the command's flags), reads the checkpoint if `resume`, compiles. Options that would
 * change the numbers of a resumed run must be those of its start: PROPANE_ERR_INVALID names the flag and both values. */
PROPANE_CHECK propane_status trainer_create(const train_options *options, const train_input *input, trainer **out,
                                            propane_error *err);
void trainer_free(trainer *t);
/* Until the last step. *cancel (NULL: never) becomes true: the batch is finished, a checkpoint written,
 * PROPANE_ERR_CANCELLED returned. *restart: the compile budget is used up, the checkpoint is written, and the rest belongs
 * to a new process with --resume. */
PROPANE_CHECK propane_status trainer_run(trainer *t, const train_callbacks *callbacks, const volatile bool *cancel,
                                         bool *restart, propane_error *err);
int64_t trainer_step(const trainer *t); /* steps done */
/* Instruction data: windows to train on; examples longer than one; of those, without anything left to learn. Else 0. */
void trainer_tell_data(const trainer *t, int64_t *windows, int64_t *cut, int64_t *empty);
int64_t trainer_learnt(const trainer *t); /* parameters that are */
model_weights *trainer_weights(trainer *t);
train_step *trainer_machine(trainer *t);

#endif
