/* SPDX-License-Identifier: MIT
 * Owns the plan of a matrix product: which operand is packed once for all (the standing one), which block by block in the
 * tasks (the moving one), how k is cut, and who does which part. The arithmetic is in gemm_body.h.
 *
 * A task owns a block of columns (or of rows, when there are more of them) of C and all of k, so no two threads add to the
 * same element, and the blocks of k depend on k alone: the sums are the same for any number of threads.
 *
 *   for each block of k            (about 768: one pass for most layers, so C is written once)
 *     pack the standing operand, all threads together              -> shared scratch
 *     for each task: pack its block of the moving operand (fits L2) -> the worker's scratch
 *       for each standing panel, for each moving panel: one tile    (registers)
 *
 * A moving A is packed while tiles are computed: by the first tile of each panel, where its rows lie along k, by the tiles of
 * the block before, where they lie across, else (or where there are no such tiles) between the tiles of the block before.
 *
 * Items of a batch that share A stand side by side, as one B, where A is the larger: A is packed and read once for all. Items
 * that share no operand are whole tasks, each packing for itself. Products with a single row or column are bound by memory
 * and skip packing altogether.
 */
#include "drivers/cpu/gemm.h"

#include <assert.h>
#include <string.h>

#include "base/pool.h"
#include "base/whole.h"
#include "drivers/cpu/gemm_kernels.h"

enum {
    K_WHOLE = 1024, /* elements of k that are one pass; */
    K_TALL = 1024,  /* more are cut into passes of about this where C has more rows than columns, so that B is small, */
    K_BLOCK = 768,  /* or else of this */
    /* Rows or columns of a moving block. Columns stay in the second cache while all of A passes. Few rows, where B fits in
     * there; many, where B comes from the third. What is fetched ahead across the rows wants whole lines. */
    COLUMNS = 256,
    ROWS_ALONG = 24,
    ROWS_ACROSS = 48,
    ROWS_MANY = 96,
    L2_FLOATS = 768 * 256,
    B_FLOATS = 1024 * 256, /* a standing B is read from the second cache up to here */
    PASS_PARTS = 16,       /* tiles that copy four panels, */
    PASS_LEAD = 4,   /* and how many k ahead they fetch: more fall out of the cache again where rows lie 2^n apart */
    K_PART = 64,     /* elements of k that one packing task takes, */
    PACK_CHUNK = 96, /* or rows or columns */
    STORED_K = 64,   /* elements of a row that are made at once (cpu_stored) */
    ALIGN = 64,
    GEMV_CHUNK = 64, /* outputs finished at once */
    GEMV_ROWS = 16,  /* outputs of a task are a multiple of this where rows of the matrix are read, else of a chunk */
    GEMV_WORK = 1 << 14 /* elements of the matrix that a task should read */
};
#define INLINE_FLOPS        4e5 /* below this, waking the pool costs more than it gives, */
#define INLINE_FLOPS_VECTOR 1e5 /* where each element of a matrix is read for two operations */
#define WHOLE_ITEM_FLOPS    4e7 /* above this, an item of a batch is worth all threads */

typedef enum gemm_path { PATH_NOTHING, PATH_VECTOR, PATH_STANDING, PATH_ITEMS } gemm_path;

typedef struct gemm_plan {
    cpu_gemm g; /* with C's rows contiguous, if one of its directions is */
    const gemm_kernels *kernels;
    gemm_path path;
    bool round;
    int threads;
    bool a_stands;                        /* A is the standing operand */
    bool a_rows;                          /* A is packed in its second form */
    bool by_item;                         /* the standing operand differs from item to item: one item after the other */
    int64_t a_panels, b_panels, a_height; /* a_height: rows with the last panel's padding */
    int64_t item_panels;       /* of b_panels, those of an item; fewer where the items' B stand side by side */
    int last_height;           /* of the last panel of A */
    gemm_tile tile, last_tile; /* for full panels of A, for the last one */
    gemm_copy_tile copy_tile;  /* for full panels of a moving A, which the first tile packs; NULL: not */
    int64_t k_blocks, k_block;
    int64_t moving_blocks; /* tasks of an item */
    bool needs_partial;    /* C cannot hold partial sums */
    bool residual_first;   /* the residual is all that happens to C, and tiles can add to it as they write C */
    bool packs_ahead;      /* tasks pack their next block between the tiles of the one before */
    size_t standing_bytes, partial_bytes, squares_bytes, block_bytes, worker_bytes;
} gemm_plan;

static size_t round_bytes(int64_t floats) { return ((size_t)floats * 4 + ALIGN - 1) / ALIGN * ALIGN; }

static const gemm_kernels *kernels_of(cpu_isa isa, bool bf16) {
    (void)bf16;
    switch (isa) {
#if defined(__x86_64__)
    case CPU_ISA_AVX2: return &gemm_kernels_avx2;
    case CPU_ISA_AVX512_BF16: return bf16 ? &gemm_kernels_avx512_bf16 : &gemm_kernels_avx512;
    case CPU_ISA_AVX512: return &gemm_kernels_avx512;
#elif defined(__aarch64__)
    case CPU_ISA_NEON: return &gemm_kernels_neon;
#endif
    default: return &gemm_kernels_plain;
    }
}

const gemm_kernels *gemm_kernels_of(cpu_isa isa) { return kernels_of(isa, false); }

/* ---- the plan ------------------------------------------------------------------------------------------------------- */

static void swap_strides(cpu_matrix *m) {
    int64_t t = m->row_stride;
    m->row_stride = m->col_stride;
    m->col_stride = t;
}

