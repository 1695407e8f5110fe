/* SPDX-License-Identifier: MIT
 * Owns requests: a program with a buffer for each of its inputs and outputs. Everything that can be checked without
 * running the program is checked once, when the request is created, so that submitting again costs nothing. Rejects
 * unknown, duplicate and missing names, buffers that are too small, buffers of devices that the program's device cannot
 * access, and outputs that would overwrite unread data.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/device/device.h"

/* Lists the names for messages: "x, w, y". */
static const char *request_list_names(char *out, size_t size, const driver_program *p) {
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < p->input_count + p->output_count && used + 1 < size; i++) {
        const propane_io *io = i < p->input_count ? &p->inputs[i] : &p->outputs[i - p->input_count];
        int n = snprintf(out + used, size - used, "%s%s", i ? ", " : "", io->name);
        if (n < 0) break;
        used += (size_t)n;
    }
    return out;
}

static const propane_io *request_io_at(const driver_program *p, int slot) {
    return slot < p->input_count ? &p->inputs[slot] : &p->outputs[slot - p->input_count];
}

static propane_status request_bind(propane_request *r, const propane_binding *binding, propane_error *err) {
    const driver_program *p = &r->program->p;
    char names[400];
    if (!binding->name)
        return propane_fail(err, PROPANE_ERR_INVALID, "binding: a name is missing; the program has %s",
                            request_list_names(names, sizeof names, p));
    const int slot = program_place(r->program, binding->name);
    if (slot < 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "binding '%.60s': the program has no such input or output; it has %s", binding->name,
                            request_list_names(names, sizeof names, p));
    if (r->buffers[slot]) return propane_fail(err, PROPANE_ERR_INVALID, "binding '%s': bound twice", binding->name);
    if (!binding->buffer)
        return propane_fail(err, PROPANE_ERR_INVALID, "binding '%s': its buffer is missing", binding->name);
    if (binding->buffer->device != r->program->device &&
        !(r->program->device->driver->host_memory &&
          (binding->buffer->b.memory || binding->buffer->device->driver->buffer_lock)))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "binding '%s': its buffer belongs to another device ('%s') than the program ('%s')",
                            binding->name, binding->buffer->device->uri, r->program->device->uri);
    if (binding->buffer->b.bytes < request_io_at(p, slot)->bytes)
        return propane_fail(err, PROPANE_ERR_INVALID, "binding '%s': the buffer has %zu bytes, but %zu are needed",
                            binding->name, binding->buffer->b.bytes, request_io_at(p, slot)->bytes);
    r->foreign |= binding->buffer->device != r->program->device && binding->buffer->device->driver->buffer_lock;
    r->buffers[slot] = binding->buffer;
    r->driver_buffers[slot] = &binding->buffer->b;
    buffer_retain(binding->buffer);
    return PROPANE_OK;
}

static propane_status request_check_complete(const propane_request *r, propane_error *err) {
    const driver_program *p = &r->program->p;
    for (int slot = 0; slot < r->buffer_count; slot++)
        if (!r->buffers[slot])
            return propane_fail(err, PROPANE_ERR_INVALID, "binding '%s': this %s is not bound",
                                request_io_at(p, slot)->name, slot < p->input_count ? "input" : "output");
    return PROPANE_OK;
}

/* Linked lists of the inputs and outputs that are bound to each buffer. */
typedef struct request_chains {
    id_map first; /* from a buffer to the head of its list */
    int32_t *next;
} request_chains;

static propane_status request_check_output(const propane_request *r, int slot, int first, const int32_t *next,
                                           propane_error *err) {
    const driver_program *p = &r->program->p;
    const int output = slot - p->input_count;
    for (int other = first; other >= 0; other = next[other]) {
        if (other >= p->input_count)
            return propane_fail(err, PROPANE_ERR_INVALID, "outputs '%s' and '%s' are bound to the same buffer",
                                request_io_at(p, other)->name, p->outputs[output].name);
        if (!driver_may_share(p->shares, p->share_count, output, other))
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "output '%s' is bound to the buffer of input '%s', which the program still reads while "
                                "it writes the output; use another buffer",
                                p->outputs[output].name, p->inputs[other].name);
    }
    return PROPANE_OK;
}

/* Checks that two outputs never share a buffer, and an output and an input only if the program allows it. */
static propane_status request_check_chains(const propane_request *r, request_chains *c, propane_error *err) {
    for (int slot = 0; slot < r->buffer_count; slot++) {
        int32_t *first = id_map_enter(&c->first, (uintptr_t)r->buffers[slot], -1);
        if (!first) return propane_fail_memory(err, (size_t)r->buffer_count * sizeof *first);
        if (slot >= r->program->p.input_count) PROPANE_TRY(request_check_output(r, slot, *first, c->next, err));
        c->next[slot] = *first;
        *first = slot;
    }
    return PROPANE_OK;
}

static propane_status request_check_sharing(const propane_request *r, propane_error *err) {
    request_chains c = {.next = mem_array((size_t)r->buffer_count + 1, sizeof *c.next)};
    propane_status status =
        c.next ? request_check_chains(r, &c, err) : propane_fail_memory(err, (size_t)r->buffer_count * sizeof *c.next);
    id_map_deinit(&c.first);
    mem_free(c.next);
    return status;
}

int driver_share_compare(const void *a, const void *b) {
    const driver_share *x = a, *y = b;
    if (x->output != y->output) return x->output < y->output ? -1 : 1;
    return (x->input > y->input) - (x->input < y->input);
}

