/* SPDX-License-Identifier: MIT
 * Owns conv, linear and matmul as an engine's multiply-add array computes them (switch `arithmetic`).
 *
 * All three are computed as matrix products, whose right factor is packed 64 columns at a time. If no sum can exceed
 * int32, which is nearly always so, the kernels of cpu/simd/array_ukernel.h add in integers. If a sum could exceed
 * int32, the functions of ane/h13/accumulate.h add instead. Both produce the same bits.
 */
#include <math.h>
#include <string.h>

#include "ane/h13/accumulate.h"
#include "ane/sim/sim.h"
#include "core/base/int_math.h"
#include "core/base/pool.h"
#include "core/mil/eval/eval.h"
#include "core/mil/ops.h"
#include "core/mil/ops/shape_util.h"
#include "cpu/simd/kernels.h"

enum { COLUMNS = CPU_ARRAY_COLUMNS, ROWS = CPU_ARRAY_ROWS, CHUNK = 16 };

#define STEP      65536.0      /* sums are in units of 2^-16 */
#define TOP       2147483647.0 /* the largest int32 */
#define FAR_ABOVE 64.0f        /* products below it in absolute value use the near kernels */

/* `batches` matrix products C [m][n] = A [m][k] B [k][n]. There are `lefts` matrices A; batch i uses A number i %
 * lefts. */
typedef struct products_job {
    const mil_op *op;
    const cpu_array_kernels *array;
    int64_t batches, lefts, m, n, k;
    float *x, *w, *bias; /* operands as the array reads them */
    float *a;            /* [lefts][m][k]; x or w, or `own` */
    float *own, *up, *least;
    float *norm, *top; /* [lefts][m]: the sum and the maximum of the absolute values of each row of A */
    float *panels;     /* [k][COLUMNS] per worker */
    int64_t *at;       /* matmul: offset of each batch's y */
    float *out;
    bool bias_of_rows;
    mil_matmul matmul;
    mil_conv conv;
} products_job;

/* Places the job's arrays one after the other in `scratch`, and returns their total size. If `scratch` is NULL, only
 * returns the size. */
static int64_t products_place(products_job *j, int threads, void *scratch) {
    const bool matmul = j->op->info->code == MIL_OP_matmul;
    const mil_value *x = mil_in(j->op, "x"), *w = mil_in(j->op, matmul ? "y" : "weight");
    const mil_value *bias = matmul ? NULL : mil_in(j->op, "bias");
    const int64_t rows = j->lefts * j->m;
    const struct products_array {
        float **to;
        int64_t count;
    } arrays[] = {
        {&j->x, mil_type_count(&x->type)},
        {&j->w, mil_type_count(&w->type)},
        {&j->bias, bias ? mil_type_count(&bias->type) : 0},
        {&j->own, matmul ? rows * j->k : 0},
        {&j->up, rows * j->k},
        {&j->least, rows * j->k},
        {&j->norm, rows},
        {&j->top, rows},
        {&j->panels, threads * j->k * COLUMNS},
        {&j->out, j->batches * j->m * j->n},
    };
    int64_t bytes = 0;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        if (scratch && arrays[i].count) *arrays[i].to = (float *)(void *)((unsigned char *)scratch + bytes);
        bytes += round_up(arrays[i].count * (int64_t)sizeof(float), SIM_ALIGNED);
    }
    if (!matmul) return bytes;
    if (scratch) j->at = (int64_t *)(void *)((unsigned char *)scratch + bytes);
    return bytes + round_up(j->batches * (int64_t)sizeof *j->at, SIM_ALIGNED);
}

static void products_load(const mil_value *v, const void *data, float *out) {
    const int64_t count = mil_type_count(&v->type);
    const bool half = v->type.dtype == MIL_fp16;
    sim_load_f32(out, v->type.dtype, data, count);
    for (int64_t i = 0; i < count; i++) /* finite fp16 values need no conversion */
        if (!half || !isfinite(out[i])) out[i] = accumulate_read(out[i]);
}

