/* SPDX-License-Identifier: MIT
 * Owns training: options, data and runs. One trainer serves language models and imported programs. The rules that
 * hold for every call are at the top of propane.h.
 */
#ifndef PROPANE_TRAIN_H
#define PROPANE_TRAIN_H

#include "propane/device.h"

PROPANE_BEGIN

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* The options of a run. Their names are those of `propane train`'s flags without "--". Only one thread at a time may
 * use the object. */
typedef struct propane_options propane_options;

typedef enum propane_training {
    PROPANE_TRAIN_LANGUAGE, /* trains a language model, as `propane train --data FILE` does */
    PROPANE_TRAIN_PROGRAM   /* trains weights of a Core ML model or MIL program, as `propane train MODEL` does */
} propane_training;

/* Creates options that all have their defaults. No run folder is set, so nothing is written. */
PROPANE_CHECK propane_status propane_options_create(propane_training kind, propane_options **out, propane_error *err);
void propane_options_free(propane_options *options);
/* Sets an option from a text as on the command line, for example "lr" to "3e-4". The value of a switch is "true" or
 * "false". The value is copied. For an option of type "list" the value is added to the list. Returns
 * PROPANE_ERR_NOT_FOUND if no option has that name, and PROPANE_ERR_INVALID if the value is not allowed. */
PROPANE_CHECK propane_status propane_options_set(propane_options *options, const char *name, const char *value,
                                                 propane_error *err);
/* Returns the option's value as text; free it with propane_free. */
PROPANE_CHECK propane_status propane_options_get(const propane_options *options, const char *name, char **out,
                                                 propane_error *err);
/* Sets options from a JSON object of names and values, for example {"lr": 3e-4, "shuffle": false}. The value of an
 * option of type "list" is an array. Sets all or none. `source` is the text's name in messages; NULL means "the
 * options". */
PROPANE_CHECK propane_status propane_options_parse(propane_options *options, const char *json, size_t length,
                                                   const char *source, propane_error *err);
/* Sets options from a file with such an object. Returns PROPANE_ERR_UNSUPPORTED for a model's config.json, whose path
 * is a value of the option "config". */
PROPANE_CHECK propane_status propane_options_load(propane_options *options, const char *path, propane_error *err);
/* Recalls the options of a resumed run. If the option "resume" is set and the folder of the option "run" has a
 * checkpoint, each option that was not given gets its value from the start of that run. */
PROPANE_CHECK propane_status propane_options_recall(propane_options *options, propane_error *err);
/* Checks that no option is missing, out of range or in contradiction to another one. propane_trainer_create also
 * recalls and checks its options. */
PROPANE_CHECK propane_status propane_options_check(const propane_options *options, propane_error *err);

typedef struct propane_option_info {
    size_t size;       /* sizeof(propane_option_info), set by the caller; strings are static */
    const char *name;  /* "lr" */
    const char *type;  /* "int", "real", "bool", "text", "choice", "list" */
    const char *words; /* for a choice: "a|b|c"; otherwise the value's name in help texts, or NULL */
    double min, max;   /* for numbers: the allowed range, both ends included; a default may be outside */
    const char *group; /* "data", "model", "trained", "training", "machine", "ranks", "run" */
    const char *help;
    const char *standard; /* the default as text; NULL if there is none */
    bool fixed;           /* a resumed run must keep the value that it started with */
    bool given;           /* the option was set */
} propane_option_info;
/* Describes an option of that kind of training, with `index` from 0. Returns false after the last one. */
bool propane_options_describe(const propane_options *options, int index, propane_option_info *out);

/* The processes that one mpirun (Open MPI) started. Open the object once per process. If mpirun did not start this
 * process, the call returns PROPANE_OK and sets *out to NULL. All ranks must create the same trainers in the same
 * order. */
typedef struct propane_ranks propane_ranks;
PROPANE_CHECK propane_status propane_ranks_open(propane_ranks **out, propane_error *err);
/* Return this process's rank and the number of ranks. For NULL, which means a single process, they are 0 and 1. */
int propane_ranks_rank(const propane_ranks *ranks);
int propane_ranks_count(const propane_ranks *ranks);
/* Ends the processes of all ranks and does not return; does nothing for NULL. A rank that fails must call this
 * function, because the other ranks would wait for it. */
void propane_ranks_abort(propane_ranks *ranks, int code);
void propane_ranks_close(propane_ranks *ranks); /* waits for the other ranks */
/* Makes trainers that are created with these options share their work with the other ranks. `ranks` must outlive the
 * trainers. NULL makes them work alone. */
void propane_options_set_ranks(propane_options *options, propane_ranks *ranks);

/* Sets the device of trainers that are created with these options. Other objects may use the device too, and it must
 * outlive the trainers. With NULL, each trainer opens the device that the option "device" names. */
