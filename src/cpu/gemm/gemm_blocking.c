/* SPDX-License-Identifier: MIT
 * Owns the plan of a matrix product: which operand is stationary (packed once), which is streamed (block by block), how
 * k is divided, how many tasks there are and how much scratch they need. The plan depends on the product, the number of
 * threads and the size of L2, but the division of k depends only on the product and the instruction set.
 */
#include "cpu/gemm/gemm_blocking.h"

#include "core/base/memory.h"

static void gemm_blocking_swap_strides(cpu_matrix *m) {
    int64_t t = m->row_stride;
    m->row_stride = m->col_stride;
    m->col_stride = t;
}

void gemm_plan_turn(cpu_gemm *g, cpu_matrix *residual) {
    int64_t m = g->m;
    g->m = g->n;
    g->n = m;
    cpu_matrix a = g->a;
    g->a = g->b;
    g->b = a;
    gemm_blocking_swap_strides(&g->a);
    gemm_blocking_swap_strides(&g->b);
    gemm_blocking_swap_strides(&g->c);
    if (g->residual) {
        *residual = *g->residual;
        gemm_blocking_swap_strides(residual);
        g->residual = residual;
    }
}

bool gemm_plan_transposes(const cpu_gemm *g) {
    return g->m > 1 && g->n > 1 && g->c.col_stride != 1 && g->c.row_stride == 1;
}

bool gemm_plan_shares(const cpu_gemm *g, const cpu_matrix *x) {
    return g->batch == 1 || x->packed || (!x->batch && x->batch_stride == 0);
}

int64_t gemm_plan_block_words(const gemm_plan *p) {
    return div_up(min_i64(p->k_block, p->g.k), p->kernels->pair * GEMM_BLOCK) * GEMM_BLOCK;
}

static int64_t gemm_blocking_streamed_target(const gemm_plan *p) {
    const cpu_gemm_sizes *s = p->sizes;
    int64_t kw = max_i64(GEMM_BLOCK, gemm_plan_block_words(p));
    if (p->a_stationary) return max_i64(2 * p->kernels->nr, min_i64(s->nc, mem_l2_bytes(s->nc_bytes) / (kw * 4)));
    if (p->b_panels * p->kernels->nr * kw * 4 > mem_l2_bytes(s->b_bytes)) return s->mc_many;
    return p->g.a.row_stride == 1 ? s->mc_across : s->mc_along;
}

static void gemm_blocking_plan_streamed(gemm_plan *p) {
    p->items = p->by_item || p->item_panels < p->b_panels ? 1 : p->g.batch;
    int64_t panels = p->a_stationary ? p->b_panels : p->a_panels;
    int64_t width = p->a_stationary ? p->kernels->nr : p->kernels->mr;
    int64_t blocks = div_up(panels * width, gemm_blocking_streamed_target(p));
    if (p->path == PATH_STATIONARY) { /* the same number of blocks for each thread, if possible */
        while (blocks < panels && p->items * blocks % p->threads) blocks++;
    }
    p->streamed_blocks = max_i64(1, min_i64(blocks, panels));
    const cpu_matrix *streamed = p->a_stationary ? &p->g.b : &p->g.a, *stationary = p->a_stationary ? &p->g.a : &p->g.b;
    int64_t kw = gemm_plan_block_words(p);
    size_t block = streamed->packed ? 0 : gemm_bytes(div_up(panels, p->streamed_blocks) * width * kw);
    int64_t stationary_width = p->a_stationary ? p->a_height : p->b_panels * p->kernels->nr;
    size_t all = stationary->packed ? 0 : gemm_bytes(stationary_width * kw);
    p->stationary_bytes = p->path == PATH_STATIONARY ? all : 0;
    p->packs_ahead = p->path == PATH_STATIONARY && !p->a_stationary && !streamed->packed && !p->pack_a_tile;
    if (p->packs_ahead && p->kernels->pack_next_tile) /* its tiles always copy that many panels */
        block = gemm_bytes(max_i64(GEMM_PASS_PANELS, div_up(panels, p->streamed_blocks)) * width * kw);
    p->block_bytes = block;
    p->worker_bytes = p->path == PATH_ITEMS ? block + all : (p->packs_ahead ? 2 * block : block) + GEMM_ALIGN;
}