/* C's columns contiguous: compute the transposed product instead. `residual` holds the turned residual. */
static void turn(cpu_gemm *g, cpu_matrix *residual) {
    int64_t m = g->m;
    g->m = g->n;
    g->n = m;
    cpu_matrix a = g->a;
    g->a = g->b;
    g->b = a;
    cpu_band band = g->a_band;
    g->a_band = g->b_band;
    g->b_band = band;
    if (g->c_band) g->c_band = g->c_band == CPU_BAND_UPTO ? CPU_BAND_FROM : CPU_BAND_UPTO;
    swap_strides(&g->a);
    swap_strides(&g->b);
    swap_strides(&g->c);
    const float *bias = g->epilogue.row_bias;
    g->epilogue.row_bias = g->epilogue.col_bias;
    g->epilogue.col_bias = bias;
    if (g->epilogue.residual) {
        *residual = *g->epilogue.residual;
        swap_strides(residual);
        g->epilogue.residual = residual;
    }
}

static bool wants_turn(const cpu_gemm *g) {
    return g->m > 1 && g->n > 1 && g->c.col_stride != 1 && g->c.row_stride == 1 && !g->epilogue.apply;
}

static bool is_shared(const cpu_gemm *g, const cpu_matrix *x) {
    return g->batch == 1 || x->packed || (!x->batch && x->batch_stride == 0);
}

static int64_t block_words(const gemm_plan *p) {
    return div_up(min_i64(p->k_block, p->g.k), p->kernels->pair * GEMM_BLOCK) * GEMM_BLOCK;
}

static int64_t moving_target(const gemm_plan *p) {
    int64_t kw = max_i64(GEMM_BLOCK, block_words(p));
    if (p->a_stands) return max_i64(2 * p->kernels->nr, min_i64(COLUMNS, L2_FLOATS / kw));
    if (p->b_panels * p->kernels->nr * kw > B_FLOATS) return ROWS_MANY;
    return p->g.a.row_stride == 1 ? ROWS_ACROSS : ROWS_ALONG;
}

/* How many items' tasks run together. */
static int64_t task_items(const gemm_plan *p) { return p->by_item || p->item_panels < p->b_panels ? 1 : p->g.batch; }

static void cpu_plan_moving(gemm_plan *p) {
    int64_t panels = p->a_stands ? p->b_panels : p->a_panels;
    int64_t width = p->a_stands ? p->kernels->nr : p->kernels->mr;
    int64_t blocks = div_up(panels * width, moving_target(p));
    if (p->path == PATH_STANDING) { /* an even number of blocks for each thread */
        int64_t items = task_items(p);
        while (blocks < panels && items * blocks % p->threads) blocks++;
    }
    p->moving_blocks = max_i64(1, min_i64(blocks, panels));
    const cpu_matrix *moving = p->a_stands ? &p->g.b : &p->g.a, *standing = p->a_stands ? &p->g.a : &p->g.b;
    int64_t kw = block_words(p);
    size_t block = moving->packed ? 0 : round_bytes(div_up(panels, p->moving_blocks) * width * kw);
    int64_t standing_width = p->a_stands ? p->a_height : p->b_panels * p->kernels->nr;
    size_t all = standing->packed ? 0 : round_bytes(standing_width * kw);
    p->standing_bytes = p->path == PATH_STANDING ? all : 0;
    p->packs_ahead = p->path == PATH_STANDING && !p->a_stands && !moving->packed && !p->copy_tile;
    if (p->packs_ahead && p->kernels->pass_tile) /* which copies that many in any case */
        block = round_bytes(max_i64(GEMM_PASS_PANELS, div_up(panels, p->moving_blocks)) * width * kw);
    p->block_bytes = block;
    p->worker_bytes = p->path == PATH_ITEMS ? block + all : (p->packs_ahead ? 2 * block : block) + ALIGN;
}

/* A can be packed by the way: its rows lie along k, in whole fours, in one piece, and all of k is wanted. */
static gemm_copy_tile copy_tile_of(const gemm_plan *p) {
    const cpu_matrix *a = &p->g.a;
    const bool as_is = p->a_rows && !a->stored && !a->pieces && a->dtype == CPU_F32 && !p->round && !p->g.period;
    return as_is && p->g.k && p->g.k % GEMM_QUAD == 0 ? p->kernels->copy_tile : NULL;
}

static void cpu_plan_make(gemm_plan *p, const cpu_gemm *g, int threads, cpu_matrix *residual) {
    *p = (gemm_plan){.g = *g, .threads = threads, .kernels = kernels_of(g->isa, g->bf16)};
    if (wants_turn(g)) turn(&p->g, residual);
    g = &p->g;
    p->round = g->bf16 && p->kernels->pair == 1;
    if (g->m <= 0 || g->n <= 0 || g->batch <= 0) return;
    double item_flops = 2.0 * (double)g->m * (double)g->n * (double)g->k, flops = item_flops * (double)g->batch;
    const bool as_is = !g->a.packed && !g->b.packed && !g->a.stored && !g->b.stored;
    const bool vector = (g->m == 1 || g->n == 1) && as_is;
    if (flops < (vector ? INLINE_FLOPS_VECTOR : INLINE_FLOPS)) p->threads = 1;
    if (vector) {
        p->path = PATH_VECTOR;
        p->worker_bytes = 2 * round_bytes(g->k);
        return;
    }
    int64_t last = g->m % p->kernels->mr;
    p->a_panels = div_up(g->m, p->kernels->mr);
    p->b_panels = p->item_panels = div_up(g->n, p->kernels->nr);
    p->a_height = g->m - last + div_up(last, p->kernels->row_step) * p->kernels->row_step;
    p->last_height = (int)(p->a_height - (p->a_panels - 1) * p->kernels->mr);
    p->a_rows = !g->a.packed && g->a.col_stride == 1 && g->a.row_stride != 1;
    const gemm_tile *tiles = p->a_rows ? p->kernels->row_tiles : p->kernels->tiles;
    p->tile = tiles[p->kernels->mr / p->kernels->row_step - 1];
    p->last_tile = tiles[p->last_height / p->kernels->row_step - 1];
    p->k_blocks = g->k <= K_WHOLE ? 1 : div_up(g->k, g->m > g->n ? K_TALL : K_BLOCK);
    p->k_block = max_i64(1, div_up(div_up(g->k, p->k_blocks), 2 * GEMM_BLOCK)) * 2 * GEMM_BLOCK;
    p->k_blocks = max_i64(1, div_up(g->k, p->k_block));
    bool a_shared = is_shared(g, &g->a), b_shared = is_shared(g, &g->b);
    if (g->a.packed || g->b.packed)
        p->a_stands = g->a.packed != NULL;
    else
        p->a_stands = a_shared == b_shared ? g->n >= g->m : a_shared;
    if (a_shared && !b_shared && !g->a.packed && !g->period) { /* side by side? */
        int64_t all = g->batch * p->b_panels, columns = all * p->kernels->nr;
        if (g->m > columns || columns * block_words(p) <= B_FLOATS) {
            p->a_stands = false, b_shared = true;
            p->b_panels = all;
        }
    }
    if (!p->a_stands) p->copy_tile = copy_tile_of(p);
    p->path = PATH_STANDING;
    if (!(p->a_stands ? a_shared : b_shared)) {
        p->by_item = item_flops > WHOLE_ITEM_FLOPS && g->batch < 2 * threads;
        if (!p->by_item) p->path = PATH_ITEMS;
    }
    bool plain_c = g->c.dtype == CPU_F32 && g->c.col_stride == 1;
    p->needs_partial = p->k_blocks > 1 && !plain_c;
    const cpu_epilogue *e = &g->epilogue;
    p->residual_first = e->residual && !e->row_bias && !e->col_bias && !e->apply && !g->accumulate && g->alpha == 1 &&
                        plain_c && e->residual->dtype == CPU_F32 && e->residual->col_stride == 1 &&
                        e->residual->row_stride == g->c.row_stride;
    if (p->needs_partial) p->partial_bytes = round_bytes(g->m * g->n) * (p->by_item ? 1 : (size_t)g->batch);
    if (g->squares && p->path == PATH_STANDING && plain_c)
        p->squares_bytes = (size_t)(p->a_stands ? p->b_panels : p->a_panels) * GEMM_LANES * sizeof(double);
    cpu_plan_moving(p);
}

