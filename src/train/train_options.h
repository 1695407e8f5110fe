/* SPDX-License-Identifier: MIT
 * The options of a training run. Everything about one is its row in options.def: struct, defaults, checks, flags, help,
 * checkpoint and log are made of the rows.
 */
#ifndef TRAIN_TRAIN_OPTIONS_H
#define TRAIN_TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "train/dist/mpi.h"

typedef enum train_kind { TRAIN_LANGUAGE, TRAIN_IMPORTED, TRAIN_KINDS } train_kind;

enum {
#define OPTION(type, member, ...) TRAIN_OPTION_##member,
#include "train/options.def"
#undef OPTION
    TRAIN_OPTIONS
};

#define TRAIN_TYPE_INT    int64_t
#define TRAIN_TYPE_REAL   double
#define TRAIN_TYPE_BOOL   bool
#define TRAIN_TYPE_TEXT   const char *
#define TRAIN_TYPE_CHOICE const char *
#define TRAIN_TYPE_LIST   const char *

/* Texts are borrowed. */
typedef struct train_options {
    train_kind kind;
#define OPTION(type, member, ...) TRAIN_TYPE_##type member;
#include "train/options.def"
#undef OPTION
    bool given[TRAIN_OPTIONS]; /* by train_options_set */
    mpi *mpi;                  /* borrowed; NULL: alone. `batch` is that of all ranks together */
    bool two_queues;           /* as in train_step_options */
    propane_device *shared;    /* likewise */
} train_options;

typedef enum train_option_type {
    TRAIN_INT,
    TRAIN_REAL,
    TRAIN_BOOL,
    TRAIN_TEXT,
    TRAIN_CHOICE,
    TRAIN_LIST
} train_option_type;
typedef enum train_option_keep { TRAIN_FIXED, TRAIN_RECALLED, TRAIN_FORGOTTEN } train_option_keep;
typedef enum train_option_log { TRAIN_SILENT, TRAIN_LOGGED, TRAIN_ADAPTERS } train_option_log;
typedef enum train_option_group {
    TRAIN_DATA,
    TRAIN_SIZES,
    TRAIN_LEARNT,
    TRAIN_TRAINING,
    TRAIN_MACHINE,
    TRAIN_RANKS,
    TRAIN_RUN,
} train_option_group;

typedef struct train_option { /* a row; see options.def */
    train_option_type type;
    const char *key, *name, *words;
    double min, max;
    size_t offset; /* in train_options */
    train_option_group group;
    train_option_keep keep;
    struct {
        const char *standard;
        train_option_log log;
        const char *help; /* NULL: the kind of run has no such option */
    } use[TRAIN_KINDS];
} train_option;

extern const train_option train_option_rows[TRAIN_OPTIONS];

void train_options_default(train_options *o, train_kind kind);
/* Sets one option by its name from a text as the command line has it: "lr" "3e-4"; for a BOOL "true" or "false", "1" or
 * "0". The text is borrowed. PROPANE_ERR_NOT_FOUND: there is none of that name; PROPANE_ERR_INVALID: the value is none
 * of its values; the message begins with the name. */
PROPANE_CHECK propane_status train_options_set(train_options *o, const char *name, const char *value,
                                               propane_error *err);
/* --overlap early, for one process: several exchange gradients or weights, and guess nothing. */
bool train_options_guesses(const train_options *o);
/* How many validations' weights stay: "last" 0, "best" 1, "3" 3; -1: it is none of these. */
int64_t train_options_keeps(const char *keep);
/* Every value against its row. */
PROPANE_CHECK propane_status train_options_check(const train_options *o, propane_error *err);

enum { TRAIN_VALUE_ROOM = 100 }; /* of a number as text */

/* The value as checkpoints hold it: integers in decimal, BOOLs as 1 and 0, reals in hexadecimal floating point, which
 * comes back to the same bits. Texts come back themselves, NULL as "". */
const char *train_option_print(const train_option *row, const train_options *o, char out[TRAIN_VALUE_ROOM]);
/* The reverse, unchecked; a text is borrowed. False: it is no value of that type. */
bool train_option_parse(const train_option *row, const char *text, train_options *o);

static inline bool train_option_is_text(const train_option *row) {
    return row->type == TRAIN_TEXT || row->type == TRAIN_CHOICE || row->type == TRAIN_LIST;
}

static inline void *train_option_at(const train_option *row, const train_options *o) {
    return (void *)((uintptr_t)o + row->offset);
}

#endif
