/* SPDX-License-Identifier: MIT
 * Owns the lifetime of a step: its devices, programs, buffers and requests. The dataflow determines which buffers are
 * bound to which request.
 */
#include "lm/step/step_internal.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/device/uri.h"
#include "lm/step/dropout.h"
#include "lm/step/embed.h"
#include "train/weight_mode_check.h"

int train_step_compiles(const train_step *s) { return s->compiles; }
const char *train_step_sharing(const train_step *s) { return s->sharing; }
const char *train_step_device_note(const train_step *s) {
    const char *note = propane_device_describe(s->queues[0].device)->note;
    return note ? note : "";
}
bool train_step_trains(const train_step *s, int tensor) { return s->trained[tensor]; }
int train_step_updated_count(const train_step *s) { return s->updated_count; }
int train_step_updated(const train_step *s, int index) { return s->updated[index]; }

int train_step_compile_limit(const train_step *s) {
    return propane_device_describe(s->queues[0].device)->compile_limit;
}

void train_step_times(train_step *s, int64_t *device_ns, int64_t *host_ns) {
    *device_ns = s->queues[0].busy_ns;
    *host_ns = s->queues[1].busy_ns + s->own_ns;
    s->queues[0].busy_ns = s->queues[1].busy_ns = s->own_ns = 0;
}

int train_step_kernel_count(const train_step *s) { return s->partition->kernel_count; }

train_kernel_time train_step_kernel_time(const train_step *s, int kernel) {
    const partition_kernel *k = &s->partition->kernels[kernel];
    return (train_kernel_time){.name = k->name,
                               .host = k->place == PARTITION_HOST,
                               .calls = s->kernels[kernel].calls,
                               .ns = s->kernels[kernel].ns,
                               .engine_ns = s->kernels[kernel].counted ? s->kernels[kernel].engine_ns : -1,
                               .repeats = s->kernels[kernel].repeats,
                               .flops = k->flops,
                               .bytes = k->bytes};
}

train_simulated train_step_simulated(train_step *s) {
    train_simulated out = s->simulated;
    s->simulated = (train_simulated){0};
    return out;
}

/* ---- dropout ------------------------------------------------------------------------------------------------------------ */

propane_status train_step_dropout(train_step *s, uint64_t key, propane_error *err) {
    double dropout = s->weights->lora.dropout;
    if (s->weights->lora.rank == 0 || dropout <= 0 || (s->dropout_filled && s->dropout == key)) return PROPANE_OK;
    int64_t start = clock_ns();
    for (int i = 0; i < s->dataflow->value_count; i++) {
        const dataflow_value *v = &s->dataflow->values[i];
        void *data = NULL;
        if (!partition_is_dropout(v->name)) continue;
        PROPANE_TRY(step_lock_value(s, i, true, &data, err));
        train_dropout_fill(data, &v->io, key, train_dropout_mask(v->instance, v->name), dropout);
        step_unlock_value(s, i);
    }
    s->dropout = key;
    s->dropout_filled = true;
    s->own_ns += clock_ns() - start;
    return PROPANE_OK;
}

/* ---- making and freeing ------------------------------------------------------------------------------------------------- */

/* If it is not known whether a device supports the weight mode, a trial finds out before the step relies on it. The
 * device is closed during the trial and opened again for the run, because compiles count towards a process's limit. */
static propane_status step_open_device(train_step *s, const char *uri, propane_error *err) {
    if (s->options.shared) {
        s->queues[0].device = s->options.shared;
        if (!propane_device_describe(s->options.shared)->unproven) return PROPANE_OK;
        return weight_mode_check(uri, weight_mode_name(s->options.weights), err);
    }
    PROPANE_TRY(propane_device_open(uri, &s->queues[0].device, err));
    if (!propane_device_describe(s->queues[0].device)->unproven) return PROPANE_OK;
    propane_device_close(s->queues[0].device);
    s->queues[0].device = NULL;
    PROPANE_TRY(weight_mode_check(uri, weight_mode_name(s->options.weights), err));
    return propane_device_open(uri, &s->queues[0].device, err);
}

static const char *step_device_uri(const train_step *s) { return s->options.device ? s->options.device : "cpu"; }

static bool step_on_cpu(const train_step *s) { return device_is(step_device_uri(s), "cpu"); }

