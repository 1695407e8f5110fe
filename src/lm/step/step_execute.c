/* SPDX-License-Identifier: MIT
 * Owns the run of a step: calls in order on one or two queues, the loss between forward and backward pass, the head's
 * pieces, the embedding, and the handover of finished gradients. The calls of a pass are queued without waiting for
 * each other. With a head in one piece, the host waits twice per batch: for the logits and at the end.
 */
#include "lm/step/step_internal.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/float16.h"
#include "core/device/request_times.h"

/* ---- gradients handed over ---------------------------------------------------------------------------------------------- */

void train_step_reduce(train_step *s, const train_reduce *reduce) { s->reduce = reduce; }

void train_step_gradient_order(const train_step *s, int *order) {
    int n = 0;
    for (int c = 0; c <= s->dataflow->call_count; c++)
        for (int i = 0; i < s->updated_count; i++)
            if (s->dataflow->gradients[s->updated[i]].made == c) order[n++] = i;
}

/* Hands over the gradients whose last writer is `call`. */
static propane_status step_execute_hand_over(train_step *s, int call, propane_error *err) {
    for (int i = 0; s->reduce && i < s->updated_count; i++) {
        void *gradient = NULL;
        int tensor = s->updated[i];
        if (s->dataflow->gradients[tensor].made != call) continue;
        PROPANE_TRY(propane_buffer_lock(s->gradients[tensor], true, &gradient, err));
        s->reduce_submitted[tensor] = true;
        PROPANE_TRY(s->reduce->ready(s->reduce->context, i, gradient, err));
    }
    return PROPANE_OK;
}

static void step_execute_take_back(train_step *s) {
    for (int i = 0; i < step_total(s); i++) {
        if (s->reduce_submitted[i]) propane_buffer_unlock(s->gradients[i]);
        s->reduce_submitted[i] = false;
    }
}

/* ---- running calls ------------------------------------------------------------------------------------------------------ */

static void step_execute_record(const train_step *s, int call, const propane_request *r) {
    const dataflow_call *c = &s->dataflow->calls[call];
    if (!s->options.timeline) return;
    const request_times t = request_times_of(r);
    timeline_add_queued(s->options.timeline, c->host ? TIMELINE_HOST_QUEUE : TIMELINE_DEVICE,
                        s->partition->kernels[c->kernel].name, c->instance, t.submitted_ns, t.began_ns, t.ended_ns);
}

static propane_status step_execute_retire_oldest(train_step *s, step_queue *q, int form_hint, propane_error *err) {
    int call = q->calls[q->head++];
    propane_request *r = s->calls[call].request[form_hint];
    if (!r) r = s->calls[call].request[0];
    propane_completion done = {.size = sizeof done};
    propane_status status = propane_wait(r, &done, err);
    s->queues[s->dataflow->calls[call].host].busy_ns += done.device_ns;
    s->kernels[s->dataflow->calls[call].kernel].calls++;
    s->kernels[s->dataflow->calls[call].kernel].ns += done.device_ns;
    s->kernels[s->dataflow->calls[call].kernel].repeats += done.repeats;
    if (done.engine_ns >= 0) {
        s->kernels[s->dataflow->calls[call].kernel].engine_ns += done.engine_ns;
        s->kernels[s->dataflow->calls[call].kernel].counted = true;
    }
    if (done.simulated) {
        s->simulated.simulated = true;
        s->simulated.energy_j += done.energy_j;
        s->simulated.flops += s->partition->kernels[s->dataflow->calls[call].kernel].flops;
    }
    step_execute_record(s, call, r);
    if (status == PROPANE_OK) return step_execute_hand_over(s, call, err);
    return propane_fail_prefix(err, status, "kernel '%s'", s->partition->kernels[s->dataflow->calls[call].kernel].name);
}

/* Sets the events that the request waits for (the other queue, updates of weights) and the event that it signals. Their
 * order never changes; only the awaited values do. */