bool driver_may_share(const driver_share *shares, int count, int output, int input) {
    const driver_share key = {output, input};
    return count > 0 && bsearch(&key, shares, (size_t)count, sizeof key, driver_share_compare);
}

static void request_destroy(propane_request *r) {
    const propane_device *d = r->program->device;
    if (r->prepared && d->driver->request_free) d->driver->request_free(d->impl, &r->execution);
    for (int i = 0; r->buffers && i < r->buffer_count; i++) buffer_release(r->buffers[i]);
    for (int i = 0; i < r->wait_count; i++) event_release(r->waits[i].event);
    for (int i = 0; i < r->signal_count; i++) event_release(r->signals[i].event);
    mem_free(r->buffers);
    mem_free(r->driver_buffers);
    mem_free(r->waits);
    mem_free(r->signals);
    program_release(r->program);
    mem_free(r);
}

propane_status propane_request_create(propane_program *program, const propane_binding *bindings, int count,
                                      propane_request **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, program, out);
    NEED_LIST(err, bindings, count);
    propane_request *r = mem_alloc(sizeof *r);
    if (!r) return propane_fail_memory(err, sizeof *r);
    r->program = program;
    program_retain(program);
    r->buffer_count = program->p.input_count + program->p.output_count;
    r->buffers = mem_array((size_t)r->buffer_count, sizeof *r->buffers);
    r->driver_buffers = mem_array((size_t)r->buffer_count, sizeof *r->driver_buffers);
    propane_status status = PROPANE_OK;
    if (!r->buffers || !r->driver_buffers)
        status = propane_fail_memory(err, (size_t)r->buffer_count * 2 * sizeof(void *));
    for (int i = 0; i < count && status == PROPANE_OK; i++) status = request_bind(r, &bindings[i], err);
    if (status == PROPANE_OK) status = request_check_complete(r, err);
    if (status == PROPANE_OK) status = request_check_sharing(r, err);
    const propane_device *d = program->device;
    if (status == PROPANE_OK) {
        r->execution = (driver_execution){
            .program = &program->p, .inputs = r->driver_buffers, .outputs = r->driver_buffers + program->p.input_count};
        if (d->driver->request_prepare) status = d->driver->request_prepare(d->impl, &r->execution, err);
        r->prepared = status == PROPANE_OK;
    }
    if (status != PROPANE_OK) {
        request_destroy(r);
        return status;
    }
    *out = r;
    return PROPANE_OK;
}

static bool request_in_flight(propane_request *r) {
    device_queue *q = &r->program->device->queue;
    queue_lock(q);
    bool result = r->submitted > atomic_load(&r->completed);
    pthread_mutex_unlock(&q->mutex);
    return result;
}

request_times request_times_of(const propane_request *request) { return request->times; }

void propane_request_free(propane_request *request) {
    if (!request) return;
    if (request_in_flight(request)) (void)!propane_wait(request, NULL, NULL);
    request_destroy(request);
}

static propane_status request_copy_points(const propane_event_point *points, int count, const char *what,
                                          propane_event_point **out, propane_error *err) {
    for (int i = 0; i < count; i++)
        if (!points[i].event) return propane_fail(err, PROPANE_ERR_INVALID, "request: %s %d has no event", what, i);
    *out = mem_array((size_t)count, sizeof **out);
    if (!*out) return propane_fail_memory(err, (size_t)count * sizeof **out);
    if (count > 0) memcpy(*out, points, (size_t)count * sizeof **out);
    for (int i = 0; i < count; i++) event_retain(points[i].event);
    return PROPANE_OK;
}

static void request_free_points(propane_event_point *points, int count) {
    for (int i = 0; i < count; i++) event_release(points[i].event);
    mem_free(points);
}

static bool request_same_events(const propane_event_point *old, int old_count, const propane_event_point *new,
                                int new_count) {
    if (old_count != new_count) return false;
    for (int i = 0; i < old_count; i++)
        if (old[i].event != new[i].event) return false;
    return true;
}

propane_status propane_request_events(propane_request *request, const propane_event_point *waits, int wait_count,
                                      const propane_event_point *signals, int signal_count, propane_error *err) {
    NEED(err, request);
    NEED_LIST(err, waits, wait_count);
    NEED_LIST(err, signals, signal_count);
    if (request_in_flight(request))
        return propane_fail(err, PROPANE_ERR_INVALID, "request: its events cannot change while it is in flight");
    if (request_same_events(request->waits, request->wait_count, waits, wait_count) &&
        request_same_events(request->signals, request->signal_count, signals,
                            signal_count)) { /* only the values change */
        for (int i = 0; i < wait_count; i++) request->waits[i].value = waits[i].value;
        for (int i = 0; i < signal_count; i++) request->signals[i].value = signals[i].value;
        return PROPANE_OK;
    }
    propane_event_point *new_waits = NULL, *new_signals = NULL;
    PROPANE_TRY(request_copy_points(waits, wait_count, "waits", &new_waits, err));
    propane_status status = request_copy_points(signals, signal_count, "signals", &new_signals, err);
    if (status != PROPANE_OK) {
        request_free_points(new_waits, wait_count);
        return status;
    }
    request_free_points(request->waits, request->wait_count);
    request_free_points(request->signals, request->signal_count);
    request->waits = new_waits;
    request->wait_count = wait_count;
    request->signals = new_signals;
    request->signal_count = signal_count;
    return PROPANE_OK;
}
