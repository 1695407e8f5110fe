/* SPDX-License-Identifier: MIT
 * Owns the run of a matrix product that emit_matmul.c has described, and the size of its scratch. Both use one function
 * to build the cpu_gemm, so that its blocking is planned exactly as it runs.
 */
#include "cpu/ops/matmul_step.h"

#include "cpu/gemm/gemm_blas.h"

/* The product in the form of a cpu_gemm. */
typedef struct bound_product {
    cpu_gemm g;
    cpu_matrix residual;
    cpu_stored stored;
    double squares;
} bound_product;

/* Returns an address in this run. During planning, `run` is NULL, and the result only shows that there is an
 * address. */
static const void *matmul_step_place(const cpu_run *run, const matmul_step *a, cpu_ref at) {
    return run ? cpu_ref_at(run, at) : a;
}

static const void *const *matmul_step_table(const cpu_run *run, const matmul_step *a, int which) {
    static const void *const planned[1];
    if (!run) return planned;
    const void **table = (const void **)cpu_ref_at(run, a->table) + which * a->g.batch;
    const unsigned char *base = cpu_ref_at(run, a->at[which]);
    for (int64_t b = 0; b < a->g.batch; b++) table[b] = base + a->offset[which][b];
    return table;
}

/* Both the scratch size and the runs use only this function, because everything that the product's blocking depends on
 * must be the same. */
static void matmul_step_bind(const cpu_run *run, const matmul_step *a, bound_product *x) {
    *x = (bound_product){.g = a->g, .residual = a->residual, .stored = a->stored};
    cpu_matrix *all[4] = {&x->g.a, &x->g.b, &x->g.c, &x->residual};
    x->g.threads = run ? run->threads : 0;
    for (int w = 0; w < 3 + a->has_residual; w++) {
        all[w]->data = matmul_step_place(run, a, a->at[w]);
        if (a->offset[w]) all[w]->batch = matmul_step_table(run, a, w);
    }
    if (a->packed_a) x->g.a.packed = matmul_step_place(run, a, a->packed_at[0]);
    if (a->packed_b) x->g.b.packed = matmul_step_place(run, a, a->packed_at[1]);
    if (a->has_residual) x->g.residual = &x->residual;
    if (a->has_squares) x->g.squares = &x->squares;
    if (!a->has_stored) return;
    x->stored.data = x->g.a.data;
    if (a->scales.buffer >= 0) x->stored.scales = matmul_step_place(run, a, a->scales);
    x->g.a.stored = &x->stored;
}

/* Sets *out to the next step's product, with its plan and the address of A. Returns false if that step is not a simple
 * product. */
static bool matmul_step_next_product(const cpu_run *run, cpu_gemm *out) {
    if (!run->next || run->next->run != matmul_step_run) return false;
    const matmul_step *a = run->next->args;
    if (a->blas || a->rounds > 1 || a->has_stored || a->packed_a || a->offset[0] || a->offset[1]) return false;
    *out = a->g;
    out->a.data = cpu_ref_at(run, a->at[0]);
    if (a->packed_b) out->b.packed = cpu_ref_at(run, a->packed_at[1]);
    return true;
}

propane_status matmul_step_run(const cpu_run *run, const void *args, propane_error *err) {
    const matmul_step *a = args;
    bound_product x;
    cpu_gemm *g = &x.g, next;
    (void)err;
    matmul_step_bind(run, a, &x);
    if (a->packs_b) cpu_gemm_pack(g, CPU_GEMM_B, cpu_ref_at(run, a->packed_at[1]));
    const unsigned char *from[2] = {g->a.data, g->b.data};
    for (int64_t r = 0; r < a->rounds; r++) {
        const bool last = r == a->rounds - 1;
        if (a->rounds > 1) {
            g->a.data = from[0] + a->round_offset[0][r];
            g->b.data = from[1] + a->round_offset[1][r];
        }
        g->squares = last && a->has_squares ? &x.squares : NULL;
        g->next = last && matmul_step_next_product(run, &next) ? &next : NULL;
        if (a->blas)
            cpu_gemm_blas_run(a->blas, g, cpu_ref_at(run, a->scratch));
        else
            cpu_gemm_run(g, cpu_ref_at(run, a->scratch));
        g->accumulate = true;
        g->residual = NULL;
    }
    if (a->counted)
        cpu_blas_count(a->blas != NULL,
                       2.0 * (double)g->m * (double)g->n * (double)g->k * (double)(g->batch * a->rounds));
    if (a->has_squares) *(float *)cpu_ref_at(run, a->squares_at) = (float)x.squares;
    return PROPANE_OK;
}

int64_t matmul_step_scratch(const matmul_step *a, int threads) {
    bound_product x;
    matmul_step_bind(NULL, a, &x);
    const size_t bytes =
        a->blas ? cpu_gemm_blas_scratch_bytes(a->blas, &x.g, threads) : cpu_gemm_scratch_bytes(&x.g, threads);
    return (int64_t)bytes;
}