static propane_status step_execute_set_events(train_step *s, int call, propane_request *r, propane_error *err) {
    const dataflow_call *c = &s->dataflow->calls[call];
    if (!s->two_queues) return PROPANE_OK;
    step_queue *own = &s->queues[c->host], *other = &s->queues[!c->host];
    propane_event_point waits[1 + STEP_CALL_UNITS],
        signal = {own->event, own->base + (uint64_t)(c->ordinal - own->before)};
    int count = 0;
    if (c->wait > other->before)
        waits[count++] = (propane_event_point){other->event, other->base + (uint64_t)(c->wait - other->before)};
    if (s->updates && !s->partition->kernels[c->kernel].backward)
        for (int i = 0; i < s->calls[call].unit_count; i++)
            waits[count++] = (propane_event_point){step_call_unit(s, call, i)->done, step_update_awaited(s)};
    return propane_request_events(r, waits, count, &signal, 1, err);
}

/* The host fills a packed call's input, so all its sources must be complete before the call is queued. */
static propane_status step_execute_stage(train_step *s, int call, int form, propane_error *err) {
    const dataflow_call *c = &s->dataflow->calls[call];
    step_queue *own = &s->queues[s->two_queues && c->host], *other = &s->queues[1];
    while (own->head < own->tail) PROPANE_TRY(step_execute_retire_oldest(s, own, form, err));
    while (s->two_queues && other->head < other->tail &&
           s->dataflow->calls[other->calls[other->head]].ordinal <= c->wait)
        PROPANE_TRY(step_execute_retire_oldest(s, other, form, err));
    if (s->updates && !s->partition->kernels[c->kernel].backward)
        for (int i = 0; i < s->calls[call].unit_count; i++)
            PROPANE_TRY(propane_event_wait(step_call_unit(s, call, i)->done, step_update_awaited(s), -1, err));
    int64_t start = clock_ns();
    propane_status status = step_pack(s, call, false, err);
    s->own_ns += clock_ns() - start;
    timeline_add(s->options.timeline, TIMELINE_HOST, "pack", c->instance, start, clock_ns());
    return status;
}

/* Fills the buffers of the call's converted weights. First waits for all earlier calls, which may still read the
 * buffers. */
static propane_status step_execute_fill(train_step *s, int call, int form, propane_error *err) {
    step_queue *q = &s->queues[0];
    while (q->head < q->tail) PROPANE_TRY(step_execute_retire_oldest(s, q, form, err));
    const int64_t start = clock_ns();
    const propane_status status = step_base_fill(s, call, err);
    s->own_ns += clock_ns() - start;
    timeline_add(s->options.timeline, TIMELINE_HOST, "weights", s->dataflow->calls[call].instance, start, clock_ns());
    return status;
}

static void step_execute_begin_run(train_step *s, int begin) {
    for (int i = 0; i < 2; i++) s->queues[i].head = s->queues[i].tail = s->queues[i].before = 0;
    for (int c = 0; s->two_queues && c < begin; c++) {
        step_queue *q = &s->queues[s->dataflow->calls[c].host];
        if (s->dataflow->calls[c].ordinal > q->before) q->before = s->dataflow->calls[c].ordinal;
    }
}

/* Submits a request. If other users have filled the queue of a shared device, waits for a request of this step or, if
 * it has none, for theirs, and tries again. */
static propane_status step_execute_submit(train_step *s, step_queue *q, propane_request *r, int form,
                                          propane_error *err) {
    const struct timespec rest = {0, 50000};
    propane_status status = propane_submit(&r, 1, err);
    while (status == PROPANE_ERR_LIMIT && s->options.shared) {
        if (q->head < q->tail)
            PROPANE_TRY(step_execute_retire_oldest(s, q, form, err));
        else
            (void)nanosleep(&rest, NULL);
        status = propane_submit(&r, 1, err);
    }
    return status;
}

