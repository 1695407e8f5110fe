/* SPDX-License-Identifier: MIT
 * Owns outside access to a step's weights, moments and gradients between batches. An update in progress is finished
 * first, and an unconfirmed speculative update is undone.
 */
#include <string.h>

#include "core/base/memory.h"
#include "lm/step/step_internal.h"

propane_status train_step_settle(train_step *s, propane_error *err) {
    PROPANE_TRY(step_wait_updates(s, err));
    PROPANE_TRY(step_early_rollback(s, err));
    step_early_commit(s);
    return PROPANE_OK;
}

float *train_step_moment(train_step *s, int which, int tensor) {
    if (!s->trained[tensor]) return NULL;
    if (train_step_settle(s, NULL) != PROPANE_OK) return NULL;
    const moments m = step_moments_in(s, &s->moments, which, tensor);
    if (m.form == MOMENT_FP32) return m.data;
    moments_load(&m, 0, s->weights->tensors[tensor].count, s->moment_copy);
    return s->moment_copy;
}

void train_step_moment_keep(train_step *s, int which, int tensor) {
    const moments m = step_moments_in(s, &s->moments, which, tensor);
    if (m.form != MOMENT_FP32) moments_store(&m, 0, s->weights->tensors[tensor].count, s->moment_copy, 0);
}

void train_step_moment_discard(train_step *s, int which, int tensor, int64_t begin, int64_t end) {
    const moments m = step_moments_in(s, &s->moments, which, tensor);
    const size_t size = moment_bytes(m.form);
    mem_pages_discard((char *)m.data + (size_t)begin * size, (size_t)(end - begin) * size);
}

/* Updates the device's copies of weights that are not trained. The optimiser handles only trained weights. */
static propane_status step_outside_publish_others(train_step *s, propane_error *err) {
    for (int i = 0; i < step_total(s); i++) {
        const model_tensor *t = &s->weights->tensors[i];
        if (s->trained[i] || !s->copies[i] || s->is_master[i]) continue;
        if (s->base && i < s->weights->count && s->base->slot[i] >= 0) continue; /* filled before each call */
        PROPANE_TRY(propane_buffer_write(s->copies[i], &s->copy_layout[i], PROPANE_FP32,
                                         model_weights_data(s->weights, t), t->count, err));
    }
    return PROPANE_OK;
}

propane_status train_step_publish(train_step *s, propane_error *err) {
    PROPANE_TRY(train_step_settle(s, err));
    PROPANE_TRY(step_outside_publish_others(s, err));
    s->stale = true; /* an outside change may affect any weight */
    return step_publish_trained(s, err);
}

propane_status train_step_gradient(train_step *s, int tensor, float *out, propane_error *err) {
    void *data = NULL;
    PROPANE_TRY(train_step_settle(s, err));
    PROPANE_TRY(step_check_gradients(s, err));
    PROPANE_TRY(propane_buffer_lock(s->gradients[tensor], false, &data, err));
    memcpy(out, data, (size_t)s->weights->tensors[tensor].count * sizeof(float));
    propane_buffer_unlock(s->gradients[tensor]);
    return PROPANE_OK;
}
