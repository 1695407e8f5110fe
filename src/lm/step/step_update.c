/* SPDX-License-Identifier: MIT
 * Owns the timing of weight updates. On one queue, an update is one sweep after the batch. On two, it runs in parallel
 * with the device, in units: the weights that the kernels of one half of a layer read. Each unit has an event, and the
 * kernels that read the unit forward wait for it.
 *
 *     exact clipping    backward | norm | unit 0 | unit 1 | ...          the sweep in forward order, on the host
 *                                       | embed | kernel 0 | kernel 1    each kernel as soon as its weights are ready
 *     lagged, early     backward of unit 3, 2, 1, 0
 *                                      | unit 3 | unit 2 | ...           a unit once its last gradient is there (step_early.c)
 *
 * The calling thread, which gathers the embedding rows for the next batch, first updates those rows itself. With a
 * sharded optimiser, this rank's pieces are updated in one sweep.
 */
#include "core/base/clock.h"
#include "lm/step/step_internal.h"

/* ---- one unit ----------------------------------------------------------------------------------------------------------- */

static bool step_update_packs(const train_step *s, int call, int unit) {
    int last = -1;
    for (int i = 0; i < s->calls[call].unit_count; i++)
        if (s->calls[call].unit[i] > last) last = s->calls[call].unit[i];
    return step_packing(s, call) && last == unit;
}

static bool step_update_reads(const train_step *s, int call, int unit) {
    for (int i = 0; i < s->calls[call].unit_count; i++)
        if (s->calls[call].unit[i] == unit) return true;
    return false;
}

/* Writes the unit's weights in the other forms that programs read, after the optimiser has written the first form. */
static propane_status step_update_forms(train_step *s, int unit, propane_error *err) {
    const step_unit *u = &s->updates->units[unit];
    for (int i = 0; i < u->count; i++) PROPANE_TRY(step_copy_other(s, s->updated[u->updated[i]], err));
    for (int c = 0; c < s->dataflow->call_count; c++)
        if (step_update_packs(s, c, unit)) PROPANE_TRY(step_pack(s, c, true, err));
    for (int c = 0; c < s->dataflow->call_count; c++)
        if (step_is_patched(s, c) && step_update_reads(s, c, unit)) PROPANE_TRY(step_patch(s, c, unit, err));
    return PROPANE_OK;
}

static propane_status step_update_lock_unit(train_step *s, step_unit *u, propane_error *err) {
    for (int i = 0; i < u->count; i++) {
        const propane_status status = step_lock_tensor(s, u->updated[i], err);
        if (status == PROPANE_OK) continue;
        while (i-- > 0) step_unlock_tensor(s, u->updated[i]);
        return status;
    }
    u->locked = true;
    return PROPANE_OK;
}

propane_status step_update_unit(void *context, int unit, propane_error *err) {
    train_step *s = context;
    step_unit *u = &s->updates->units[unit];
    const int64_t start = clock_ns();
    propane_status status = u->locked ? PROPANE_OK : step_update_lock_unit(s, u, err);
    if (status == PROPANE_OK) {
        adamw_update_tensors(s->optimiser, u->updated, u->count);
        for (int i = 0; i < u->count; i++) step_unlock_tensor(s, u->updated[i]);
        const int64_t swept = clock_ns();
        u->locked = false;
        timeline_add(s->options.timeline, TIMELINE_UPDATE, "update", u->instance, start, swept);
        status = step_update_forms(s, unit, err);
        if (s->forms) timeline_add(s->options.timeline, TIMELINE_CONVERT, "convert", u->instance, swept, clock_ns());
    }
    /* signalled even on failure, so that waiting calls continue; the failure is reported later */
    propane_event_signal(u->done, s->updates->number);
    return status;
}

/* ---- an update ---------------------------------------------------------------------------------------------------------- */

static propane_status step_update_at_once(train_step *s, const adamw_step *how, propane_error *err) {
    const int64_t start = clock_ns();
    PROPANE_TRY(step_lock_tensors(s, err));
    adamw_update(s->own ? s->own : s->optimiser, how);
    step_unlock_tensors(s, s->updated_count);
    const propane_status status = s->own ? PROPANE_OK : step_copy_others(s, err);
    timeline_add(s->options.timeline, TIMELINE_UPDATE, "update", -1, start, clock_ns());
    return status;
}

static void step_update_begin(train_step *s, const adamw_step *how, bool apart) {
    adamw_begin(s->optimiser, how, apart);
    s->updates->number++;
}

/* Updates the units in forward order, so that the first kernels wait the least. */
static propane_status step_update_in_units(train_step *s, const adamw_step *how, bool apart, propane_error *err) {
    step_updates *u = s->updates;
    PROPANE_TRY(step_wait_updates(s, err));
    PROPANE_TRY(step_lock_tensors(s, err));
    step_update_begin(s, how, apart);
    for (int i = 0; i < u->unit_count; i++) u->units[i].locked = true;
    for (int i = 0; i < u->unit_count; i++) update_thread_push(u->thread, &(update_job){.part = i});
    return PROPANE_OK;
}