/* Queues calls [begin, end) and waits for all of them. After a failure it still waits for the calls already queued. No
 * call is in flight when this returns, so calls may be repeated. */
static propane_status step_execute_run_calls(train_step *s, int begin, int end, int form, propane_error *err) {
    propane_status status = PROPANE_OK;
    step_execute_begin_run(s, begin);
    for (int call = begin; call < end && status == PROPANE_OK; call++) {
        const dataflow_call *c = &s->dataflow->calls[call];
        step_queue *q = &s->queues[s->two_queues && c->host];
        propane_request *r = s->calls[call].request[form] ? s->calls[call].request[form] : s->calls[call].request[0];
        if (step_packing(s, call)) status = step_execute_stage(s, call, form, err);
        if (step_base_waits(s, call)) status = step_execute_fill(s, call, form, err);
        while (q->tail - q->head >= q->depth && status == PROPANE_OK)
            status = step_execute_retire_oldest(s, q, form, err);
        if (status == PROPANE_OK) status = step_execute_set_events(s, call, r, err);
        if (status == PROPANE_OK) status = step_execute_submit(s, q, r, form, err);
        if (status != PROPANE_OK) break;
        q->calls[q->tail++] = call;
        step_update_submitted(s, call);
    }
    propane_error later = {0};
    for (int i = 0; i < 2; i++)
        for (step_queue *q = &s->queues[i]; q->head < q->tail;) {
            propane_status own = step_execute_retire_oldest(s, q, form, status == PROPANE_OK ? err : &later);
            if (status == PROPANE_OK) status = own;
        }
    for (int i = 0; i < 2 && s->two_queues; i++) s->queues[i].base += (uint64_t)s->queues[i].tail;
    return status;
}

static train_embed step_execute_embed_layout(const train_step *s, const propane_io *io) {
    const partition_options *o = &s->partition->options;
    return (train_embed){.batch = (int)o->batch,
                         .context = (int)o->context,
                         .width = (int)s->weights->config.hidden_size,
                         .half = io->dtype == PROPANE_FP16,
                         .norm_delta = s->norm_scratch,
                         .batch_stride = io->stride[0],
                         .row_stride = io->stride[1]};
}

static propane_status step_execute_forward(train_step *s, const int32_t *inputs, propane_error *err) {
    const model_tensor *table = model_weights_param(s->weights, MODEL_EMBED, -1, "embed_tokens");
    const model_tensor *positions = model_weights_param(s->weights, MODEL_EMBED, -1, "embed_positions");
    const dataflow_value *x = &s->dataflow->values[0];
    int64_t start = clock_ns(), count = s->partition->options.batch * s->partition->options.context;
    void *stream = NULL;
    assert(table);
    if (s->stale && step_baked_calls(s) > 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "the baked weights are not up to date; refresh them first");
    for (int64_t i = 0; i < count; i++)
        if (inputs[i] < 0 || inputs[i] >= s->weights->config.vocab_size)
            return propane_fail(err, PROPANE_ERR_INVALID, "token %d is outside the vocabulary of %lld", (int)inputs[i],
                                (long long)s->weights->config.vocab_size);
    PROPANE_TRY(step_early_rollback(s, err));
    s->gradients_clobbered = !s->options.accumulate;
    const model_tensor *piece;
    for (int k = 0; (piece = model_weights_piece(s->weights, table, k)); k++) step_update_rows(s, piece, inputs, count);
    if (positions) step_update_rows(s, positions, NULL, s->partition->options.context);
    PROPANE_TRY(step_lock_value(s, 0, true, &stream, err));
    train_embed e = step_execute_embed_layout(s, &x->io);
    const model_tensor *all = s->weights->tensors;
    if (s->base)
        step_base_gather(s, &e, table, positions, inputs, stream);
    else
        train_embed_gather(&e, step_master(s, (int)(table - all)),
                           positions ? step_master(s, (int)(positions - all)) : NULL, inputs, stream);
    step_unlock_value(s, 0);
    s->own_ns += clock_ns() - start;
    timeline_add(s->options.timeline, TIMELINE_HOST, "embed", -1, start, clock_ns());
    const dataflow_piece *first = s->dataflow->pieces; /* a head in one piece is run as part of the pass */
    return step_execute_run_calls(s, 0, step_head_pieces(s) == 1 ? first->middle : first->begin, 0, err);
}

