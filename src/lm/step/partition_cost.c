/* SPDX-License-Identifier: MIT
 * Owns the arithmetic of a step's cost: the time of each call, and the calls as tasks of partition_schedule.h in the
 * order in which dataflow.c queues them and step_update.c moves weights:
 *
 *   engine    the device's kernels
 *   host      the other kernels, the loss, weight gradients; one queue, in order: later kernels wait
 *   update    one unit per half of a layer; with exact clipping in forward order after the norm, during the next batch;
 *             lagged or speculative (assuming that all are confirmed) during the backward pass. A kernel that reads
 *             weights forward waits for its unit
 *
 * Assumptions: the host's rates (cost_step.c cites their sources); large matrix products run in a library with separate
 * threads, concurrently with loops of the pool; matrix kernels run at their own rate or at that of the memory,
 * whichever is slower; nothing else runs on the machine. With weights that are compiled or loaded again after an
 * update, the update is one sweep and overlaps with nothing.
 */
#include "lm/step/partition_cost.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/base/memory.h"
#include "lm/step/partition_schedule.h"

#define BUDGET 119

static bool partition_cost_is_trained(const partition *p, const partition_block *b, const char *param) {
    return partition_is_weight(b, param) &&
           (!p->options.trained || p->options.trained(p->options.trained_context, b->part, param));
}

/* Returns whether the kernel reads a weight or, with `updated`, a weight of the model itself that an update changes.
 * Adapters do not count as updated, because they are inputs in every mode. */
static bool partition_cost_reads(const partition *p, const partition_kernel *k, bool updated) {
    for (int b = 0; b < p->block_count; b++)
        if (p->blocks[b].part == k->part)
            for (int i = 0; i < k->function->param_count; i++) {
                const char *param = k->function->params[i]->name;
                if (updated ? !p->options.lora && partition_cost_is_trained(p, &p->blocks[b], param)
                            : partition_is_weight(&p->blocks[b], param))
                    return true;
            }
    return false;
}

/* Returns the number of parameters with a gradient in one instance of a block. */
static double partition_cost_parameters(const partition *p, const partition_block *b) {
    double sum = 0;
    for (int i = 0; i < b->forward->param_count; i++)
        if (partition_cost_is_trained(p, b, b->forward->params[i]->name))
            sum += (double)mil_type_count(&b->forward->params[i]->type);
    return sum;
}

static double partition_cost_trained(const partition *p) {
    double sum = 0;
    if (!p->options.trained) return (double)model_arch_parameters(&p->config);
    for (int i = 0; i < 2 * (int)p->config.num_hidden_layers; i++)
        sum += partition_cost_parameters(p, partition_block_at(p, i));
    return sum;
}

static propane_status partition_cost_device(const partition *p, const chip *c, partition_kernel_cost *k, arena *a,
                                            partition_cost *out, propane_error *err) {
    const weight_mode weights = out->how.weights;
    cost_program cost;
    PROPANE_TRY(cost_function(c, COST_DIRECT, k->kernel->function, a, &cost, err));
    double ms = cost.ms;
    /* The cost of weights that are packed with the activation is taken from published packed steps. It includes all
     * other costs of the kernel. */
    if (weights == WEIGHT_MODE_PACKED)
        ms = fmax(ms, cost_packed_ms(c, cost.weight_bytes, (double)(p->options.batch * p->options.context)));
    k->ms = ms * k->calls;
    k->energy_mj = cost.energy_mj * k->calls;
    k->bytes = (cost.io_bytes + cost.weight_bytes) * k->calls;
    k->utilisation = cost.flops / (cost_constants_of(c->id)->tflops * 1e9 * ms);
    out->engine_ms += k->ms;
    out->energy_j += k->energy_mj * 1e-3;
    out->engine_flops += cost.flops * k->calls;
    const bool own = partition_cost_reads(p, k->kernel, false) && weight_mode_is_constant(weights);
    /* false for a frozen base, which is compiled once */
    const bool moves = own && partition_cost_reads(p, k->kernel, true);
    const bool again = moves && weights == WEIGHT_MODE_BAKED, loaded = moves && weights == WEIGHT_MODE_RELOAD;
    out->programs += !own ? 1 : again ? 0 : k->calls;
    if (!again) out->compile_ms += (own ? k->calls : 1) * cost_compile_ms(c, own ? cost.weight_bytes : 0);
    out->compiles += again ? k->calls : 0;
    out->constant_bytes += own ? cost.weight_bytes * k->calls : 0;
    out->reloads += loaded ? k->calls : 0;
    if (again || loaded) /* overwriting weights costs the same copies as inputs do */
        out->recompile_ms +=
            k->calls * (again ? cost_compile_ms(c, cost.weight_bytes) : cost_reload_ms(c, cost.weight_bytes));
    return PROPANE_OK;
}