/* Returns the largest absolute value. Compares the bits as integers, so that the compiler vectorizes the loop. */
static float products_largest(const float *x, int64_t n) {
    int32_t most = 0;
    float largest;
    for (int64_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= INT32_MAX;
        most = bits > most ? bits : most;
    }
    memcpy(&largest, &most, sizeof largest);
    return largest;
}

/* Returns the sum of the absolute values, or slightly more. */
static float products_norm(const float *x, int64_t n) {
    float part[8] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++) part[l] += fabsf(x[i + l]);
    for (; i < n; i++) sum += fabsf(x[i]);
    for (int l = 0; l < 8; l++) sum += part[l];
    return sum * (1 + (float)n * 1.2e-7f); /* each addition may have lost half a unit in the last place */
}

/* ---- the right factor --------------------------------------------------------------------------------------------------- */

static void products_pack_matmul(const products_job *j, int64_t batch, int64_t first, int64_t count, float *panel) {
    const float *y = j->w + j->at[batch] + first * j->matmul.y_col;
    for (int64_t k = 0; k < j->k; k++)
        for (int64_t c = 0; c < count; c++) panel[k * COLUMNS + c] = y[k * j->matmul.y_row + c * j->matmul.y_col];
}

static void products_pack_linear(const products_job *j, int64_t first, int64_t count, float *panel) {
    const float *w = j->w + first * j->k;
    for (int64_t k = 0; k < j->k; k++)
        for (int64_t c = 0; c < count; c++) panel[k * COLUMNS + c] = w[c * j->k + k];
}

/* Returns the offset within a channel that output `position` reads at one tap of the kernel, or -1 in the padding. */
static int64_t products_source(const mil_conv *c, int64_t position, int64_t tap) {
    int64_t source = 0;
    const int64_t place[3] = {position / (c->out[1] * c->out[2]), position / c->out[2] % c->out[1],
                              position % c->out[2]};
    const int64_t of[3] = {tap / (c->kernel[1] * c->kernel[2]), tap / c->kernel[2] % c->kernel[1], tap % c->kernel[2]};
    for (int d = 0; d < 3; d++) {
        const int64_t i = place[d] * c->stride[d] + of[d] * c->dilation[d] - c->before[d];
        if (i < 0 || i >= c->in[d]) return -1;
        source = source * c->in[d] + i;
    }
    return source;
}

static void products_pack_conv(const products_job *j, int64_t batch, int64_t first, int64_t count, float *panel) {
    const mil_conv *c = &j->conv;
    const int64_t in = c->in[0] * c->in[1] * c->in[2], taps = c->kernel[0] * c->kernel[1] * c->kernel[2];
    const float *x = j->x + batch * j->k / taps * in;
    for (int64_t tap = 0; tap < taps; tap++) {
        int64_t source[COLUMNS];
        for (int64_t p = 0; p < count; p++) source[p] = products_source(c, first + p, tap);
        for (int64_t i = 0; i < j->k / taps; i++)
            for (int64_t p = 0; p < count; p++)
                panel[(i * taps + tap) * COLUMNS + p] = source[p] < 0 ? 0 : x[i * in + source[p]];
    }
}

static float products_pack(const products_job *j, int64_t batch, int64_t first, int64_t count, float *panel) {
    for (int64_t k = 0; count < COLUMNS && k < j->k; k++)
        for (int64_t c = count; c < COLUMNS; c++) panel[k * COLUMNS + c] = 0;
    switch (j->op->info->code) {
    case MIL_OP_matmul: products_pack_matmul(j, batch, first, count, panel); break;
    case MIL_OP_linear: products_pack_linear(j, first, count, panel); break;
    default: products_pack_conv(j, batch, first, count, panel); break;
    }
    return products_largest(panel, j->k * COLUMNS);
}

/* ---- sums --------------------------------------------------------------------------------------------------------------- */

/* Computes a row in which some sum may exceed int32. Adds CHUNK products at a time, in integers if none of their sums
 * can overflow. */
