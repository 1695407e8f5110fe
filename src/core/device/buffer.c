/* SPDX-License-Identifier: MIT
 * Owns buffers, the memory that host and device share, and copies to and from them, which handle strides and types. The
 * longest dense runs are copied or converted at once. Rejects conversions from floats to integers, integers that the
 * target's type cannot hold, and layouts that extend beyond the buffer.
 */
#include <string.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/sized.h"
#include "core/device/device.h"

propane_status propane_buffer_create(propane_device *device, size_t bytes, propane_buffer **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, device, out);
    if (bytes == 0 || bytes > SIZE_MAX / 2)
        return propane_fail(err, PROPANE_ERR_INVALID, "buffer: a buffer cannot have %zu bytes", bytes);
    propane_buffer *b = mem_alloc(sizeof *b);
    if (!b) return propane_fail_memory(err, sizeof *b);
    b->b.bytes = bytes;
    propane_status status = device->driver->buffer_create(device->impl, bytes, &b->b, err);
    if (status != PROPANE_OK) {
        mem_free(b);
        return status;
    }
    b->device = device;
    atomic_init(&b->refs, 1);
    device_retain(device);
    *out = b;
    return PROPANE_OK;
}

propane_status propane_buffer_wrap(propane_device *device, void *memory, size_t bytes, propane_buffer **out,
                                   propane_error *err) {
    if (out) *out = NULL;
    NEED(err, device, memory, out);
    if (!device->driver->host_memory)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "buffer: device '%s' has separate memory; create a buffer there", device->uri);
    if (!memory || bytes == 0 || bytes > SIZE_MAX / 2 || (uintptr_t)memory % 16)
        return propane_fail(err, PROPANE_ERR_INVALID, "buffer: %zu bytes at %p; memory must be aligned to 16 bytes",
                            bytes, memory);
    propane_buffer *b = mem_alloc(sizeof *b);
    if (!b) return propane_fail_memory(err, sizeof *b);
    b->b = (driver_buffer){.bytes = bytes, .memory = memory};
    b->borrowed = true;
    b->device = device;
    atomic_init(&b->refs, 1);
    device_retain(device);
    *out = b;
    return PROPANE_OK;
}

void propane_buffer_free(propane_buffer *buffer) { buffer_release(buffer); }

bool propane_buffer_native(const propane_buffer *buffer, propane_native *out) {
    if (!buffer || !out) return false;
    propane_native own = {.fd = -1};
    const propane_driver *driver = buffer->device->driver;
    const bool known =
        !buffer->borrowed && driver->buffer_native && driver->buffer_native(buffer->device->impl, &buffer->b, &own);
    return sized_give(out, &own, sizeof own) && known;
}

size_t propane_buffer_bytes(const propane_buffer *buffer) { return buffer ? buffer->b.bytes : 0; }

propane_status propane_buffer_lock(propane_buffer *buffer, bool for_writing, void **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, buffer, out);
    const propane_driver *driver = buffer->device->driver;
    if (driver->buffer_lock && !buffer->borrowed)
        return driver->buffer_lock(buffer->device->impl, &buffer->b, for_writing, out, err);
    *out = buffer->b.memory;
    return PROPANE_OK;
}