size_t cpu_gemm_scratch_bytes(const cpu_gemm *g, int threads) {
    gemm_plan p;
    cpu_matrix residual;
    cpu_plan_make(&p, g, threads, &residual);
    return p.standing_bytes + p.partial_bytes + p.squares_bytes + p.worker_bytes * (size_t)threads;
}

/* ---- the run -------------------------------------------------------------------------------------------------------- */

typedef struct gemm_run {
    const gemm_plan *p;
    char *standing_memory, *partial_memory, *worker_memory;
    int64_t first_item, items;
    int64_t k0, k1;  /* this pass */
    double *squares; /* as in gemm_finish, of all passes; NULL: not wanted */
} gemm_run;

/* A packed operand for one pass. */
typedef struct packed_view {
    float *words;
    int64_t panel_words; /* from one full panel to the next */
    int64_t first_panel;
} packed_view;

static gemm_view view_of(const cpu_matrix *m, int64_t item) {
    size_t size = m->dtype == CPU_F16 ? 2 : 4;
    const void *data = m->batch ? m->batch[item] : (const char *)m->data + (size_t)(item * m->batch_stride) * size;
    return (gemm_view){data, m->dtype, m->row_stride, m->col_stride, m->pieces, m->stored};
}

static int64_t words_of(const gemm_plan *p, int64_t k0, int64_t k1) { return div_up(k1 - k0, p->kernels->pair); }
static int64_t padded_words(const gemm_plan *p, int64_t k0, int64_t k1) {
    return div_up(words_of(p, k0, k1), GEMM_BLOCK) * GEMM_BLOCK;
}

static int64_t panel_rows(const gemm_plan *p, int64_t panel) {
    return min_i64(p->kernels->mr, p->g.m - panel * p->kernels->mr);
}
static int panel_height(const gemm_plan *p, int64_t panel) {
    return panel == p->a_panels - 1 ? p->last_height : p->kernels->mr;
}
static int64_t panel_cols(const gemm_plan *p, int64_t panel) {
    return min_i64(p->kernels->nr, p->g.n - panel % p->item_panels * p->kernels->nr);
}

static const void *element(const gemm_view *v, int64_t index) {
    return (const char *)v->data + index * (v->dtype == CPU_F16 ? 2 : 4);
}

/* Where element (.., 0) would lie if all of k were like the piece that `k` is in. */
static const void *piece_of(const gemm_plan *p, const gemm_view *v, int64_t k, int64_t along) {
    if (!v->pieces) return v->data;
    int64_t piece = k / p->g.piece;
    return (const char *)v->data + v->pieces[piece] - piece * p->g.piece * along * (v->dtype == CPU_F16 ? 2 : 4);
}

/* The same where rows are made while they are packed. */
static void pack_stored(const gemm_plan *p, bool is_a, const gemm_view *v, float *words, int64_t from, int64_t to,
                        int64_t k0, int64_t k1) {
    _Alignas(ALIGN) float rows[64 * STORED_K];
    int64_t width = is_a ? p->kernels->mr : p->kernels->nr, panel_step = padded_words(p, k0, k1) * width;
    for (int64_t i = from; i < to; i++) {
        int height = is_a ? panel_height(p, i) : (int)width;
        int64_t count = is_a ? panel_rows(p, i) : panel_cols(p, i);
        for (int64_t k = k0; k < k1; k += STORED_K) {
            float *to_words = words + (i - from) * panel_step + (k - k0) / p->kernels->pair * height;
            int64_t n = min_i64(STORED_K, k1 - k);
            v->stored->load(v->stored, rows, STORED_K, i * width, count, k, n);
            if (is_a && p->a_rows)
                p->kernels->pack_rows(to_words, height, rows, CPU_F32, STORED_K, count, 0, n, p->round);
            else
                p->kernels->pack(to_words, height, rows, CPU_F32, STORED_K, 1, count, 0, n, p->round);
        }
    }
}

/* Panels from .. to-1 of one operand for the pass k0 .. k1. Where a panel's rows are columns of memory, all panels take a
 * few of them before any takes the next: so a page is read from end to end, in as many streams as the machine foresees. */
