/* SPDX-License-Identifier: MIT
 * Owns the split of a weights-times-vectors product: the vectors are gathered once, tasks take stretches of rows.
 */
#include "drivers/cpu/gemv.h"

#include <assert.h>
#include <string.h>

#include "base/half.h"
#include "base/pool.h"

enum { TASK_BYTES = 1 << 16, INLINE_BYTES = 1 << 15, ROW_STEP = 4, ALIGN = 64 };

static const cpu_gemv_kernels *kernels_of(cpu_isa isa) {
    switch (isa) {
#if defined(__x86_64__)
    case CPU_ISA_AVX2: return &cpu_gemv_kernels_avx2;
    case CPU_ISA_AVX512_BF16:
    case CPU_ISA_AVX512: return &cpu_gemv_kernels_avx512;
#elif defined(__aarch64__)
    case CPU_ISA_NEON: return &cpu_gemv_kernels_neon;
#endif
    default: return &cpu_gemv_kernels_plain;
    }
}

int64_t cpu_weights_row_bytes(cpu_weights format, int64_t k) {
    switch (format) {
    case CPU_WEIGHTS_F32: return 4 * k;
    case CPU_WEIGHTS_F16:
    case CPU_WEIGHTS_BF16: return 2 * k;
    case CPU_WEIGHTS_INT8: return k;
    default: return k / 2;
    }
}

/* Columns are padded to 1, 2, 4 or 8. */
static int log2_columns(int n) { return n <= 1 ? 0 : n <= 2 ? 1 : n <= 4 ? 2 : 3; }

static int64_t step_of(int64_t k) { return (k + 15) / 16 * 16; }

size_t cpu_gemv_scratch_bytes(const cpu_gemv *g) {
    return (size_t)(step_of(g->k) << log2_columns(g->n)) * sizeof(float) + ALIGN;
}

static float load(const cpu_matrix *m, int64_t i, int64_t j) {
    int64_t at = i * m->row_stride + j * m->col_stride;
    return m->dtype == CPU_F16 ? fp16_to_f32(((const uint16_t *)m->data)[at]) : ((const float *)m->data)[at];
}

static void store(const cpu_matrix *m, int64_t i, int64_t j, float value) {
    int64_t at = i * m->row_stride + j * m->col_stride;
    if (m->dtype == CPU_F16)
        ((uint16_t *)(uintptr_t)m->data)[at] = fp16_from_f32(value);
    else
        ((float *)(uintptr_t)m->data)[at] = value;
}

/* [columns][k], zeros behind the last column. */
static void gather(const cpu_gemv *g, float *x, int columns) {
    int64_t step = step_of(g->k);
    for (int j = 0; j < columns; j++) {
        float *to = x + j * step;
        if (j >= g->n)
            memset(to, 0, (size_t)g->k * sizeof *to);
        else if (g->x.row_stride == 1 && g->x.dtype == CPU_F32)
            memcpy(to, (const float *)g->x.data + j * g->x.col_stride, (size_t)g->k * sizeof *to);
        else if (g->x.row_stride == 1)
            fp16_to_f32_array(to, (const uint16_t *)g->x.data + j * g->x.col_stride, (size_t)g->k);
        else
            for (int64_t i = 0; i < g->k; i++) to[i] = load(&g->x, i, j);
    }
}

typedef struct gemv_run {
    const cpu_gemv *g;
    const cpu_gemv_kernels *kernels;
    const float *x;
    int columns, log2;
    int64_t chunk; /* rows of a task */
} gemv_run;

static void task_rows(void *context, int task, int worker) {
    const gemv_run *r = context;
    const cpu_gemv *g = r->g;
    int64_t from = task * r->chunk, to = from + r->chunk < g->m ? from + r->chunk : g->m;
    int64_t row_bytes = cpu_weights_row_bytes(g->format, g->k), blocks = g->k / CPU_GEMV_BLOCK;
    int several = r->kernels->rows[r->log2];
    (void)worker;
    for (int64_t i = from; i < to;) {
        float y[ROW_STEP * CPU_GEMV_COLUMNS];
        int rows = to - i >= several ? several : 1;
        const cpu_gemv_tile *tiles = rows > 1 ? r->kernels->tiles[g->format] : r->kernels->singles[g->format];
        tiles[r->log2](y, (const char *)g->w + i * row_bytes, g->scales ? g->scales + i * blocks : NULL, r->x,
                       step_of(g->k), g->k);
        for (int a = 0; a < rows; a++, i++)
            for (int j = 0; j < g->n; j++) {
                float value = y[a * r->columns + j];
                if (g->residual) value += load(g->residual, i, j);
                store(&g->c, i, j, value);
            }
    }
}

void cpu_gemv_run(const cpu_gemv *g, void *scratch) {
    gemv_run r = {.g = g, .kernels = kernels_of(g->isa), .x = scratch, .log2 = log2_columns(g->n)};
    int64_t row_bytes = cpu_weights_row_bytes(g->format, g->k);
    assert(g->n >= 1 && g->n <= CPU_GEMV_COLUMNS && (uintptr_t)scratch % ALIGN == 0);
    assert(!g->scales || g->k % CPU_GEMV_BLOCK == 0);
    r.columns = 1 << r.log2;
    gather(g, scratch, r.columns);
    r.chunk = TASK_BYTES / (row_bytes ? row_bytes : 1) / ROW_STEP * ROW_STEP;
    if (r.chunk < ROW_STEP) r.chunk = ROW_STEP;
    int64_t tasks = (g->m + r.chunk - 1) / r.chunk;
    if (g->m * row_bytes <= INLINE_BYTES)
        for (int64_t i = 0; i < tasks; i++) task_rows(&r, (int)i, 0);
    else
        pool_run(task_rows, &r, (int)tasks);
}