PROPANE_CHECK propane_status propane_options_set_device(propane_options *options, propane_device *device,
                                                        propane_error *err);

/* An array of samples, dense, row major; the number of samples is dim[0]. */
typedef struct propane_tensor {
    const char *name; /* name of the program's input ("x" if it has only one), or "y" for the target */
    propane_dtype dtype;
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
    const void *values;
} propane_tensor;

typedef struct propane_tokenizer propane_tokenizer; /* lm.h */

/* Training data in memory, which replaces the option "data". A language model is trained on `text` or on `ids`, and a
 * program on `arrays`. The memory must outlive the trainer and must not change. */
typedef struct propane_data {
    size_t size;      /* sizeof(propane_data) */
    const char *text; /* UTF-8 */
    size_t length;    /* of the text, in bytes */
    bool examples;    /* the text is instruction data: one JSON object per line */
    const int32_t *ids;
    int64_t id_count;
    const propane_tokenizer *tokenizer; /* for `ids`; NULL means the one of the options or of the initial model */
    const propane_tensor *arrays;       /* the program's inputs and "y"; floats, or integers for the class */
    int array_count;
    const propane_tensor *validation; /* held-out arrays; NULL holds out the part "val-fraction" of `arrays` */
    int validation_count;
} propane_data;

typedef struct propane_trainer propane_trainer;

/* Reads the files that the options name, creates or resumes the run, and compiles its programs. If `data` is NULL, the
 * option "data" is used. The options are copied. */
PROPANE_CHECK propane_status propane_trainer_create(const propane_options *options, const propane_data *data,
                                                    propane_trainer **out, propane_error *err);
/* Frees the trainer. Work since the last checkpoint is lost. */
void propane_trainer_free(propane_trainer *trainer);

typedef struct propane_step {
    size_t size;  /* sizeof(propane_step), set by the caller */
    int64_t step; /* 1 after the first step */
    double loss;  /* mean loss over the step's batches; in nats per token for a language model */
    double lr, loss_scale, gradient_norm;
    bool skipped; /* a gradient was not finite, so the weights did not change */
    double rate;  /* tokens or samples per second */
    double device_ms, host_ms;
    /* The chip whose model produced device_ms and the fields below, static; NULL if they were measured. */
    const char *simulated;
    double energy_j, flops;
    double utilisation;  /* `flops` as a fraction of the chip's peak during device_ms; 0 if not known */
    int64_t outer_bytes; /* "outer": bytes sent for an agreement that began in this step, or for a warm-up step */
    int64_t staleness;   /* "outer": steps since the ranks last agreed on the weights; else -1 */
    double outer_ms;     /* "outer": part of the step's time for the agreement, including waiting for messages */
} propane_step;

typedef struct propane_evaluation {
    size_t size; /* sizeof(propane_evaluation), set by the caller */
    int64_t step;
    double loss;          /* mean loss of the held-out data, in the unit of propane_step.loss */
    double nats_per_byte; /* negative if not known */
    double accuracy;      /* fraction classified correctly; negative if not known */
} propane_evaluation;

/* Callbacks of a run. Each may be NULL, and is called in the thread that runs the trainer. A callback may cancel and
 * query the trainer, but must make no other call on it. */
typedef struct propane_trainer_callbacks {
    size_t size; /* sizeof(propane_trainer_callbacks) */
    void *context;
    void (*on_step)(void *context, const propane_step *step);
    void (*on_evaluation)(void *context, const propane_evaluation *evaluation);
    void (*on_checkpoint)(void *context, int64_t step, const char *path);
} propane_trainer_callbacks;

/* Trains to the last step, with the validations and checkpoints that the options request. Then writes the model, the
 * adapter or the package to the run folder. If propane_trainer_cancel stopped the run after a batch, the checkpoint is
 * written, PROPANE_ERR_CANCELLED is returned, and the call may be repeated. Returns PROPANE_ERR_LIMIT if the training
 * has diverged, or if this process has used up its compiles. In the second case propane_trainer_describe sets
 * `restart`, the checkpoint is written, and another process must continue with "resume". `callbacks` may be NULL. */
PROPANE_CHECK propane_status propane_trainer_run(propane_trainer *trainer, const propane_trainer_callbacks *callbacks,
                                                 propane_error *err);
/* Trains at most `steps` more steps as propane_trainer_run does (0 or less means all remaining steps), then returns
 * PROPANE_OK. The call may be repeated. The result is written to the run folder only after the last step of the run. */
PROPANE_CHECK propane_status propane_trainer_advance(propane_trainer *trainer, int64_t steps,
                                                     const propane_trainer_callbacks *callbacks, propane_error *err);