void propane_buffer_unlock(propane_buffer *buffer) {
    if (!buffer) return;
    const propane_driver *driver = buffer->device->driver;
    if (driver->buffer_unlock && !buffer->borrowed) driver->buffer_unlock(buffer->device->impl, &buffer->b);
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */

typedef struct element_kind {
    const char *name;
    size_t bytes;
    bool is_float;
    int32_t min, max; /* of integers */
} element_kind;

static const element_kind kinds[] = {
    [PROPANE_FP16] = {"fp16", 2, true, 0, 0},
    [PROPANE_FP32] = {"fp32", 4, true, 0, 0},
    [PROPANE_INT32] = {"int32", 4, false, INT32_MIN, INT32_MAX},
    [PROPANE_BOOL] = {"bool", 1, false, 0, 1},
    [PROPANE_INT8] = {"int8", 1, false, INT8_MIN, INT8_MAX},
    [PROPANE_UINT8] = {"uint8", 1, false, 0, UINT8_MAX},
    [PROPANE_INT16] = {"int16", 2, false, INT16_MIN, INT16_MAX},
    [PROPANE_UINT16] = {"uint16", 2, false, 0, UINT16_MAX},
    [PROPANE_BF16] = {"bf16", 2, true, 0, 0},
};

static const element_kind *buffer_kind_of(propane_dtype dtype) {
    return (size_t)dtype < sizeof kinds / sizeof kinds[0] ? &kinds[dtype] : NULL;
}

/* Loads an element; the values of all types in `kinds` fit into a double exactly. Buffers may be bound at any address,
 * hence memcpy. */
static double buffer_load(propane_dtype dtype, const uint8_t *p) {
    uint16_t h;
    float f;
    int32_t i;
    int16_t s;
    switch (dtype) {
    case PROPANE_FP16: memcpy(&h, p, 2); return fp16_to_f32(h);
    case PROPANE_FP32: memcpy(&f, p, 4); return f;
    case PROPANE_INT32: memcpy(&i, p, 4); return i;
    case PROPANE_BOOL: return *p != 0;
    case PROPANE_INT8: return (int8_t)*p;
    case PROPANE_UINT8: return *p;
    case PROPANE_INT16: memcpy(&s, p, 2); return s;
    case PROPANE_UINT16: memcpy(&h, p, 2); return h;
    case PROPANE_BF16: memcpy(&h, p, 2); return bf16_to_f32(h);
    case PROPANE_DTYPE_NONE: break;
    }
    return 0;
}

/* Stores an element. The caller has checked the range of integers. */
static void buffer_store(propane_dtype dtype, uint8_t *p, double value) {
    uint16_t h;
    float f;
    int32_t i;
    switch (dtype) {
    case PROPANE_FP16:
        h = fp16_from_f64(value);
        memcpy(p, &h, 2);
        return;
    case PROPANE_FP32:
        f = (float)value;
        memcpy(p, &f, 4);
        return;
    case PROPANE_INT32:
        i = (int32_t)value;
        memcpy(p, &i, 4);
        return;
    case PROPANE_BF16:
        h = bf16_from_f32((float)value);
        memcpy(p, &h, 2);
        return;
    case PROPANE_BOOL:
    case PROPANE_INT8:
    case PROPANE_UINT8: *p = (uint8_t)(int32_t)value; return;
    case PROPANE_INT16:
    case PROPANE_UINT16:
        h = (uint16_t)(int32_t)value;
        memcpy(p, &h, 2);
        return;
    case PROPANE_DTYPE_NONE: return;
    }
}

/* Converts a dense run. `index` is the index of its first element, for the message. */
static propane_status buffer_convert_run(propane_dtype to, uint8_t *target, propane_dtype from, const uint8_t *source,
                                         int64_t count, int64_t index, propane_error *err) {
    const element_kind *out = buffer_kind_of(to), *in = buffer_kind_of(from);
    if (to == from) {
        memcpy(target, source, (size_t)count * in->bytes);
        return PROPANE_OK;
    }
    bool aligned = ((uintptr_t)target % out->bytes | (uintptr_t)source % in->bytes) == 0;
    if (aligned && to == PROPANE_FP16 && from == PROPANE_FP32) {
        fp16_from_f32_array((uint16_t *)(void *)target, (const float *)(const void *)source, (size_t)count);
        return PROPANE_OK;
    }
    if (aligned && to == PROPANE_FP32 && from == PROPANE_FP16) {
        fp16_to_f32_array((float *)(void *)target, (const uint16_t *)(const void *)source, (size_t)count);
        return PROPANE_OK;
    }
    if (aligned && to == PROPANE_BF16 && from == PROPANE_FP32) {
        bf16_from_f32_array((uint16_t *)(void *)target, (const float *)(const void *)source, (size_t)count);
        return PROPANE_OK;
    }
    for (int64_t i = 0; i < count; i++) {
        double value = buffer_load(from, source + (size_t)i * in->bytes);
        if (!out->is_float && (value < out->min || value > out->max))
            return propane_fail(err, PROPANE_ERR_INVALID, "element %lld is %.0f, outside the range of %s (%d..%d)",
                                (long long)(index + i), value, out->name, (int)out->min, (int)out->max);
        buffer_store(to, target + (size_t)i * out->bytes, value);
    }
    return PROPANE_OK;
}

/* ---- strided copies ---------------------------------------------------------------------------------------------- */

/* How a tensor splits into dense runs: the dimensions from `rank_outer` inward are dense in the buffer and form one
 * run. */
typedef struct layout {
    int rank_outer;
    int64_t run, outer;
} layout;

static propane_status buffer_check_layout(const propane_buffer *buffer, const propane_io *io, propane_dtype dtype,
                                          int64_t count, bool writing, layout *out, propane_error *err) {
    const element_kind *there = buffer_kind_of(io->dtype), *here = buffer_kind_of(dtype);
    const char *verb = writing ? "write" : "read", *name = io->name ? io->name : "";
    if (!here)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s '%s': dtype is %d; it must be from 0 to %d", verb, name,
                            (int)dtype, (int)PROPANE_BF16);
    if (!there || io->rank < 0 || io->rank > PROPANE_MAX_RANK)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s '%s': the propane_io has the element type %d and the rank %d",
                            verb, name, (int)io->dtype, io->rank);
    const element_kind *from = writing ? here : there, *to = writing ? there : here;
    if (from->is_float && !to->is_float)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s '%s': %s to %s would lose fractions; convert it yourself",
                            verb, name, from->name, to->name);
    int64_t elements = 1, last = 0;
    for (int d = 0; d < io->rank; d++) {
        int64_t reach;
        if (io->dim[d] < 0 || io->stride[d] < 0 || __builtin_mul_overflow(elements, io->dim[d], &elements) ||
            (io->dim[d] && (__builtin_mul_overflow(io->dim[d] - 1, io->stride[d], &reach) ||
                            __builtin_add_overflow(last, reach, &last))))
            return propane_fail(err, PROPANE_ERR_INVALID, "%s '%s': dimension %d is %lld with a stride of %lld bytes",
                                verb, name, d, (long long)io->dim[d], (long long)io->stride[d]);
    }
    if (count != elements)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s '%s': %lld elements were given, but its shape has %lld", verb,
                            name, (long long)count, (long long)elements);
    if (elements && (uint64_t)last + there->bytes > buffer->b.bytes)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s '%s': it needs %llu bytes, but the buffer has %zu", verb,
                            name, (unsigned long long)last + there->bytes, buffer->b.bytes);
    int64_t run = 1;
    int d = io->rank;
    while (d > 0 && (io->stride[d - 1] == run * (int64_t)there->bytes || io->dim[d - 1] == 1)) run *= io->dim[--d];
    *out = (layout){.rank_outer = d, .run = run, .outer = run ? elements / run : 0};
    return PROPANE_OK;
}