static void pack_panels(const gemm_plan *p, bool is_a, const gemm_view *v, float *words, int64_t from, int64_t to,
                        int64_t k0, int64_t k1, int64_t part0, int64_t part1) {
    int64_t width = is_a ? p->kernels->mr : p->kernels->nr, across = is_a ? v->row_stride : v->col_stride;
    int64_t along = is_a ? v->col_stride : v->row_stride, panel_step = padded_words(p, k0, k1) * width;
    int64_t k_step = across == 1 ? GEMM_STRIP : max_i64(1, part1 - part0), end;
    if (v->stored) {
        pack_stored(p, is_a, v, words, from, to, k0, k1);
        return;
    }
    for (int64_t k = part0; k < part1; k = end) {
        end = min_i64(part1, k + k_step);
        if (v->pieces) end = min_i64(end, (k / p->g.piece + 1) * p->g.piece);
        gemm_view piece = *v;
        piece.data = piece_of(p, v, k, along);
        for (int64_t i = from; i < to; i++) {
            int height = is_a ? panel_height(p, i) : (int)width;
            float *to_words = words + (i - from) * panel_step + (k - k0) / p->kernels->pair * height;
            const void *source = element(&piece, i * width * across);
            int64_t count = is_a ? panel_rows(p, i) : panel_cols(p, i);
            if (is_a && p->a_rows)
                p->kernels->pack_rows(to_words, height, source, v->dtype, across, count, k, end, p->round);
            else
                p->kernels->pack(to_words, height, source, v->dtype, across, along, count, k, end, p->round);
        }
    }
}

static void block_panels(const gemm_plan *p, int64_t block, int64_t *from, int64_t *to) {
    int64_t panels = p->a_stands ? p->b_panels : p->a_panels;
    *from = panels * block / p->moving_blocks;
    *to = panels * (block + 1) / p->moving_blocks;
}

/* Where the pass's words are in an operand that was packed whole. */
static packed_view packed_whole(const gemm_plan *p, const cpu_matrix *m, bool is_a, int64_t k0, int64_t k1) {
    int64_t width = is_a ? p->a_height : p->b_panels * p->kernels->nr;
    float *words = (float *)(uintptr_t)m->packed + k0 / p->kernels->pair * width;
    int64_t step = padded_words(p, k0, k1) * (is_a ? p->kernels->mr : p->kernels->nr);
    return (packed_view){words, step, 0};
}

static packed_view packed_scratch(const gemm_plan *p, bool is_a, void *memory, int64_t first, int64_t k0, int64_t k1) {
    int64_t step = padded_words(p, k0, k1) * (is_a ? p->kernels->mr : p->kernels->nr);
    return (packed_view){memory, step, first};
}

/* Of `count` rows (columns) from `first`: the largest and the smallest place in their period. */
static int64_t in_period(int64_t i, int64_t period) { return i < period ? i : i % period; }
static int64_t band_last(int64_t first, int64_t count, int64_t period) {
    return min_i64(in_period(first, period) + count, period) - 1;
}
static int64_t band_first(int64_t first, int64_t count, int64_t period) {
    return in_period(first, period) + count > period ? 0 : in_period(first, period);
}

/* Narrows [*from, *to) of k to what a tile needs of it. */
static void narrow(const cpu_gemm *g, int64_t i, int64_t rows, int64_t j, int64_t cols, int64_t *from, int64_t *to) {
    if (g->a_band == CPU_BAND_UPTO) *to = min_i64(*to, band_last(i, rows, g->period) + 1);
    if (g->b_band == CPU_BAND_UPTO) *to = min_i64(*to, band_last(j, cols, g->period) + 1);
    if (g->a_band == CPU_BAND_FROM) *from = max_i64(*from, band_first(i, rows, g->period));
    if (g->b_band == CPU_BAND_FROM) *from = max_i64(*from, band_first(j, cols, g->period));
    if (g->c_band == CPU_BAND_UPTO && j > band_last(i, rows, g->period)) *to = *from;
    if (g->c_band == CPU_BAND_FROM && i > band_last(j, cols, g->period)) *to = *from;
    *to = max_i64(*to, *from);
}

/* The block that this thread will most likely take next: tiles fetch what it is packed from, and between them it is packed, a
 * few of its panels or of its k at a time, as they have come. A tile can fetch lines along k, two rows, or lines across, two
 * of each k. */
typedef struct ahead {
    const char *base; /* NULL: nothing is fetched */
    bool along;
    int64_t step, lines, k; /* bytes to the next row or the next k; rows or lines of a k */
    int64_t tile, share;    /* counts tiles; how many k of two lines each of them takes */
    gemm_view view;
    int64_t from, to, k0, k1;
    float *words;   /* where it is packed; NULL: not here */
    int64_t packed; /* panels, or k, so far */
    gemm_tile pass; /* tiles that copy a part of all its panels each; NULL: it is packed between tiles */
} ahead;

/* The block of `tiles` tiles in front of the one ahead must have enough that can copy. */
static gemm_tile pass_tile_of(const gemm_plan *p, const ahead *h, int64_t tiles) {
    const bool fits = h->words && !h->along && !p->round && !p->g.period && (h->k1 - h->k0) % GEMM_BLOCK == 0;
    if (!fits || h->to - h->from > GEMM_PASS_PANELS || h->from + GEMM_PASS_PANELS > p->g.m / p->kernels->mr)
        return NULL;
    if (tiles < PASS_PARTS + p->b_panels) return NULL;
    return h->view.dtype == CPU_F16 ? p->kernels->pass_tile_f16 : p->kernels->pass_tile;
}

