/* SPDX-License-Identifier: MIT
 * Owns the translation of a cpu_gemm into calls of sgemm. If the pool's threads call sgemm, C is divided among them. A
 * part of C is divided into blocks only if something must be converted. For each block, calls along k follow each other
 * and add to the existing sums.
 */
#include "cpu/gemm/gemm_blas.h"

#include <limits.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/pool.h"
#include "cpu/gemm/gemm_blocking.h"

enum { GEMM_BLAS_BLOCK = 512, GEMM_BLAS_GRAIN = 16 };

typedef struct gemm_blas_job {
    const cpu_blas *blas;
    cpu_gemm g; /* with contiguous rows of C */
    cpu_matrix residual;
    bool convert_a, convert_b, convert_c, turned_a, turned_b, adds_to_itself;
    int64_t block_m, block_n, block_k; /* maximum sizes; whole dimensions if nothing is converted */
    int64_t parts;                     /* number of parts of one item's C */
    bool cuts_rows;
    int threads;
    size_t worker_bytes;
    char *worker_memory;
    double *squares; /* [batch * parts] */
} gemm_blas_job;

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* Returns true if sgemm can read the rows directly, because they are contiguous and do not overlap. */
static bool gemm_blas_rows_lie_well(const cpu_matrix *x, int64_t cols) {
    return x->col_stride == 1 && x->row_stride >= cols && x->row_stride <= INT_MAX;
}

static bool gemm_blas_columns_lie_well(const cpu_matrix *x, int64_t rows) {
    return x->row_stride == 1 && x->col_stride >= rows && x->col_stride <= INT_MAX;
}

/* Decides whether an operand is converted for sgemm, and whether sgemm reads it as transposed. */
static void gemm_blas_operand_plan(const cpu_matrix *x, int64_t rows, int64_t cols, bool round, bool *convert,
                                   bool *turned) {
    const bool as_is = gemm_blas_rows_lie_well(x, cols), across = gemm_blas_columns_lie_well(x, rows);
    *convert = round || x->dtype != CPU_F32 || !(as_is || across);
    *turned = *convert ? x->col_stride != 1 && x->row_stride == 1 : !as_is;
}

bool cpu_gemm_blas_takes(const cpu_blas *blas, const cpu_gemm *g) {
    if (g->a.packed || g->b.packed || g->a.stored || g->b.stored) return false;
    if (g->m < 2 || g->n < 2 || g->k < 1 || g->batch < 1) return false;
    if (g->m > INT_MAX || g->n > INT_MAX || g->k > INT_MAX) return false;
    if (2.0 * (double)g->m * (double)g->n * (double)g->k < blas->least_flops) return false;
    return gemm_plan_transposes(g) ? gemm_blas_columns_lie_well(&g->c, g->m) : gemm_blas_rows_lie_well(&g->c, g->n);
}

static void gemm_blas_cut(gemm_blas_job *j) {
    const cpu_gemm *g = &j->g;
    const bool pool = j->blas->single || j->convert_a || j->convert_b || j->convert_c;
    j->cuts_rows = g->m >= g->n;
    const int64_t longest = j->cuts_rows ? g->m : g->n;
    j->parts =
        pool && g->batch < j->threads ? min_i64(div_up(j->threads, g->batch), div_up(longest, 2 * GEMM_BLAS_GRAIN)) : 1;
    if (!pool) j->threads = 1;
}

static void gemm_blas_plan(gemm_blas_job *j, const cpu_blas *blas, const cpu_gemm *g, int threads) {
    *j = (gemm_blas_job){.blas = blas, .g = *g};
    if (gemm_plan_transposes(g)) gemm_plan_turn(&j->g, &j->residual);
    g = &j->g;
    j->threads = g->threads > 0 && g->threads < threads ? g->threads : threads;
    gemm_blas_operand_plan(&g->a, g->m, g->k, g->bf16, &j->convert_a, &j->turned_a);
    gemm_blas_operand_plan(&g->b, g->k, g->n, g->bf16, &j->convert_b, &j->turned_b);
    j->convert_c = g->c.dtype != CPU_F32;
    j->block_m = j->convert_a || j->convert_c ? min_i64(g->m, GEMM_BLAS_BLOCK) : g->m;
    j->block_n = j->convert_b || j->convert_c ? min_i64(g->n, GEMM_BLAS_BLOCK) : g->n;
    j->block_k = j->convert_a || j->convert_b ? min_i64(g->k, GEMM_BLAS_BLOCK) : g->k;
    if (g->piece) j->block_k = min_i64(j->block_k, g->piece);
    gemm_blas_cut(j);
    j->worker_bytes = (j->convert_a ? gemm_bytes(j->block_m * j->block_k) : 0) +
                      (j->convert_b ? gemm_bytes(j->block_k * j->block_n) : 0) +
                      (j->convert_c ? gemm_bytes(j->block_m * j->block_n) : 0);
}

