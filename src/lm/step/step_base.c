/* SPDX-License-Identifier: MIT
 * Owns the frozen model of a run with adapters if it keeps the form of its file: fp16, bf16 or blocks of few bits. The
 * programs read fp32, so all layers share one buffer per parameter, and each call's weights are converted into these
 * buffers before the call begins. This requires the cpu device with one queue, weights as inputs and fp32 arithmetic;
 * otherwise the model gets fp32 masters.
 */
#include "lm/step/step_internal.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/device/uri.h"
#include "lm/arch/stored_weights.h"

enum { ROWS = 32 }; /* per task */

typedef struct base_conversion {
    const model_weights *weights;
    const model_tensor *tensor;
    float *to;
} base_conversion;

static void step_base_convert_task(void *context, int task, int worker) {
    const base_conversion *c = context;
    const int64_t width = c->tensor->dim[1], first = (int64_t)task * ROWS, left = c->tensor->dim[0] - first;
    (void)worker;
    stored_weights_read(c->weights, c->tensor, first * width, (left < ROWS ? left : ROWS) * width,
                        c->to + first * width);
}

bool train_step_keeps_base(const char *device, bool two_queues, weight_mode weights, mil_dtype precision) {
    return device_is(device ? device : "cpu", "cpu") && !two_queues && weights == WEIGHT_MODE_INPUTS &&
           precision == MIL_fp32;
}

static bool step_base_converts(const train_step *s, int tensor) {
    return tensor < s->weights->count && !model_weights_data(s->weights, &s->weights->tensors[tensor]);
}

propane_status step_base_create(train_step *s, propane_error *err) {
    const model_weights *w = s->weights;
    if (w->data) return PROPANE_OK;
    if (!train_step_keeps_base(s->options.device, s->options.two_queues, s->options.weights,
                               s->options.partition.precision))
        return stored_weights_expand(s->weights, err);
    const int64_t context = s->partition->options.context, rows = s->partition->options.batch * context;
    const int64_t floats = (rows + context) * w->config.hidden_size; /* the second term is for learned positions */
    step_base *b = s->base = mem_alloc(sizeof *b);
    if (!b) return propane_fail_memory(err, sizeof *b);
    b->slot = mem_array((size_t)w->count, sizeof *b->slot);
    b->buffers = mem_array((size_t)w->count, sizeof(propane_buffer *));
    b->made_for = mem_array((size_t)w->count, sizeof *b->made_for);
    b->holds = mem_array((size_t)w->count, sizeof *b->holds);
    b->order = mem_array((size_t)rows, sizeof *b->order);
    b->rows = mem_array((size_t)floats, sizeof(float));
    if (!b->slot || !b->buffers || !b->made_for || !b->holds || !b->order || !b->rows)
        return propane_fail_memory(err, (size_t)floats * sizeof(float));
    for (int i = 0; i < w->count; i++) b->slot[i] = -1;
    for (int64_t i = 0; i < rows; i++) b->order[i] = (int32_t)i;
    return PROPANE_OK;
}

void step_base_free(train_step *s) {
    step_base *b = s->base;
    if (!b) return;
    for (int i = 0; b->slot && s->copies && i < s->weights->count; i++)
        if (b->slot[i] >= 0) s->copies[i] = NULL; /* an entry of b->buffers */
    for (int i = 0; i < b->count; i++) propane_buffer_free(b->buffers[i]);
    mem_free(b->slot);
    mem_free(b->buffers);
    mem_free(b->made_for);
    mem_free(b->holds);
    mem_free(b->order);
    mem_free(b->rows);
    mem_free(b);
    s->base = NULL;
}

/* Returns whether two tensors can share a buffer, because no call reads both: they are the same parameter of two
 * layers, or two pieces of a table. */
static bool step_base_alike(const model_tensor *a, const model_tensor *b) {
    return a->part == b->part && strcmp(a->param, b->param) == 0 && a->dim[0] == b->dim[0] && a->dim[1] == b->dim[1];
}

