/* SPDX-License-Identifier: MIT
 * The options of a training run. An option is one row in options.def. The struct, defaults, checks, flags, help,
 * checkpoint and log are generated from the rows.
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
    bool given[TRAIN_OPTIONS]; /* set by train_options_set */
    mpi *mpi;        /* borrowed; NULL for a single process. `batch` counts the sequences of all ranks together */
    bool two_queues; /* as in train_step_options */
    propane_device *shared; /* as in train_step_options */
    /* bytes of a frozen model that keeps the form of its file; 0 if the model gets fp32 masters */
    size_t base_bytes;
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
    TRAIN_TRAINED,
    TRAIN_TRAINING,
    TRAIN_MACHINE,
    TRAIN_RANKS,
    TRAIN_RUN,
} train_option_group;

typedef struct train_option { /* a row; see options.def */
    train_option_type type;
    const char *key, *name, *words;
    double min, max;
    size_t offset; /* offset in train_options */
    train_option_group group;
    train_option_keep keep;
    struct {
        const char *standard;
        train_option_log log;
        const char *help; /* NULL if this kind of run does not have the option */
    } use[TRAIN_KINDS];
} train_option;

extern const train_option train_option_rows[TRAIN_OPTIONS];

void train_options_default(train_options *o, train_kind kind);
/* Sets the option `name` from a text in the form of the command line, for example "lr" from "3e-4". A BOOL accepts
 * "true", "false", "1" and "0". The text is borrowed. Returns PROPANE_ERR_NOT_FOUND if no option has that name, and
 * PROPANE_ERR_INVALID if the value is not allowed. The message begins with the option's name. */
PROPANE_CHECK propane_status train_options_set(train_options *o, const char *name, const char *value,
                                               propane_error *err);
/* Returns whether --overlap early applies. It applies only to a single process, because several processes exchange
 * gradients or weights before an update. */
bool train_options_speculates(const train_options *o);
/* Returns the number of validations whose weights are kept: 0 for "last", 1 for "best", N for a number N. Returns -1 if
 * `keep` is invalid. */
int64_t train_options_keeps(const char *keep);
/* Checks every value against its option's row, and the few constraints between options. */
PROPANE_CHECK propane_status train_options_check(const train_options *o, propane_error *err);

enum { TRAIN_VALUE_ROOM = 100 }; /* room for a number as text */

/* Returns the option's value in the form that checkpoints hold: integers in decimal, BOOLs as 1 and 0, and reals in
 * hexadecimal floating point, which preserves all bits. Texts are returned unchanged, and NULL as "". */
const char *train_option_print(const train_option *row, const train_options *o, char out[TRAIN_VALUE_ROOM]);
/* Sets the option from such a text without range checks; the text is borrowed. Returns false if the text is not a value
 * of the option's type. */
bool train_option_parse(const train_option *row, const char *text, train_options *o);

static inline bool train_option_is_text(const train_option *row) {
    return row->type == TRAIN_TEXT || row->type == TRAIN_CHOICE || row->type == TRAIN_LIST;
}

static inline void *train_option_at(const train_option *row, const train_options *o) {
    return (void *)((uintptr_t)o + row->offset);
}

#endif
