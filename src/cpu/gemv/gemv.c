/* SPDX-License-Identifier: MIT
 * Divides products of weights with vectors into tasks. The vectors are gathered once. Each task processes a range of
 * rows of one matrix; up to CPU_GEMV_GROUP matrices multiply the same vectors.
 */
#include "cpu/gemv/gemv.h"

#include <assert.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/pool.h"

enum { ROW_STEP = 16, ALIGN = 64 }; /* ROW_STEP: rows per kernel call */

/* Returns log2 of the columns padded to 1, 2, 4 or 8. */
static int gemv_log2_columns(int n) { return n <= 1 ? 0 : n <= 2 ? 1 : n <= 4 ? 2 : 3; }

static int64_t gemv_step_of(int64_t k) { return (k + 15) / 16 * 16; }

/* Returns the integer kernels, or NULL to compute in fp32. */
static const cpu_int_dot_kernels *gemv_int_dot_of(const cpu_gemv *g) {
    return g->format < CPU_WEIGHTS_INT8 || g->exact || !g->kernels->int_dot.prepare ? NULL : &g->kernels->int_dot;
}

static size_t gemv_column_bytes(const cpu_gemv *g) {
    return cpu_weights_block(g->format) <= CPU_GEMV_BLOCK ? cpu_int_dot_column_bytes(g->k)
                                                          : cpu_int_dot_block_bytes(g->k);
}

/* Returns the bytes of the vectors as fp32; any integer form is stored after them. */
static size_t gemv_gathered_bytes(const cpu_gemv *g) {
    return ((size_t)(gemv_step_of(g->k) << gemv_log2_columns(g->n)) * sizeof(float) + ALIGN - 1) / ALIGN * ALIGN;
}

size_t cpu_gemv_scratch_bytes(const cpu_gemv *g) {
    size_t whole = gemv_int_dot_of(g) ? gemv_column_bytes(g) << gemv_log2_columns(g->n) : 0;
    return gemv_gathered_bytes(g) + whole + ALIGN;
}

static float gemv_load(const cpu_matrix_view *m, int64_t i, int64_t j) {
    int64_t at = i * m->row_stride + j * m->col_stride;
    return m->dtype == CPU_F16 ? fp16_to_f32(((const uint16_t *)m->data)[at]) : ((const float *)m->data)[at];
}

static void gemv_store(const cpu_matrix_view *m, int64_t i, int64_t j, float value) {
    int64_t at = i * m->row_stride + j * m->col_stride;
    if (m->dtype == CPU_F16)
        ((uint16_t *)(uintptr_t)m->data)[at] = fp16_from_f32(value);
    else
        ((float *)(uintptr_t)m->data)[at] = value;
}

/* Gathers the vectors as fp32 in [columns][k rounded up to 16]. Columns after the last vector are zeros. */
static void gemv_gather(const cpu_gemv *g, float *x, int columns) {
    int64_t step = gemv_step_of(g->k), row = g->x.row_stride;
    for (int j = 0; j < columns; j++) {
        float *to = x + j * step;
        const float *from = (const float *)g->x.data + j * g->x.col_stride;
        if (j >= g->n)
            memset(to, 0, (size_t)g->k * sizeof *to);
        else if (g->x.dtype == CPU_F32 && row == 1)
            memcpy(to, from, (size_t)g->k * sizeof *to);
        else if (g->x.dtype == CPU_F32)
            for (int64_t i = 0; i < g->k; i++) to[i] = from[i * row];
        else if (row == 1)
            fp16_to_f32_array(to, (const uint16_t *)g->x.data + j * g->x.col_stride, (size_t)g->k);
        else
            for (int64_t i = 0; i < g->k; i++) to[i] = gemv_load(&g->x, i, j);
    }
}

typedef struct gemv_run {
    const cpu_gemv *g;             /* products that differ only in w, scales, m, c and residual */
    int first[CPU_GEMV_GROUP + 1]; /* first task of each product */
    const cpu_gemv_kernels *kernels;
    const cpu_int_dot_kernels *dots; /* NULL for fp32 */
    const float *x;
    const char *whole; /* x in the form of the integer kernels */
    int columns, log2;
    int64_t chunk; /* rows per task */
} gemv_run;