/* ---- the head ----------------------------------------------------------------------------------------------------------- */

/* Computes the batch's loss and the factors of the windows' gradients, once the loss of all positions is known. */
static void step_execute_mean(train_step *s, const int32_t *targets, double *nats, double *loss) {
    const int batch = (int)s->partition->options.batch, context = (int)s->partition->options.context;
    train_loss_mean(&s->sums, targets, (int64_t)batch * context, nats, loss);
    if (s->preference) *loss = preference_loss(s->preference, nats, targets, batch, context, s->scales);
}

/* Computes the loss of pairs with a head in one piece. All positions are summed first, because a window's gradient
 * depends on the sums of both windows of its pair. */
static propane_status step_execute_prefer(train_step *s, const train_logits *l, const int32_t *targets,
                                          double gradient_scale, double *nats, double *loss, propane_error *err) {
    PROPANE_TRY(train_loss_add(l, 0, targets, &s->sums, err));
    step_execute_mean(s, targets, nats, loss);
    if (gradient_scale == 0) return PROPANE_OK;
    return train_loss_gradient(l, 0, targets, gradient_scale, s->scales, &s->sums, err);
}

/* Adds up a piece's logits, or turns them into their gradient. For a head in one piece, one call does both. */
static propane_status step_execute_take_loss(train_step *s, int piece, const int32_t *targets, double gradient_scale,
                                             double *nats, double *loss, propane_error *err) {
    int64_t start = clock_ns();
    int value = dataflow_find(s->dataflow, s->dataflow->head + piece, "logits");
    const propane_io *io = &s->dataflow->values[value].io;
    int first = piece * (int)s->weights->config.vocab_piece;
    void *data = NULL;
    PROPANE_TRY(step_lock_value(s, value, gradient_scale != 0, &data, err));
    train_logits l = {.data = data,
                      .dtype = io->dtype,
                      .batch = (int)io->dim[0],
                      .vocab = (int)io->dim[1],
                      .context = (int)io->dim[3],
                      .batch_stride = io->stride[0],
                      .row_stride = io->stride[1]};
    const float *scales = s->preference ? s->scales : NULL;
    propane_status status =
        step_head_pieces(s) == 1 && s->preference ? step_execute_prefer(s, &l, targets, gradient_scale, nats, loss, err)
        : step_head_pieces(s) == 1                ? train_loss(&l, targets, gradient_scale, nats, loss, err)
        : gradient_scale != 0 ? train_loss_gradient(&l, first, targets, gradient_scale, scales, &s->sums, err)
                              : train_loss_add(&l, first, targets, &s->sums, err);
    step_unlock_value(s, value);
    s->own_ns += clock_ns() - start;
    timeline_add(s->options.timeline, TIMELINE_HOST, "loss", s->dataflow->head + piece, start, clock_ns());
    return status;
}

/* Computes the loss over all pieces, holding the logits of one piece at a time. With `gradient_scale`, which requires a
 * head in one piece, the logits become their gradient. */
static propane_status step_execute_add_up(train_step *s, const int32_t *targets, double gradient_scale, double *nats,
                                          double *loss, propane_error *err) {
    for (int i = 0; i < step_head_pieces(s); i++) {
        if (step_head_pieces(s) > 1)
            PROPANE_TRY(step_execute_run_calls(s, s->dataflow->pieces[i].begin, s->dataflow->pieces[i].middle, 0, err));
        PROPANE_TRY(step_execute_take_loss(s, i, targets, gradient_scale, nats, loss, err));
    }
    if (step_head_pieces(s) > 1) step_execute_mean(s, targets, nats, loss);
    return PROPANE_OK;
}

