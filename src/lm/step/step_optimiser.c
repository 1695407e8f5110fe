/* SPDX-License-Identifier: MIT
 * Owns the optimiser's view of a step: tensors, moments, gradients, the gradient norm and, with several ranks, the
 * pieces that this rank updates.
 */
#include "lm/step/step_internal.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/memory.h"

size_t step_moment_bytes(const train_step *s) { return (size_t)s->moment_floats * moment_bytes(s->options.moments); }

propane_status step_make_moments(const train_step *s, step_moment_set *out, propane_error *err) {
    const bool scaled = s->options.moments == MOMENT_INT8;
    bool there = true;
    for (int i = 0; i < 2; i++) {
        out->data[i] = mem_pages_alloc(step_moment_bytes(s));
        if (scaled) out->scales[i] = mem_array((size_t)(s->moment_floats / MOMENT_BLOCK), sizeof(float));
        there = there && out->data[i] && (out->scales[i] || !scaled);
    }
    return there ? PROPANE_OK : propane_fail_memory(err, 2 * step_moment_bytes(s));
}

void step_free_moments(const train_step *s, step_moment_set *set) {
    for (int i = 0; i < 2; i++) {
        mem_pages_free(set->data[i], step_moment_bytes(s));
        mem_free(set->scales[i]);
    }
}

moments step_moments_in(const train_step *s, const step_moment_set *set, int which, int tensor) {
    const moment_form form = s->options.moments;
    char *data = (char *)set->data[which - 1] + (size_t)s->moment_at[tensor] * moment_bytes(form);
    float *scales = set->scales[which - 1] ? set->scales[which - 1] + s->moment_at[tensor] / MOMENT_BLOCK : NULL;
    return (moments){form, data, scales, which == 2};
}

adamw_state step_state_in(const train_step *s, float *weight, const step_moment_set *set, int tensor) {
    const moments first = step_moments_in(s, set, 1, tensor), second = step_moments_in(s, set, 2, tensor);
    return (adamw_state){weight, first.data, second.data, first.scales, second.scales};
}

/* Sets the rows in which the optimiser writes the device's copy: along the last dimension that is not 1. */
static void step_optimiser_set_rows(adamw_tensor *t, const propane_io *io) {
    int last = io->rank - 1;
    while (last > 0 && io->dim[last] == 1) last--;
    int64_t size = io->dtype == PROPANE_FP16 ? 2 : 4;
    bool dense_row = io->rank == 0 || io->stride[last] == size;
    t->device_fp16 = io->dtype == PROPANE_FP16;
    t->row = dense_row && io->rank > 0 ? io->dim[last] : 1;
    t->row_stride = !dense_row                          ? io->stride[last]
                    : last > 0 && io->dim[last - 1] > 1 ? io->stride[last - 1]
                                                        : t->row * size;
}

propane_status step_make_optimiser(train_step *s, propane_error *err) {
    const model_weights *w = s->weights;
    adamw_tensor *list = mem_array((size_t)s->updated_count, sizeof *list);
    if (!list) return propane_fail_memory(err, (size_t)s->updated_count * sizeof *list);
    for (int i = 0; i < s->updated_count; i++) {
        const model_tensor *t = &w->tensors[s->updated[i]];
        list[i] = (adamw_tensor){.state = step_state_in(s, model_weights_data(w, t), &s->moments, s->updated[i]),
                                 .form = s->options.moments,
                                 .number = i,
                                 .count = t->count,
                                 .decay = t->decay};
        if (s->copies[s->updated[i]]) step_optimiser_set_rows(&list[i], &s->copy_layout[s->updated[i]]);
    }
    propane_status status = adamw_create(list, s->updated_count, &s->optimiser, err);
    mem_free(list);
    return status;
}

void step_unlock_tensor(train_step *s, int index) {
    const int tensor = s->updated[index];
    propane_buffer_unlock(s->gradients[tensor]);
    if (s->copies[tensor]) propane_buffer_unlock(s->copies[tensor]);
}

void step_unlock_tensors(train_step *s, int count) {
    for (int i = 0; i < count; i++) step_unlock_tensor(s, i);
}

propane_status step_lock_tensor(train_step *s, int index, propane_error *err) {
    const int tensor = s->updated[index];
    adamw_tensor *t = adamw_tensor_at(s->optimiser, index);
    void *gradient = NULL, *copy = NULL;
    PROPANE_TRY(propane_buffer_lock(s->gradients[tensor], false, &gradient, err));
    if (s->copies[tensor]) {
        const propane_status status = propane_buffer_lock(s->copies[tensor], true, &copy, err);
        if (status != PROPANE_OK) {
            propane_buffer_unlock(s->gradients[tensor]);
            return status;
        }
        t->device = s->is_master[tensor] ? NULL : copy;
    }
    t->gradient = gradient;
    return PROPANE_OK;
}

