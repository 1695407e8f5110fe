/* SPDX-License-Identifier: MIT
 * Calls the functions of a group's table, and provides the defaults for a single process.
 */
#include "train/dist/group.h"

void train_group_free(train_group *g) {
    if (g) g->calls->free(g);
}

int64_t train_group_since(const train_group *g, int64_t step, int64_t steps) {
    return g ? g->calls->since(g, step, steps) : -1;
}

int64_t train_group_stride(const train_group *g, int64_t step) { return g ? g->calls->stride(g, step) : 1; }

propane_status train_group_synchronise(train_group *g, int64_t step, int64_t steps, int64_t *bytes,
                                       propane_error *err) {
    *bytes = 0;
    return g ? g->calls->synchronise(g, step, steps, bytes, err) : PROPANE_OK;
}

propane_status train_group_save(train_group *g, train_run *r, propane_error *err) {
    return g ? g->calls->save(g, r, err) : PROPANE_OK;
}

propane_status train_group_saved(train_group *g, train_run *r, propane_error *err) {
    return g ? g->calls->saved(g, r, err) : PROPANE_OK;
}

propane_status train_group_load(train_group *g, train_run *r, propane_error *err) {
    return g ? g->calls->load(g, r, err) : PROPANE_OK;
}
