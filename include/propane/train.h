/* SPDX-License-Identifier: MIT
 * Owns training: options, data and runs. One trainer serves language models and imported programs. The rules that
 * hold for every call are at the top of propane.h.
 */
#ifndef PROPANE_TRAIN_H
#define PROPANE_TRAIN_H

#include "propane/device.h"

PROPANE_BEGIN

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* The options of a run, by the names of `propane train`'s flags without "--". For one thread at a time. */
typedef struct propane_options propane_options;

typedef enum propane_training {
    PROPANE_TRAIN_LANGUAGE, /* a language model, as `propane train --data FILE` */
    PROPANE_TRAIN_PROGRAM   /* weights of a Core ML model or MIL program, as `propane train MODEL` */
} propane_training;

/* Creates options with all defaults and no run folder, so that nothing is written. */
PROPANE_CHECK propane_status propane_options_create(propane_training kind, propane_options **out, propane_error *err);
void propane_options_free(propane_options *options);
/* Sets an option as on the command line: "lr" "3e-4"; a switch is "true" or "false". The value is copied. An option
 * of type "list" gets one more value. Returns PROPANE_ERR_NOT_FOUND if no option has that name, and
 * PROPANE_ERR_INVALID if the value is not allowed. */
PROPANE_CHECK propane_status propane_options_set(propane_options *options, const char *name, const char *value,
                                                 propane_error *err);
/* Returns the option's value as text; free it with propane_free. */
PROPANE_CHECK propane_status propane_options_get(const propane_options *options, const char *name, char **out,
                                                 propane_error *err);
/* Sets options from a JSON object of names and values, {"lr": 3e-4, "shuffle": false}, with lists for options of
 * type "list". Sets all or none. `source` is the text's name in messages; NULL means "the options". */
PROPANE_CHECK propane_status propane_options_parse(propane_options *options, const char *json, size_t length,
                                                   const char *source, propane_error *err);
/* Does the same from a file. Returns PROPANE_ERR_UNSUPPORTED for a model's config.json, which is a value of the
 * option "config". */
PROPANE_CHECK propane_status propane_options_load(propane_options *options, const char *path, propane_error *err);
/* Gives each option that was not set the value from the run's start, if "resume" is set and the folder "run" has a
 * checkpoint. */
PROPANE_CHECK propane_status propane_options_recall(propane_options *options, propane_error *err);
/* Reports what is missing, out of range or contradictory. Creating a trainer also recalls and checks. */
PROPANE_CHECK propane_status propane_options_check(const propane_options *options, propane_error *err);

typedef struct propane_option_info {
    size_t size;       /* sizeof(propane_option_info), set by the caller; strings are static */
    const char *name;  /* "lr" */
    const char *type;  /* "int", "real", "bool", "text", "choice", "list" */
    const char *words; /* of a choice: "a|b|c"; otherwise the value's name in help texts, or NULL */
    double min, max;   /* of numbers, both included; a default may be outside */
    const char *group; /* "data", "model", "trained", "training", "machine", "ranks", "run" */
    const char *help;
    const char *standard; /* the default as text; NULL if there is none */
    bool fixed;           /* a resumed run must have the value from its start */
    bool given;           /* it was set */
} propane_option_info;
/* Describes an option of that kind of training, with `index` from 0. Returns false after the last one. */
bool propane_options_describe(const propane_options *options, int index, propane_option_info *out);

/* The processes that one mpirun (Open MPI) started. *out is NULL with PROPANE_OK if this process was not started
 * so. Open it once per process; all ranks must create the same trainers in the same order. */
typedef struct propane_ranks propane_ranks;
PROPANE_CHECK propane_status propane_ranks_open(propane_ranks **out, propane_error *err);
/* NULL means rank 0 of 1, a single process. */
int propane_ranks_rank(const propane_ranks *ranks);
int propane_ranks_count(const propane_ranks *ranks);
/* Ends the processes of all ranks. A rank that fails must call it, because the others would wait for it. Does not
 * return. */
void propane_ranks_abort(propane_ranks *ranks, int code);
void propane_ranks_close(propane_ranks *ranks); /* waits for the other ranks */
/* Trainers created with these options share their work with the other ranks; `ranks` must outlive them. NULL to
 * work alone. */
void propane_options_set_ranks(propane_options *options, propane_ranks *ranks);

/* Trainers created with these options use this device, which others may use too; it must outlive them. With NULL,
 * each trainer opens the device of the option "device". */
