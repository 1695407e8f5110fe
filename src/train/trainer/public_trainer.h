/* SPDX-License-Identifier: MIT
 * The definitions of propane_options and propane_trainer. public_options.c owns the options, and public_trainer.c the
 * life of a trainer and its steps. There are two kinds of trainers, each with a table of functions: for programs
 * (public_trainer_program.c) and for language models (lm/run/public_trainer_language.c, or src/without_lm.c in a
 * library without language models).
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
    /* the value was read from JSON; a value that is set later replaces it instead of being added to a list */
    bool loaded[TRAIN_OPTIONS];
};

/* The functions of one kind of trainer. */
typedef struct trainer_kind {
    const char *unit;
    size_t bytes; /* size of propane_trainer.part */
    /* Refuses missing and contradictory options. */
    propane_status (*check)(const train_options *o, propane_error *err);
    /* Makes t->run. t->options have been checked, and the data are known to exist. */
    propane_status (*open)(propane_trainer *t, const propane_data *data, propane_error *err);
    void (*close)(propane_trainer *t); /* called after the run has been freed, or after `open` has failed */
    void (*describe)(const propane_trainer *t, propane_trainer_info *out);
    /* Adds to `log` the values that a run's start record holds in addition to options, and to `facts` all facts about
     * the run. */
    void (*facts)(const propane_trainer *t, json_t *log, json_t *facts);
    propane_status (*write)(const propane_trainer *t, const char *path, propane_error *err);
    int (*profile_count)(const propane_trainer *t);
    void (*profile_row)(const propane_trainer *t, int index, propane_profile_row *out);
} trainer_kind;

struct propane_trainer {
    const trainer_kind *kind;
    void *part;           /* the kind's part, zero at first */
    propane_options *own; /* a copy of the caller's options; the run holds the resolved options */
    train_options *options;
    const char *source; /* name of the data, for messages */
    train_run *run;
    run_hold hold;
    const chip *chip;                    /* the chip that the device simulates, or NULL */
    propane_trainer_callbacks callbacks; /* callbacks of the current run */
    atomic_bool cancel, save;
    atomic_bool busy; /* a function that needs exclusive use of the trainer is running */
    bool restart;
};

extern const trainer_kind api_trainer_language, api_trainer_program;
extern const trainer_kind *const api_trainer_kinds[]; /* indexed by train_options.kind: src/trainer_list.c */

/* Begin and end exclusive use of the trainer. api_trainer_begin returns PROPANE_ERR_INVALID if the trainer is already
 * in use, by another thread or by the caller of a callback. */
PROPANE_CHECK propane_status api_trainer_begin(propane_trainer *t, propane_error *err);
propane_status api_trainer_end(propane_trainer *t, propane_status status); /* returns `status` */

PROPANE_CHECK propane_status api_options_copy(const propane_options *from, propane_options **out, propane_error *err);
/* Checks for missing and contradictory options. --data may be missing if the caller passes the data in memory. */
PROPANE_CHECK propane_status api_options_check(const train_options *o, bool data_in_memory, propane_error *err);

/* Writes train.json into the run's folder (public_trainer_record.c). api_trainer_option_value returns an option's value
 * as JSON. */
PROPANE_CHECK propane_status api_trainer_record_write(const propane_trainer *t, propane_error *err);
json_t *api_trainer_option_value(const train_option *row, const train_options *o);

#endif
