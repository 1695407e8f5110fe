/* SPDX-License-Identifier: MIT
 * Owns names and lifetimes. Everything is derived from the functions' parameters and results. Only the order of the
 * calls is decided here: blocks forward, then blocks backward, with kernels in the plan's order.
 */
#include "lm/step/dataflow.h"

#include <assert.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/offset_planner.h"

static int dataflow_layer(const dataflow *w, int instance) { return instance >= w->head ? -1 : instance / 2; }

/* Changes an instance and a name to those of the block that computes the value. */
static void dataflow_follow(const dataflow *w, int *instance, const char **name) {
    if (strcmp(*name, "x") == 0) {
        *instance = *instance > w->head ? w->head - 1 : *instance - 1;
        *name = *instance < 0 ? "x" : "out";
    } else if (strcmp(*name, "d_out") == 0 && *instance < w->head) {
        ++*instance;
        *name = "d_x";
    } else if (strcmp(*name, "d_logits") == 0 && *instance >= w->head) {
        *name = "logits";
    }
}

static int dataflow_find_value(const dataflow *w, int instance, const char *name, bool again) {
    for (int i = 0; i < w->value_count; i++)
        if (w->values[i].instance == instance && w->values[i].again == again && strcmp(w->values[i].name, name) == 0)
            return i;
    return -1;
}

int dataflow_find(const dataflow *w, int instance, const char *name) {
    dataflow_follow(w, &instance, &name);
    return dataflow_find_value(w, instance, name, false);
}

/* With recomputation, a block's forward values exist twice: once for the forward pass, which keeps only the result, and
 * once for the backward pass, which reads them. Gradients and the block's input exist once. The head's backward pass
 * runs immediately after its forward pass, so nothing is recomputed for it. */
static bool dataflow_is_again(const dataflow *w, const dataflow_call *c, const char *name) {
    bool late = c->again || w->plan->kernels[c->kernel].backward;
    return w->recompute && late && c->instance < w->head && strcmp(name, "x") != 0 && strncmp(name, "d_", 2) != 0 &&
           !partition_is_dropout(name);
}

static int dataflow_call_value(const dataflow *w, const dataflow_call *c, const char *name) {
    return dataflow_is_again(w, c, name) ? dataflow_find_value(w, c->instance, name, true)
                                         : dataflow_find(w, c->instance, name);
}

/* Returns the name "d_P" of the call's result for the weight P. The name passed to dataflow_resolve may have been
 * "sum_P", a parameter of a kernel that accumulates. */
static const char *dataflow_gradient_name(const dataflow *w, const dataflow_call *call, const char *weight) {
    const mil_function *f = w->plan->kernels[call->kernel].function;
    int i = 0;
    while (i < f->result_count &&
           !(strncmp(f->results[i]->name, "d_", 2) == 0 && strcmp(f->results[i]->name + 2, weight) == 0))
        i++;
    assert(i < f->result_count);
    return f->results[i]->name;
}

dataflow_ref dataflow_resolve(const dataflow *w, const dataflow_call *call, const char *name) {
    const partition_block *b = partition_block_at(w->plan, call->instance);
    const char *weight = strncmp(name, "sum_", 4) == 0 ? name + 4 : strncmp(name, "d_", 2) == 0 ? name + 2 : name;
    if (partition_is_weight(b, weight)) {
        const model_tensor *t = model_weights_param(w->weights, b->part, dataflow_layer(w, call->instance), weight);
        assert(t);
        /* the head's pieces are adjacent tensors */
        if (call->instance > w->head && t->rank == 2) t += call->instance - w->head;
        int tensor = (int)(t - w->weights->tensors);
        if (weight == name) return (dataflow_ref){DATAFLOW_WEIGHT, tensor};
        if (w->gradients[tensor].wanted) return (dataflow_ref){DATAFLOW_GRADIENT, tensor};
        name = dataflow_gradient_name(w, call, weight);
    }
    return (dataflow_ref){DATAFLOW_VALUE, dataflow_call_value(w, call, name)};
}

/* ---- calls and values -------------------------------------------------------------------------------------------------- */