static propane_status step_open_devices(train_step *s, propane_error *err) {
    s->two_queues = s->options.two_queues || !step_on_cpu(s);
    PROPANE_TRY(step_open_device(s, step_device_uri(s), err));
    if (s->two_queues)
        PROPANE_TRY(propane_device_open("cpu", &s->queues[1].device, err));
    else
        s->queues[1].device = s->queues[0].device;
    for (int i = 0; i < 2; i++) {
        s->queues[i].depth = propane_device_describe(s->queues[i].device)->queue_depth;
        s->queues[i].calls = mem_array((size_t)s->dataflow->call_count, sizeof(int));
        if (!s->queues[i].calls) return propane_fail_memory(err, 0);
        if (s->two_queues) PROPANE_TRY(propane_event_create(s->queues[i].device, &s->queues[i].event, err));
    }
    return PROPANE_OK;
}

static propane_status step_make_moment_copy(train_step *s, propane_error *err) {
    int64_t largest = 1;
    if (s->options.moments == MOMENT_FP32) return PROPANE_OK;
    for (int i = 0; i < s->updated_count; i++)
        if (s->weights->tensors[s->updated[i]].count > largest) largest = s->weights->tensors[s->updated[i]].count;
    s->moment_copy = mem_array((size_t)largest, sizeof(float));
    return s->moment_copy ? PROPANE_OK : propane_fail_memory(err, (size_t)largest * sizeof(float));
}

static propane_status step_make_arrays(train_step *s, propane_error *err) {
    size_t tensors = (size_t)step_total(s);
    s->kernels = mem_array((size_t)s->partition->kernel_count, sizeof *s->kernels);
    s->calls = mem_array((size_t)s->dataflow->call_count, sizeof *s->calls);
    s->copies = mem_array(tensors, sizeof(propane_buffer *));
    s->copy_layout = mem_array(tensors, sizeof *s->copy_layout);
    s->others = mem_array(tensors, sizeof(propane_buffer *));
    s->other_layout = mem_array(tensors, sizeof *s->other_layout);
    s->is_master = mem_array(tensors, sizeof *s->is_master);
    s->gradients = mem_array(tensors, sizeof(propane_buffer *));
    s->reduce_submitted = mem_array(tensors, sizeof *s->reduce_submitted);
    s->norm_delta = mem_array(tensors, sizeof *s->norm_delta);
    s->norm_scratch = mem_array(TRAIN_EMBED_TASKS((size_t)s->weights->config.hidden_size), sizeof *s->norm_scratch);
    s->nats = mem_array((size_t)(s->partition->options.batch * s->partition->options.context), sizeof(double));
    size_t positions = (size_t)(s->partition->options.batch * s->partition->options.context);
    s->sums = (train_loss_sums){.top = mem_array(positions, sizeof(float)),
                                .goal = mem_array(positions, sizeof(float)),
                                .sum = mem_array(positions, sizeof(double)),
                                .vocab = (int)s->weights->config.vocab_size};
    s->scales = mem_array((size_t)s->partition->options.batch, sizeof *s->scales);
    if (s->scales && s->kernels && s->calls && s->copies && s->copy_layout && s->others && s->other_layout &&
        s->is_master && s->gradients && s->reduce_submitted && s->norm_delta && s->norm_scratch && s->nats &&
        s->sums.top && s->sums.goal && s->sums.sum)
        return PROPANE_OK;
    return propane_fail_memory(err, tensors * sizeof(propane_buffer *));
}

/* Chooses the trained tensors and the places of their moments. */
static propane_status step_choose_trained(train_step *s, propane_error *err) {
    const model_weights *w = s->weights;
    s->trained = mem_array((size_t)step_total(s), sizeof *s->trained);
    s->moment_at = mem_array((size_t)step_total(s), sizeof *s->moment_at);
    s->updated = mem_array((size_t)step_total(s), sizeof *s->updated);
    if (!s->trained || !s->moment_at || !s->updated) return propane_fail_memory(err, (size_t)step_total(s) * 16);
    for (int i = 0; i < step_total(s); i++) {
        s->trained[i] = s->options.trained ? s->options.trained[i] : w->adapter_count == 0 || i >= w->count;
        if (!s->trained[i]) continue;
        s->updated[s->updated_count++] = i;
        s->moment_at[i] = s->moment_floats;
        const int64_t grain = s->options.moments == MOMENT_FP32 ? 16 : MOMENT_BLOCK; /* 16, as in the registry */
        s->moment_floats += (w->tensors[i].count + grain - 1) / grain * grain;
    }
    s->options.trained = NULL; /* the array belongs to the caller */
    if (s->updated_count > 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "none of the model's %d tensors is selected for training",
                        step_total(s));
}

/* Returns whether any of the layers that share a kernel trains this parameter. */
static bool step_trained_anywhere(const void *context, model_part part, const char *param) {
    const train_step *s = context;
    const model_weights *w = s->weights;
    for (int layer = 0; layer < w->config.num_hidden_layers; layer++) {
        const model_tensor *t = model_weights_param(w, part, layer, param);
        if (t && s->trained[t - w->tensors]) return true;
    }
    return false;
}

