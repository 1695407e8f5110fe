/* SPDX-License-Identifier: MIT
 * What propane_options and propane_trainer are: public_options.c has the options, public_trainer.c the life of a
 * trainer and its steps. A trainer is of one of two kinds, each a table of functions: programs
 * (public_trainer_program.c) and language models (lm/run/public_trainer_language.c, or src/without_lm.c in a library
 * without them).
 */
#ifndef TRAIN_TRAINER_PUBLIC_TRAINER_H
#define TRAIN_TRAINER_PUBLIC_TRAINER_H

#include "ane/chip/chip.h"
#include "core/base/arena.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "propane.h"
#include "train/train_run.h"
#include "train/trainer/run_hold.h"

struct propane_options {
    arena *arena; /* texts of the values */
    train_options o;
    bool loaded[TRAIN_OPTIONS]; /* from a file: what is set later takes its place */
};

/* A kind's part of a trainer. */
typedef struct trainer_kind {
    const char *unit;
    size_t bytes; /* of its own part, trainer.part */
    /* What the options need of one another: what is missing, what contradicts. */
    propane_status (*check)(const train_options *o, propane_error *err);
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

struct propane_trainer {
    const trainer_kind *kind;
    void *part;           /* the kind's own, zero at first */
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
};

extern const trainer_kind api_trainer_language, api_trainer_program;
extern const trainer_kind *const api_trainer_kinds[]; /* by train_options.kind: src/trainer_list.c */

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