propane_status step_base_find(train_step *s, int tensor, const propane_io *io, propane_buffer **out, bool *found,
                              propane_error *err) {
    step_base *b = s->base;
    const model_tensor *t = &s->weights->tensors[tensor];
    *found = b && step_base_converts(s, tensor);
    if (!*found) return PROPANE_OK;
    if (io->dtype != PROPANE_FP32 || io->bytes != (size_t)t->count * sizeof(float))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "the programs read '%s' in a form other than fp32", t->name);
    int slot = 0;
    while (slot < b->count && !step_base_alike(&s->weights->tensors[b->made_for[slot]], t)) slot++;
    if (slot == b->count) {
        PROPANE_TRY(propane_buffer_create(step_device(s, false), io->bytes, &b->buffers[slot], err));
        b->made_for[slot] = tensor;
        b->holds[slot] = -1;
        b->count++;
    }
    b->slot[tensor] = slot;
    *out = b->buffers[slot];
    return PROPANE_OK;
}

static propane_status step_base_convert(train_step *s, int tensor, propane_error *err) {
    step_base *b = s->base;
    const model_tensor *t = &s->weights->tensors[tensor];
    void *to = NULL;
    PROPANE_TRY(propane_buffer_lock(b->buffers[b->slot[tensor]], true, &to, err));
    pool_run(step_base_convert_task, &(base_conversion){s->weights, t, to}, (int)((t->dim[0] + ROWS - 1) / ROWS));
    propane_buffer_unlock(b->buffers[b->slot[tensor]]);
    b->holds[b->slot[tensor]] = tensor;
    return PROPANE_OK;
}

/* Returns the next tensor that the call reads and whose buffer holds another tensor, or -1. The search begins at
 * parameter *at, which is advanced. */
static int step_base_wanted(const train_step *s, int call, int *at) {
    const dataflow_call *c = &s->dataflow->calls[call];
    const mil_function *f = s->partition->kernels[c->kernel].function;
    for (; *at < f->param_count; ++*at) {
        const dataflow_ref ref = dataflow_resolve(s->dataflow, c, f->params[*at]->name);
        if (ref.kind != DATAFLOW_WEIGHT || ref.index >= s->weights->count) continue;
        const int slot = s->base->slot[ref.index];
        if (slot >= 0 && s->base->holds[slot] != ref.index) return ++*at, ref.index;
    }
    return -1;
}

bool step_base_waits(const train_step *s, int call) {
    int at = 0;
    return s->base && step_base_wanted(s, call, &at) >= 0;
}

propane_status step_base_fill(train_step *s, int call, propane_error *err) {
    int at = 0, tensor;
    while ((tensor = step_base_wanted(s, call, &at)) >= 0) PROPANE_TRY(step_base_convert(s, tensor, err));
    return PROPANE_OK;
}

/* Converts `count` rows of a table to fp32: the rows `ids`, or the first rows if `ids` is NULL. */
static void step_base_rows(const train_step *s, const model_tensor *table, const int32_t *ids, int64_t count,
                           float *out) {
    const int64_t width = table->dim[1];
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = ids ? ids[i] : i;
        const model_tensor *piece = table;
        for (int k = 0; row >= piece->first_row + piece->dim[0];) piece = model_weights_piece(s->weights, table, ++k);
        stored_weights_read(s->weights, piece, (row - piece->first_row) * width, width, out + i * width);
    }
}

void step_base_gather(train_step *s, const train_embed *e, const model_tensor *table, const model_tensor *positions,
                      const int32_t *ids, void *stream) {
    const step_base *b = s->base;
    const int64_t count = (int64_t)e->batch * e->context;
    float *places = positions ? b->rows + count * e->width : NULL;
    step_base_rows(s, table, ids, count, b->rows);
    if (positions) step_base_rows(s, positions, NULL, e->context, places);
    train_embed_gather(e, b->rows, places, b->order, stream);
}