static ahead ahead_of(const gemm_plan *p, const gemm_view *v, int64_t from, int64_t to, int64_t k0, int64_t k1,
                      float *words) {
    const bool is_a = !p->a_stands;
    int64_t width = is_a ? p->kernels->mr : p->kernels->nr, size = v->dtype == CPU_F16 ? 2 : 4;
    int64_t across = is_a ? v->row_stride : v->col_stride, along = is_a ? v->col_stride : v->row_stride;
    int64_t count = min_i64(to * width, is_a ? p->g.m : p->g.n) - from * width;
    ahead h = {.along = along == 1, .k = k1 - k0, .share = words_of(p, k0, k1) / GEMM_BLOCK * 2, .view = *v};
    if (v->pieces || v->stored || (along != 1 && across != 1) || !h.share) return h;
    h.base = element(v, from * width * across + k0 * along);
    h.step = (h.along ? across : along) * size;
    h.lines = h.along ? count : div_up(count * size, 64);
    h.from = from, h.to = to, h.k0 = k0, h.k1 = k1, h.words = words;
    h.pass = pass_tile_of(p, &h, (to - from) * p->b_panels);
    return h;
}

/* What tiles have not copied. */
static void pass_rest(const gemm_plan *p, const ahead *h) {
    int64_t k = h->k0 + h->tile * (h->k1 - h->k0) / PASS_PARTS;
    if (k < h->k1) pack_panels(p, true, &h->view, h->words, h->from, h->to, h->k0, h->k1, k, h->k1);
}

/* Packs what has been fetched, of A; `all`: what is left. */
static void ahead_pack(const gemm_plan *p, ahead *h, bool all) {
    if (!h->words) return;
    if (h->pass) {
        if (all) pass_rest(p, h);
        return;
    }
    int64_t width = p->kernels->mr, step = padded_words(p, h->k0, h->k1) * width;
    int64_t end = h->along ? h->to - h->from : h->k;
    if (!all) end = min_i64(end, h->along ? 2 * h->tile / width : h->tile / max_i64(1, div_up(h->lines, 2)) * h->share);
    if (end <= h->packed) return;
    int64_t from = h->along ? h->from + h->packed : h->from, to = h->along ? h->from + end : h->to;
    int64_t part0 = h->along ? h->k0 : h->k0 + h->packed, part1 = h->along ? h->k1 : h->k0 + end;
    pack_panels(p, true, &h->view, h->words + (from - h->from) * step, from, to, h->k0, h->k1, part0, part1);
    h->packed = end;
}

/* What a tile copies of the next block; `can`: it is one of a full panel. */
static gemm_next pass_next(const gemm_plan *p, ahead *h, const void *own, bool can) {
    if (!can || h->tile >= PASS_PARTS) return (gemm_next){.at = own};
    int64_t k = h->tile++ * (h->k1 - h->k0) / PASS_PARTS;
    return (gemm_next){.at = h->base + k * h->step,
                       .step = h->step,
                       .second = PASS_LEAD * h->step,
                       .put = h->words + k * p->kernels->mr,
                       .put_step = 4 * padded_words(p, h->k0, h->k1) * p->kernels->mr};
}

static gemm_next ahead_next(ahead *h, const void *own) {
    int64_t tile = h->tile++, pairs = max_i64(1, div_up(h->lines, 2));
    if (h->base && h->along && 2 * tile < h->lines)
        return (gemm_next){
            .at = h->base + 2 * tile * h->step, .step = 64, .second = 2 * tile + 1 < h->lines ? h->step : 0};
    if (h->base && !h->along && tile / pairs * h->share < h->k)
        return (gemm_next){
            .at = h->base + tile / pairs * h->share * h->step + tile % pairs * 128, .step = h->step, .second = 64};
    return (gemm_next){.at = own};
}

/* Of a tile that C holds now. A moving panel belongs to one task, and its tiles follow each other in the order of the standing
 * ones: the sums do not depend on who does what. */
static void add_squares(const gemm_plan *p, const gemm_finish *f, int64_t i, int64_t j, int64_t rows, int64_t cols) {
    if (!f->squares) return;
    int64_t panel = p->a_stands ? j / p->kernels->nr : i / p->kernels->mr;
    const float *c = (const float *)element(&f->c, i * f->c.row_stride + j);
    p->kernels->squares(f->squares + panel * GEMM_LANES, c, f->c.row_stride, rows, cols);
}

/* What a tile is computed from. */
typedef struct tile_operands {
    float *a;
    const float *b, *source; /* source: where A's words are to be packed from; NULL: they are there */
    int64_t kw;
    gemm_tile pass; /* which one copies, where `fetch` says so */
} tile_operands;

static void compute(const gemm_plan *p, const tile_operands *t, int64_t panel, float *c, int64_t stride, bool add,
                    const gemm_next *fetch) {
    const cpu_matrix *a = &p->g.a;
    if (t->source)
        p->copy_tile(t->a, t->source, 4 * a->row_stride, t->b, t->kw, c, stride, p->g.alpha, add, fetch);
    else if (fetch->put)
        t->pass(t->a, t->b, t->kw, c, stride, p->g.alpha, add, fetch);
    else
        (panel == p->a_panels - 1 ? p->last_tile : p->tile)(t->a, t->b, t->kw, c, stride, p->g.alpha, add, fetch);
}

