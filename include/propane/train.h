/* SPDX-License-Identifier: MIT
 * Owns training: options, data, runs. One trainer for language models and imported programs. What holds for every
 * call is at the top of propane.h.
 */
#ifndef PROPANE_TRAIN_H
#define PROPANE_TRAIN_H

#include "propane/device.h"

PROPANE_BEGIN

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* What a run learns, from what, how and where: options by the names of `propane train`'s flags, without "--". One
 * thread. */
typedef struct propane_options propane_options;

typedef enum propane_training {
    PROPANE_TRAIN_LANGUAGE, /* a language model, as `propane train --data FILE` */
    PROPANE_TRAIN_PROGRAM   /* weights of a Core ML model or MIL program, as `propane train MODEL` */
} propane_training;

/* With all defaults, and no run folder: then nothing is written. */
PROPANE_CHECK propane_status propane_options_create(propane_training kind, propane_options **out, propane_error *err);
void propane_options_free(propane_options *options);
/* A value as on the command line: "lr" "3e-4"; a switch's is "true" or "false". Copied. An option of type "list" gets
 * one value more. PROPANE_ERR_NOT_FOUND: no option has that name; PROPANE_ERR_INVALID: it has no such value. */
PROPANE_CHECK propane_status propane_options_set(propane_options *options, const char *name, const char *value,
                                                 propane_error *err);
/* The value that it has, as text; propane_free it. */
PROPANE_CHECK propane_status propane_options_get(const propane_options *options, const char *name, char **out,
                                                 propane_error *err);
/* A JSON object of names and values, {"lr": 3e-4, "shuffle": false}; lists for options of type "list". All or none.
 * `source` is the text's name in messages; NULL: "the options". */
PROPANE_CHECK propane_status propane_options_parse(propane_options *options, const char *json, size_t length,
                                                   const char *source, propane_error *err);
/* The same from a file. PROPANE_ERR_UNSUPPORTED: it is a model's config.json, which is a value of the option
 * "config". */
PROPANE_CHECK propane_status propane_options_load(propane_options *options, const char *path, propane_error *err);
/* With "resume" set and a checkpoint in the folder "run": what was not set takes the value that the run was begun
 * with. */
PROPANE_CHECK propane_status propane_options_recall(propane_options *options, propane_error *err);
/* What is missing, out of range or does not go together. Making a trainer recalls and checks by itself. */
PROPANE_CHECK propane_status propane_options_check(const propane_options *options, propane_error *err);

typedef struct propane_option_info {
    size_t size;       /* sizeof(propane_option_info), set by the caller; strings are static */
    const char *name;  /* "lr" */
    const char *type;  /* "int", "real", "bool", "text", "choice", "list" */
    const char *words; /* of a choice: "a|b|c"; else the value's name in a help, or NULL */
    double min, max;   /* of numbers, both included; a default may lie outside */
    const char *group; /* "data", "model", "learnt", "training", "machine", "ranks", "run" */
    const char *help;
    const char *standard; /* the default as text; NULL: none */
    bool fixed;           /* a resumed run must have the value that it was begun with */
    bool given;           /* it was set */
} propane_option_info;
/* The options of that kind of training, `index` from 0; false after the last one. */
bool propane_options_describe(const propane_options *options, int index, propane_option_info *out);

/* The processes that mpirun started together (Open MPI). *out NULL with PROPANE_OK: this process was not started so.
 * Once a process; all ranks make the same trainers in the same order. */
typedef struct propane_ranks propane_ranks;
PROPANE_CHECK propane_status propane_ranks_open(propane_ranks **out, propane_error *err);
/* NULL: rank 0 of 1, as a process by itself. */
int propane_ranks_rank(const propane_ranks *ranks);
int propane_ranks_count(const propane_ranks *ranks);
/* Ends the processes of all ranks, as one that fails must, for whom the others would wait. Does not return. */
void propane_ranks_abort(propane_ranks *ranks, int code);
void propane_ranks_close(propane_ranks *ranks); /* waits for the other ranks */
/* Trainers made with these options share their work with the other ranks, which must outlive them. NULL: alone. */
void propane_options_set_ranks(propane_options *options, propane_ranks *ranks);

/* Trainers made with these options use this device, as others may, too; it must outlive them. NULL: each opens the
 * device of the option "device" for itself. */
