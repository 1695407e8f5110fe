/* SPDX-License-Identifier: MIT
 * What stands behind propane_options and propane_trainer, for the files of this folder: public_options.c, public_trainer.c (the
 * life of a trainer and its steps), public_trainer_check.c, public_trainer_language.c and public_trainer_program.c (what the two kinds are made of).
 */
#ifndef LM_RUN_PUBLIC_TRAINER_H
#define LM_RUN_PUBLIC_TRAINER_H

#include "ane/chip/chip.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "lm/data/corpus.h"
#include "lm/run/language_run.h"
#include "lm/run/run_folder.h"
#include "train/data/arrays.h"
#include "train/data/image_folders.h"
#include "train/imported_run.h"

struct propane_options {
    arena *arena; /* texts of the values */
    train_options o;
    bool loaded[TRAIN_OPTIONS]; /* from a file: what is set later takes its place */
};

/* A kind's part of a trainer. */
typedef struct trainer_kind {
    const char *unit;
    /* Makes t->run; t->options are checked, the data are known to be there. */
    propane_status (*open)(propane_trainer *t, const propane_data *data, propane_error *err);
    void (*close)(propane_trainer *t); /* after the run is freed; takes a half-opened one */
    void (*describe)(const propane_trainer *t, propane_trainer_info *out);
    /* `log`: what belongs into the record of a run's start, besides options; `facts`: everything. */
    void (*facts)(const propane_trainer *t, json_t *log, json_t *facts);
    propane_status (*write)(const propane_trainer *t, const char *path, propane_error *err);
    int (*profile_count)(const propane_trainer *t);
    void (*profile_row)(const propane_trainer *t, int index, propane_profile_row *out);
} trainer_kind;

typedef struct language_trainer {
    corpus corpus;
    model_config config;
    model_weights *initial;
    int32_t *bytes_of_token;
    text tried; /* what was found out about the ways to get weights into programs */
} language_trainer;

typedef struct program_trainer {
    imported_model_options how;
    imported_model model;
    arrays *arrays;
    image_folders *images;
    const sample_source *source;
    mil_shape_choice *shapes;
    char **names; /* of the shapes */
    int shape_count;
} program_trainer;

struct propane_trainer {
    const trainer_kind *kind;
    propane_options *own; /* a copy of the caller's options; run has them as they were decided */
    train_options *options;
    const char *source; /* the data's name */
    train_run *run;
    run_hold hold;
    const chip *chip;                    /* that the device simulates; NULL: none */
    propane_trainer_callbacks callbacks; /* of the run at hand */
    atomic_bool cancel, save;
    atomic_bool busy; /* a call is under way that steps, saves or sets weights */
    bool restart;
    language_trainer language;
    program_trainer program;
};

extern const trainer_kind api_trainer_language, api_trainer_program;

/* Around calls that need the trainer to themselves: refuses a second one, from another thread or out of a callback. */
PROPANE_CHECK propane_status api_trainer_begin(propane_trainer *t, propane_error *err);
propane_status api_trainer_end(propane_trainer *t, propane_status status); /* gives `status` back */

PROPANE_CHECK propane_status api_options_copy(const propane_options *from, propane_options **out, propane_error *err);
/* What is missing, without the data where the caller has them. */
PROPANE_CHECK propane_status api_options_check(const train_options *o, bool data_in_memory, propane_error *err);

/* train.json in the run's folder (public_trainer_record.c); and an option as JSON has it. */
PROPANE_CHECK propane_status api_trainer_record_write(const propane_trainer *t, propane_error *err);
json_t *api_trainer_option_value(const train_option *row, const train_options *o);

#endif
