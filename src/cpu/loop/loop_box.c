/* SPDX-License-Identifier: MIT
 * Owns copying boxes between memory and dense fp32, for every element type that a tile supports. A number outside the
 * range of an integer type becomes the nearest one inside; NaN becomes 0.
 */
#include "cpu/loop/loop_box.h"

#include <assert.h>
#include <math.h>

#include "core/base/float16.h"

bool cpu_loop_dtype(mil_dtype dtype) {
    switch (dtype) {
    case MIL_fp32:
    case MIL_fp16:
    case MIL_bool:
    case MIL_int8:
    case MIL_uint8:
    case MIL_int16:
    case MIL_uint16:
    case MIL_int32: return true;
    default: return false;
    }
}

#define LOOP_LOAD_LOOP(type)                                                                                           \
    do {                                                                                                               \
        const type *s = source;                                                                                        \
        for (int64_t i = 0; i < count; i++) target[i] = (float)s[i * stride];                                          \
    } while (0)

/* Copies fp32 rows of 8 to 1024 elements. For other widths, copies nothing and returns false. */
static bool loop_box_copy_rows(float *target, int64_t target_step, const float *source, int64_t source_step,
                               int64_t rows, int64_t width) {
    enum { AHEAD = 8 };
    if (width < 8 || width > 1024) return false;
    for (int64_t r = 0; r < rows; r++, target += target_step, source += source_step) {
        if (r + AHEAD < rows) /* rows may be kilobytes apart, so no hardware prefetcher fetches them in time */
            for (int64_t i = 0; i < width; i += 16) {
                __builtin_prefetch(source + AHEAD * source_step + i);
                __builtin_prefetch(target + AHEAD * target_step + i, 1);
            }
        loop_copy_line(target, source, width);
    }
    return true;
}

/* Fills rows that repeat one number each, such as a weight for all positions of its channel. */
static void loop_box_fill_rows(float *target, const float *source, int64_t step, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; r++, target += width, source += step) {
        float line[16];
        for (int i = 0; i < 16; i++) line[i] = *source;
        int64_t i = 0;
        for (; i + 16 <= width; i += 16) memcpy(target + i, line, sizeof line);
        for (; i < width; i++) target[i] = *source;
    }
}

void loop_load_line(float *target, const void *source, mil_dtype dtype, int64_t count, int64_t stride) {
    switch (dtype) {
    case MIL_fp32:
        if (stride == 1)
            memcpy(target, source, (size_t)count * sizeof *target);
        else if (stride == 0)
            for (int64_t i = 0; i < count; i++) target[i] = *(const float *)source;
        else
            LOOP_LOAD_LOOP(float);
        break;
    case MIL_fp16:
        if (stride == 1) {
            fp16_to_f32_array(target, source, (size_t)count);
        } else if (stride == 0) {
            float value = fp16_to_f32(*(const uint16_t *)source);
            for (int64_t i = 0; i < count; i++) target[i] = value;
        } else {
            uint16_t block[64];
            const uint16_t *s = source;
            for (int64_t i = 0; i < count; i += 64) {
                int64_t n = count - i < 64 ? count - i : 64;
                for (int64_t j = 0; j < n; j++) block[j] = s[(i + j) * stride];
                fp16_to_f32_array(target + i, block, (size_t)n);
            }
        }
        break;
    case MIL_bool: {
        const uint8_t *s = source;
        for (int64_t i = 0; i < count; i++) target[i] = s[i * stride] ? 1.0f : 0.0f;
        break;
    }
    case MIL_uint8: LOOP_LOAD_LOOP(uint8_t); break;
    case MIL_int8: LOOP_LOAD_LOOP(int8_t); break;
    case MIL_int16: LOOP_LOAD_LOOP(int16_t); break;
    case MIL_uint16: LOOP_LOAD_LOOP(uint16_t); break;
    case MIL_int32: LOOP_LOAD_LOOP(int32_t); break;
    default: assert(!"no such element type in a tile");
    }
}

/* Truncates; NaN becomes 0, and a value out of range becomes the nearest one inside. */
static double loop_box_clamp_cut(float x, double low, double high) {
    if (!(x == x)) return 0;
    double t = trunc((double)x);
    return t < low ? low : t > high ? high : t;
}

