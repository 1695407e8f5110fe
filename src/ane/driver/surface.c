/* SPDX-License-Identifier: MIT
 * Owns buffers. A buffer is an IOSurface, which host and engine share, together with the object that requests use. The
 * host may access the memory only between lock and unlock, so the address is queried at every lock. A larger surface
 * can replace a surface that is not locked. This is needed for engines that require all inputs of a request to have the
 * same size. Requests detect the replacement by the generation.
 */
#include <string.h>

#include "ane/driver/ane.h"
#include "core/base/memory.h"

enum { PAGE = 16384, LOCK_READ_ONLY = 1 };

static ane_surface surface_make_surface(const ane_api *a, size_t bytes) {
    const void *const keys[] = {
        *(const void *const *)a->kIOSurfaceWidth,           *(const void *const *)a->kIOSurfaceHeight,
        *(const void *const *)a->kIOSurfaceBytesPerElement, *(const void *const *)a->kIOSurfaceBytesPerRow,
        *(const void *const *)a->kIOSurfaceAllocSize,       *(const void *const *)a->kIOSurfacePixelFormat};
    const int64_t numbers[] = {(int64_t)bytes, 1, 1, (int64_t)bytes, (int64_t)bytes, 0};
    enum { COUNT = sizeof numbers / sizeof numbers[0] };
    ane_id values[COUNT], properties = NULL;
    bool all = true;
    for (int i = 0; i < COUNT; i++) all = (values[i] = ane_number(a, numbers[i])) && all;
    if (all) properties = ane_dictionary(a, keys, values, COUNT);
    ane_surface s = properties ? a->IOSurfaceCreate(properties) : NULL;
    ane_release(a, properties);
    for (int i = 0; i < COUNT; i++) ane_release(a, values[i]);
    return s;
}

static void surface_drop(const ane_api *a, ane_surface surface, ane_id object) {
    ane_release(a, object);
    ane_release(a, (ane_id)surface);
}

static propane_status surface_create(const ane_api *a, size_t bytes, ane_surface *surface, ane_id *object,
                                     propane_error *err) {
    size_t allocated = (bytes + PAGE - 1) / PAGE * PAGE;
    void *pool = a->objc_autoreleasePoolPush();
    *object = NULL;
    *surface = surface_make_surface(a, allocated);
    if (*surface) *object = ANE_SEND(a, surface_object, ANE_CLASS(a, surface_object), *surface);
    if (*object) a->objc_retain(*object);
    a->objc_autoreleasePoolPop(pool);
    if (*object) return PROPANE_OK;
    const char *what = *surface ? "_ANEIOSurfaceObject rejects the IOSurface" : "the system creates no IOSurface";
    surface_drop(a, *surface, NULL);
    return propane_fail(err, PROPANE_ERR_MEMORY, "ane: invalid size: %s of %zu bytes", what, allocated);
}

/* Copies `source` to the beginning of `target` and zeroes the rest. */
static propane_status surface_fill(const ane_api *a, ane_surface target, size_t size, ane_surface source,
                                   size_t source_size, propane_error *err) {
    if (a->IOSurfaceLock(target, 0, NULL) != 0)
        return propane_fail(err, PROPANE_ERR_DEVICE, "ane: a new surface of %zu bytes cannot be locked", size);
    unsigned char *memory = a->IOSurfaceGetBaseAddress(target);
    size_t copied = 0;
    if (source && a->IOSurfaceLock(source, LOCK_READ_ONLY, NULL) == 0) {
        memcpy(memory, a->IOSurfaceGetBaseAddress(source), source_size);
        a->IOSurfaceUnlock(source, LOCK_READ_ONLY, NULL);
        copied = source_size;
    }
    memset(memory + copied, 0, size - copied);
    a->IOSurfaceUnlock(target, 0, NULL);
    return PROPANE_OK;
}