void step_update_rows(train_step *s, const model_tensor *table, const int32_t *rows, int64_t count) {
    const int tensor = (int)(table - s->weights->tensors);
    const int64_t height = table->dim[0], first = table->stored_rows != height ? table->first_row : 0;
    if (!s->updates || s->own || s->updates->number == 0) return;
    for (int i = 0; i < s->updated_count; i++)
        if (s->updated[i] == tensor)
            adamw_update_rows(s->optimiser, i, rows, count, first, height, table->count / height);
}

/* ---- during the backward pass ------------------------------------------------------------------------------------------- */

static bool step_update_can_begin(const train_step *s) {
    return s->updates && !s->own && !s->reduce && s->options.weights != WEIGHT_MODE_PACKED;
}

void train_step_update_in_batch(train_step *s, const adamw_step *how) {
    s->batch_update = *how;
    s->batch_update_wanted = true;
    s->batch_update_speculative = false;
}

void train_step_update_speculative(train_step *s, const adamw_step *how) {
    if (!s->early || !step_update_can_begin(s)) return;
    train_step_update_in_batch(s, how);
    s->batch_update_speculative = true;
}

propane_status step_update_begin_in_batch(train_step *s, propane_error *err) {
    if (!s->batch_update_wanted || !step_update_can_begin(s)) return PROPANE_OK;
    PROPANE_TRY(step_wait_updates(s, err));
    if (s->batch_update_speculative) step_early_open(s, &s->batch_update);
    step_update_begin(s, &s->batch_update, s->batch_update_speculative);
    s->updates->begun = true;
    for (int i = 0; i < s->updates->unit_count; i++) s->updates->units[i].pushed = false;
    return PROPANE_OK;
}

/* Queues the unit's job. On each queue, the job waits for the unit's last call if that call is in the current run of
 * calls. */
static void step_update_push(train_step *s, int unit) {
    step_unit *u = &s->updates->units[unit];
    update_job job = {.part = unit};
    for (int i = 0; i < 2; i++) {
        const step_queue *q = &s->queues[i];
        const int ordinal = u->last[i] < 0 ? 0 : s->dataflow->calls[u->last[i]].ordinal;
        if (u->gathered || ordinal <= q->before) continue;
        job.waits[job.wait_count++] = (propane_event_point){q->event, q->base + (uint64_t)(ordinal - q->before)};
    }
    u->pushed = true;
    update_thread_push(s->updates->thread, &job);
}

void step_update_submitted(train_step *s, int call) {
    const step_updates *u = s->updates;
    for (int i = 0; u && u->begun && i < u->unit_count; i++) {
        const int last = u->units[i].last[0] > u->units[i].last[1] ? u->units[i].last[0] : u->units[i].last[1];
        if (last == call && !u->units[i].gathered) step_update_push(s, i);
    }
}

/* Queues the units that were not queued during the backward pass. */
static propane_status step_update_push_rest(train_step *s, bool failed, propane_error *err) {
    step_updates *u = s->updates;
    propane_status status = PROPANE_OK;
    for (int i = 0; i < u->unit_count; i++) {
        if (u->units[i].pushed) continue;
        if (!failed && status == PROPANE_OK) status = step_update_lock_unit(s, &u->units[i], err);
        if (!failed && status == PROPANE_OK)
            step_update_push(s, i);
        else
            propane_event_signal(u->units[i].done, u->number); /* no call may be left waiting for the unit */
    }
    return status;
}

propane_status step_update_end_in_batch(train_step *s, bool failed, propane_error *err) {
    const bool wanted = s->batch_update_wanted, begun = s->updates && s->updates->begun;
    s->batch_update_wanted = false;
    if (begun) s->updates->begun = false;
    if (s->batch_update_speculative && wanted) return failed ? step_early_rollback(s, err) : PROPANE_OK;
    if (!begun) return wanted && !failed ? train_step_update(s, &s->batch_update, err) : PROPANE_OK;
    s->stale |= step_bakes_what_is_trained(s);
    return step_update_push_rest(s, failed, err);
}

propane_status train_step_update(train_step *s, const adamw_step *how, propane_error *err) {
    const int64_t start = clock_ns();
    PROPANE_TRY(step_check_gradients(s, err));
    const bool speculative = s->early && s->early->open, right = speculative && step_early_close(s, how);
    const propane_status status = right                   ? step_update_push_rest(s, false, err)
                                  : s->updates && !s->own ? step_update_in_units(s, how, speculative, err)
                                                          : step_update_at_once(s, how, err);
    s->own_ns += clock_ns() - start;
    s->stale |= step_bakes_what_is_trained(s);
    return status;
}