/* Clears the gradients of the head's weights before the pieces add to them. */
static propane_status step_execute_clear_head(train_step *s, propane_error *err) {
    for (int i = 0; i < s->weights->count; i++) {
        const model_tensor *t = &s->weights->tensors[i];
        void *gradient = NULL;
        if (!s->gradients[i] || s->dataflow->gradients[i].first != s->dataflow->pieces[0].begin) continue;
        PROPANE_TRY(propane_buffer_lock(s->gradients[i], true, &gradient, err));
        memset(gradient, 0, (size_t)t->count * sizeof(float));
        propane_buffer_unlock(s->gradients[i]);
    }
    return PROPANE_OK;
}

static void step_execute_add_floats(float *sum, const float *more, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += more[i];
}

static void step_execute_add_halves(uint16_t *sum, const uint16_t *more, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] = fp16_from_f32(fp16_to_f32(sum[i]) + fp16_to_f32(more[i]));
}

/* Adds the piece's gradient of the residual stream to that of the first piece. */
static propane_status step_execute_add_stream(train_step *s, int piece, propane_error *err) {
    int from = dataflow_find(s->dataflow, s->dataflow->head + piece, "d_x");
    int to = dataflow_find(s->dataflow, s->dataflow->head, "d_x");
    void *source = NULL, *target = NULL;
    PROPANE_TRY(step_lock_value(s, from, false, &source, err));
    propane_status status = step_lock_value(s, to, true, &target, err);
    if (status == PROPANE_OK) {
        const dataflow_value *v = &s->dataflow->values[to];
        if (v->io.dtype == PROPANE_FP16)
            step_execute_add_halves(target, source, v->bytes / sizeof(uint16_t));
        else
            step_execute_add_floats(target, source, v->bytes / sizeof(float));
        step_unlock_value(s, to);
    }
    step_unlock_value(s, from);
    return status;
}

/* For each piece of the head, repeats the forward kernels, turns the logits into their gradient and runs the backward
 * kernels. The pieces' weight gradients are summed. */
static propane_status step_execute_run_pieces(train_step *s, const int32_t *targets, bool first, double loss_scale,
                                              propane_error *err) {
    const dataflow_piece *piece = s->dataflow->pieces;
    if (first) PROPANE_TRY(step_execute_clear_head(s, err));
    for (int i = 0; i < step_head_pieces(s); i++) {
        PROPANE_TRY(step_execute_run_calls(s, piece[i].begin, piece[i].middle, 0, err));
        PROPANE_TRY(step_execute_take_loss(s, i, targets, loss_scale, NULL, NULL, err));
        PROPANE_TRY(step_execute_run_calls(s, piece[i].middle, piece[i].end, 1, err));
        if (i > 0) PROPANE_TRY(step_execute_add_stream(s, i, err));
    }
    return PROPANE_OK;
}

/* Scatters the stream's gradient into one table's gradient, by token or, if `inputs` is NULL, by position. A tied head
 * has already written its share of the table's gradient. */
static propane_status step_execute_scatter_table(train_step *s, const model_tensor *table, const int32_t *inputs,
                                                 bool clear, const void *stream, const train_embed *e,
                                                 propane_error *err) {
    const int tensor = (int)(table - s->weights->tensors);
    train_embed part = *e;
    void *gradient = NULL;
    if (!s->trained[tensor]) return PROPANE_OK;
    PROPANE_TRY(propane_buffer_lock(s->gradients[tensor], true, &gradient, err));
    if (clear) memset(gradient, 0, (size_t)table->count * sizeof(float));
    if (table->dim[0] != table->stored_rows) part.first = table->first_row, part.rows = table->dim[0];
    if (clear || s->dataflow->gradients[tensor].squares >= 0) s->norm_delta[tensor] = 0;
    s->norm_delta[tensor] += train_embed_scatter(&part, gradient, inputs, stream);
    propane_buffer_unlock(s->gradients[tensor]);
    return PROPANE_OK;
}