/* Copies between the buffer's `memory` and `dense`, whose elements are of `dtype`. `dense` is the source if `writing`,
 * else the target. */
static propane_status buffer_copy_runs(uint8_t *memory, const propane_io *io, const layout *l, propane_dtype dtype,
                                       uint8_t *dense, bool writing, propane_error *err) {
    size_t step = (size_t)l->run * buffer_kind_of(dtype)->bytes;
    int64_t index[PROPANE_MAX_RANK] = {0}, offset = 0;
    for (int64_t n = 0; n < l->outer; n++, dense += step) {
        uint8_t *strided = memory + offset;
        PROPANE_TRY(writing ? buffer_convert_run(io->dtype, strided, dtype, dense, l->run, n * l->run, err)
                            : buffer_convert_run(dtype, dense, io->dtype, strided, l->run, n * l->run, err));
        for (int d = l->rank_outer - 1; d >= 0; d--) {
            offset += io->stride[d];
            if (++index[d] < io->dim[d]) break;
            offset -= index[d] * io->stride[d];
            index[d] = 0;
        }
    }
    return PROPANE_OK;
}

static propane_status buffer_copy(propane_buffer *buffer, const propane_io *io, propane_dtype dtype, void *dense,
                                  int64_t count, bool writing, propane_error *err) {
    layout l = {0};
    PROPANE_TRY(buffer_check_layout(buffer, io, dtype, count, writing, &l, err));
    void *memory = NULL;
    PROPANE_TRY(propane_buffer_lock(buffer, writing, &memory, err));
    propane_status status = buffer_copy_runs(memory, io, &l, dtype, dense, writing, err);
    propane_buffer_unlock(buffer);
    return status == PROPANE_OK
               ? status
               : propane_fail_prefix(err, status, "%s '%s'", writing ? "write" : "read", io->name ? io->name : "");
}

propane_status propane_buffer_write(propane_buffer *buffer, const propane_io *io, propane_dtype dtype,
                                    const void *source, int64_t count, propane_error *err) {
    NEED(err, buffer, io);
    NEED_LIST(err, source, count);
    /* The cast is safe: buffer_copy writes to `dense` only when it reads a buffer. */
    return buffer_copy(buffer, io, dtype, (void *)(uintptr_t)source, count, true, err);
}

propane_status propane_buffer_read(propane_buffer *buffer, const propane_io *io, propane_dtype dtype, void *target,
                                   int64_t count, propane_error *err) {
    NEED(err, buffer, io);
    NEED_LIST(err, target, count);
    return buffer_copy(buffer, io, dtype, target, count, false, err);
}
