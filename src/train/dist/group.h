/* SPDX-License-Identifier: MIT
 * What a run calls of the ranks that it trains with. Its one idea: a table, so that the loop is the same for every way
 * of training together, and NULL for a process that trains alone. What the ranks exchange inside a step is the step's
 * own.
 */
#ifndef TRAIN_DIST_GROUP_H
#define TRAIN_DIST_GROUP_H

#include <stdint.h>

#include "core/base/status.h"

typedef struct train_run train_run;
typedef struct train_group train_group;

typedef struct train_group_calls {
    void (*free)(train_group *g);
    /* Steps since the ranks' weights were last the same, after `step` of `steps`; -1: they are the same after every
     * step. */
    int64_t (*since)(const train_group *g, int64_t step, int64_t steps);
    /* Steps from the last such place before `step` to the next one. */
    int64_t (*stride)(const train_group *g, int64_t step);
    /* After `step`: the ranks agree, where it is time for it. *bytes: sent by this rank for it. */
    propane_status (*agree)(train_group *g, int64_t step, int64_t steps, int64_t *bytes, propane_error *err);
    /* Around the checkpoint: what it needs of other ranks is collected, and what only this rank knows written; then
     * what is left of older ones goes. */
    propane_status (*save)(train_group *g, train_run *r, propane_error *err);
    propane_status (*saved)(train_group *g, train_run *r, propane_error *err);
    /* After the checkpoint has been read. */
    propane_status (*load)(train_group *g, train_run *r, propane_error *err);
} train_group_calls;

/* The first member of every kind. */
struct train_group {
    const train_group_calls *calls;
};

/* `g` may be NULL. */
void train_group_free(train_group *g);
int64_t train_group_since(const train_group *g, int64_t step, int64_t steps);
int64_t train_group_stride(const train_group *g, int64_t step);
PROPANE_CHECK propane_status train_group_agree(train_group *g, int64_t step, int64_t steps, int64_t *bytes,
                                               propane_error *err);
PROPANE_CHECK propane_status train_group_save(train_group *g, train_run *r, propane_error *err);
PROPANE_CHECK propane_status train_group_saved(train_group *g, train_run *r, propane_error *err);
PROPANE_CHECK propane_status train_group_load(train_group *g, train_run *r, propane_error *err);

#endif