static void partition_cost_on_host(const cost_host *h, partition_kernel_cost *k, partition_cost *out) {
    const partition_kernel *kernel = k->kernel;
    double products = kernel->flops / (h->gemm_tflops * 1e9), stream = kernel->bytes / (h->stream_gbs * 1e6);
    bool moves = kernel->flops < 4 * kernel->bytes; /* casts, sums and norms need fewer than four operations per byte */
    k->ms = (moves ? stream : fmax(products, stream)) * k->calls;
    k->bytes = kernel->bytes * k->calls;
    out->host_flops += kernel->flops * k->calls;
    out->memory_j += k->bytes; /* in bytes until partition_cost_energy converts it */
    if (kernel->weights)
        out->products_ms += k->ms;
    else if (kernel->flops < 0.5 * kernel->bytes)
        out->staging_ms += k->ms;
    else
        out->host_ms += k->ms;
}

/* ---- the step as tasks ----------------------------------------------------------------------------------------------------- */

/* After STEPS steps, a step takes as long as the one before; the last step is measured. */
enum { STEPS = 3, BATCHES = 2 };

typedef struct step_tasks {
    const partition *p;
    const cost_host *host;
    partition_cost *cost;
    schedule_task *list;
    int count, chain, last_gradient; /* index of a task, or -1 for none */
    int *units;                      /* [instance], the task of the instance's last update, or -1 for none */
    int ready;                       /* the task that the current weight gradients wait for: the last of their half */
    int pieces, layers;
} step_tasks;

static int cost_task(step_tasks *t, schedule_lane lane, double ms, double bytes, bool pool, int wait) {
    schedule_task *task = &t->list[t->count];
    *task = (schedule_task){.lane = lane, .pool = pool, .ms = ms, .bytes = bytes};
    if (wait >= 0) task->waits[task->wait_count++] = wait;
    return t->count++;
}

static void cost_task_wait(step_tasks *t, int task, int other) {
    schedule_task *at = &t->list[task];
    assert(at->wait_count < SCHEDULE_WAITS);
    if (other >= 0) at->waits[at->wait_count++] = other;
}

static void cost_tasks_call(step_tasks *t, const partition_kernel_cost *k, int instance) {
    const partition_kernel *kernel = k->kernel;
    const bool device = kernel->place == PARTITION_DEVICE, product = kernel->flops >= 4 * kernel->bytes;
    const int task = cost_task(t, device ? SCHEDULE_ENGINE : SCHEDULE_HOST, k->ms / k->calls, k->bytes / k->calls,
                               !device && !product, kernel->weights ? t->ready : t->chain);
    if (!kernel->backward && partition_cost_reads(t->p, kernel, false)) cost_task_wait(t, task, t->units[instance]);
    if (kernel->weights)
        t->last_gradient = task;
    else
        t->chain = task;
}

static void cost_tasks_block(step_tasks *t, int instance, partition_range range) {
    const partition_block *b = partition_block_at(t->p, instance);
    for (int k = b->first; k < b->first + b->count; k++)
        if (partition_in_range(t->p, b, k, range)) cost_tasks_call(t, &t->cost->kernels[k], instance);
}

double partition_update_bytes(moment_form form) {
    /* Weight, gradient and two moments are read; weight, moments and the fp16 copy for the device are written. An
     * update that writes a second set costs the same, because memory that is written is not read first: STREAM on an M4
     * reaches 103 of 120 GB/s (arXiv 2502.05317). */
    return 4 + 4 + 4 + 4 * (double)moment_bytes(form) + 2 + (form == MOMENT_INT8 ? 4 * 4.0 / MOMENT_BLOCK : 0);
}

/* Returns the time of AdamW's sweep. */
static double partition_cost_update_ms(const cost_host *h, const partition_training *how, double parameters) {
    if (how->rates) return parameters * cost_rates_update(how->rates, how->early)[how->moments] / 1e6;
    return parameters * partition_update_bytes(how->moments) / (h->memory_gbs * 1e6);
}

