/* SPDX-License-Identifier: MIT
 * Owns the reference counts of devices, programs, buffers and events, and frees them at zero. Programs, buffers and
 * events hold their device, so it is freed last.
 */
#include "core/base/memory.h"
#include "core/device/device.h"

static void queue_deinit(device_queue *q) {
    pthread_cond_destroy(&q->done);
    pthread_cond_destroy(&q->work);
    pthread_mutex_destroy(&q->mutex);
    mem_free(q->ring);
}

void device_retain(propane_device *d) { atomic_fetch_add(&d->refs, 1); }

void device_release(propane_device *d) {
    if (!d || atomic_fetch_sub(&d->refs, 1) != 1) return;
    queue_deinit(&d->queue);
    d->driver->close(d->impl);
    mem_free(d->uri);
    mem_free(d);
}

void program_retain(propane_program *p) { atomic_fetch_add(&p->refs, 1); }

void program_release(propane_program *p) {
    if (!p || atomic_fetch_sub(&p->refs, 1) != 1) return;
    p->device->driver->program_free(p->device->impl, &p->p);
    piece_map_deinit(&p->places);
    arena_free(p->p.arena);
    device_release(p->device);
    mem_free(p);
}

void buffer_retain(propane_buffer *b) { atomic_fetch_add(&b->refs, 1); }

void buffer_release(propane_buffer *b) {
    if (!b || atomic_fetch_sub(&b->refs, 1) != 1) return;
    if (!b->borrowed) b->device->driver->buffer_free(b->device->impl, &b->b);
    device_release(b->device);
    mem_free(b);
}

void event_retain(propane_event *e) { atomic_fetch_add(&e->refs, 1); }

void event_release(propane_event *e) {
    if (!e || atomic_fetch_sub(&e->refs, 1) != 1) return;
    pthread_cond_destroy(&e->grown);
    pthread_mutex_destroy(&e->mutex);
    device_release(e->device);
    mem_free(e);
}