PROPANE_CHECK propane_status propane_options_set_device(propane_options *options, propane_device *device,
                                                        propane_error *err);

/* An array of samples, dense, row major; the number of samples is dim[0]. */
typedef struct propane_tensor {
    const char *name; /* of the program's input, "x" if it has only one; "y" is the target */
    propane_dtype dtype;
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
    const void *values;
} propane_tensor;

typedef struct propane_tokenizer propane_tokenizer; /* lm.h */

/* Training data in memory, instead of the option "data". It must outlive the trainer and must not change. */
typedef struct propane_data {
    size_t size;      /* sizeof(propane_data) */
    const char *text; /* for a language model: UTF-8, */
    size_t length;    /* in bytes, */
    bool examples;    /* of instruction data: one JSON object per line; */
    const int32_t *ids;
    int64_t id_count;                   /* or tokens */
    const propane_tokenizer *tokenizer; /* for ids; NULL means the one of the options or of the initial model */
    const propane_tensor *arrays;       /* for a program: its inputs and y, float (the class as an integer) */
    int array_count;
    const propane_tensor *validation; /* the same for validation; NULL means the part "val-fraction" of the arrays */
    int validation_count;
} propane_data;

typedef struct propane_trainer propane_trainer;

/* Reads what the options name, creates or resumes the run, and compiles. If `data` is NULL, the option "data" is
 * used. The options are copied. */
PROPANE_CHECK propane_status propane_trainer_create(const propane_options *options, const propane_data *data,
                                                    propane_trainer **out, propane_error *err);
/* Frees the trainer. Work since the last checkpoint is lost. */
void propane_trainer_free(propane_trainer *trainer);

typedef struct propane_step {
    size_t size;  /* sizeof(propane_step), set by the caller */
    int64_t step; /* 1 after the first step */
    double loss;  /* mean over everything that counts in its batches; in nats per token for a language model */
    double lr, loss_scale, gradient_norm;
    bool skipped; /* a gradient was not finite, so the weights did not change */
    double rate;  /* tokens or samples per second */
    double device_ms, host_ms;
    /* The chip whose model produced device_ms and the fields below, static; NULL if they were measured. */
    const char *simulated;
    double energy_j, flops;
    double utilisation;  /* part of the arithmetic that the chip can do in device_ms; 0 if not known */
    int64_t outer_bytes; /* "outer": sent by this rank for an agreement that began here, or for a warm-up step */
    int64_t staleness;   /* "outer": steps since the ranks last agreed on the weights; else -1 */
    double outer_ms;     /* "outer": time of the step spent on agreeing, including waiting for messages */
} propane_step;

typedef struct propane_evaluation {
    size_t size; /* sizeof(propane_evaluation), set by the caller */
    int64_t step;
    double loss;          /* of the held-out data, as in propane_step */
    double nats_per_byte; /* negative if not known */
    double accuracy;      /* fraction classified correctly; negative if not known */
} propane_evaluation;

/* Each callback may be NULL and is called in the thread that runs. It may cancel the trainer and query it, and
 * nothing else. */
typedef struct propane_trainer_callbacks {
    size_t size; /* sizeof(propane_trainer_callbacks) */
    void *context;
    void (*on_step)(void *context, const propane_step *step);
    void (*on_evaluation)(void *context, const propane_evaluation *evaluation);
    void (*on_checkpoint)(void *context, int64_t step, const char *path);
} propane_trainer_callbacks;

/* Trains to the last step, with the validations and checkpoints that the options ask for, then writes the model,
 * the adapter or the package to the folder. Returns PROPANE_ERR_CANCELLED if it stopped after a batch: the
 * checkpoint is written, and it may be called again. Returns PROPANE_ERR_LIMIT if the training has diverged. If
 * propane_trainer_describe sets `restart`, PROPANE_ERR_LIMIT means that this process may compile nothing more: the
 * checkpoint is written, and another process must continue with "resume". `callbacks` may be NULL. */
PROPANE_CHECK propane_status propane_trainer_run(propane_trainer *trainer, const propane_trainer_callbacks *callbacks,
                                                 propane_error *err);
/* Does the same for at most `steps` more steps (0 or less means to the last one), then returns PROPANE_OK and may
 * be called again. The result is written to the folder only after the last step of the run. */
PROPANE_CHECK propane_status propane_trainer_advance(propane_trainer *trainer, int64_t steps,
                                                     const propane_trainer_callbacks *callbacks, propane_error *err);