static void dataflow_touch(dataflow *w, int call, const char *name) {
    const dataflow_call *c = &w->calls[call];
    dataflow_ref ref = dataflow_resolve(w, c, name);
    int i = ref.index;
    if (ref.kind != DATAFLOW_VALUE) return;
    if (i < 0) {
        assert(w->value_count < w->value_room);
        i = w->value_count++;
        dataflow_value *v = &w->values[i];
        /* the host fills in the dropout before the pass */
        *v = (dataflow_value){
            .instance = c->instance, .name = name, .first = partition_is_dropout(name) ? -1 : call, .buffer = -1};
        v->again = dataflow_is_again(w, c, name);
        if (!v->again) dataflow_follow(w, &v->instance, &v->name);
    }
    w->values[i].last = call;
}

static void dataflow_touch_all(dataflow *w, int call) {
    const mil_function *f = w->plan->kernels[w->calls[call].kernel].function;
    for (int i = 0; i < f->param_count; i++) dataflow_touch(w, call, f->params[i]->name);
    for (int i = 0; i < f->result_count; i++) dataflow_touch(w, call, f->results[i]->name);
}

bool dataflow_trains_embedding(const dataflow *w) {
    for (int i = 0; i < w->weights->count; i++)
        if (w->weights->tensors[i].part == MODEL_EMBED && (!w->trained || w->trained[i])) return true;
    return false;
}

/* Returns whether any weight of this instance is trained or, if `kernel` is not NULL, whether the kernel computes the
 * gradient of one of them. */
static bool dataflow_learns(const dataflow *w, int instance, const partition_kernel *kernel) {
    const partition_block *b = partition_block_at(w->plan, instance);
    for (int i = 1; i < b->forward->param_count; i++) {
        const char *param = b->forward->params[i]->name;
        if (!partition_is_weight(b, param)) continue;
        const model_tensor *t = model_weights_param(w->weights, b->part, dataflow_layer(w, instance), param);
        if (instance > w->head && t->rank == 2) t += instance - w->head;
        if (w->trained && !w->trained[t - w->weights->tensors]) continue;
        /* a device kernel computes either all matrix products or none */
        if (!kernel || kernel->place == PARTITION_DEVICE) return true;
        for (int r = 0; r < kernel->function->result_count; r++)
            if (strcmp(kernel->function->results[r]->name + 2, param) == 0) return true;
    }
    return false;
}

static void dataflow_add_range(dataflow *w, int instance, partition_range range) {
    const partition_block *b = partition_block_at(w->plan, instance);
    for (int k = b->first; k < b->first + b->count; k++) {
        const partition_kernel *kernel = &w->plan->kernels[k];
        if (!partition_in_range(w->plan, b, k, range)) continue;
        if (kernel->weights && !dataflow_learns(w, instance, kernel)) continue;
        w->calls[w->call_count++] =
            (dataflow_call){.kernel = k, .instance = instance, .host = kernel->place == PARTITION_HOST};
    }
}

static void dataflow_add_backward(dataflow *w, int instance) {
    dataflow_add_range(w, instance, PARTITION_FIRST);
    dataflow_add_range(w, instance, PARTITION_REST);
    dataflow_add_range(w, instance, PARTITION_GRADIENTS);
}

/* Adds the backward calls of all halves. A half's weight gradients are queued after the next half's first kernels: the
 * host's queue runs in order, so otherwise the device would have to wait. */
static void dataflow_add_deferred(dataflow *w) {
    for (int i = w->head - 1, held = -1; i >= w->lowest - 1; held = i--) {
        if (i >= w->lowest) dataflow_add_range(w, i, PARTITION_FIRST);
        if (held >= 0) dataflow_add_range(w, held, PARTITION_GRADIENTS);
        if (i >= w->lowest) dataflow_add_range(w, i, PARTITION_REST);
    }
}

static int dataflow_count_names(const partition *p) {
    int n = 0;
    for (int k = 0; k < p->kernel_count; k++)
        n += p->kernels[k].function->param_count + p->kernels[k].function->result_count;
    return n;
}

/* Finds the first and the last call that write each gradient. The host adds the embedding's share after all calls. If
 * the head is in pieces, the host clears its gradients before the first piece. */
