/* SPDX-License-Identifier: MIT
 * Owns lines of doubles and ranges of work; see dense.h.
 */
#include "cpu/loop/dense.h"

#include <string.h>

#include "core/base/float16.h"
#include "core/mil/ops.h"

#define LOAD(type)                                                                                                     \
    for (int64_t i = 0; i < count; i++) to[i] = (double)((const type *)from)[at + i * step];                           \
    return

void cpu_dense_load(double *to, mil_dtype dtype, const void *from, int64_t at, int64_t step, int64_t count) {
    switch (dtype) {
    case MIL_fp32: LOAD(float);
    case MIL_int32: LOAD(int32_t);
    case MIL_int16: LOAD(int16_t);
    case MIL_uint16: LOAD(uint16_t);
    case MIL_int8: LOAD(int8_t);
    case MIL_uint8: LOAD(uint8_t);
    case MIL_bool: LOAD(uint8_t);
    case MIL_fp16:
        for (int64_t i = 0; i < count; i++) to[i] = fp16_to_f32(((const uint16_t *)from)[at + i * step]);
        return;
    default: /* rare types, converted one element at a time */
        for (int64_t i = 0; i < count; i++)
            mil_unpack_f64(&to[i], dtype,
                           (const unsigned char *)from + (size_t)(at + i * step) * (size_t)cpu_view_dtype_bytes(dtype),
                           1);
    }
}

/* Clamps to the range; NaN becomes 0. The cast by the caller truncates toward zero. */
static inline double dense_held(double v, double low, double high) {
    if (!(v > low)) return v <= low ? low : 0.0;
    return v < high ? v : high;
}

#define STORE(type, low, high)                                                                                         \
    for (int64_t i = 0; i < count; i++) ((type *)to)[at + i * step] = (type)dense_held(from[i], low, high);            \
    return

void cpu_dense_store(void *to, mil_dtype dtype, int64_t at, int64_t step, const double *from, int64_t count) {
    switch (dtype) {
    case MIL_fp32:
        for (int64_t i = 0; i < count; i++) ((float *)to)[at + i * step] = (float)from[i];
        return;
    case MIL_fp16:
        for (int64_t i = 0; i < count; i++) ((uint16_t *)to)[at + i * step] = fp16_from_f64(from[i]);
        return;
    case MIL_int32: STORE(int32_t, INT32_MIN, INT32_MAX);
    case MIL_int16: STORE(int16_t, INT16_MIN, INT16_MAX);
    case MIL_uint16: STORE(uint16_t, 0, UINT16_MAX);
    case MIL_int8: STORE(int8_t, INT8_MIN, INT8_MAX);
    case MIL_uint8: STORE(uint8_t, 0, UINT8_MAX);
    case MIL_bool:
        for (int64_t i = 0; i < count; i++) ((uint8_t *)to)[at + i * step] = from[i] != 0.0;
        return;
    default:
        for (int64_t i = 0; i < count; i++)
            mil_pack_f64((unsigned char *)to + (size_t)(at + i * step) * (size_t)cpu_view_dtype_bytes(dtype), dtype,
                         &from[i], 1);
    }
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

int64_t cpu_dense_part(int64_t each) { return each >= 32768 ? 1 : 32768 / (each > 0 ? each : 1); }

typedef struct parts {
    int64_t count, part;
    cpu_dense_work work;
    const void *context;
} parts;

static void dense_task_part(void *context, int task, int worker) {
    const parts *p = context;
    const int64_t first = task * p->part, last = first + p->part < p->count ? first + p->part : p->count;
    p->work(p->context, first, last, worker);
}

void cpu_dense_each(const cpu_run *run, int64_t count, int64_t part, cpu_dense_work work, const void *context) {
    if (count <= 0) return;
    if (part < 1) part = 1;
    if ((count + part - 1) / part > INT32_MAX) part = count / INT32_MAX + 1;
    parts p = {count, part, work, context};
    if (count <= part)
        work(context, 0, count, 0);
    else
        cpu_run_parallel(run, dense_task_part, &p, (int)((count + part - 1) / part));
}