static void products_row_watched(const products_job *j, int64_t row, const float *panel, const double *start,
                                 int64_t count, float *out) {
    const float *a = j->a + row * j->k;
    double sum[COLUMNS], worst[COLUMNS];
    int32_t whole[1][COLUMNS];
    for (int64_t c = 0; c < COLUMNS; c++) worst[c] = fabs(sum[c] = start[c]);
    for (int64_t k = 0; k < j->k; k += CHUNK) {
        const int64_t n = j->k - k < CHUNK ? j->k - k : CHUNK;
        double most = 0, more = (double)n;
        for (int64_t c = 0; c < COLUMNS; c++) most = fmax(most, fabs(sum[c]));
        for (int64_t i = 0; i < n; i++) {
            more += (double)fabsf(a[k + i]) * (double)products_largest(panel + (k + i) * COLUMNS, COLUMNS) * STEP;
        }
        if (most + more < TOP) {
            const cpu_array_left left = {j->up + row * j->k + k, j->least + row * j->k + k, 0};
            for (int64_t c = 0; c < COLUMNS; c++) whole[0][c] = (int32_t)sum[c];
            j->array->far_one(whole, left, panel + k * COLUMNS, n);
            for (int64_t c = 0; c < COLUMNS; c++) worst[c] = fmax(worst[c], fabs(sum[c] = whole[0][c]));
        } else {
            for (int64_t i = 0; i < n; i++) accumulate_add(sum, worst, a[k + i], panel + (k + i) * COLUMNS, COLUMNS);
        }
    }
    for (int64_t c = 0; c < count; c++) out[c] = accumulate_round(accumulate_value(sum[c], worst[c]));
}

/* Computes the initial sums of row i: the bias, or 0. Rows are numbered through all left factors. */
static void products_start(const products_job *j, int64_t i, int64_t first, int64_t count, double *start) {
    for (int64_t c = 0; c < COLUMNS; c++)
        start[c] = !j->bias || c >= count ? 0 : round((double)j->bias[j->bias_of_rows ? i : first + c] * STEP);
}

/* Computes `rows` rows of one panel, from number `row` on. Rows are numbered through all left factors. */
static void products_tile(const products_job *j, int64_t row, int64_t rows, const float *panel, float largest,
                          int64_t first, int64_t count, float *out) {
    double start[ROWS][COLUMNS];
    int32_t sum[ROWS][COLUMNS];
    bool watched = false;
    float top = 0;
    for (int64_t r = 0; r < rows; r++) {
        double most = 0;
        products_start(j, row + r, first, count, start[r]);
        for (int64_t c = 0; j->bias && c < COLUMNS; c++) most = fmax(most, fabs(start[r][c]));
        watched |= most + (double)j->norm[row + r] * (double)largest * STEP + (double)j->k >= TOP;
        top = fmaxf(top, j->top[row + r]);
    }
    if (watched) {
        for (int64_t r = 0; r < rows; r++) products_row_watched(j, row + r, panel, start[r], count, out + r * j->n);
        return;
    }
    const bool near = top * largest < FAR_ABOVE;
    const cpu_array_left left = {j->up + row * j->k, j->least + row * j->k, j->k};
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < COLUMNS; c++) sum[r][c] = (int32_t)start[r][c];
    (rows == ROWS ? near ? j->array->near_rows : j->array->far_rows
     : near       ? j->array->near_one
                  : j->array->far_one)(sum, left, panel, j->k);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < count; c++) out[r * j->n + c] = accumulate_round(sum[r][c] / STEP);
}

static void products_task(void *context, int task, int worker) {
    const products_job *j = context;
    const int64_t strips = (j->n + COLUMNS - 1) / COLUMNS, batch = task / strips, first = task % strips * COLUMNS;
    const int64_t count = j->n - first < COLUMNS ? j->n - first : COLUMNS, left = batch % j->lefts;
    float *panel = j->panels + (int64_t)worker * j->k * COLUMNS;
    const float largest = products_pack(j, batch, first, count, panel);
    for (int64_t i = 0; i < j->m;) {
        const int64_t rows = j->m - i >= ROWS ? ROWS : 1;
        products_tile(j, left * j->m + i, rows, panel, largest, first, count,
                      j->out + (batch * j->m + i) * j->n + first);
        i += rows;
    }
}

/* ---- the three operations ------------------------------------------------------------------------------------------------ */