static size_t gemm_blas_squares_bytes(const gemm_blas_job *j) {
    return j->g.squares ? (size_t)round_up(j->g.batch * j->parts * (int64_t)sizeof(double), GEMM_ALIGN) : 0;
}

size_t cpu_gemm_blas_scratch_bytes(const cpu_blas *blas, const cpu_gemm *g, int threads) {
    gemm_blas_job j;
    gemm_blas_plan(&j, blas, g, threads);
    return gemm_blas_squares_bytes(&j) + j.worker_bytes * (size_t)threads;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* An operand for sgemm: data, whether it is transposed, and the stride between its stored lines. */
typedef struct gemm_blas_operand {
    const float *data;
    int turn, stride;
} gemm_blas_operand;

static float gemm_blas_load(const cpu_matrix_view *v, int64_t i, int64_t j) {
    const void *at = element(v, i * v->row_stride + j * v->col_stride);
    return v->dtype == CPU_F16 ? fp16_to_f32(*(const uint16_t *)at) : *(const float *)at;
}

static void gemm_blas_line(const cpu_matrix_view *v, int64_t i, int64_t j, bool along_columns, int64_t count,
                           float *out) {
    const int64_t step = along_columns ? v->col_stride : v->row_stride;
    const void *from = element(v, i * v->row_stride + j * v->col_stride);
    if (step == 1 && v->dtype == CPU_F16)
        fp16_to_f32_array(out, from, (size_t)count);
    else if (step == 1)
        memcpy(out, from, (size_t)count * sizeof *out);
    else
        for (int64_t l = 0; l < count; l++)
            out[l] = along_columns ? gemm_blas_load(v, i, j + l) : gemm_blas_load(v, i + l, j);
}

static void gemm_blas_round(float *x, int64_t count) {
    uint16_t narrow[256];
    for (int64_t i = 0; i < count; i += 256) {
        const size_t n = (size_t)min_i64(256, count - i);
        bf16_from_f32_array(narrow, x + i, n);
        bf16_to_f32_array(x + i, narrow, n);
    }
}

/* Returns rows i0 .. i0+rows-1 and columns j0 .. j0+cols-1, in place or converted with the same orientation. */
static gemm_blas_operand gemm_blas_block(const cpu_matrix_view *v, bool convert, bool turned, bool round, int64_t i0,
                                         int64_t rows, int64_t j0, int64_t cols, float *scratch) {
    if (!convert)
        return (gemm_blas_operand){element(v, i0 * v->row_stride + j0 * v->col_stride),
                                   turned ? CPU_BLAS_TURNED : CPU_BLAS_AS_IS,
                                   (int)(turned ? v->col_stride : v->row_stride)};
    const int64_t lines = turned ? cols : rows, length = turned ? rows : cols;
    for (int64_t l = 0; l < lines; l++)
        gemm_blas_line(v, turned ? i0 : i0 + l, turned ? j0 + l : j0, !turned, length, scratch + l * length);
    if (round) gemm_blas_round(scratch, lines * length);
    return (gemm_blas_operand){scratch, turned ? CPU_BLAS_TURNED : CPU_BLAS_AS_IS, (int)length};
}

/* Returns the operand of an item. If k is split into pieces, the view begins at the piece that contains element k0 of
 * k. Sets *local to the index of that element in the view. */
static cpu_matrix_view gemm_blas_view(const gemm_blas_job *j, const cpu_matrix *x, int64_t item, int64_t k0,
                                      int64_t *local) {
    cpu_matrix_view v = view_of(x, item);
    *local = k0;
    if (!j->g.piece) return v;
    v.data = (const char *)v.data + x->pieces[k0 / j->g.piece];
    *local = k0 % j->g.piece;
    return v;
}

/* ---- C ----------------------------------------------------------------------------------------------------------- */

/* Fills `sums` with what the product is added to: C, the residual, or both. Returns false if the product is added to
 * nothing, so that the content of `sums` must be ignored. */
static bool gemm_blas_begin(const gemm_blas_job *j, int64_t item, int64_t m0, int64_t rows, int64_t n0, int64_t cols,
                            float *sums, int64_t stride) {
    const cpu_gemm *g = &j->g;
    const bool keeps = g->accumulate || j->adds_to_itself, adds = g->residual && !j->adds_to_itself;
    cpu_matrix_view c = view_of(&g->c, item), r = adds ? view_of(g->residual, item) : (cpu_matrix_view){0};
    float line[256];
    for (int64_t i = 0; j->convert_c && keeps && i < rows; i++)
        gemm_blas_line(&c, m0 + i, n0, true, cols, sums + i * stride);
    for (int64_t i = 0; adds && i < rows; i++)
        for (int64_t at = 0; at < cols; at += 256) {
            const int64_t n = min_i64(256, cols - at);
            float *to = sums + i * stride + at;
            gemm_blas_line(&r, m0 + i, n0 + at, true, n, line);
            for (int64_t l = 0; l < n; l++) to[l] = keeps ? to[l] + line[l] : line[l];
        }
    return keeps || adds;
}

static double gemm_blas_end(const gemm_blas_job *j, int64_t item, int64_t m0, int64_t rows, int64_t n0, int64_t cols,
                            const float *sums, int64_t stride) {
    cpu_matrix_view c = view_of(&j->g.c, item);
    double squares = 0;
    for (int64_t i = 0; i < rows; i++) {
        const float *line = sums + i * stride;
        void *to = (void *)(uintptr_t)element(&c, (m0 + i) * c.row_stride + n0);
        if (j->convert_c) fp16_from_f32_array(to, line, (size_t)cols);
        for (int64_t l = 0; j->g.squares && l < cols; l++) squares += (double)line[l] * (double)line[l];
    }
    return squares;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Computes a block of C over all of k. Returns the sum of the block's squares, or 0 if it is not requested. */
static double gemm_blas_product(const gemm_blas_job *j, int64_t item, int64_t m0, int64_t rows, int64_t n0,
                                int64_t cols, float *memory) {
    const cpu_gemm *g = &j->g;
    float *a_memory = memory, *b_memory = a_memory + (j->convert_a ? gemm_bytes(j->block_m * j->block_k) / 4 : 0);
    float *c_memory = b_memory + (j->convert_b ? gemm_bytes(j->block_k * j->block_n) / 4 : 0);
    cpu_matrix_view c = view_of(&g->c, item);
    float *sums = j->convert_c ? c_memory : (float *)(uintptr_t)element(&c, m0 * c.row_stride + n0);
    const int64_t stride = j->convert_c ? cols : c.row_stride;
    bool adds = gemm_blas_begin(j, item, m0, rows, n0, cols, sums, stride);
    for (int64_t k0 = 0, k1; k0 < g->k; k0 = k1) {
        int64_t at_a, at_b;
        k1 = min_i64(g->k, k0 + j->block_k);
        if (g->piece) k1 = min_i64(k1, (k0 / g->piece + 1) * g->piece);
        cpu_matrix_view av = gemm_blas_view(j, &g->a, item, k0, &at_a), bv = gemm_blas_view(j, &g->b, item, k0, &at_b);
        gemm_blas_operand a =
            gemm_blas_block(&av, j->convert_a, j->turned_a, g->bf16, m0, rows, at_a, k1 - k0, a_memory);
        gemm_blas_operand b =
            gemm_blas_block(&bv, j->convert_b, j->turned_b, g->bf16, at_b, k1 - k0, n0, cols, b_memory);
        j->blas->sgemm(CPU_BLAS_ROWS, a.turn, b.turn, (int)rows, (int)cols, (int)(k1 - k0), g->alpha, a.data, a.stride,
                       b.data, b.stride, adds ? 1.0f : 0.0f, sums, (int)stride);
        adds = true;
    }
    return j->convert_c || g->squares ? gemm_blas_end(j, item, m0, rows, n0, cols, sums, stride) : 0;
}

static void gemm_blas_part(void *context, int task, int worker) {
    const gemm_blas_job *j = context;
    const int64_t item = task / j->parts, part = task % j->parts;
    const int64_t units = div_up(j->cuts_rows ? j->g.m : j->g.n, GEMM_BLAS_GRAIN);
    const int64_t from = units * part / j->parts * GEMM_BLAS_GRAIN,
                  to = units * (part + 1) / j->parts * GEMM_BLAS_GRAIN;
    const int64_t m0 = j->cuts_rows ? from : 0, m1 = j->cuts_rows ? min_i64(to, j->g.m) : j->g.m;
    const int64_t n0 = j->cuts_rows ? 0 : from, n1 = j->cuts_rows ? j->g.n : min_i64(to, j->g.n);
    float *memory = (float *)(void *)(j->worker_memory + j->worker_bytes * (size_t)worker);
    double squares = 0;
    for (int64_t n = n0; n < n1; n += j->block_n)
        for (int64_t m = m0; m < m1; m += j->block_m)
            squares +=
                gemm_blas_product(j, item, m, min_i64(j->block_m, m1 - m), n, min_i64(j->block_n, n1 - n), memory);
    if (j->squares) j->squares[task] = squares;
}

void cpu_gemm_blas_run(const cpu_blas *blas, const cpu_gemm *g, void *scratch) {
    gemm_blas_job j;
    gemm_blas_plan(&j, blas, g, pool_threads());
    j.adds_to_itself = gemm_adds_to_itself(&j.g);
    j.squares = j.g.squares ? scratch : NULL;
    j.worker_memory = (char *)scratch + gemm_blas_squares_bytes(&j);
    const int tasks = (int)(j.g.batch * j.parts);
    if (j.threads > 1)
        pool_run_most(gemm_blas_part, &j, tasks, j.threads);
    else
        for (int i = 0; i < tasks; i++) gemm_blas_part(&j, i, 0);
    if (!g->squares) return;
    *g->squares = 0;
    for (int i = 0; i < tasks; i++) *g->squares += j.squares[i];
}
