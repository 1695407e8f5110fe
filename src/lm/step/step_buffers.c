/* SPDX-License-Identifier: MIT
 * Owns the step's memory and requests: the buffer for each input and result of a call, weights in the forms that
 * programs read, and the contents of a packed kernel's single input. A weight that kernels lay out in two ways exists
 * twice; a third layout is an error.
 */
#include "lm/step/step_internal.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/device/runner.h"

/* Makes the copy of a weight that programs read. A device that shares the host's memory and reads fp32 needs no copy:
 * it reads the master weight directly. */
static propane_status step_buffers_make_copy(train_step *s, int tensor, const propane_io *io, propane_error *err) {
    const model_tensor *t = &s->weights->tensors[tensor];
    bool found = false;
    s->copy_layout[tensor] = *io;
    PROPANE_TRY(step_base_find(s, tensor, io, &s->copies[tensor], &found, err));
    if (found) return PROPANE_OK;
    if (io->dtype == PROPANE_FP32 && io->bytes == (size_t)t->count * sizeof(float)) {
        propane_error why = {0};
        propane_status status = propane_buffer_wrap(step_device(s, false), model_weights_data(s->weights, t), io->bytes,
                                                    &s->copies[tensor], &why);
        s->is_master[tensor] = status == PROPANE_OK;
        if (status != PROPANE_ERR_UNSUPPORTED)
            return status == PROPANE_OK ? status : propane_fail(err, status, "%s", why.text);
    }
    return propane_buffer_create(step_device(s, false), io->bytes, &s->copies[tensor], err);
}

static bool step_buffers_same_layout(const propane_io *a, const propane_io *b) {
    bool same = a->rank == b->rank && a->dtype == b->dtype;
    for (int d = 0; same && d < a->rank; d++)
        same = a->dim[d] == b->dim[d] && (a->dim[d] == 1 || a->stride[d] == b->stride[d]);
    return same;
}

/* Finds the buffer of a weight in a layout. The host's kernels and the device's may pad the rows of a weight
 * differently; the weight then exists twice. */
static propane_status step_buffers_find_weight(train_step *s, int tensor, const propane_io *io, propane_buffer **out,
                                               propane_error *err) {
    if (!s->copies[tensor]) PROPANE_TRY(step_buffers_make_copy(s, tensor, io, err));
    bool same = step_buffers_same_layout(io, &s->copy_layout[tensor]);
    if (!same && !s->others[tensor]) {
        s->other_layout[tensor] = *io;
        PROPANE_TRY(propane_buffer_create(step_device(s, false), io->bytes, &s->others[tensor], err));
    }
    if (!same && !step_buffers_same_layout(io, &s->other_layout[tensor]))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "the kernels that read '%s' use three different layouts for it", io->name);
    *out = same ? s->copies[tensor] : s->others[tensor];
    return PROPANE_OK;
}

/* Finds the buffer for a name. Buffers of weights are made on first use. */
static propane_status step_buffers_find_buffer(train_step *s, const dataflow_call *c, const propane_io *io,
                                               propane_buffer **out, propane_error *err) {
    dataflow_ref ref = dataflow_resolve(s->dataflow, c, io->name);
    if (ref.kind == DATAFLOW_VALUE) {
        *out = s->buffers[s->dataflow->values[ref.index].buffer];
        return PROPANE_OK;
    }
    if (ref.kind == DATAFLOW_WEIGHT) return step_buffers_find_weight(s, ref.index, io, out, err);
    *out = s->gradients[ref.index];
    return PROPANE_OK;
}

typedef struct call_choice {
    train_step *step;
    int call;
} call_choice;

/* Chooses the buffer of a call's input or result. Input 0 of a packed kernel is its single input. */
static propane_status step_buffers_choose_buffer(void *context, const propane_io *io, int index, propane_buffer **out,
                                                 bool *lent, propane_error *err) {
    const call_choice *c = context;
    train_step *s = c->step;
    *lent = true;
    if (!step_packing(s, c->call) || index > 0)
        return step_buffers_find_buffer(s, &s->dataflow->calls[c->call], io, out, err);
    propane_buffer **packed = &s->calls[c->call].packed;
    if (!*packed) PROPANE_TRY(propane_buffer_create(step_device(s, false), io->bytes, packed, err));
    *out = *packed;
    return PROPANE_OK;
}