static propane_status products_read_matmul(products_job *j, propane_error *err) {
    mil_matmul *m = &j->matmul;
    PROPANE_TRY(mil_matmul_read(j->op, m, err));
    j->batches = 1, j->m = m->m, j->n = m->n, j->k = m->k;
    for (int d = 0; d < m->batch_rank; d++) j->batches *= m->batch[d];
    j->lefts = j->batches;
    return PROPANE_OK;
}

static propane_status products_read_conv(products_job *j, propane_error *err) {
    mil_conv *c = &j->conv;
    PROPANE_TRY(mil_conv_read(j->op, c, err));
    for (int d = c->spatial; d < 3; d++) {
        c->in[d] = c->kernel[d] = c->out[d] = c->stride[d] = c->dilation[d] = 1;
        c->before[d] = 0;
    }
    j->batches = c->n * c->groups, j->lefts = c->groups;
    j->m = c->c_out / c->groups, j->n = c->out[0] * c->out[1] * c->out[2];
    j->k = c->c_in / c->groups * c->kernel[0] * c->kernel[1] * c->kernel[2];
    j->bias_of_rows = true;
    return PROPANE_OK;
}

static propane_status products_read(products_job *j, propane_error *err) {
    if (j->op->info->code == MIL_OP_matmul) return products_read_matmul(j, err);
    if (j->op->info->code == MIL_OP_conv) return products_read_conv(j, err);
    const mil_value *weight = mil_in(j->op, "weight");
    j->batches = j->lefts = 1, j->n = weight->type.dim[0], j->k = weight->type.dim[1];
    j->m = j->n ? mil_type_count(&j->op->results[0]->type) / j->n : 0;
    return PROPANE_OK;
}

/* Copies a matmul's left factors row by row, and stores the offset of each batch's right factor. */
static void products_copy_left(products_job *j) {
    const mil_matmul *m = &j->matmul;
    float *to = j->own;
    mil_walk w;
    mil_walk_begin(&w, m->batch_rank, m->batch);
    mil_walk_add(&w, m->x_step);
    mil_walk_add(&w, m->y_step);
    for (int64_t b = 0; b < j->batches; b++, mil_walk_next(&w)) {
        j->at[b] = w.at[1];
        for (int64_t i = 0; i < m->m; i++)
            for (int64_t k = 0; k < m->k; k++) *to++ = j->x[w.at[0] + i * m->x_row + k * m->x_col];
    }
}

propane_status sim_products_scratch(const mil_op *op, int threads, int64_t *bytes, propane_error *err) {
    products_job j = {.op = op};
    PROPANE_TRY(products_read(&j, err));
    *bytes = products_place(&j, threads, NULL);
    return PROPANE_OK;
}

propane_status sim_products_run(const mil_op *op, const cpu_array_kernels *array, const void *const operands[3],
                                void *result, void *scratch, propane_error *err) {
    const bool matmul = op->info->code == MIL_OP_matmul;
    const mil_value *y = op->results[0], *bias = matmul ? NULL : mil_in(op, "bias");
    products_job j = {.op = op, .array = array};
    PROPANE_TRY(products_read(&j, err));
    (void)products_place(&j, pool_threads(), scratch);
    products_load(mil_in(op, "x"), operands[0], j.x);
    products_load(mil_in(op, matmul ? "y" : "weight"), operands[1], j.w);
    if (bias) products_load(bias, operands[2], j.bias);
    if (matmul) products_copy_left(&j);
    j.a = matmul ? j.own : op->info->code == MIL_OP_conv ? j.w : j.x;
    const int64_t rows = j.lefts * j.m, tasks = j.batches * ((j.n + COLUMNS - 1) / COLUMNS);
    array->left(j.up, j.least, j.a, rows * j.k);
    for (int64_t i = 0; i < rows; i++) {
        j.norm[i] = products_norm(j.a + i * j.k, j.k);
        j.top[i] = products_largest(j.a + i * j.k, j.k);
    }
    pool_run(products_task, &j, (int)tasks);
    sim_store_f32(result, y->type.dtype, j.out, mil_type_count(&y->type));
    return PROPANE_OK;
}