propane_status ane_buffer_create(void *impl, size_t bytes, driver_buffer *out, propane_error *err) {
    ane_device *d = impl;
    if (bytes > SIZE_MAX / 2 - PAGE) return propane_fail_memory(err, bytes);
    ane_buffer *b = mem_alloc(sizeof *b);
    if (!b) return propane_fail_memory(err, sizeof *b);
    propane_status status = surface_create(d->api, bytes, &b->surface, &b->object, err);
    if (status == PROPANE_OK) {
        b->allocated = d->api->IOSurfaceGetAllocSize(b->surface);
        status = b->allocated >= bytes
                     ? surface_fill(d->api, b->surface, b->allocated, NULL, 0, err)
                     : propane_fail(err, PROPANE_ERR_MEMORY, "ane: an IOSurface created for %zu bytes has only %zu",
                                    bytes, b->allocated);
        if (status == PROPANE_OK && pthread_mutex_init(&b->mutex, NULL))
            status = propane_fail(err, PROPANE_ERR_MEMORY, "the system cannot create a lock");
        if (status != PROPANE_OK) surface_drop(d->api, b->surface, b->object);
    }
    if (status != PROPANE_OK) {
        mem_free(b);
        return status;
    }
    out->impl = b;
    return PROPANE_OK;
}

void ane_buffer_free(void *impl, driver_buffer *buffer) {
    ane_device *d = impl;
    ane_buffer *b = buffer->impl;
    surface_drop(d->api, b->surface, b->object);
    pthread_mutex_destroy(&b->mutex);
    mem_free(b);
    buffer->impl = NULL;
}

bool ane_buffer_native(void *impl, const driver_buffer *buffer, propane_native *out) {
    out->shared_event = ane_events_native(impl);
    out->iosurface = ((const ane_buffer *)buffer->impl)->surface;
    return true;
}

propane_status ane_buffer_lock(void *impl, driver_buffer *buffer, bool for_writing, void **out, propane_error *err) {
    ane_device *d = impl;
    ane_buffer *b = buffer->impl;
    propane_status status = PROPANE_OK;
    pthread_mutex_lock(&b->mutex);
    int code = d->api->IOSurfaceLock(b->surface, for_writing ? 0 : LOCK_READ_ONLY, NULL);
    *out = code == 0 ? d->api->IOSurfaceGetBaseAddress(b->surface) : NULL;
    if (*out) {
        if (for_writing)
            b->writers++;
        else
            b->readers++;
        buffer->memory = *out;
    } else {
        if (code == 0) d->api->IOSurfaceUnlock(b->surface, for_writing ? 0 : LOCK_READ_ONLY, NULL);
        status = propane_fail(err, PROPANE_ERR_DEVICE, "ane: a surface of %zu bytes cannot be locked (code %d)",
                              b->allocated, code);
    }
    pthread_mutex_unlock(&b->mutex);
    return status;
}

void ane_buffer_unlock(void *impl, driver_buffer *buffer) {
    ane_device *d = impl;
    ane_buffer *b = buffer->impl;
    pthread_mutex_lock(&b->mutex);
    bool writer = b->writers > 0;
    if (writer)
        b->writers--;
    else
        b->readers--;
    d->api->IOSurfaceUnlock(b->surface, writer ? 0 : LOCK_READ_ONLY, NULL);
    pthread_mutex_unlock(&b->mutex);
}

static propane_status surface_replace(ane_device *d, ane_buffer *b, size_t bytes, propane_error *err) {
    ane_surface surface;
    ane_id object;
    PROPANE_TRY(surface_create(d->api, bytes, &surface, &object, err));
    size_t allocated = d->api->IOSurfaceGetAllocSize(surface);
    propane_status status = allocated >= bytes ? surface_fill(d->api, surface, allocated, b->surface, b->allocated, err)
                                               : propane_fail_memory(err, bytes);
    if (status != PROPANE_OK) {
        surface_drop(d->api, surface, object);
        return status;
    }
    surface_drop(d->api, b->surface, b->object);
    b->surface = surface;
    b->object = object;
    b->allocated = allocated;
    b->generation++;
    return PROPANE_OK;
}

propane_status ane_buffer_grow(ane_device *d, driver_buffer *buffer, size_t bytes, propane_error *err) {
    ane_buffer *b = buffer->impl;
    pthread_mutex_lock(&b->mutex);
    propane_status status = PROPANE_OK;
    if (b->allocated < bytes)
        status = b->readers || b->writers
                     ? propane_fail(err, PROPANE_ERR_INVALID,
                                    "ane: a surface of %zu bytes must grow to %zu, the size of the surfaces bound with "
                                    "it (C11), but it is locked; unlock it before you create the request",
                                    b->allocated, bytes)
                     : surface_replace(d, b, bytes, err);
    pthread_mutex_unlock(&b->mutex);
    return status;
}