static void cost_tasks_unit(step_tasks *t, int instance, schedule_lane lane, int wait, int also) {
    double parameters = partition_cost_parameters(t->p, partition_block_at(t->p, instance));
    if (instance == 2 * t->layers && !t->p->config.tie_word_embeddings && !t->p->options.trained)
        parameters += (double)t->p->config.vocab_size * (double)t->p->config.hidden_size;
    const double bytes = parameters * partition_update_bytes(t->cost->how.moments);
    const double ms = partition_cost_update_ms(t->host, &t->cost->how, parameters);
    const int task = cost_task(t, lane, ms, bytes, true, wait);
    cost_task_wait(t, task, also);
    t->units[instance] = task;
}

static void cost_tasks_loss(step_tasks *t) {
    /* The logits are read twice and written once, in the programs' precision. */
    const double bytes = t->cost->loss_ms * t->host->stream_gbs * 1e6 / t->pieces;
    t->chain = cost_task(t, SCHEDULE_HOST, t->cost->loss_ms / t->pieces, bytes, true, t->chain);
}

static void cost_tasks_head(step_tasks *t) {
    const int head = 2 * t->layers;
    for (int i = 0; i < t->pieces && t->pieces > 1; i++) cost_tasks_block(t, head + i, PARTITION_FORWARD);
    for (int i = 0; i < t->pieces; i++) {
        cost_tasks_block(t, head + i, PARTITION_FORWARD);
        cost_tasks_loss(t);
        cost_tasks_block(t, head + i, PARTITION_FIRST);
        cost_tasks_block(t, head + i, PARTITION_REST);
        t->ready = t->chain;
        cost_tasks_block(t, head + i, PARTITION_GRADIENTS);
    }
}

/* Returns whether an update can overlap with the device. With adapters it always can, because they are inputs in every
 * mode. */
static bool cost_overlaps(const step_tasks *t) {
    return t->p->options.lora || !weight_mode_is_constant(t->cost->how.weights);
}

static bool cost_begins_in_batch(const step_tasks *t) {
    return (t->cost->how.lagged || t->cost->how.early) && cost_overlaps(t) &&
           t->cost->how.weights != WEIGHT_MODE_PACKED;
}

static void cost_tasks_backward(step_tasks *t, bool update) {
    const bool in_batch = update && cost_begins_in_batch(t);
    int held = -1; /* the half whose weight gradients are queued after the next one's first kernels */
    for (int i = 2 * t->layers - 1; i >= -1; i--) {
        if (i >= 0) cost_tasks_block(t, i, PARTITION_FIRST);
        if (held >= 0) cost_tasks_block(t, held, PARTITION_GRADIENTS);
        if (held >= 0 && in_batch) cost_tasks_unit(t, held, SCHEDULE_UPDATE, t->last_gradient, t->chain);
        if (i >= 0) cost_tasks_block(t, i, PARTITION_REST);
        t->ready = t->chain;
        held = i;
    }
}

/* Adds the tasks of forward pass, loss, backward pass and, for the step's last batch, the update. */
static void cost_tasks_batch(step_tasks *t, bool update) {
    const int halves = 2 * t->layers, last = halves + t->pieces;
    for (int i = 0; i < halves; i++) cost_tasks_block(t, i, PARTITION_FORWARD);
    cost_tasks_head(t);
    cost_tasks_backward(t, update);
    /* The embedding's share and the norm are short and run after everything else. */
    t->chain = cost_task(t, SCHEDULE_HOST, 0, 0, true, t->chain);
    cost_task_wait(t, t->chain, t->last_gradient);
    if (!update) return;
    for (int i = cost_begins_in_batch(t) ? halves : 0; i < last; i++)
        cost_tasks_unit(t, i, cost_overlaps(t) ? SCHEDULE_UPDATE : SCHEDULE_HOST, t->chain, -1);
    if (!cost_overlaps(t)) t->chain = t->count - 1;
}

/* Sets *ms to the time of the last of STEPS steps. A step has `batches` batches and, if `update` is set, an update at
 * its end. */
static propane_status cost_tasks_time(const partition *p, const cost_host *h, partition_cost *cost, int batches,
                                      bool update, double *ms, propane_error *err) {
    const int layers = (int)p->config.num_hidden_layers, pieces = (int)model_weights_pieces(&p->config);
    const int room = STEPS * batches * (2 * layers + 2 * pieces + 1) * (p->kernel_count + 2);
    schedule_task *list = mem_array((size_t)room, sizeof *list);
    int *units = mem_array((size_t)(2 * layers + pieces), sizeof *units), ends[STEPS];
    step_tasks t = {.p = p,
                    .host = h,
                    .cost = cost,
                    .list = list,
                    .chain = -1,
                    .last_gradient = -1,
                    .units = units,
                    .pieces = pieces,
                    .layers = layers};
    if (list && units) {
        for (int i = 0; i < 2 * layers + pieces; i++) units[i] = -1;
        for (int s = 0; s < STEPS; s++) {
            for (int b = 0; b < batches; b++) cost_tasks_batch(&t, update && b == batches - 1);
            ends[s] = t.chain;
        }
        schedule_run(list, t.count, h->shared_gbs);
        *ms = list[ends[STEPS - 1]].end - list[ends[STEPS - 2]].end;
    }
    const bool failed = !list || !units;
    mem_free(list);
    mem_free(units);
    return failed ? propane_fail_memory(err, (size_t)room * sizeof *list) : PROPANE_OK;
}