static void dataflow_find_makers(dataflow *w) {
    int pieces = w->instance_count - w->head;
    for (int c = 0; c < w->call_count; c++) {
        const mil_function *f = w->plan->kernels[w->calls[c].kernel].function;
        for (int i = 0; i < f->result_count; i++) {
            const char *name = f->results[i]->name, *of = partition_squares_of(name);
            dataflow_ref ref =
                dataflow_resolve(w, &w->calls[c], of ? dataflow_gradient_name(w, &w->calls[c], of) : name);
            if (ref.kind != DATAFLOW_GRADIENT) continue;
            dataflow_gradient *g = &w->gradients[ref.index];
            if (of) {
                g->squares = dataflow_resolve(w, &w->calls[c], name).index;
                continue;
            }
            if (g->first < 0) g->first = pieces > 1 && c < w->pieces[pieces - 1].end ? w->pieces[0].begin : c;
            g->made = c;
        }
    }
    for (int i = 0; i < model_weights_total(w->weights); i++) {
        dataflow_gradient *g = &w->gradients[i];
        if (g->first < 0) g->first = w->call_count;
        if (g->made < 0 || (i < w->weights->count && w->weights->tensors[i].part == MODEL_EMBED))
            g->made = w->call_count;
    }
}

static propane_status dataflow_make_arrays(const partition *p, const model_weights *weights, const bool *trained,
                                           dataflow **out, propane_error *err) {
    arena *a = arena_create();
    dataflow *w = a ? ARENA_NEW(a, dataflow) : NULL;
    int pieces = (int)model_weights_pieces(&p->config), head = 2 * (int)p->config.num_hidden_layers;
    int instances = head + pieces, room = 2 * instances * dataflow_count_names(p) + 1,
        tensors = model_weights_total(weights);
    if (w)
        *w = (dataflow){.arena = a,
                        .plan = p,
                        .weights = weights,
                        .trained = trained,
                        .instance_count = instances,
                        .head = head,
                        .pieces = ARENA_ARRAY(a, pieces, dataflow_piece),
                        .value_room = room,
                        .calls = ARENA_ARRAY(a, 2 * instances * p->kernel_count, dataflow_call),
                        .values = ARENA_ARRAY(a, room, dataflow_value),
                        .gradients = ARENA_ARRAY(a, tensors, dataflow_gradient)};
    if (!w || !w->calls || !w->values || !w->pieces || !w->gradients) {
        arena_free(a);
        return propane_fail_memory(err, (size_t)room * sizeof(dataflow_value));
    }
    for (int i = 0; i < tensors; i++)
        w->gradients[i] = (dataflow_gradient){.wanted = !trained || trained[i],
                                              .first = -1,
                                              .made = -1,
                                              .squares = -1,
                                              .bytes = (size_t)weights->tensors[i].count * sizeof(float),
                                              .buffer = -1};
    *out = w;
    return PROPANE_OK;
}

/* Adds the forward calls, the forward and backward calls of the head's pieces, then the backward calls down to the
 * lowest layer with anything to train. */
static void dataflow_add_all_calls(dataflow *w, int pieces) {
    while (!dataflow_trains_embedding(w) && w->lowest < w->head && !dataflow_learns(w, w->lowest, NULL)) w->lowest++;
    for (int i = 0; i < w->head; i++) dataflow_add_range(w, i, PARTITION_FORWARD);
    for (int i = 0; i < pieces; i++) {
        w->pieces[i].begin = w->call_count;
        dataflow_add_range(w, w->head + i, PARTITION_FORWARD);
        w->pieces[i].middle = w->call_count;
        dataflow_add_backward(w, w->head + i);
        w->pieces[i].end = w->call_count;
    }
    if (w->plan->options.defer && !w->recompute) {
        dataflow_add_deferred(w);
        return;
    }
    for (int i = w->head - 1; i >= w->lowest; i--) {
        int begin = w->call_count;
        if (w->recompute) dataflow_add_range(w, i, PARTITION_FORWARD);
        for (int c = begin; c < w->call_count; c++) w->calls[c].again = true;
        dataflow_add_backward(w, i);
    }
}

propane_status dataflow_create(const partition *p, const model_weights *weights, const bool *trained, bool recompute,
                               dataflow **out, propane_error *err) {
    dataflow *w = NULL;
    const int pieces = (int)model_weights_pieces(&p->config);
    *out = NULL;
    PROPANE_TRY(dataflow_make_arrays(p, weights, trained, &w, err));
    w->recompute = recompute;
    dataflow_add_all_calls(w, pieces);
    w->values[w->value_count++] = (dataflow_value){.instance = -1, .name = "x", .first = -1, .last = -1, .buffer = -1};
    for (int c = 0; c < w->call_count; c++) dataflow_touch_all(w, c);
    for (int i = 1; i < pieces; i++) /* the host adds it to the first piece's d_x after the piece's calls */
        w->values[dataflow_find(w, w->head + i, "d_x")].last = w->pieces[i].end - 1;
    /* their memory is never reused: the same dropout may serve several passes, and the norm reads the sums of
     * squares */
    for (int i = 0; i < w->value_count; i++)
        if (partition_is_dropout(w->values[i].name) || partition_squares_of(w->values[i].name))
            w->values[i].last = w->call_count;
    int last = dataflow_find(w, 0, "d_x");
    if (dataflow_trains_embedding(w)) {
        assert(last >= 0);
        w->values[last].last = w->call_count;
    }
    dataflow_find_makers(w);
    *out = w;
    return PROPANE_OK;
}

