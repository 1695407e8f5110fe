/* SPDX-License-Identifier: MIT
 * A training run whose losses are a script, for tests of the loop and of checkpoints: no model, no data, no device.
 * Each call of the loop is noted, in order, as one letter:
 *
 *   g gradients   u update   s settle   e evaluate   r refresh   p publish   d draft   f finish   c callback of a checkpoint
 *
 * An update sets all weights to the number of updates so far, and the moments to this number plus 100 and 200.
 */
#ifndef TESTS_TRAIN_SCRIPTED_RUN_H
#define TESTS_TRAIN_SCRIPTED_RUN_H

#include "train/train_run_internal.h"

enum { SCRIPT_TENSORS = 3, SCRIPT_STEPS = 64, SCRIPT_BATCH = 10 };

typedef struct scripted_run {
    train_run run;
    /* The script: values of step i + 1, and of validation i; 0 means a loss and a norm of 1. */
    double loss[SCRIPT_STEPS], norm[SCRIPT_STEPS], val[SCRIPT_STEPS];
    bool nothing_held_out;
    int64_t over_budget_at;   /* refresh asks for a new process at that step; 0: never */
    int64_t cancel_at;        /* the gradients of that step are cancelled, once; 0: never */
    propane_status fail[128]; /* by letter: what the call returns */
    const char *fingerprint;  /* value of the only fingerprint */
    const char *wrong;        /* name of a weight that is not finite */
    float data[TRAIN_BLOCKS][SCRIPT_TENSORS][6];
    bool has_outer;
    /* calls so far */
    char noted[1000];
    int notes, updates, kept;
    adamw_step update[SCRIPT_STEPS]; /* the updates, from 0 */
    train_ahead ahead[SCRIPT_STEPS]; /* by step, from 0 */
    bool began_ahead[SCRIPT_STEPS];
    train_report report[SCRIPT_STEPS]; /* by step, from 1 */
    train_evaluation evaluation[SCRIPT_STEPS];
    int evaluations;
    int64_t checkpoint_step; /* of the last callback */
    float finished, drafted; /* the first weight then */
    atomic_bool *set;        /* set to true after step set_at, if it is not NULL */
    int64_t set_at;
} scripted_run;

train_options scripted_options(const char *run_dir, int64_t steps);
/* Makes a run; the script may be filled in afterwards. With options.resume it reads the checkpoint. The caller frees it
 * with train_run_free. */
PROPANE_CHECK propane_status scripted_create(const train_options *options, scripted_run **out, propane_error *err);
/* Runs until step `until` with callbacks that keep the reports. */
PROPANE_CHECK propane_status scripted_go(scripted_run *s, int64_t until, const atomic_bool *cancel, bool *restart,
                                         propane_error *err);
/* Returns the letters noted since the last call. */
const char *scripted_noted(scripted_run *s);

/* Checks: */
scripted_run *scripted_made(const train_options *options);
/* The letters noted since the last call equal `want`, apart from its spaces. */
void scripted_expect(scripted_run *s, const char *want);
/* The run ends well, without asking for a new process, and has noted `want`. */
void scripted_expect_run(scripted_run *s, const char *want);

#endif