/* Adds any residual to rows i .. i + rows - 1 and stores all their columns. */
static void gemv_put_rows(const cpu_gemv *g, const float *y, int64_t i, int rows, int columns) {
    if (!g->residual && g->c.dtype == CPU_F32) {
        float *c = (float *)(uintptr_t)g->c.data + i * g->c.row_stride;
        for (int a = 0; a < rows; a++, c += g->c.row_stride)
            for (int j = 0; j < g->n; j++) c[j * g->c.col_stride] = y[a * columns + j];
        return;
    }
    for (int a = 0; a < rows; a++)
        for (int j = 0; j < g->n; j++) {
            float value = y[a * columns + j];
            if (g->residual) value += gemv_load(g->residual, i + a, j);
            gemv_store(&g->c, i + a, j, value);
        }
}

static void gemv_task_rows(void *context, int task, int worker) {
    const gemv_run *r = context;
    const cpu_gemv *g = r->g;
    int which = 0;
    while (task >= r->first[which + 1]) which++;
    g += which;
    task -= r->first[which];
    int64_t from = task * r->chunk, to = from + r->chunk < g->m ? from + r->chunk : g->m;
    int64_t row_bytes = cpu_weights_row_bytes(g->format, g->k), row_scales = cpu_weights_row_scales(g->format, g->k);
    int whole = g->format - CPU_WEIGHTS_INT8;
    (void)worker;
    for (int64_t i = from; i < to;) {
        float y[ROW_STEP * CPU_GEMV_COLUMNS];
        int rows = to - i < ROW_STEP ? (int)(to - i) : ROW_STEP;
        const char *w = (const char *)g->w + i * row_bytes;
        const uint16_t *scales = g->scales ? g->scales + i * row_scales : NULL;
        if (r->dots)
            r->dots->tiles[whole][r->log2](y, w, scales, r->whole, g->k, rows);
        else
            r->kernels->tiles[g->format][r->log2](y, w, scales, r->x, gemv_step_of(g->k), g->k, rows);
        gemv_put_rows(g, y, i, rows, r->columns);
        i += rows;
    }
}

/* Splits all products into tasks by the bytes of their weights, and returns the number of tasks. */
static int gemv_split(gemv_run *r, int count, int64_t bytes, int64_t row_bytes) {
    const cpu_gemv_sizes *s = &r->g->kernels->gemv_sizes;
    int64_t part = bytes / (pool_threads() * s->tasks);
    part = part < s->task_least ? s->task_least : part > s->task_most ? s->task_most : part;
    r->chunk = part / (row_bytes ? row_bytes : 1) / ROW_STEP * ROW_STEP;
    if (r->chunk < ROW_STEP) r->chunk = ROW_STEP;
    for (int i = 0; i < count; i++) r->first[i + 1] = r->first[i] + (int)((r->g[i].m + r->chunk - 1) / r->chunk);
    return r->first[count];
}

void cpu_gemv_run_group(const cpu_gemv *g, int count, void *scratch) {
    gemv_run r = {.g = g,
                  .kernels = &g->kernels->gemv,
                  .dots = gemv_int_dot_of(g),
                  .x = scratch,
                  .log2 = gemv_log2_columns(g->n)};
    int64_t row_bytes = cpu_weights_row_bytes(g->format, g->k), bytes = 0;
    assert(count >= 1 && count <= CPU_GEMV_GROUP);
    assert(g->n >= 1 && g->n <= CPU_GEMV_COLUMNS && (uintptr_t)scratch % ALIGN == 0);
    assert(g->k % cpu_weights_block(g->format) == 0);
    r.columns = 1 << r.log2;
    gemv_gather(g, scratch, r.columns);
    if (r.dots) {
        char *whole = (char *)scratch + gemv_gathered_bytes(g);
        for (int j = 0; j < r.columns; j++)
            r.dots->prepare(whole + (size_t)j * gemv_column_bytes(g), r.x + j * gemv_step_of(g->k), g->k, g->format);
        r.whole = whole;
    }
    for (int i = 0; i < count; i++) bytes += g[i].m * row_bytes;
    int tasks = gemv_split(&r, count, bytes, row_bytes);
    if (bytes <= g->kernels->gemv_sizes.inline_bytes)
        for (int i = 0; i < tasks; i++) gemv_task_rows(&r, i, 0);
    else
        pool_run_most(gemv_task_rows, &r, tasks, g->threads);
}