/* Returns true if an operand can be packed on the fly: it is plain memory in one piece, is not rounded, and k is a
 * nonzero multiple of GEMM_QUAD. */
static bool gemm_blocking_lies_plainly(const gemm_plan *p, const cpu_matrix *m) {
    return !m->packed && !m->stored && !m->pieces && !p->round && p->g.k && p->g.k % GEMM_QUAD == 0;
}

/* Returns the tile that packs A on the fly, or NULL unless A's rows run along k. */
static gemm_pack_a_tile gemm_blocking_pack_a_tile_of(const gemm_plan *p) {
    if (!p->a_quads || !gemm_blocking_lies_plainly(p, &p->g.a)) return NULL;
    return p->g.a.dtype == CPU_F16 ? p->kernels->pack_a_tile_f16 : p->kernels->pack_a_tile;
}

/* Returns the tile that packs B on the fly, or NULL unless B's rows run across k and A has a full panel. */
static gemm_pack_b_tile gemm_blocking_pack_b_tile_of(const gemm_plan *p) {
    if (p->g.b.col_stride != 1 || p->g.m < p->kernels->mr || !gemm_blocking_lies_plainly(p, &p->g.b)) return NULL;
    return (p->g.b.dtype == CPU_F16 ? p->kernels->pack_b_tile_f16 : p->kernels->pack_b_tile)[p->a_quads];
}

void gemm_plan_make(gemm_plan *p, const cpu_gemm *g, int threads, cpu_matrix *residual) {
    *p = (gemm_plan){.g = *g, .threads = threads, .sizes = &g->kernels->gemm_sizes};
    p->kernels = g->bf16 ? &g->kernels->gemm_bf16 : &g->kernels->gemm;
    if (gemm_plan_transposes(g)) gemm_plan_turn(&p->g, residual);
    g = &p->g;
    p->round = g->bf16 && p->kernels->pair == 1;
    if (g->m <= 0 || g->n <= 0 || g->batch <= 0) return;
    double item_flops = 2.0 * (double)g->m * (double)g->n * (double)g->k, flops = item_flops * (double)g->batch;
    const bool as_is = !g->a.packed && !g->b.packed && !g->a.stored && !g->b.stored;
    const bool vector = (g->m == 1 || g->n == 1) && as_is;
    if (flops < (vector ? p->sizes->inline_vector_flops : p->sizes->inline_flops)) p->threads = 1;
    if (vector) {
        p->path = PATH_VECTOR;
        p->worker_bytes = 2 * gemm_bytes(g->k);
        return;
    }
    int64_t last = g->m % p->kernels->mr;
    p->a_panels = div_up(g->m, p->kernels->mr);
    p->b_panels = p->item_panels = div_up(g->n, p->kernels->nr);
    p->a_height = g->m - last + div_up(last, p->kernels->row_step) * p->kernels->row_step;
    p->last_height = (int)(p->a_height - (p->a_panels - 1) * p->kernels->mr);
    p->a_quads = !g->a.packed && g->a.col_stride == 1 && g->a.row_stride != 1;
    const gemm_tile *tiles = p->a_quads ? p->kernels->quad_tiles : p->kernels->tiles;
    p->tile = tiles[p->kernels->mr / p->kernels->row_step - 1];
    p->last_tile = tiles[p->last_height / p->kernels->row_step - 1];
    p->k_blocks = g->k <= p->sizes->kc_whole ? 1 : div_up(g->k, g->m > g->n ? p->sizes->kc_tall : p->sizes->kc);
    p->k_block = max_i64(1, div_up(div_up(g->k, p->k_blocks), 2 * GEMM_BLOCK)) * 2 * GEMM_BLOCK;
    p->k_blocks = max_i64(1, div_up(g->k, p->k_block));
    bool a_shared = gemm_plan_shares(g, &g->a), b_shared = gemm_plan_shares(g, &g->b);
    if (g->a.packed || g->b.packed)
        p->a_stationary = g->a.packed != NULL;
    else
        p->a_stationary = a_shared == b_shared ? g->n >= g->m : a_shared;
    if (a_shared && !b_shared && !g->a.packed) { /* may the items' B be side by side? */
        int64_t all = g->batch * p->b_panels, columns = all * p->kernels->nr;
        if (g->m > columns || columns * gemm_plan_block_words(p) * 4 <= mem_l2_bytes(p->sizes->b_bytes)) {
            p->a_stationary = false, b_shared = true;
            p->b_panels = all;
        }
    }
    if (p->a_stationary)
        p->pack_b_tile = gemm_blocking_pack_b_tile_of(p);
    else
        p->pack_a_tile = gemm_blocking_pack_a_tile_of(p);
    p->path = PATH_STATIONARY;
    if (!(p->a_stationary ? a_shared : b_shared)) {
        p->by_item = item_flops > p->sizes->whole_item_flops && g->batch < 2 * threads;
        if (!p->by_item) p->path = PATH_ITEMS;
    }
    bool plain_c = g->c.dtype == CPU_F32 && g->c.col_stride == 1;
    p->needs_partial = p->k_blocks > 1 && !plain_c;
    p->residual_first = g->residual && !g->accumulate && g->alpha == 1 && plain_c && g->residual->dtype == CPU_F32 &&
                        g->residual->col_stride == 1 && g->residual->row_stride == g->c.row_stride;
    if (p->needs_partial) p->partial_bytes = gemm_bytes(g->m * g->n) * (p->by_item ? 1 : (size_t)g->batch);
    if (g->squares && p->path == PATH_STATIONARY && plain_c)
        p->squares_bytes = (size_t)(p->a_stationary ? p->b_panels : p->a_panels) * GEMM_LANES * sizeof(double);
    gemm_blocking_plan_streamed(p);
}