/* `source`: element (0, k0) of A, if this is the first tile of a panel that is not packed yet. */
static void run_tile(const gemm_plan *p, const gemm_finish *f, const packed_view *a, const packed_view *b, int64_t ia,
                     int64_t jb, int64_t kw, int64_t k0, int64_t k1, const float *source, ahead *next) {
    const gemm_kernels *k = p->kernels;
    float *aw = a->words + (ia - a->first_panel) * a->panel_words;
    const float *bw = b->words + (jb - b->first_panel) * b->panel_words;
    int64_t i = ia * k->mr, j = jb % p->item_panels * k->nr, rows = panel_rows(p, ia), cols = panel_cols(p, jb);
    int height = panel_height(p, ia);
    if (p->g.period) {
        int64_t from = k0, to = k1;
        narrow(&p->g, i, rows, j, cols, &from, &to);
        int64_t skipped = min_i64(kw, (from - k0) / k->pair) / GEMM_BLOCK * GEMM_BLOCK;
        aw += skipped * height;
        bw += skipped * k->nr;
        kw = from < to ? div_up(to - k0, k->pair) - skipped : 0;
    }
    gemm_next fetch = next->pass ? pass_next(p, next, aw, height == k->mr) : ahead_next(next, aw);
    const tile_operands t = {aw, bw, source ? source + i * p->g.a.row_stride : NULL, kw, next->pass};
    const cpu_epilogue *e = &p->g.epilogue;
    bool plain_c = f->c.dtype == CPU_F32 && f->c.col_stride == 1;
    bool done_in_c = f->last && plain_c && !e->row_bias && !e->col_bias && !e->apply;
    done_in_c &= !e->residual || f->residual_first;
    if (rows == height && cols == k->nr && (done_in_c || !f->last)) {
        bool in_c = plain_c;
        float *to = in_c ? (float *)(uintptr_t)f->c.data : f->partial;
        int64_t stride = in_c ? f->c.row_stride : f->partial_stride;
        bool add = f->first ? in_c && (p->g.accumulate || f->residual_first) : true;
        if (f->first && f->residual_first)
            fetch.addend = (const float *)element(&f->residual, i * f->residual.row_stride + j);
        fetch.row = to + i * stride + j;
        fetch.row_step = stride;
        compute(p, &t, ia, to + i * stride + j, stride, add, &fetch);
        add_squares(p, f, i, j, rows, cols);
        return;
    }
    _Alignas(ALIGN) float sums[GEMM_TILE_MAX];
    const gemm_view *other = e->residual ? &f->residual : &f->c;
    if (other->dtype == CPU_F32 && other->col_stride == 1) {
        fetch.row = (const float *)element(other, i * other->row_stride + j);
        fetch.row_step = other->row_stride;
    }
    compute(p, &t, ia, sums, k->nr, false, &fetch);
    k->finish(f, sums, k->nr, i, j, rows, cols);
    add_squares(p, f, i, j, rows, cols);
}

static gemm_finish finish_of(const gemm_run *r, int64_t item, int64_t k0, int64_t k1) {
    const gemm_plan *p = r->p;
    gemm_finish f = {.g = &p->g, .item = item, .c = view_of(&p->g.c, item), .first = k0 == 0, .last = k1 >= p->g.k};
    f.residual_first = p->residual_first;
    f.squares = f.last ? r->squares : NULL;
    if (p->g.epilogue.residual) f.residual = view_of(p->g.epilogue.residual, item);
    if (p->needs_partial) {
        f.partial =
            (float *)(void *)(r->partial_memory + round_bytes(p->g.m * p->g.n) * (size_t)(p->by_item ? 0 : item));
        f.partial_stride = p->g.n;
    } else {
        f.partial = (float *)(uintptr_t)f.c.data;
        f.partial_stride = f.c.row_stride;
    }
    return f;
}

/* One moving block of one item against the whole standing operand. `memory`: for the packed block, or where it already is
 * (`ready`); `later`: the block that is packed meanwhile. */
static void run_block(const gemm_run *r, const packed_view *standing, int64_t item, int64_t block, char *memory,
                      bool ready, ahead *later, int64_t k0, int64_t k1) {
    const gemm_plan *p = r->p;
    const cpu_matrix *moving = p->a_stands ? &p->g.b : &p->g.a;
    int64_t from, to;
    block_panels(p, block, &from, &to);
    int64_t whole = from; /* panels from `from` up to here are packed by the tiles that first read them */
    const float *source = NULL;
    packed_view own;
    if (moving->packed)
        own = packed_whole(p, moving, !p->a_stands, k0, k1);
    else {
        gemm_view view = view_of(moving, item);
        own = packed_scratch(p, !p->a_stands, memory, from, k0, k1);
        whole = p->copy_tile ? min_i64(to, p->g.m / p->kernels->mr) : from;
        if (whole < to && !ready)
            pack_panels(p, !p->a_stands, &view, own.words + (whole - from) * own.panel_words, whole, to, k0, k1, k0,
                        k1);
        if (p->copy_tile) source = element(&view, k0);
    }
    gemm_finish f = finish_of(r, item, k0, k1);
    int64_t kw = words_of(p, k0, k1);
    if (p->a_stands) {
        for (int64_t i = 0; i < p->a_panels; i++)
            for (int64_t j = from; j < to; j++) run_tile(p, &f, standing, &own, i, j, kw, k0, k1, NULL, later);
        return;
    }
    for (int64_t j = 0; j < p->b_panels; j++) {
        if (j && j % p->item_panels == 0) f = finish_of(r, item + j / p->item_panels, k0, k1);
        for (int64_t i = from; i < to; i++) {
            run_tile(p, &f, &own, standing, i, j, kw, k0, k1, j == 0 && i < whole ? source : NULL, later);
            ahead_pack(p, later, false);
        }
    }
}

/* The standing operand is packed in parts along k where its rows are columns of memory, else in groups of panels. */
static int64_t pack_tasks(const gemm_run *r, int64_t *panels, bool *along_k) {
    const gemm_plan *p = r->p;
    const cpu_matrix *m = p->a_stands ? &p->g.a : &p->g.b;
    *along_k = (p->a_stands ? m->row_stride : m->col_stride) == 1;
    int64_t all = p->a_stands ? p->a_panels : p->b_panels;
    *panels = *along_k ? all : max_i64(1, PACK_CHUNK / (p->a_stands ? p->kernels->mr : p->kernels->nr));
    return *along_k ? div_up(r->k1 - r->k0, K_PART) : div_up(all, *panels);
}