#define LOOP_STORE_LOOP(type, low, high)                                                                               \
    do {                                                                                                               \
        type *t = target;                                                                                              \
        for (int64_t i = 0; i < count; i++) t[i * stride] = (type)loop_box_clamp_cut(source[i], low, high);            \
    } while (0)

static void loop_box_store_line(void *target, mil_dtype dtype, int64_t count, int64_t stride, const float *source) {
    switch (dtype) {
    case MIL_fp32:
        if (stride == 1)
            memcpy(target, source, (size_t)count * sizeof *source);
        else
            for (int64_t i = 0; i < count; i++) ((float *)target)[i * stride] = source[i];
        break;
    case MIL_fp16:
        if (stride == 1) {
            fp16_from_f32_array(target, source, (size_t)count);
        } else {
            uint16_t block[64], *t = target;
            for (int64_t i = 0; i < count; i += 64) {
                int64_t n = count - i < 64 ? count - i : 64;
                fp16_from_f32_array(block, source + i, (size_t)n);
                for (int64_t j = 0; j < n; j++) t[(i + j) * stride] = block[j];
            }
        }
        break;
    case MIL_bool: {
        uint8_t *t = target;
        for (int64_t i = 0; i < count; i++) t[i * stride] = source[i] != 0;
        break;
    }
    case MIL_uint8: LOOP_STORE_LOOP(uint8_t, 0, 255); break;
    case MIL_int8: LOOP_STORE_LOOP(int8_t, -128, 127); break;
    case MIL_int16: LOOP_STORE_LOOP(int16_t, -32768, 32767); break;
    case MIL_uint16: LOOP_STORE_LOOP(uint16_t, 0, 65535); break;
    case MIL_int32: LOOP_STORE_LOOP(int32_t, -2147483648.0, 2147483647.0); break;
    default: assert(!"no such element type in a tile");
    }
}

void loop_box_collapse(loop_box *b, int rank, const int64_t *dim, const int64_t *stride) {
    b->rank = 0;
    b->count = 1;
    for (int d = 0; d < rank; d++) {
        b->count *= dim[d];
        if (dim[d] == 1) continue;
        int last = b->rank - 1;
        if (last >= 0 && b->stride[last] == dim[d] * stride[d]) {
            b->dim[last] *= dim[d];
            b->stride[last] = stride[d];
        } else {
            b->dim[b->rank] = dim[d];
            b->stride[b->rank++] = stride[d];
        }
    }
    if (!b->rank) {
        b->rank = 1;
        b->dim[0] = 1;
        b->stride[0] = 1;
    }
}

/* Moves to the next line of the box. Returns false after the last one. */
static bool loop_box_next(const loop_box *b, int64_t *index, int64_t *offset) {
    for (int d = b->rank - 2; d >= 0; d--) {
        *offset += b->stride[d];
        if (++index[d] < b->dim[d]) return true;
        *offset -= b->dim[d] * b->stride[d];
        index[d] = 0;
    }
    return false;
}

void loop_box_load(float *target, const unsigned char *source, mil_dtype dtype, int element, const loop_box *b) {
    int64_t index[MIL_MAX_RANK + 2] = {0}, offset = 0, line = b->dim[b->rank - 1];
    if (!b->count) return;
    if (dtype == MIL_fp32 && b->rank == 2 && b->stride[1] == 1 &&
        loop_box_copy_rows(target, line, (const float *)(const void *)source, b->stride[0], b->dim[0], line))
        return;
    if (dtype == MIL_fp32 && b->rank == 2 && b->stride[1] == 0) {
        loop_box_fill_rows(target, (const float *)(const void *)source, b->stride[0], b->dim[0], line);
        return;
    }
    do {
        loop_load_line(target, source + offset * element, dtype, line, b->stride[b->rank - 1]);
        target += line;
    } while (loop_box_next(b, index, &offset));
}

void loop_box_store(unsigned char *target, mil_dtype dtype, int element, const loop_box *b, const float *source) {
    int64_t index[MIL_MAX_RANK + 2] = {0}, offset = 0, line = b->dim[b->rank - 1];
    if (!b->count) return;
    if (dtype == MIL_fp32 && b->rank == 2 && b->stride[1] == 1 &&
        loop_box_copy_rows((float *)(void *)target, b->stride[0], source, line, b->dim[0], line))
        return;
    do {
        loop_box_store_line(target + offset * element, dtype, line, b->stride[b->rank - 1], source);
        source += line;
    } while (loop_box_next(b, index, &offset));
}