propane_status step_make_request(train_step *s, int call, int form, propane_error *err) {
    propane_program *p = step_program(s, call, form);
    propane_request **request = &s->calls[call].request[form];
    if (!p) return PROPANE_OK;
    propane_request_free(*request);
    *request = NULL;
    const propane_status status = runner_bind(p, step_buffers_choose_buffer, &(call_choice){s, call}, request, err);
    return status == PROPANE_OK ? status
                                : propane_fail_prefix(err, status, "kernel '%s'",
                                                      s->partition->kernels[s->dataflow->calls[call].kernel].name);
}

/* Gives values that have no layout yet a dense one. Only packed kernels read such values, and no program writes them,
 * for example the embedded batch. */
static propane_status step_buffers_lay_out_packed(train_step *s, int call, propane_error *err) {
    const packing *p = step_packing(s, call);
    for (int i = 0; p && i < p->count; i++) {
        dataflow_ref ref = dataflow_resolve(s->dataflow, &s->dataflow->calls[call], p->parts[i].name);
        if (ref.kind != DATAFLOW_VALUE || s->dataflow->values[ref.index].bytes > 0) continue;
        propane_io io = packing_dense_io(&p->parts[i]);
        PROPANE_TRY(dataflow_layout(s->dataflow, &s->dataflow->calls[call], &io, err));
    }
    return PROPANE_OK;
}

/* Makes the buffers of values and gradients. With one queue, they are parts of one block, which the cpu device shares
 * with the host. */
static propane_status step_buffers_make_buffers(train_step *s, propane_error *err) {
    const dataflow *w = s->dataflow;
    s->buffers = mem_array((size_t)w->buffer_count, sizeof(propane_buffer *));
    if (w->buffer_offset) s->block = mem_pages_alloc(w->block_bytes);
    if (!s->buffers || (w->buffer_offset && !s->block)) return propane_fail_memory(err, w->block_bytes);
    for (int b = 0; b < w->buffer_count; b++)
        PROPANE_TRY(s->block
                        ? propane_buffer_wrap(step_device(s, false), (unsigned char *)s->block + w->buffer_offset[b],
                                              w->buffer_bytes[b], &s->buffers[b], err)
                        : propane_buffer_create(step_device(s, false), w->buffer_bytes[b], &s->buffers[b], err));
    for (int i = 0; i < step_total(s); i++)
        if (w->gradients[i].wanted) s->gradients[i] = s->buffers[w->gradients[i].buffer];
    return PROPANE_OK;
}

propane_status step_lay_out(train_step *s, propane_error *err) {
    dataflow *w = s->dataflow;
    for (int c = 0; c < w->call_count; c++)
        for (int form = 0; form < 2; form++) {
            const propane_program *p = step_program(s, c, form);
            int begin = p && step_packing(s, c) ? propane_program_input_count(p) : 0;
            for (int i = begin; p && i < runner_io_count(p); i++)
                PROPANE_TRY(dataflow_layout(w, &w->calls[c], runner_io_of(p, i), err));
        }
    for (int c = 0; c < w->call_count; c++) PROPANE_TRY(step_buffers_lay_out_packed(s, c, err));
    PROPANE_TRY(dataflow_place(w, s->two_queues, s->options.accumulate, err));
    PROPANE_TRY(step_buffers_make_buffers(s, err));
    for (int c = 0; c < w->call_count; c++)
        for (int form = 0; form < 2; form++) PROPANE_TRY(step_make_request(s, c, form, err));
    return PROPANE_OK;
}

size_t train_step_activation_bytes(const train_step *s) { return dataflow_value_bytes(s->dataflow); }