static void task_pack(void *context, int task, int worker) {
    const gemm_run *r = context;
    const gemm_plan *p = r->p;
    (void)worker;
    packed_view whole = packed_scratch(p, p->a_stands, r->standing_memory, 0, r->k0, r->k1);
    int64_t step, from = 0, to = p->a_stands ? p->a_panels : p->b_panels, part0 = r->k0, part1 = r->k1;
    bool along_k;
    pack_tasks(r, &step, &along_k);
    if (along_k) {
        part0 = r->k0 + (int64_t)task * K_PART;
        part1 = min_i64(r->k1, part0 + K_PART);
    } else {
        from = (int64_t)task * step;
        to = min_i64(to, from + step);
    }
    int64_t item_panels = p->a_stands ? p->a_panels : p->item_panels;
    for (int64_t end; from < to; from = end) { /* an item after the other, where several stand side by side */
        int64_t item = r->first_item + from / item_panels, first = from / item_panels * item_panels;
        gemm_view view = view_of(p->a_stands ? &p->g.a : &p->g.b, item);
        end = min_i64(to, first + item_panels);
        pack_panels(p, p->a_stands, &view, whole.words + from * whole.panel_words, from - first, end - first, r->k0,
                    r->k1, part0, part1);
    }
}

static packed_view standing_of(const gemm_run *r) {
    const gemm_plan *p = r->p;
    const cpu_matrix *m = p->a_stands ? &p->g.a : &p->g.b;
    if (m->packed) return packed_whole(p, m, p->a_stands, r->k0, r->k1);
    return packed_scratch(p, p->a_stands, r->standing_memory, 0, r->k0, r->k1);
}

/* A worker's memory: two packed blocks in turn, and behind them which block the second is. */
typedef struct worker_state {
    int64_t ready; /* the task whose block lies packed in memory [turn]; -1: none */
    int turn;
} worker_state;

static worker_state *state_of(const gemm_run *r, int worker) {
    char *memory = r->worker_memory + r->p->worker_bytes * (size_t)worker;
    return (worker_state *)(void *)(memory + r->p->worker_bytes - ALIGN);
}

static void task_block(void *context, int task, int worker) {
    const gemm_run *r = context;
    const gemm_plan *p = r->p;
    const cpu_matrix *moving = p->a_stands ? &p->g.b : &p->g.a;
    packed_view standing = standing_of(r);
    char *memory = r->worker_memory + p->worker_bytes * (size_t)worker;
    worker_state *state = state_of(r, worker);
    const bool ready = state->ready == task;
    int64_t item = r->first_item + task / p->moving_blocks, block = task % p->moving_blocks, from, to;
    char *mine = memory + (state->turn ? p->block_bytes : 0);
    ahead later = {0};
    state->ready = -1;
    if (!moving->packed && block + p->threads < p->moving_blocks) {
        gemm_view view = view_of(moving, item);
        void *words = p->packs_ahead ? memory + (state->turn ? 0 : p->block_bytes) : NULL;
        block_panels(p, block + p->threads, &from, &to);
        later = ahead_of(p, &view, from, to, r->k0, r->k1, words);
    }
    run_block(r, &standing, item, block, mine, ready, &later, r->k0, r->k1);
    if (!later.words) return;
    ahead_pack(p, &later, true);
    state->ready = task + p->threads;
    state->turn = !state->turn;
}

/* An item by one thread: both operands are packed by it. */
static void task_item(void *context, int task, int worker) {
    const gemm_run *r = context;
    const gemm_plan *p = r->p;
    gemm_view view = view_of(p->a_stands ? &p->g.a : &p->g.b, task);
    int64_t kw = block_words(p);
    char *memory = r->worker_memory + p->worker_bytes * (size_t)worker;
    char *block = memory + round_bytes((p->a_stands ? p->a_height : p->b_panels * p->kernels->nr) * kw);
    for (int64_t b = 0; b < p->k_blocks; b++) {
        int64_t k0 = b * p->k_block, k1 = min_i64(p->g.k, k0 + p->k_block);
        packed_view standing = packed_scratch(p, p->a_stands, memory, 0, k0, k1);
        pack_panels(p, p->a_stands, &view, standing.words, 0, p->a_stands ? p->a_panels : p->b_panels, k0, k1, k0, k1);
        for (int64_t i = 0; i < p->moving_blocks; i++) {
            ahead nothing = {0};
            run_block(r, &standing, task, i, block, false, &nothing, k0, k1);
        }
    }
}

static void parallel(const gemm_plan *p, pool_task task, void *context, int64_t count) {
    if (p->threads > 1)
        pool_run(task, context, (int)count);
    else
        for (int64_t i = 0; i < count; i++) task(context, (int)i, 0);
}

static void run_standing(gemm_run *r) {
    const gemm_plan *p = r->p;
    const cpu_matrix *standing = p->a_stands ? &p->g.a : &p->g.b;
    int64_t groups = p->by_item ? p->g.batch : 1;
    for (int64_t group = 0; group < groups; group++) {
        r->first_item = group;
        r->items = task_items(p);
        for (int64_t b = 0; b < p->k_blocks; b++) {
            r->k0 = b * p->k_block;
            r->k1 = min_i64(p->g.k, r->k0 + p->k_block);
            int64_t panels;
            bool along_k;
            if (!standing->packed) parallel(p, task_pack, r, pack_tasks(r, &panels, &along_k));
            for (int i = 0; i < p->threads; i++) *state_of(r, i) = (worker_state){.ready = -1};
            parallel(p, task_block, r, r->items * p->moving_blocks);
        }
    }
}

/* ---- matrix times vector -------------------------------------------------------------------------------------------- */

/* How many outputs a task computes. */
static int64_t vector_chunk(const gemm_plan *p) {
    const bool rows = (p->g.n == 1 ? p->g.a.col_stride : p->g.b.row_stride) == 1;
    const int64_t outputs = max_i64(p->g.m, p->g.n), chunk = GEMV_WORK / max_i64(1, p->g.k);
    const int64_t step = rows ? GEMV_ROWS : GEMV_CHUNK;
    return min_i64(max_i64(chunk / step * step, step), max_i64(outputs, 1));
}