propane_status step_lock_tensors(train_step *s, propane_error *err) {
    for (int i = 0; i < s->updated_count; i++) {
        const propane_status status = step_lock_tensor(s, i, err);
        if (status == PROPANE_OK) continue;
        step_unlock_tensors(s, i);
        return status;
    }
    for (int i = 0; i < s->piece_count; i++)
        adamw_tensor_at(s->own, i)->gradient =
            adamw_tensor_at(s->optimiser, s->pieces[i].tensor)->gradient + s->pieces[i].begin;
    return PROPANE_OK;
}

/* Locks the gradients so that the norm can be computed; an update may be running. */
static propane_status step_optimiser_lock_gradients(train_step *s, propane_error *err) {
    for (int i = 0; i < s->updated_count; i++) {
        void *gradient = NULL;
        const propane_status status = propane_buffer_lock(s->gradients[s->updated[i]], false, &gradient, err);
        if (status != PROPANE_OK) {
            while (i-- > 0) propane_buffer_unlock(s->gradients[s->updated[i]]);
            return status;
        }
        adamw_tensor_at(s->optimiser, i)->measured = gradient;
    }
    for (int i = 0; i < s->piece_count; i++)
        adamw_tensor_at(s->own, i)->measured =
            adamw_tensor_at(s->optimiser, s->pieces[i].tensor)->measured + s->pieces[i].begin;
    return PROPANE_OK;
}

propane_status step_check_gradients(const train_step *s, propane_error *err) {
    if (!s->gradients_clobbered) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "a forward pass has since reused the memory of the gradients; run their batch again, or create "
                        "the step with accumulation");
}

/* Computes a gradient's sum of squares from what its kernel reports and what the embedding's share has added since. The
 * sum is not used if it is not finite, or if the mean square is below FLT_MIN, because squares near the denormal range
 * lose bits; above that bound, the loss is smaller than the rounding error. Nor is it used if the embedding's share has
 * cancelled most of it. */
static propane_status step_optimiser_read_squares(train_step *s, int index, propane_error *err) {
    const int tensor = s->updated[index];
    const dataflow_gradient *g = &s->dataflow->gradients[tensor];
    const bool scattered = g->made == s->dataflow->call_count, all = scattered && g->first == g->made;
    adamw_tensor *t = adamw_tensor_at(s->optimiser, index);
    void *data = NULL;
    double said = 0;
    t->squared = false;
    if ((g->squares < 0 && !all) || s->partition->options.squares <= 0 || s->summed || s->own) return PROPANE_OK;
    if (g->squares >= 0) {
        propane_buffer *buffer = s->buffers[s->dataflow->values[g->squares].buffer];
        PROPANE_TRY(propane_buffer_lock(buffer, false, &data, err));
        said = (double)*(const float *)data;
        propane_buffer_unlock(buffer);
    }
    t->squares = scattered ? said + s->norm_delta[tensor] : said;
    t->squared =
        isfinite(said) && isfinite(t->squares) && t->squares >= fmax((double)FLT_MIN * (double)t->count, said / 4);
    return PROPANE_OK;
}

propane_status train_step_gradient_norm(train_step *s, double *norm, propane_error *err) {
    int64_t start = clock_ns();
    PROPANE_TRY(step_check_gradients(s, err));
    for (int i = 0; i < s->updated_count; i++) PROPANE_TRY(step_optimiser_read_squares(s, i, err));
    PROPANE_TRY(step_optimiser_lock_gradients(s, err));
    *norm = adamw_gradient_norm(s->own ? s->own : s->optimiser);
    for (int i = 0; i < s->updated_count; i++) propane_buffer_unlock(s->gradients[s->updated[i]]);
    s->own_ns += clock_ns() - start;
    timeline_add(s->options.timeline, TIMELINE_HOST, "norm", -1, start, clock_ns());
    return PROPANE_OK;
}

propane_status step_publish_trained(train_step *s, propane_error *err) {
    PROPANE_TRY(step_lock_tensors(s, err));
    adamw_publish(s->optimiser);
    step_unlock_tensors(s, s->updated_count);
    return step_copy_others(s, err);
}

propane_status train_step_own(train_step *s, const train_piece *pieces, int count, propane_error *err) {
    adamw_tensor *list = mem_array((size_t)count + 1, sizeof *list);
    s->pieces = mem_array((size_t)count + 1, sizeof *s->pieces);
    if (!list || !s->pieces) {
        mem_free(list);
        return propane_fail_memory(err, (size_t)count * sizeof *list);
    }
    memcpy(s->pieces, pieces, (size_t)count * sizeof *pieces);
    s->piece_count = count;
    for (int i = 0; i < count; i++) {
        list[i] = *adamw_tensor_at(s->optimiser, pieces[i].tensor);
        list[i].state.weight += pieces[i].begin;
        list[i].place = pieces[i].begin;
        list[i].count = pieces[i].end - pieces[i].begin;
        list[i].device = NULL;
    }
    propane_status status = adamw_create(list, count, &s->own, err);
    if (status != PROPANE_OK) s->piece_count = 0;
    mem_free(list);
    return status;
}
