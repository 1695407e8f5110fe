/* SPDX-License-Identifier: MIT
 * Packs panels of an operand from plain or strided memory, with conversion, and whole operands in advance for later
 * products. The code that copies one panel is specific to the instruction set (gemm_body.h).
 */
#include "core/base/pool.h"
#include "cpu/gemm/gemm_blocking.h"

enum { STORED_K = 64 }; /* elements of a row that are converted at once (cpu_stored) */

/* Returns the address that element 0 along k would have if all of k were in the same piece as `k`. */
static const void *gemm_pack_piece_of(const gemm_plan *p, bool is_a, const cpu_matrix_view *v, int64_t k,
                                      int64_t along) {
    const int64_t *pieces = (is_a ? &p->g.a : &p->g.b)->pieces;
    if (!pieces) return v->data;
    int64_t piece = k / p->g.piece;
    return (const char *)v->data + pieces[piece] - piece * p->g.piece * along * cpu_dtype_bytes(v->dtype);
}

/* Sets rows[r * STORED_K + i] to element k0 + i of row `row` + r of the weights. k0 is a multiple of CPU_GEMM_PIECE. */
static void gemm_pack_load_stored(const cpu_kernels *kernels, const cpu_stored *s, float *rows, int64_t row,
                                  int64_t count, int64_t k0, int64_t n) {
    const int64_t row_bytes = cpu_weights_row_bytes(s->format, s->k),
                  row_scales = cpu_weights_row_scales(s->format, s->k);
    const char *w = (const char *)s->data + row * row_bytes;
    const uint16_t *scales = s->scales ? s->scales + row * row_scales : NULL;
    kernels->gemv.unpack[s->format](rows, STORED_K, w, row_bytes, scales, row_scales, count, k0, n);
}

/* Like gemm_pack_panels, but converts stored rows while it packs them. */
static void gemm_pack_stored(const gemm_plan *p, bool is_a, const cpu_stored *s, float *words, int64_t from, int64_t to,
                             int64_t k0, int64_t k1) {
    _Alignas(GEMM_ALIGN) float rows[64 * STORED_K];
    int64_t width = is_a ? p->kernels->mr : p->kernels->nr, panel_step = padded_words(p, k0, k1) * width;
    for (int64_t i = from; i < to; i++) {
        int height = is_a ? panel_height(p, i) : (int)width;
        int64_t count = is_a ? panel_rows(p, i) : panel_cols(p, i);
        for (int64_t k = k0; k < k1; k += STORED_K) {
            float *to_words = words + (i - from) * panel_step + (k - k0) / p->kernels->pair * height;
            int64_t n = min_i64(STORED_K, k1 - k);
            gemm_pack_load_stored(p->g.kernels, s, rows, i * width, count, k, n);
            if (is_a && p->a_quads)
                p->kernels->pack_quads(to_words, height, rows, CPU_F32, STORED_K, count, 0, n, p->round);
            else
                p->kernels->pack(to_words, height, rows, CPU_F32, STORED_K, 1, count, 0, n, p->round);
        }
    }
}

/* Packs panels. If neighbours across k are adjacent in memory, a few elements of k are packed for all panels before the
 * next ones. Each page is then read from end to end, in as many streams as the hardware prefetches. */
void gemm_pack_panels(const gemm_plan *p, bool is_a, const cpu_matrix_view *v, float *words, int64_t from, int64_t to,
                      int64_t k0, int64_t k1, int64_t part0, int64_t part1) {
    int64_t width = is_a ? p->kernels->mr : p->kernels->nr, across = is_a ? v->row_stride : v->col_stride;
    int64_t along = is_a ? v->col_stride : v->row_stride, panel_step = padded_words(p, k0, k1) * width;
    int64_t k_step = across == 1 ? GEMM_STRIP : max_i64(1, part1 - part0), end;
    const cpu_matrix *m = is_a ? &p->g.a : &p->g.b;
    if (m->stored) {
        gemm_pack_stored(p, is_a, m->stored, words, from, to, k0, k1);
        return;
    }
    for (int64_t k = part0; k < part1; k = end) {
        end = min_i64(part1, k + k_step);
        if (m->pieces) end = min_i64(end, (k / p->g.piece + 1) * p->g.piece);
        cpu_matrix_view piece = *v;
        piece.data = gemm_pack_piece_of(p, is_a, v, k, along);
        for (int64_t i = from; i < to; i++) {
            int height = is_a ? panel_height(p, i) : (int)width;
            float *to_words = words + (i - from) * panel_step + (k - k0) / p->kernels->pair * height;
            const void *source = element(&piece, i * width * across);
            int64_t count = is_a ? panel_rows(p, i) : panel_cols(p, i);
            if (is_a && p->a_quads)
                p->kernels->pack_quads(to_words, height, source, v->dtype, across, count, k, end, p->round);
            else
                p->kernels->pack(to_words, height, source, v->dtype, across, along, count, k, end, p->round);
        }
    }
}

/* ---- packing beforehand ------------------------------------------------------------------------------------------ */

typedef struct prepack {
    const gemm_plan *p;
    bool is_a;
    float *words;
} prepack;

static void gemm_pack_prepack_plan(gemm_plan *p, const cpu_gemm *g, cpu_gemm_side side, bool *is_a) {
    cpu_gemm alone = *g;
    cpu_matrix residual;
    alone.a.packed = alone.b.packed = NULL;
    gemm_plan_make(p, &alone, 1, &residual);
    p->a_quads = false; /* the layout of A in later runs is not known */
    *is_a = (side == CPU_GEMM_A) != gemm_plan_transposes(&alone);
}

size_t cpu_gemm_pack_bytes(const cpu_gemm *g, cpu_gemm_side side) {
    gemm_plan p;
    bool is_a;
    gemm_pack_prepack_plan(&p, g, side, &is_a);
    if (p.path == PATH_NOTHING || p.path == PATH_VECTOR) return 0;
    if (!gemm_plan_shares(&p.g, is_a ? &p.g.a : &p.g.b)) return 0;
    int64_t width = is_a ? p.a_height : p.b_panels * p.kernels->nr;
    return gemm_bytes(width * padded_words(&p, 0, p.g.k));
}

static void gemm_pack_task_prepack(void *context, int task, int worker) {
    const prepack *x = context;
    const gemm_plan *p = x->p;
    (void)worker;
    int64_t panels = x->is_a ? p->a_panels : p->b_panels, height = x->is_a ? p->kernels->mr : p->kernels->nr;
    int64_t k0 = task / panels * p->k_block, k1 = min_i64(p->g.k, k0 + p->k_block), panel = task % panels;
    cpu_matrix_view view = view_of(x->is_a ? &p->g.a : &p->g.b, 0);
    int64_t width = x->is_a ? p->a_height : panels * height;
    float *words = x->words + k0 / p->kernels->pair * width + panel * padded_words(p, k0, k1) * height;
    gemm_pack_panels(p, x->is_a, &view, words, panel, panel + 1, k0, k1, k0, k1);
}

void cpu_gemm_pack(const cpu_gemm *g, cpu_gemm_side side, void *packed) {
    gemm_plan p;
    prepack x = {.p = &p, .words = packed};
    gemm_pack_prepack_plan(&p, g, side, &x.is_a);
    if (p.path == PATH_NOTHING || p.path == PATH_VECTOR) return;
    pool_run_most(gemm_pack_task_prepack, &x, (int)(p.k_blocks * (x.is_a ? p.a_panels : p.b_panels)), g->threads);
}