/* Returns true if the residual is C's own content and nothing else is added, so that the tiles can add to C. */
bool gemm_adds_to_itself(const cpu_gemm *g) {
    const cpu_matrix *r = g->residual, *c = &g->c;
    return r && !g->accumulate && r->dtype == CPU_F32 && c->dtype == CPU_F32 && !r->batch && !c->batch &&
           r->data == c->data && r->row_stride == c->row_stride && r->col_stride == c->col_stride &&
           (g->batch == 1 || r->batch_stride == c->batch_stride);
}

size_t cpu_gemm_scratch_bytes(const cpu_gemm *g, int threads) {
    gemm_plan p;
    cpu_matrix residual;
    gemm_plan_make(&p, g, threads, &residual);
    return p.stationary_bytes + p.partial_bytes + p.squares_bytes + p.worker_bytes * (size_t)threads;
}

gemm_finish gemm_finish_of(const gemm_run *r, int64_t item, int64_t k0, int64_t k1) {
    const gemm_plan *p = r->p;
    gemm_finish f = {
        .c = view_of(&p->g.c, item), .accumulate = p->g.accumulate, .first = k0 == 0, .last = k1 >= p->g.k};
    f.residual_first = p->residual_first;
    f.squares = f.last ? r->squares : NULL;
    f.has_residual = p->g.residual != NULL;
    if (f.has_residual) f.residual = view_of(p->g.residual, item);
    if (p->needs_partial) {
        f.partial =
            (float *)(void *)(r->partial_memory + gemm_bytes(p->g.m * p->g.n) * (size_t)(p->by_item ? 0 : item));
        f.partial_stride = p->g.n;
    } else {
        f.partial = (float *)(uintptr_t)f.c.data;
        f.partial_stride = f.c.row_stride;
    }
    return f;
}
