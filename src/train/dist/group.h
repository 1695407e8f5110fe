/* SPDX-License-Identifier: MIT
 * The functions that a run calls on its group of ranks. They are in a table, so the run's loop is the same for every
 * kind of joint training. A group that is NULL is a single process. Exchanges within a step are not part of
 * this table.
 */
#ifndef TRAIN_DIST_GROUP_H
#define TRAIN_DIST_GROUP_H

#include <stdint.h>

#include "core/base/status.h"

typedef struct train_run train_run;
typedef struct train_group train_group;

typedef struct train_group_calls {
    void (*free)(train_group *g);
    /* Returns the number of steps since the ranks' weights were last the same, after `step` of `steps` steps. Returns
     * -1 if they are the same after every step. */
    int64_t (*since)(const train_group *g, int64_t step, int64_t steps);
    /* Returns the number of steps between two synchronisations around `step`. */
    int64_t (*stride)(const train_group *g, int64_t step);
    /* Called after `step`. Synchronises the ranks if it is due and sets *bytes to the bytes that this rank sent. */
    propane_status (*synchronise)(train_group *g, int64_t step, int64_t steps, int64_t *bytes, propane_error *err);
    /* Called before and after the checkpoint is written. `save` collects the state that the checkpoint needs from other
     * ranks and writes this rank's own state; `saved` removes files of older checkpoints. */
    propane_status (*save)(train_group *g, train_run *r, propane_error *err);
    propane_status (*saved)(train_group *g, train_run *r, propane_error *err);
    /* Called after the checkpoint has been read. */
    propane_status (*load)(train_group *g, train_run *r, propane_error *err);
} train_group_calls;

/* The first member of every kind of group. */
struct train_group {
    const train_group_calls *calls;
};

/* `g` may be NULL. */
void train_group_free(train_group *g);
int64_t train_group_since(const train_group *g, int64_t step, int64_t steps);
int64_t train_group_stride(const train_group *g, int64_t step);
PROPANE_CHECK propane_status train_group_synchronise(train_group *g, int64_t step, int64_t steps, int64_t *bytes,
                                                     propane_error *err);
PROPANE_CHECK propane_status train_group_save(train_group *g, train_run *r, propane_error *err);
PROPANE_CHECK propane_status train_group_saved(train_group *g, train_run *r, propane_error *err);
PROPANE_CHECK propane_status train_group_load(train_group *g, train_run *r, propane_error *err);

#endif