PROPANE_CHECK propane_status propane_options_set_device(propane_options *options, propane_device *device,
                                                        propane_error *err);

/* An array of samples, dense, row major; the number of samples is dim[0]. */
typedef struct propane_tensor {
    const char *name; /* of the program's input, "x" of a program with one input; "y": the target */
    propane_dtype dtype;
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
    const void *values;
} propane_tensor;

typedef struct propane_tokenizer propane_tokenizer; /* lm.h */

/* What to learn from, in memory instead of where the option "data" says. Outlives the trainer; not to be changed. */
typedef struct propane_data {
    size_t size;      /* sizeof(propane_data) */
    const char *text; /* a language model's: UTF-8, */
    size_t length;    /* in bytes, */
    bool examples;    /* of instruction data: one JSON object a line; */
    const int32_t *ids;
    int64_t id_count;                   /* or tokens */
    const propane_tokenizer *tokenizer; /* NULL: as the options say. Tokens need one */
    const propane_tensor *arrays;       /* a program's: its inputs and y: float (the class as an integer) */
    int array_count;
    const propane_tensor *validation; /* likewise to validate with; NULL: the part "val-fraction" of the arrays */
    int validation_count;
} propane_data;

typedef struct propane_trainer propane_trainer;

/* Reads what the options name, makes or resumes the run, compiles. `data` NULL: from the option "data". The options are
 * copied. */
PROPANE_CHECK propane_status propane_trainer_create(const propane_options *options, const propane_data *data,
                                                    propane_trainer **out, propane_error *err);
/* What was done since the last checkpoint is lost. */
void propane_trainer_free(propane_trainer *trainer);

typedef struct propane_step {
    size_t size;  /* sizeof(propane_step), set by the caller */
    int64_t step; /* 1 after the first */
    double loss;  /* mean over all that counts in its batches; a language model's in nats per token */
    double lr, loss_scale, gradient_norm;
    bool skipped; /* a gradient was not finite: the weights did not move */
    double rate;  /* tokens or samples a second */
    double device_ms, host_ms;
    const char *simulated; /* the chip whose model device_ms and what follows are by, static; NULL: measured */
    double energy_j, flops;
    double utilisation;  /* of the arithmetic that the chip can do in device_ms; 0: not known */
    int64_t outer_bytes; /* "outer": sent by this rank for an agreement that began here, or for a step of its warm-up */
    int64_t staleness;   /* "outer": steps since the ranks last agreed on the weights; else -1 */
    double outer_ms;     /* "outer": what agreeing took of the step, waiting for messages included */
} propane_step;

typedef struct propane_evaluation {
    size_t size; /* sizeof(propane_evaluation), set by the caller */
    int64_t step;
    double loss;          /* of the held-out data, as a step's */
    double nats_per_byte; /* negative: not known */
    double accuracy;      /* part of what was classified that is right; negative: not known */
} propane_evaluation;

/* Each may be NULL; in the thread that runs. They may cancel and ask the trainer, and do nothing else with it. */
typedef struct propane_trainer_callbacks {
    size_t size; /* sizeof(propane_trainer_callbacks) */
    void *context;
    void (*on_step)(void *context, const propane_step *step);
    void (*on_evaluation)(void *context, const propane_evaluation *evaluation);
    void (*on_checkpoint)(void *context, int64_t step, const char *path);
} propane_trainer_callbacks;

/* To the last step, with the validations and checkpoints that the options ask for; then the folder gets the model, the
 * adapter or the package. PROPANE_ERR_CANCELLED: stopped after a batch, the checkpoint is written; it may be called
 * again. PROPANE_ERR_LIMIT: the training has diverged; or, if propane_trainer_describe says `restart`, this process may
 * compile nothing more, the checkpoint is written and the rest is for another process with "resume". `callbacks` may be
 * NULL. */
PROPANE_CHECK propane_status propane_trainer_run(propane_trainer *trainer, const propane_trainer_callbacks *callbacks,
                                                 propane_error *err);
/* The same, but at most `steps` steps further (0 or less: to the last one): after them it returns PROPANE_OK, and may
 * be called again. The folder gets what the run was for only after the last step of the run. */
PROPANE_CHECK propane_status propane_trainer_advance(propane_trainer *trainer, int64_t steps,
                                                     const propane_trainer_callbacks *callbacks, propane_error *err);