static propane_status step_make_all(train_step *s, propane_error *err) {
    PROPANE_TRY(step_choose_trained(s, err));
    partition_options o = s->options.partition;
    o.lora = s->weights->lora.rank > 0 ? &s->weights->lora : NULL;
    o.defer = s->options.two_queues || !step_on_cpu(s);
    o.keep_norms = step_on_cpu(s) && !o.lora; /* a run with adapters must save memory */
    o.sum_bytes = step_on_cpu(s) || o.sum_bytes ? o.sum_bytes : PARTITION_SUM_BYTES;
    o.trained = step_trained_anywhere;
    o.trained_context = s;
    PROPANE_TRY(partition_create(&s->weights->config, &o, &s->partition, err));
    PROPANE_TRY(dataflow_create(s->partition, s->weights, s->trained, s->options.recompute, &s->dataflow, err));
    PROPANE_TRY(step_open_devices(s, err));
    PROPANE_TRY(step_make_arrays(s, err));
    PROPANE_TRY(step_make_moments(s, &s->moments, err));
    PROPANE_TRY(step_make_moment_copy(s, err));
    PROPANE_TRY(step_base_create(s, err));
    PROPANE_TRY(step_compile(s, err));
    PROPANE_TRY(step_bake(s, err));
    PROPANE_TRY(step_lay_out(s, err));
    PROPANE_TRY(step_make_between(s, err));
    PROPANE_TRY(step_make_optimiser(s, err));
    PROPANE_TRY(step_make_updates(s, step_update_unit, err));
    PROPANE_TRY(step_make_early(s, err));
    PROPANE_TRY(train_step_publish(s, err));
    s->stale = false;
    return train_step_dropout(s, 0, err);
}

propane_status train_step_create(const train_step_options *options, model_weights *weights, train_step **out,
                                 propane_error *err) {
    *out = NULL;
    train_step *s = mem_alloc(sizeof *s);
    if (!s) return propane_fail_memory(err, sizeof *s);
    s->options = *options;
    s->weights = weights;
    propane_status status = step_make_all(s, err);
    if (status != PROPANE_OK)
        train_step_free(s);
    else
        *out = s;
    return status;
}

static void step_free_buffers(propane_buffer **list, int count) {
    for (int i = 0; list && i < count; i++) propane_buffer_free(list[i]);
    mem_free(list);
}

void train_step_free(train_step *s) {
    if (!s) return;
    if (s->updates && s->updates->thread) (void)!train_step_settle(s, NULL);
    step_free_updates(s);
    step_free_early(s);
    step_free_moments(s, &s->moments);
    for (int c = 0; s->calls && c < s->dataflow->call_count; c++) {
        for (int form = 0; form < 2; form++) propane_request_free(s->calls[c].request[form]);
        propane_program_free(s->calls[c].own);
        propane_buffer_free(s->calls[c].packed);
    }
    for (int k = 0; s->kernels && k < s->partition->kernel_count; k++) packing_free(s->kernels[k].packing);
    for (int k = 0; s->kernels && k < s->partition->kernel_count; k++)
        for (int form = 0; form < 2; form++) propane_program_free(s->kernels[k].program[form]);
    step_free_buffers(s->buffers, s->dataflow ? s->dataflow->buffer_count : 0);
    step_base_free(s);
    step_free_buffers(s->copies, step_total(s));
    step_free_buffers(s->others, step_total(s));
    mem_free(s->gradients);
    if (s->block) mem_pages_free(s->block, s->dataflow->block_bytes);
    mem_free(s->trained);
    mem_free(s->moment_at);
    mem_free(s->moment_copy);
    mem_free(s->updated);
    for (int i = 0; i < 2; i++) {
        propane_event_free(s->queues[i].event);
        mem_free(s->queues[i].calls);
    }
    if (s->two_queues) propane_device_close(s->queues[1].device);
    if (!s->options.shared) propane_device_close(s->queues[0].device);
    adamw_free(s->optimiser);
    adamw_free(s->own);
    mem_free(s->pieces);
    mem_free(s->reduce_submitted);
    mem_free(s->norm_delta);
    mem_free(s->norm_scratch);
    mem_free(s->nats);
    mem_free(s->scales);
    mem_free(s->sums.top);
    mem_free(s->sums.goal);
    mem_free(s->sums.sum);
    mem_free(s->copy_layout);
    mem_free(s->other_layout);
    mem_free(s->between);
    mem_free(s->is_master);
    mem_free(s->calls);
    mem_free(s->kernels);
    dataflow_free(s->dataflow);
    partition_free(s->partition);
    mem_free(s);
}