void dataflow_free(dataflow *w) {
    if (w) arena_free(w->arena);
}

propane_status dataflow_layout(dataflow *w, const dataflow_call *call, const propane_io *io, propane_error *err) {
    dataflow_ref ref = dataflow_resolve(w, call, io->name);
    if (ref.kind == DATAFLOW_GRADIENT && io->bytes > w->gradients[ref.index].bytes)
        w->gradients[ref.index].bytes = io->bytes;
    if (ref.kind != DATAFLOW_VALUE) return PROPANE_OK;
    dataflow_value *v = &w->values[ref.index];
    if (v->bytes == 0) {
        v->io = *io;
    } else {
        bool same = v->io.rank == io->rank && v->io.dtype == io->dtype;
        for (int d = 0; same && d < io->rank; d++)
            same = v->io.dim[d] == io->dim[d] && (io->dim[d] == 1 || v->io.stride[d] == io->stride[d]);
        int row = io->rank > 1 ? io->rank - 2 : 0;
        if (!same)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "kernel '%s' and the kernel that produces '%s' use different layouts, with rows of "
                                "%lld and %lld bytes; an engine's rows are multiples of 64 bytes: use a --context and "
                                "heads that are multiples of %d, or another --plan",
                                w->plan->kernels[call->kernel].name, io->name, (long long)io->stride[row],
                                (long long)v->io.stride[row], w->plan->options.precision == MIL_fp16 ? 32 : 16);
    }
    if (io->bytes > v->bytes) v->bytes = io->bytes;
    return PROPANE_OK;
}

/* ---- one queue: a block ------------------------------------------------------------------------------------------------ */

#define ALIGN 64 /* the alignment that propane_buffer_wrap requires */

static propane_status dataflow_make_buffers(dataflow *w, propane_error *err) {
    int most = w->value_count + model_weights_total(w->weights);
    w->buffer_bytes = ARENA_ARRAY(w->arena, most, size_t);
    return w->buffer_bytes ? PROPANE_OK : propane_fail_memory(err, (size_t)most * sizeof(size_t));
}

static void dataflow_add_span(dataflow *w, fit_span *spans, int first, int last, size_t bytes, int *buffer) {
    *buffer = w->buffer_count++;
    w->buffer_bytes[*buffer] = bytes;
    spans[*buffer] = (fit_span){.first = first, .last = last, .bytes = (int64_t)bytes};
}

static propane_status dataflow_place_spans(dataflow *w, bool accumulate, fit_span *spans, propane_error *err) {
    int64_t bytes = 0;
    for (int i = 0; i < w->value_count; i++) {
        dataflow_value *v = &w->values[i];
        dataflow_add_span(w, spans, v->first, v->last, v->bytes, &v->buffer);
    }
    for (int i = 0; i < model_weights_total(w->weights); i++) {
        dataflow_gradient *g = &w->gradients[i];
        if (g->wanted) dataflow_add_span(w, spans, accumulate ? -1 : g->first, w->call_count, g->bytes, &g->buffer);
    }
    PROPANE_TRY(fit_spans(spans, w->buffer_count, ALIGN, &bytes, err));
    for (int b = 0; b < w->buffer_count; b++) w->buffer_offset[b] = (size_t)spans[b].offset;
    w->block_bytes = (size_t)bytes;
    return PROPANE_OK;
}

static propane_status dataflow_place_in_block(dataflow *w, bool accumulate, propane_error *err) {
    size_t most = (size_t)(w->value_count + model_weights_total(w->weights));
    fit_span *spans = mem_array(most, sizeof *spans);
    w->buffer_offset = ARENA_ARRAY(w->arena, most, size_t);
    propane_status status = spans && w->buffer_offset ? dataflow_place_spans(w, accumulate, spans, err)
                                                      : propane_fail_memory(err, most * sizeof *spans);
    mem_free(spans);
    return status;
}

/* ---- two queues: a value takes a free buffer of its size -------------------------------------------------------------- */