/* Trains one step, without validations and checkpoints, for callers with their own loop. Returns PROPANE_ERR_INVALID if
 * all steps are done. After PROPANE_ERR_CANCELLED nothing has changed. `out` may be NULL. */
PROPANE_CHECK propane_status propane_trainer_step(propane_trainer *trainer, propane_step *out, propane_error *err);
/* Evaluates the current weights. Returns PROPANE_ERR_INVALID if nothing is held out. `out` may be NULL. */
PROPANE_CHECK propane_status propane_trainer_evaluate(propane_trainer *trainer, propane_evaluation *out,
                                                      propane_error *err);
/* Writes the checkpoint. Returns PROPANE_ERR_INVALID if there is no run folder. */
PROPANE_CHECK propane_status propane_trainer_save(propane_trainer *trainer, propane_error *err);
/* Writes the current weights to any path. A language model is written with its adapters merged, in the format that the
 * file name decides (propane_model_save); a program is written as a package. With several ranks, only the rank that
 * writes files (propane_trainer_info.writes) writes. */
PROPANE_CHECK propane_status propane_trainer_write(propane_trainer *trainer, const char *path, propane_error *err);
/* Stops the current run or step after its batch, so that the call returns PROPANE_ERR_CANCELLED. If none is in
 * progress, stops the next one. May be called from any thread and from a signal handler. */
void propane_trainer_cancel(propane_trainer *trainer);
/* Makes propane_trainer_run write the checkpoint after the current step and continue. May be called from any thread
 * and from a signal handler. */
void propane_trainer_ask_save(propane_trainer *trainer);

typedef struct propane_trainer_info {
    size_t size;         /* sizeof(propane_trainer_info), set by the caller */
    const char *unit;    /* unit of the data: "tokens", "samples" */
    int64_t step, steps; /* number of steps done, and of all steps */
    int64_t parameters;  /* trained parameters */
    int64_t held_out;    /* tokens or samples that are not trained on */
    int64_t count;       /* number of all tokens or samples */
    bool writes;         /* this rank writes the files; true for a single process */
    bool restart;        /* see propane_trainer_run */
    int64_t best_step;   /* step of the lowest validation loss; -1 if there was no validation */
    double best_loss;
    bool kept; /* the run writes the weights of best_step at its end */
    bool over; /* validation has not improved for as long as the option "patience" allows */
} propane_trainer_info;
bool propane_trainer_describe(const propane_trainer *trainer, propane_trainer_info *out);
/* Returns the facts of the run as a JSON object: sizes, device, kernels, data. The text is terminated; free it with
 * propane_free. */
PROPANE_CHECK propane_status propane_trainer_facts(const propane_trainer *trainer, char **out, propane_error *err);
/* Returns an option's value in this run, with defaults resolved. Free it with propane_free. */
PROPANE_CHECK propane_status propane_trainer_option(const propane_trainer *trainer, const char *name, char **out,
                                                    propane_error *err);
/* A trained tensor. For a language model, the name is the one in its files, and if adapters are trained, only their
 * tensors are listed. For a program, it is a weight. */
typedef struct propane_trained_tensor {
    size_t size;      /* sizeof(propane_trained_tensor), set by the caller */
    const char *name; /* the trainer owns it */
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
    int64_t count; /* elements: the product of the dimensions */
} propane_trained_tensor;
/* Describes a trained tensor, with `index` from 0. Returns false after the last one. */
bool propane_trainer_tensor(const propane_trainer *trainer, int index, propane_trained_tensor *out);
/* Copies the current values of trained tensor `index` as fp32; `count` must be its number of elements. With the option
 * "compact-vocab", whose embedding rows represent different ids in each run, propane_trainer_get and
 * propane_trainer_set return PROPANE_ERR_UNSUPPORTED. */
PROPANE_CHECK propane_status propane_trainer_get(const propane_trainer *trainer, int index, float *values,
                                                 int64_t count, propane_error *err);
/* Sets the values of trained tensors by name, from fp32 arrays of the same shapes. Moments, the data's order and the
 * schedule stay. Returns PROPANE_ERR_NOT_FOUND for an unknown name, and PROPANE_ERR_INVALID for another shape or type,
 * or a number that is not finite; the error then names the tensor and the element. Both change nothing. Returns
 * PROPANE_ERR_UNSUPPORTED with several ranks. */
PROPANE_CHECK propane_status propane_trainer_set(propane_trainer *trainer, const propane_tensor *tensors, int count,
                                                 propane_error *err);
/* The profile of a run with the option "profile": one row per kernel or step, as in propane_program_profile_get. For a
 * language model `stage` is "device" or "host". Without that option there are no rows. */
int propane_trainer_profile_count(const propane_trainer *trainer);
bool propane_trainer_profile_get(const propane_trainer *trainer, int index, propane_profile_row *out);

PROPANE_END

#endif
