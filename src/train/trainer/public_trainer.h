/* SPDX-License-Identifier: MIT
 * The definitions of propane_options and propane_trainer. The options are in public_options.c, the life of a trainer
 * and its steps in public_trainer.c. A trainer is one of two kinds, each a table of functions: programs
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
    bool loaded[TRAIN_OPTIONS]; /* read from a file; a value set later replaces it */
};

/* A kind's part of a trainer. */
typedef struct trainer_kind {
    const char *unit;
    size_t bytes; /* size of its part, trainer.part */
    /* Checks the options against one another for missing and contradictory ones. */
    propane_status (*check)(const train_options *o, propane_error *err);
    /* Makes t->run. t->options have been checked, and the data are known to exist. */
    propane_status (*open)(propane_trainer *t, const propane_data *data, propane_error *err);
    void (*close)(propane_trainer *t); /* called after the run is freed; accepts a half-opened part */
    void (*describe)(const propane_trainer *t, propane_trainer_info *out);
    /* Adds to `log` what the record of a run's start holds besides options, and to `facts` everything. */
    void (*facts)(const propane_trainer *t, json_t *log, json_t *facts);
    propane_status (*write)(const propane_trainer *t, const char *path, propane_error *err);
    int (*profile_count)(const propane_trainer *t);
    void (*profile_row)(const propane_trainer *t, int index, propane_profile_row *out);
} trainer_kind;

struct propane_trainer {
    const trainer_kind *kind;
    void *part;           /* the kind's part, zero at first */
    propane_options *own; /* a copy of the caller's options; the run holds the resolved ones */
    train_options *options;
    const char *source; /* the data's name */
    train_run *run;
    run_hold hold;
    const chip *chip;                    /* the chip that the device simulates, or NULL */
    propane_trainer_callbacks callbacks; /* callbacks of the current run */
    atomic_bool cancel, save;
    atomic_bool busy; /* a call that steps, saves or sets weights is in progress */
    bool restart;
};

extern const trainer_kind api_trainer_language, api_trainer_program;
extern const trainer_kind *const api_trainer_kinds[]; /* indexed by train_options.kind: src/trainer_list.c */

/* Brackets calls that need exclusive use of the trainer. Refuses a second one, from another thread or from a
 * callback. */
PROPANE_CHECK propane_status api_trainer_begin(propane_trainer *t, propane_error *err);
propane_status api_trainer_end(propane_trainer *t, propane_status status); /* returns `status` */

PROPANE_CHECK propane_status api_options_copy(const propane_options *from, propane_options **out, propane_error *err);
/* Checks for missing options; the data may be missing if the caller passes them in memory. */
PROPANE_CHECK propane_status api_options_check(const train_options *o, bool data_in_memory, propane_error *err);

/* Writes train.json into the run's folder (public_trainer_record.c); the other function returns an option in its JSON
 * form. */
PROPANE_CHECK propane_status api_trainer_record_write(const propane_trainer *t, propane_error *err);
json_t *api_trainer_option_value(const train_option *row, const train_options *o);

#endif