/* One step and nothing else, for loops of one's own. PROPANE_ERR_INVALID: all steps are done. PROPANE_ERR_CANCELLED:
 * nothing has moved. `out` may be NULL. */
PROPANE_CHECK propane_status propane_trainer_step(propane_trainer *trainer, propane_step *out, propane_error *err);
/* Of the weights as they are. PROPANE_ERR_INVALID: nothing is held out. `out` may be NULL. */
PROPANE_CHECK propane_status propane_trainer_evaluate(propane_trainer *trainer, propane_evaluation *out,
                                                      propane_error *err);
/* Writes the checkpoint. PROPANE_ERR_INVALID: there is no run folder. */
PROPANE_CHECK propane_status propane_trainer_save(propane_trainer *trainer, propane_error *err);
/* Writes the current weights to any path: a language model in the format that the name decides (propane_model_save),
 * with its adapters merged; a program as a package. With several ranks, only the one that writes does. */
PROPANE_CHECK propane_status propane_trainer_write(propane_trainer *trainer, const char *path, propane_error *err);
/* From any thread, and from a signal's handler: the run or step at hand, or else the next one, ends as
 * PROPANE_ERR_CANCELLED after its batch. */
void propane_trainer_cancel(propane_trainer *trainer);
/* From any thread, and from a signal's handler: propane_trainer_run writes the checkpoint after the step at hand and
 * goes on. */
void propane_trainer_ask_save(propane_trainer *trainer);

typedef struct propane_trainer_info {
    size_t size;         /* sizeof(propane_trainer_info), set by the caller */
    const char *unit;    /* of the data: "tokens", "samples" */
    int64_t step, steps; /* done; in all */
    int64_t parameters;  /* that are trained */
    int64_t held_out;    /* tokens or samples that are not trained on */
    int64_t count;       /* tokens or samples in all */
    bool writes;         /* of several ranks: this is the one that writes files */
    bool restart;        /* see propane_trainer_run */
    int64_t best_step;   /* of the lowest validation loss; -1: there was none */
    double best_loss;
    bool kept; /* its weights are what the run writes at its end */
    bool over; /* validation has not improved for as long as the option patience allows */
} propane_trainer_info;
bool propane_trainer_describe(const propane_trainer *trainer, propane_trainer_info *out);
/* The facts of the run as a JSON object: sizes, device, kernels, data. Terminated; propane_free it. */
PROPANE_CHECK propane_status propane_trainer_facts(const propane_trainer *trainer, char **out, propane_error *err);
/* An option's value in this run, with defaults resolved. propane_free it. */
PROPANE_CHECK propane_status propane_trainer_option(const propane_trainer *trainer, const char *name, char **out,
                                                    propane_error *err);
/* A tensor that is trained: of a language model, under the names in its files (with adapters, those alone); of a
 * program, a weight. */
typedef struct propane_learnt {
    size_t size;      /* sizeof(propane_learnt), set by the caller */
    const char *name; /* the trainer's */
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
    int64_t count; /* elements: the product of them */
} propane_learnt;
/* `index` from 0; false after the last one. */
bool propane_trainer_learnt(const propane_trainer *trainer, int index, propane_learnt *out);
/* Such a tensor as it is now, fp32; `count` is its own. PROPANE_ERR_UNSUPPORTED, here and below: with the option
 * "compact-vocab", whose rows mean other ids in each run. */
PROPANE_CHECK propane_status propane_trainer_get(const propane_trainer *trainer, int index, float *values,
                                                 int64_t count, propane_error *err);
/* Sets values of trained tensors, by name, of their shapes and in fp32; moments, the data's order and the schedule
 * stay. PROPANE_ERR_NOT_FOUND, PROPANE_ERR_INVALID (another shape or type, a number that is not finite: the tensor and
 * the place are named): nothing has changed. PROPANE_ERR_UNSUPPORTED: one of several ranks. */
PROPANE_CHECK propane_status propane_trainer_set(propane_trainer *trainer, const propane_tensor *tensors, int count,
                                                 propane_error *err);
/* With the option "profile": where the time went, a row a kernel or step; `stage` of a language model's says "device"
 * or "host". As propane_program_profile_get. */
int propane_trainer_profile_count(const propane_trainer *trainer);
bool propane_trainer_profile_get(const propane_trainer *trainer, int index, propane_profile_row *out);

PROPANE_END

#endif