static void task_vector(void *context, int task, int worker) {
    const gemm_run *r = context;
    const gemm_plan *p = r->p;
    const gemm_kernels *kernels = p->kernels;
    int64_t k = p->g.k, outputs = max_i64(p->g.m, p->g.n), chunk = vector_chunk(p), chunks = div_up(outputs, chunk);
    int64_t item = task / chunks, from = task % chunks * chunk, to = min_i64(outputs, from + chunk);
    bool column = p->g.n == 1; /* C is a column: A times a vector; else a row: a vector times B */
    gemm_view w = view_of(column ? &p->g.a : &p->g.b, item), v = view_of(column ? &p->g.b : &p->g.a, item);
    int64_t w_out = column ? w.row_stride : w.col_stride, w_k = column ? w.col_stride : w.row_stride;
    size_t size = w.dtype == CPU_F16 ? 2 : 4;
    float *x = (float *)(void *)(r->worker_memory + p->worker_bytes * (size_t)worker);
    float *gathered = (float *)(void *)((char *)x + round_bytes(k));
    bool round = p->g.bf16;
    kernels->load_strided(x, v.data, v.dtype, column ? v.row_stride : v.col_stride, k, round);
    gemm_finish f = finish_of(r, item, 0, k);
    for (int64_t i = from; i < to; i += GEMV_CHUNK) {
        _Alignas(ALIGN) float y[GEMV_CHUNK];
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

/* The residual is what C holds, and nothing else happens to it: the tiles can add to C themselves. */
static bool adds_to_itself(const cpu_gemm *g) {
    const cpu_matrix *r = g->epilogue.residual, *c = &g->c;
    return r && !g->accumulate && !g->epilogue.row_bias && !g->epilogue.col_bias && !g->epilogue.apply &&
           r->dtype == CPU_F32 && c->dtype == CPU_F32 && !r->batch && !c->batch && r->data == c->data &&
           r->row_stride == c->row_stride && r->col_stride == c->col_stride &&
           (g->batch == 1 || r->batch_stride == c->batch_stride);
}

static double sum_lanes(const double *lanes, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i += GEMM_LANES)
        for (size_t k = 0; k < GEMM_LANES; k++) sum += lanes[i + k];
    return sum;
}

/* Where C is not written tile by tile, or not in rows. */
static double sum_all(const cpu_gemm *g) {
    const float *c = g->c.data;
    double sum = 0;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            double x = (double)c[i * g->c.row_stride + j * g->c.col_stride];
            sum += x * x;
        }
    return sum;
}

void cpu_gemm_run(const cpu_gemm *g, void *scratch) {
    gemm_plan p;
    cpu_matrix residual;
    cpu_gemm sum = *g;
    if (adds_to_itself(g)) {
        sum.accumulate = true;
        sum.epilogue.residual = NULL;
    }
    cpu_plan_make(&p, &sum, pool_threads(), &residual);
    gemm_run r = {.p = &p, .items = p.g.batch, .standing_memory = scratch};
    assert((uintptr_t)scratch % ALIGN == 0);
    r.partial_memory = r.standing_memory + p.standing_bytes;
    r.worker_memory = r.partial_memory + p.partial_bytes + p.squares_bytes;
    if (p.squares_bytes) {
        r.squares = (double *)(void *)(r.partial_memory + p.partial_bytes);
        memset(r.squares, 0, p.squares_bytes);
    }
    switch (p.path) {
    case PATH_NOTHING: break;
    case PATH_VECTOR: parallel(&p, task_vector, &r, p.g.batch * div_up(max_i64(p.g.m, p.g.n), vector_chunk(&p))); break;
    case PATH_STANDING: run_standing(&r); break;
    case PATH_ITEMS: parallel(&p, task_item, &r, p.g.batch); break;
    }
    if (g->squares) *g->squares = r.squares ? sum_lanes(r.squares, p.squares_bytes / sizeof(double)) : sum_all(&p.g);
}

/* ---- packing beforehand --------------------------------------------------------------------------------------------- */

typedef struct prepack {
    const gemm_plan *p;
    bool is_a;
    float *words;
} prepack;

static void prepack_plan(gemm_plan *p, const cpu_gemm *g, cpu_gemm_side side, bool *is_a) {
    cpu_gemm alone = *g;
    cpu_matrix residual;
    alone.a.packed = alone.b.packed = NULL;
    cpu_plan_make(p, &alone, 1, &residual);
    p->a_rows = false; /* later nobody knows how it lay */
    *is_a = (side == CPU_GEMM_A) != wants_turn(&alone);
}

size_t cpu_gemm_pack_bytes(const cpu_gemm *g, cpu_gemm_side side) {
    gemm_plan p;
    bool is_a;
    prepack_plan(&p, g, side, &is_a);
    if (p.path == PATH_NOTHING || p.path == PATH_VECTOR) return 0;
    if (!is_shared(&p.g, is_a ? &p.g.a : &p.g.b)) return 0;
    int64_t width = is_a ? p.a_height : p.b_panels * p.kernels->nr;
    return round_bytes(width * padded_words(&p, 0, p.g.k));
}

static void task_prepack(void *context, int task, int worker) {
    const prepack *x = context;
    const gemm_plan *p = x->p;
    (void)worker;
    int64_t panels = x->is_a ? p->a_panels : p->b_panels, height = x->is_a ? p->kernels->mr : p->kernels->nr;
    int64_t k0 = task / panels * p->k_block, k1 = min_i64(p->g.k, k0 + p->k_block), panel = task % panels;
    gemm_view view = view_of(x->is_a ? &p->g.a : &p->g.b, 0);
    int64_t width = x->is_a ? p->a_height : panels * height;
    float *words = x->words + k0 / p->kernels->pair * width + panel * padded_words(p, k0, k1) * height;
    pack_panels(p, x->is_a, &view, words, panel, panel + 1, k0, k1, k0, k1);
}

void cpu_gemm_pack(const cpu_gemm *g, cpu_gemm_side side, void *packed) {
    gemm_plan p;
    prepack x = {.p = &p, .words = packed};
    prepack_plan(&p, g, side, &x.is_a);
    if (p.path == PATH_NOTHING || p.path == PATH_VECTOR) return;
    pool_run(task_prepack, &x, (int)(p.k_blocks * (x.is_a ? p.a_panels : p.b_panels)));
}