/* ---- forms of the weights ---------------------------------------------------------------------------------------------- */

propane_status step_make_between(train_step *s, propane_error *err) {
    int64_t largest = 0;
    for (int i = 0; i < step_total(s); i++)
        if (s->others[i] && s->weights->tensors[i].count > largest) largest = s->weights->tensors[i].count;
    s->forms = largest > 0 || s->options.weights == WEIGHT_MODE_PACKED || s->options.weights == WEIGHT_MODE_PATCHED;
    s->between = mem_array((size_t)largest + 1, sizeof(float));
    return s->between ? PROPANE_OK : propane_fail_memory(err, (size_t)largest * sizeof(float));
}

propane_status step_pack(train_step *s, int call, bool weights, propane_error *err) {
    const packing *p = step_packing(s, call);
    const propane_io *packed = propane_program_input(step_program(s, call, 0), 0);
    void *target = NULL;
    PROPANE_TRY(propane_buffer_lock(s->calls[call].packed, true, &target, err));
    propane_status status = PROPANE_OK;
    for (int i = 0; i < p->count && status == PROPANE_OK; i++) {
        dataflow_ref ref = dataflow_resolve(s->dataflow, &s->dataflow->calls[call], p->parts[i].name);
        if (weights != (ref.kind == DATAFLOW_WEIGHT)) continue;
        if (weights) {
            packing_put_f32(&p->parts[i], target, packed, step_master(s, ref.index));
            continue;
        }
        const dataflow_value *v = &s->dataflow->values[ref.index];
        void *source = NULL;
        status = propane_buffer_lock(s->buffers[v->buffer], false, &source, err);
        if (status != PROPANE_OK) break;
        packing_put(&p->parts[i], target, packed, source, &v->io);
        propane_buffer_unlock(s->buffers[v->buffer]);
    }
    propane_buffer_unlock(s->calls[call].packed);
    return status;
}

propane_status step_patch(train_step *s, int call, int unit, propane_error *err) {
    const dataflow_call *c = &s->dataflow->calls[call];
    const mil_function *f = s->partition->kernels[c->kernel].function;
    for (int i = 0; i < f->param_count; i++) {
        const dataflow_ref ref = dataflow_resolve(s->dataflow, c, f->params[i]->name);
        if (ref.kind != DATAFLOW_WEIGHT || ref.index >= s->weights->count) continue; /* adapters are inputs */
        if (unit >= 0 && s->updates->unit_of[ref.index] != unit) continue;
        const propane_status status =
            propane_program_patch(s->calls[call].own, f->params[i]->name, PROPANE_FP32, step_master(s, ref.index),
                                  s->weights->tensors[ref.index].count, err);
        if (status) return propane_fail_prefix(err, status, "kernel '%s'", s->partition->kernels[c->kernel].name);
    }
    return PROPANE_OK;
}

static propane_status step_buffers_pack_weights(train_step *s, propane_error *err) {
    for (int c = 0; c < s->dataflow->call_count; c++)
        if (step_packing(s, c)) PROPANE_TRY(step_pack(s, c, true, err));
    for (int c = 0; c < s->dataflow->call_count; c++)
        if (step_is_patched(s, c)) PROPANE_TRY(step_patch(s, c, -1, err));
    return PROPANE_OK;
}

propane_status step_copy_other(train_step *s, int tensor, propane_error *err) {
    const int64_t count = s->weights->tensors[tensor].count;
    if (!s->others[tensor]) return PROPANE_OK;
    PROPANE_TRY(propane_buffer_read(s->copies[tensor], &s->copy_layout[tensor], PROPANE_FP32, s->between, count, err));
    return propane_buffer_write(s->others[tensor], &s->other_layout[tensor], PROPANE_FP32, s->between, count, err);
}

propane_status step_copy_others(train_step *s, propane_error *err) {
    for (int i = 0; i < step_total(s); i++) PROPANE_TRY(step_copy_other(s, i, err));
    return step_buffers_pack_weights(s, err);
}