/* Returns the buffer of this size that has been free the longest, or a new one. `free_at[b]` is the call after which
 * buffer b became free; call_count + 1 means that it is in use. */
static int dataflow_take_buffer(dataflow *w, size_t bytes, int *free_at) {
    int found = -1;
    for (int b = 0; b < w->buffer_count; b++) {
        if (w->buffer_bytes[b] != bytes || free_at[b] > w->call_count) continue;
        if (found < 0 || free_at[b] < free_at[found]) found = b;
    }
    if (found < 0) {
        found = w->buffer_count++;
        w->buffer_bytes[found] = bytes;
    }
    free_at[found] = w->call_count + 1;
    return found;
}

static void dataflow_place_values(dataflow *w, int *free_at) {
    for (int c = -1; c < w->call_count; c++) {
        for (int i = 0; i < w->value_count; i++)
            if (w->values[i].first == c) w->values[i].buffer = dataflow_take_buffer(w, w->values[i].bytes, free_at);
        for (int i = 0; i < w->value_count; i++)
            if (w->values[i].last == c) free_at[w->values[i].buffer] = c;
    }
}

static propane_status dataflow_place_apart(dataflow *w, propane_error *err) {
    int *free_at = mem_array((size_t)w->value_count, sizeof *free_at);
    if (!free_at) return propane_fail_memory(err, (size_t)w->value_count * sizeof *free_at);
    dataflow_place_values(w, free_at);
    mem_free(free_at);
    for (int i = 0; i < model_weights_total(w->weights); i++) {
        if (!w->gradients[i].wanted) continue;
        w->gradients[i].buffer = w->buffer_count;
        w->buffer_bytes[w->buffer_count++] = w->gradients[i].bytes;
    }
    return PROPANE_OK;
}

/* For one buffer, the ordinals of the last call of each queue that touched it and of the last that wrote it. */
typedef struct traffic {
    int touched[2], written[2];
} traffic;

static void dataflow_pass_name(const dataflow *w, traffic *t, dataflow_call *c, const char *name, bool writes,
                               bool record) {
    dataflow_ref ref = dataflow_resolve(w, c, name);
    if (ref.kind == DATAFLOW_WEIGHT) return; /* weights are not written during a pass */
    traffic *b = &t[ref.kind == DATAFLOW_VALUE ? w->values[ref.index].buffer : w->gradients[ref.index].buffer];
    int own = c->host, other = !c->host;
    if (record) {
        b->touched[own] = c->ordinal;
        if (writes) b->written[own] = c->ordinal;
    } else {
        int needed = writes ? b->touched[other] : b->written[other];
        if (needed > c->wait) c->wait = needed;
    }
}

static void dataflow_find_waits(dataflow *w, traffic *t) {
    int ordinal[2] = {0, 0}, waited[2] = {0, 0};
    for (int i = 0; i < w->call_count; i++) {
        dataflow_call *c = &w->calls[i];
        const mil_function *f = w->plan->kernels[c->kernel].function;
        c->ordinal = ++ordinal[c->host];
        for (int record = 0; record < 2; record++) {
            for (int k = 0; k < f->param_count; k++) dataflow_pass_name(w, t, c, f->params[k]->name, false, record);
            for (int k = 0; k < f->result_count; k++) dataflow_pass_name(w, t, c, f->results[k]->name, true, record);
        }
        if (c->wait <= waited[c->host])
            c->wait = 0; /* an earlier call of this queue has already waited for it */
        else
            waited[c->host] = c->wait;
    }
}

propane_status dataflow_place(dataflow *w, bool two_queues, bool accumulate, propane_error *err) {
    PROPANE_TRY(dataflow_make_buffers(w, err));
    if (!two_queues) return dataflow_place_in_block(w, accumulate, err);
    PROPANE_TRY(dataflow_place_apart(w, err));
    traffic *t = mem_array((size_t)w->buffer_count, sizeof *t);
    if (!t) return propane_fail_memory(err, (size_t)w->buffer_count * sizeof *t);
    dataflow_find_waits(w, t);
    mem_free(t);
    return PROPANE_OK;
}

size_t dataflow_value_bytes(const dataflow *w) {
    size_t bytes = w->block_bytes;
    for (int b = 0; b < w->buffer_count && !w->buffer_offset; b++) bytes += w->buffer_bytes[b];
    for (int i = 0; i < model_weights_total(w->weights); i++)
        if (w->gradients[i].wanted) bytes -= w->gradients[i].bytes;
    return bytes;
}