/* ---- sums -------------------------------------------------------------------------------------------------------------------- */

static propane_status partition_cost_time(const partition *p, const cost_host *h, partition_cost *out,
                                          propane_error *err) {
    const double accumulate = (double)out->how.accumulate, parameters = partition_cost_trained(p);
    const int batches = accumulate < BATCHES ? 1 : BATCHES;
    double with = 0;
    PROPANE_TRY(cost_tasks_time(p, h, out, 1, false, &out->pass_ms, err));
    PROPANE_TRY(cost_tasks_time(p, h, out, batches, true, &with, err));
    const double chain = out->engine_ms + out->staging_ms + out->host_ms + out->loss_ms;
    out->exposed_ms = fmax(0, out->pass_ms - chain);
    out->sweep_ms = partition_cost_update_ms(h, &out->how, parameters) / accumulate;
    out->update_ms = fmax(0, with - batches * out->pass_ms) / accumulate;
    return PROPANE_OK;
}

static void partition_cost_energy(const partition *p, const chip *c, const cost_host *h, partition_cost *out) {
    const double update =
        partition_cost_trained(p) * partition_update_bytes(out->how.moments) / (double)out->how.accumulate;
    out->host_busy_ms = out->staging_ms + out->host_ms + out->loss_ms + out->products_ms + out->sweep_ms;
    out->host_j = h->watts * (out->host_busy_ms + out->recompile_ms) * 1e-3;
    out->memory_j = (out->memory_j + update + out->loss_ms * h->stream_gbs * 1e6) * cost_byte_pj(c) * 1e-12;
    out->idle_j = COST_IDLE_WATTS * out->step_ms * 1e-3;
}

static void partition_cost_add_up(const partition *p, const chip *c, partition_cost *out) {
    const double positions = (double)(p->options.batch * p->options.context);
    out->recompile_ms /= (double)out->how.accumulate;
    out->step_ms = out->pass_ms + out->update_ms + out->recompile_ms;
    /* The engine's part is accurate to within half of the known error of summed operations, and the host's part to
     * within 25 %. */
    out->low_ms = out->step_ms / 1.35;
    out->high_ms = out->step_ms * 1.35;
    out->tokens_per_s = positions / out->step_ms * 1e3;
    out->utilisation = out->engine_flops / (cost_constants_of(c->id)->tflops * 1e9 * out->step_ms);
    out->restarts_per_100 = out->compiles ? (int)ceil(100.0 * out->compiles / BUDGET) : 0;
}

propane_status partition_cost_on(const partition *p, const chip *c, const partition_training *how, arena *a,
                                 partition_cost *out, propane_error *err) {
    const cost_host h = cost_host_with(c, how->rates);
    *out = (partition_cost){.chip = c, .how = *how};
    out->how.early = how->early && !how->lagged && how->weights == WEIGHT_MODE_INPUTS;
    out->kernels = ARENA_ARRAY(a, p->kernel_count, partition_kernel_cost);
    if (!out->kernels) return propane_fail_memory(err, 0);
    for (int i = 0; i < p->kernel_count; i++) {
        partition_kernel_cost *k = &out->kernels[out->kernel_count++];
        *k = (partition_kernel_cost){.kernel = &p->kernels[i]};
        k->calls = (int)partition_calls(p, k->kernel);
        if (k->kernel->place == PARTITION_DEVICE)
            PROPANE_TRY(partition_cost_device(p, c, k, a, out, err));
        else
            partition_cost_on_host(&h, k, out);
    }
    out->loss_ms =
        3 * (double)(p->options.batch * p->options.context) * (double)p->config.vocab_size * 2 / (h.stream_gbs * 1e6);
    PROPANE_TRY(partition_cost_time(p, &h, out, err));
    partition_cost_add_up(p, c, out);
    partition_cost_energy(p, c, &h, out);
    return PROPANE_OK;
}