static propane_status step_execute_scatter(train_step *s, const int32_t *inputs, bool first, propane_error *err) {
    const model_tensor *table = model_weights_param(s->weights, MODEL_EMBED, -1, "embed_tokens"), *piece;
    const model_tensor *positions = model_weights_param(s->weights, MODEL_EMBED, -1, "embed_positions");
    int64_t start = clock_ns();
    int value = dataflow_find(s->dataflow, 0, "d_x");
    void *stream = NULL;
    PROPANE_TRY(step_lock_value(s, value, false, &stream, err));
    train_embed e = step_execute_embed_layout(s, &s->dataflow->values[value].io);
    bool clear = first && !s->weights->config.tie_word_embeddings;
    propane_status status = PROPANE_OK;
    for (int k = 0; !status && (piece = model_weights_piece(s->weights, table, k)); k++)
        status = step_execute_scatter_table(s, piece, inputs, clear, stream, &e, err);
    if (!status && positions) status = step_execute_scatter_table(s, positions, NULL, first, stream, &e, err);
    step_unlock_value(s, value);
    s->own_ns += clock_ns() - start;
    timeline_add(s->options.timeline, TIMELINE_HOST, "scatter", -1, start, clock_ns());
    return status;
}

/* Runs the backward pass, after the forward pass and its loss. */
static propane_status step_execute_backward(train_step *s, const int32_t *inputs, const int32_t *targets, bool first,
                                            double loss_scale, propane_error *err) {
    const dataflow_piece *piece = s->dataflow->pieces;
    int backward = piece[0].middle;
    PROPANE_TRY(step_update_begin_in_batch(s, err));
    if (step_head_pieces(s) > 1) {
        PROPANE_TRY(step_execute_run_pieces(s, targets, first, loss_scale, err));
        backward = piece[step_head_pieces(s) - 1].end;
    }
    PROPANE_TRY(step_execute_run_calls(s, backward, s->dataflow->call_count, !first, err));
    /* the host is about to change gradients */
    if (!s->updates || !s->updates->begun) PROPANE_TRY(step_wait_updates(s, err));
    if (dataflow_trains_embedding(s->dataflow)) PROPANE_TRY(step_execute_scatter(s, inputs, first, err));
    propane_status status = step_execute_hand_over(s, s->dataflow->call_count, err);
    s->summed = s->reduce != NULL;
    if (s->reduce && status == PROPANE_OK) status = s->reduce->finish(s->reduce->context, err);
    step_execute_take_back(s);
    if (status == PROPANE_OK) s->gradients_clobbered = false;
    return status;
}

propane_status train_step_batch(train_step *s, const int32_t *inputs, const int32_t *targets, bool first,
                                double loss_scale, double *loss, propane_error *err) {
    if (!first && !s->options.accumulate)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "this step was created for a single batch; create it with accumulation");
    propane_error later = {0};
    propane_status status = step_execute_forward(s, inputs, err);
    if (status == PROPANE_OK)
        status = step_execute_add_up(s, targets, step_head_pieces(s) == 1 ? loss_scale : 0, s->nats, loss, err);
    if (status == PROPANE_OK) status = step_execute_backward(s, inputs, targets, first, loss_scale, err);
    const propane_status updated =
        step_update_end_in_batch(s, status != PROPANE_OK, status == PROPANE_OK ? err : &later);
    return status == PROPANE_OK ? updated : status;
}

void train_step_prefer(train_step *s, preference *p) { s->preference = p; }

propane_status train_step_evaluate(train_step *s, const int32_t *inputs, const int32_t *targets, double *nats,
                                   double *loss, propane_error *err) {
    PROPANE_TRY(step_execute_forward(s, inputs, err));
    return step_execute_add_up(s, targets, 0, nats ? nats : s->nats, loss, err);
}
