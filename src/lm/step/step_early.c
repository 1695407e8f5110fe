/* SPDX-License-Identifier: MIT
 * Owns updates that begin early: during the backward pass, before it is known whether the gradient's norm will require
 * clipping. Such an update reads one set of weights and moments and writes another, so the set from which it started
 * stays intact.
 *
 *     confirmed         backward of unit 3, 2, 1, 0 | norm            the second set counts from now on
 *                                      | unit 3 | unit 2 | ...
 *     corrected         backward ...   | unit 3 | ... | norm | unit 0 | unit 1 | ...    made again from the first one
 *     not confirmed     (a gradient is not finite)                    the first set counts, and is published again
 *
 * The bits are the same as with an update that waits for the norm. There are no speculative updates of packed weights,
 * of weights that are constants, or of weights that the device reads from the model's memory.
 */
#include <string.h>

#include "core/base/memory.h"
#include "lm/step/step_internal.h"

static bool step_early_suits(const train_step *s) {
    if (!s->options.early || !s->updates || s->options.weights == WEIGHT_MODE_PACKED || step_baked_calls(s) > 0)
        return false;
    for (int i = 0; i < s->updated_count; i++)
        if (s->is_master[s->updated[i]]) return false;
    return true;
}

propane_status step_make_early(train_step *s, propane_error *err) {
    if (!step_early_suits(s)) return PROPANE_OK;
    step_early *e = s->early = mem_alloc(sizeof *e);
    if (!e) return propane_fail_memory(err, sizeof *e);
    e->bytes = (size_t)(s->weights->floats + s->weights->adapter_floats) * sizeof(float);
    e->weights = mem_pages_alloc(e->bytes);
    if (!e->weights) return propane_fail_memory(err, e->bytes);
    PROPANE_TRY(step_make_moments(s, &e->moments, err));
    for (int i = 0; i < s->updated_count; i++)
        adamw_tensor_at(s->optimiser, i)->other =
            step_state_in(s, step_early_weights(s, s->updated[i]), &e->moments, s->updated[i]);
    return PROPANE_OK;
}

void step_free_early(train_step *s) {
    if (!s->early) return;
    mem_pages_free(s->early->weights, s->early->bytes);
    step_free_moments(s, &s->early->moments);
    mem_free(s->early);
    s->early = NULL;
}

static void step_early_exchange(train_step *s) {
    adamw_exchange(s->optimiser);
    s->early->away = !s->early->away;
}

void step_early_open(train_step *s, const adamw_step *how) {
    step_early_exchange(s);
    s->early->speculative = *how;
    s->early->open = true;
}

static bool step_early_same(const adamw_step *a, const adamw_step *b) {
    return a->lr == b->lr && a->beta1 == b->beta1 && a->beta2 == b->beta2 && a->epsilon == b->epsilon &&
           a->weight_decay == b->weight_decay && a->gradient_scale == b->gradient_scale && a->step == b->step;
}

bool step_early_close(train_step *s, const adamw_step *how) {
    s->early->open = false;
    return step_early_same(&s->early->speculative, how);
}

propane_status step_early_rollback(train_step *s, propane_error *err) {
    if (!s->early || !s->early->open) return PROPANE_OK;
    s->early->open = false;
    const propane_status status = step_wait_updates(s, err);
    adamw_abandon(s->optimiser); /* also forgets rows of a table that were updated ahead of the rest */
    step_early_exchange(s);
    for (int i = 0; i < s->updates->unit_count; i++)
        if (!s->updates->units[i].pushed) propane_event_signal(s->updates->units[i].done, s->updates->number);
    return status == PROPANE_OK ? step_publish_trained(s, err) : status;
}

void step_early_commit(train_step *s) {
    if (!s->early || !s->early->away) return;
    for (int i = 0; i < s->updated_count; i++) {
        const int tensor = s->updated[i];
        const model_tensor *t = &s->weights->tensors[tensor];
        memcpy(model_weights_data(s->weights, t), step_early_weights(s, tensor), (size_t)t->count * sizeof(float));
    }
    for (int i = 0; i < 2; i++) {
        memcpy(s->moments.data[i], s->early->moments.data[i], step_moment_bytes(s));
        if (s->moments.scales[i])
            memcpy(s->moments.scales[i], s->early->moments.scales[i],
                   (size_t)(s->moment_floats / MOMENT_BLOCK) * sizeof(float));
    }
    step_early_exchange(s);
}