/* Trains one step and nothing else, for callers with their own loop. Returns PROPANE_ERR_INVALID if all steps are
 * done. After PROPANE_ERR_CANCELLED nothing has changed. `out` may be NULL. */
PROPANE_CHECK propane_status propane_trainer_step(propane_trainer *trainer, propane_step *out, propane_error *err);
/* Evaluates the current weights. Returns PROPANE_ERR_INVALID if nothing is held out. `out` may be NULL. */
PROPANE_CHECK propane_status propane_trainer_evaluate(propane_trainer *trainer, propane_evaluation *out,
                                                      propane_error *err);
/* Writes the checkpoint. Returns PROPANE_ERR_INVALID if there is no run folder. */
PROPANE_CHECK propane_status propane_trainer_save(propane_trainer *trainer, propane_error *err);
/* Writes the current weights to any path: a language model in the format that the name decides
 * (propane_model_save), with its adapters merged; a program as a package. With several ranks, only the rank that
 * writes files does so. */
PROPANE_CHECK propane_status propane_trainer_write(propane_trainer *trainer, const char *path, propane_error *err);
/* Ends the current run or step, or else the next one, as PROPANE_ERR_CANCELLED after its batch. May be called from
 * any thread and from a signal handler. */
void propane_trainer_cancel(propane_trainer *trainer);
/* Makes propane_trainer_run write the checkpoint after the current step and continue. May be called from any thread
 * and from a signal handler. */
void propane_trainer_ask_save(propane_trainer *trainer);

typedef struct propane_trainer_info {
    size_t size;         /* sizeof(propane_trainer_info), set by the caller */
    const char *unit;    /* of the data: "tokens", "samples" */
    int64_t step, steps; /* steps done; steps in all */
    int64_t parameters;  /* trained parameters */
    int64_t held_out;    /* tokens or samples that are not trained on */
    int64_t count;       /* tokens or samples in all */
    bool writes;         /* with several ranks: this one writes the files */
    bool restart;        /* see propane_trainer_run */
    int64_t best_step;   /* of the lowest validation loss; -1 if there was none */
    double best_loss;
    bool kept; /* its weights are what the run writes at its end */
    bool over; /* validation has not improved for as long as the option "patience" allows */
} propane_trainer_info;
bool propane_trainer_describe(const propane_trainer *trainer, propane_trainer_info *out);
/* Returns the facts of the run as a JSON object: sizes, device, kernels, data. The text is terminated; free it with
 * propane_free. */
PROPANE_CHECK propane_status propane_trainer_facts(const propane_trainer *trainer, char **out, propane_error *err);
/* Returns an option's value in this run, with defaults resolved. Free it with propane_free. */
PROPANE_CHECK propane_status propane_trainer_option(const propane_trainer *trainer, const char *name, char **out,
                                                    propane_error *err);
/* A trained tensor: of a language model, under the names in its files (only the adapters' tensors if there are
 * any); of a program, a weight. */
typedef struct propane_trained_tensor {
    size_t size;      /* sizeof(propane_trained_tensor), set by the caller */
    const char *name; /* the trainer owns it */
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
    int64_t count; /* elements: the product of the dimensions */
} propane_trained_tensor;
/* Describes a trained tensor, with `index` from 0. Returns false after the last one. */
bool propane_trainer_tensor(const propane_trainer *trainer, int index, propane_trained_tensor *out);
/* Copies the current values of such a tensor as fp32; `count` must be the tensor's. Here and below,
 * PROPANE_ERR_UNSUPPORTED is returned with the option "compact-vocab", whose rows represent different ids in each run.
 * */
PROPANE_CHECK propane_status propane_trainer_get(const propane_trainer *trainer, int index, float *values,
                                                 int64_t count, propane_error *err);
/* Sets values of trained tensors by name, with their shapes and in fp32. Moments, the data's order and the schedule
 * stay. PROPANE_ERR_NOT_FOUND and PROPANE_ERR_INVALID (another shape or type, or a number that is not finite; the
 * error names the tensor and the place) change nothing. Returns PROPANE_ERR_UNSUPPORTED with several ranks. */
PROPANE_CHECK propane_status propane_trainer_set(propane_trainer *trainer, const propane_tensor *tensors, int count,
                                                 propane_error *err);
/* With the option "profile": where the time went, one row per kernel or step. For a language model `stage` is
 * "device" or "host". See propane_program_profile_get. */
int propane_trainer_profile_count(const propane_trainer *trainer);
bool propane_trainer_profile_get(const propane_trainer *trainer, int index, propane_profile_row *out);

PROPANE_END

#endif
