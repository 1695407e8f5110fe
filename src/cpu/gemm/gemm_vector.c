/* SPDX-License-Identifier: MIT
 * Owns products with a single row or column, which multiply a matrix by a vector. These are bound by memory, so nothing
 * is packed. A task computes some outputs by reading rows of the matrix, or by summing its columns, in place.
 */
#include "cpu/gemm/gemm_blocking.h"

enum {
    GEMV_CHUNK = 64,    /* outputs finished at once */
    GEMV_ROWS = 16,     /* a task's outputs are a multiple of this if rows of the matrix are read, else of GEMV_CHUNK */
    GEMV_WORK = 1 << 14 /* elements of the matrix that a task should read */
};

int64_t gemm_vector_chunk(const gemm_plan *p) {
    const bool rows = (p->g.n == 1 ? p->g.a.col_stride : p->g.b.row_stride) == 1;
    const int64_t outputs = max_i64(p->g.m, p->g.n), chunk = GEMV_WORK / max_i64(1, p->g.k);
    const int64_t step = rows ? GEMV_ROWS : GEMV_CHUNK;
    return min_i64(max_i64(chunk / step * step, step), max_i64(outputs, 1));
}

void gemm_task_vector(void *context, int task, int worker) {
    const gemm_run *r = context;
    const gemm_plan *p = r->p;
    const cpu_gemm_kernels *kernels = p->kernels;
    int64_t k = p->g.k, outputs = max_i64(p->g.m, p->g.n), chunk = gemm_vector_chunk(p),
            chunks = div_up(outputs, chunk);
    int64_t item = task / chunks, from = task % chunks * chunk, to = min_i64(outputs, from + chunk);
    bool column = p->g.n == 1; /* C is a column (A times a vector); else it is a row (a vector times B) */
    cpu_matrix_view w = view_of(column ? &p->g.a : &p->g.b, item), v = view_of(column ? &p->g.b : &p->g.a, item);
    int64_t w_out = column ? w.row_stride : w.col_stride, w_k = column ? w.col_stride : w.row_stride;
    size_t size = (size_t)cpu_dtype_bytes(w.dtype);
    float *x = (float *)(void *)(r->worker_memory + p->worker_bytes * (size_t)worker);
    float *gathered = (float *)(void *)((char *)x + gemm_bytes(k));
    bool round = p->g.bf16;
    kernels->load_strided(x, v.data, v.dtype, column ? v.row_stride : v.col_stride, k, round);
    gemm_finish f = gemm_finish_of(r, item, 0, k);
    for (int64_t i = from; i < to; i += GEMV_CHUNK) {
        _Alignas(GEMM_ALIGN) float y[GEMV_CHUNK];
        int64_t count = min_i64(GEMV_CHUNK, to - i);
        const char *data = (const char *)w.data + (size_t)(i * w_out) * size;
        if (w_k == 1)
            kernels->dot_rows(y, data, w.dtype, w_out, x, count, k, round);
        else if (w_out == 1)
            kernels->sum_columns(y, data, w.dtype, w_k, x, count, k, round);
        else
            for (int64_t c = 0; c < count; c++) {
                kernels->load_strided(gathered, data + (size_t)(c * w_out) * size, w.dtype, w_k, k, round);
                kernels->dot_rows(y + c, gathered, CPU_F32, k, x, 1, k, false);
            }
        for (int64_t c = 0; c < count; c++) y[c] *= p->g.alpha;
        if (column)
            kernels->finish(&f, y, 1, i, 0, count, 1);
        else
            kernels->finish(&f, y, count, 0, i, 1, count);
    }
}
