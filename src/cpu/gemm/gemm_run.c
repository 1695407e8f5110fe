/* SPDX-License-Identifier: MIT
 * Owns the run of a planned matrix product (gemm_blocking.c): the stationary operand is packed once, the streamed
 * operand block by block in the tasks. The arithmetic is in gemm_body.h.
 *
 * A task owns a block of columns (or of rows, when there are more of them) of C and all of k, so no two threads add to
 * the same element. The blocks of k depend only on the product's sizes, so the sums are the same for any number of
 * threads.
 *
 *   for each block of k            (about 768 or 1024: one pass for most layers, C is written once)
 *     pack the stationary operand, all threads together              -> shared scratch
 *     for each task: pack its block of the streamed operand (fits L2) -> the worker's scratch
 *       for each stationary panel, for each streamed panel: one tile    (registers)
 *
 * A streamed A is packed while tiles are computed: by the first tile of each panel if its rows run along k, and by the
 * tiles of the previous block if its rows run across k. Otherwise, or without such tiles, it is packed between the
 * tiles of the previous block. Before the first block of a pass comes the last block of the previous pass. The first
 * block of the next product is only prefetched. A streamed B is packed by the first tile of each panel, if there are
 * such tiles and B's rows run across k.
 *
 * If the items of a batch share a larger A, their B are put side by side as one B, so that A is packed and read once
 * for all items. Items that share no operand are whole tasks that pack their own operands, unless they are few and
 * large. Products with a single row or column are bound by memory and skip packing altogether.
 */
#include "cpu/gemm/gemm.h"

#include <assert.h>
#include <string.h>

#include "core/base/pool.h"
#include "cpu/gemm/gemm_prefetch.h"

enum {
    K_PART = 64,    /* elements of k per packing task */
    PACK_CHUNK = 96 /* rows or columns per packing task that is not divided along k */
};

/* A packed operand for one pass. */
typedef struct packed_view {
    float *words;
    int64_t panel_words; /* words from one full panel to the next */
    int64_t first_panel;
} packed_view;

/* Returns the words of this pass in an operand that was packed whole. */
static packed_view gemm_run_packed_whole(const gemm_plan *p, const cpu_matrix *m, bool is_a, int64_t k0, int64_t k1) {
    int64_t width = is_a ? p->a_height : p->b_panels * p->kernels->nr;
    float *words = (float *)(uintptr_t)m->packed + k0 / p->kernels->pair * width;
    int64_t step = padded_words(p, k0, k1) * (is_a ? p->kernels->mr : p->kernels->nr);
    return (packed_view){words, step, 0};
}

static packed_view gemm_run_packed_scratch(const gemm_plan *p, bool is_a, void *memory, int64_t first, int64_t k0,
                                           int64_t k1) {
    int64_t step = padded_words(p, k0, k1) * (is_a ? p->kernels->mr : p->kernels->nr);
    return (packed_view){memory, step, first};
}

/* Adds the squares of a finished tile of C. A streamed panel belongs to one task, and its tiles are computed in the
 * order of the stationary panels, so the sums do not depend on which thread runs which task. */
static void gemm_run_add_squares(const gemm_plan *p, const gemm_finish *f, int64_t panel, int64_t i, int64_t j,
                                 int64_t rows, int64_t cols) {
    const float *c = (const float *)element(&f->c, i * f->c.row_stride + j);
    p->kernels->squares(f->squares + panel * GEMM_LANES, c, f->c.row_stride, rows, cols);
}

/* What the tiles of a block share. */
typedef struct tile_run {
    const gemm_plan *p;
    packed_view a, b;
    int64_t k0, k1, kw;
    gemm_prefetch *later; /* the block that is prefetched or packed meanwhile */
    gemm_finish f;        /* of the current item */
    bool direct;          /* sums are written directly to `to` */
    bool add;             /* sums are added to the existing values */
    float *to;            /* C, or memory for partial sums */
    int64_t stride;       /* between rows of `to` */
} tile_run;

static void gemm_run_begin_item(tile_run *t, const gemm_run *r, int64_t item) {
    const cpu_gemm *g = &t->p->g;
    const gemm_finish *f = &t->f;
    t->f = gemm_finish_of(r, item, t->k0, t->k1);
    const bool plain_c = f->c.dtype == CPU_F32 && f->c.col_stride == 1;
    const bool done_in_c = plain_c && (!g->residual || f->residual_first);
    t->direct = !f->last || done_in_c;
    t->add = !f->first || (plain_c && (g->accumulate || f->residual_first));
    t->to = plain_c ? (float *)(uintptr_t)f->c.data : f->partial;
    t->stride = plain_c ? f->c.row_stride : f->partial_stride;
}

/* Inputs for the computation of one tile. */
typedef struct tile_operands {
    float *a;
    float *b;
    const void *source; /* source from which the streamed operand's words are packed; NULL if they are packed already */
    int64_t kw;
    gemm_tile tile; /* for the panel's height */
} tile_operands;

static inline void gemm_run_compute(const tile_run *t, const tile_operands *o, float *c, int64_t stride, bool add,
                                    const gemm_next *fetch) {
    const gemm_plan *p = t->p;
    if (o->source && p->a_stationary)
        p->pack_b_tile(o->a, o->b, o->source, p->g.b.row_stride * cpu_dtype_bytes(p->g.b.dtype), o->kw, c, stride,
                       p->g.alpha, add, fetch);
    else if (o->source)
        p->pack_a_tile(o->a, o->source, p->g.a.row_stride * cpu_dtype_bytes(p->g.a.dtype), o->b, o->kw, c, stride,
                       p->g.alpha, add, fetch);
    else
        (fetch->put ? t->later->pass : o->tile)(o->a, o->b, o->kw, c, stride, p->g.alpha, add, fetch);
}

/* Computes a partial tile, or a tile that needs further processing. */
static void gemm_run_finish_apart(const tile_run *t, const tile_operands *o, int64_t i, int64_t j, int64_t rows,
                                  int64_t cols, gemm_next *fetch) {
    _Alignas(GEMM_ALIGN) float sums[GEMM_TILE_MAX];
    const cpu_gemm_kernels *k = t->p->kernels;
    const cpu_matrix_view *other = t->p->g.residual ? &t->f.residual : &t->f.c;
    if (other->dtype == CPU_F32 && other->col_stride == 1) {
        fetch->row = (const float *)element(other, i * other->row_stride + j);
        fetch->row_step = other->row_stride;
    }
    gemm_run_compute(t, o, sums, k->nr, false, fetch);
    k->finish(&t->f, sums, k->nr, i, j, rows, cols);
}

/* Returns the address of the streamed operand's first element for a tile at row `i` and column `j` of C. */
static const void *gemm_run_source_of(const tile_run *t, const cpu_matrix_view *streamed, int64_t i, int64_t j) {
    return t->p->a_stationary ? element(streamed, t->k0 * streamed->row_stride + j)
                              : element(streamed, i * streamed->row_stride + t->k0);
}

/* Multiplies panel `ia` of A by panel `jb` of B, which is panel `column` of its item. `source` is the streamed operand
 * if this tile is the first to read a panel that is not packed yet, else NULL. */
static void gemm_run_tile(const tile_run *t, int64_t ia, int64_t jb, int64_t column, const cpu_matrix_view *source) {
    const gemm_plan *p = t->p;
    const gemm_finish *f = &t->f;
    const int64_t i = ia * p->kernels->mr, j = column * p->kernels->nr;
    const int64_t rows = min_i64(p->kernels->mr, p->g.m - i), cols = min_i64(p->kernels->nr, p->g.n - j);
    const bool last = ia == p->a_panels - 1;
    const int height = last ? p->last_height : p->kernels->mr;
    tile_operands o = {.a = t->a.words + (ia - t->a.first_panel) * t->a.panel_words,
                       .b = t->b.words + (jb - t->b.first_panel) * t->b.panel_words,
                       .source = source ? gemm_run_source_of(t, source, i, j) : NULL,
                       .kw = t->kw,
                       .tile = last ? p->last_tile : p->tile};
    gemm_next fetch = gemm_prefetch_next(p, t->later, o.a, height == p->kernels->mr);
    if (rows == height && cols == p->kernels->nr && t->direct) {
        float *to = t->to + i * t->stride + j;
        if (f->first && f->residual_first)
            fetch.addend = (const float *)element(&f->residual, i * f->residual.row_stride + j);
        fetch.row = to;
        fetch.row_step = t->stride;
        gemm_run_compute(t, &o, to, t->stride, t->add, &fetch);
    } else {
        gemm_run_finish_apart(t, &o, i, j, rows, cols, &fetch);
    }
    if (f->squares) gemm_run_add_squares(p, f, p->a_stationary ? column : ia, i, j, rows, cols);
}

/* Multiplies one streamed block of one item by the whole stationary operand. `memory` receives the packed block, or
 * already holds it if `ready`. `later` is the block that is prefetched or packed meanwhile. */
static void gemm_run_block(const gemm_run *r, const packed_view *stationary, int64_t item, int64_t block, char *memory,
                           bool ready, gemm_prefetch *later, int64_t k0, int64_t k1) {
    const gemm_plan *p = r->p;
    const cpu_matrix *streamed = p->a_stationary ? &p->g.b : &p->g.a;
    int64_t from, to;
    gemm_block_panels(p, block, &from, &to);
    int64_t whole = from; /* panels from `from` to `whole` are packed by the tiles that first read them */
    cpu_matrix_view view = view_of(streamed, item);
    packed_view own;
    if (streamed->packed)
        own = gemm_run_packed_whole(p, streamed, !p->a_stationary, k0, k1);
    else {
        own = gemm_run_packed_scratch(p, !p->a_stationary, memory, from, k0, k1);
        if (p->pack_a_tile) whole = min_i64(to, p->g.m / p->kernels->mr);
        if (p->pack_b_tile) whole = min_i64(to, p->g.n / p->kernels->nr);
        if (whole < to && !ready)
            gemm_pack_panels(p, !p->a_stationary, &view, own.words + (whole - from) * own.panel_words, whole, to, k0,
                             k1, k0, k1);
    }
    tile_run t = {.p = p,
                  .a = p->a_stationary ? *stationary : own,
                  .b = p->a_stationary ? own : *stationary,
                  .k0 = k0,
                  .k1 = k1,
                  .kw = words_of(p, k0, k1),
                  .later = later};
    gemm_run_begin_item(&t, r, item);
    if (p->a_stationary) {
        for (int64_t i = 0; i < p->a_panels; i++)
            for (int64_t j = from; j < to; j++) gemm_run_tile(&t, i, j, j, i == 0 && j < whole ? &view : NULL);
        return;
    }
    for (int64_t j = 0, column = 0; j < p->b_panels; j++, column++) {
        if (column == p->item_panels) gemm_run_begin_item(&t, r, item + j / p->item_panels), column = 0;
        for (int64_t i = from; i < to; i++) {
            gemm_run_tile(&t, i, j, column, j == 0 && i < whole ? &view : NULL);
            gemm_prefetch_pack(p, later, false);
        }
    }
}

/* Counts the tasks for packing the stationary operand. The operand is divided along k if neighbours across k are
 * adjacent in memory, else into groups of *panels panels. */
static int64_t gemm_run_pack_tasks(const gemm_run *r, int64_t *panels, bool *along_k) {
    const gemm_plan *p = r->p;
    const cpu_matrix *m = p->a_stationary ? &p->g.a : &p->g.b;
    *along_k = (p->a_stationary ? m->row_stride : m->col_stride) == 1;
    int64_t all = p->a_stationary ? p->a_panels : p->b_panels;
    *panels = *along_k ? all : max_i64(1, PACK_CHUNK / (p->a_stationary ? p->kernels->mr : p->kernels->nr));
    return *along_k ? div_up(r->k1 - r->k0, K_PART) : div_up(all, *panels);
}

static void gemm_run_task_pack(void *context, int task, int worker) {
    const gemm_run *r = context;
    const gemm_plan *p = r->p;
    (void)worker;
    packed_view whole = gemm_run_packed_scratch(p, p->a_stationary, r->stationary_memory, 0, r->k0, r->k1);
    int64_t step, from = 0, to = p->a_stationary ? p->a_panels : p->b_panels, part0 = r->k0, part1 = r->k1;
    bool along_k;
    gemm_run_pack_tasks(r, &step, &along_k);
    if (along_k) {
        part0 = r->k0 + (int64_t)task * K_PART;
        part1 = min_i64(r->k1, part0 + K_PART);
    } else {
        from = (int64_t)task * step;
        to = min_i64(to, from + step);
    }
    int64_t item_panels = p->a_stationary ? p->a_panels : p->item_panels;
    for (int64_t end; from < to; from = end) { /* one item after the other, if several are side by side */
        int64_t item = r->first_item + from / item_panels, first = from / item_panels * item_panels;
        cpu_matrix_view view = view_of(p->a_stationary ? &p->g.a : &p->g.b, item);
        end = min_i64(to, first + item_panels);
        gemm_pack_panels(p, p->a_stationary, &view, whole.words + from * whole.panel_words, from - first, end - first,
                         r->k0, r->k1, part0, part1);
    }
}

static packed_view gemm_run_stationary_of(const gemm_run *r) {
    const gemm_plan *p = r->p;
    const cpu_matrix *m = p->a_stationary ? &p->g.a : &p->g.b;
    if (m->packed) return gemm_run_packed_whole(p, m, p->a_stationary, r->k0, r->k1);
    return gemm_run_packed_scratch(p, p->a_stationary, r->stationary_memory, 0, r->k0, r->k1);
}

/* A worker's memory has one packed block, or two that are used in turn, followed by this state. */
typedef struct worker_state {
    int64_t ready; /* number of the pass and task for which block `turn` is packed; -1 if none */
    int turn;
} worker_state;

static worker_state *gemm_run_state_of(const gemm_run *r, int worker) {
    char *memory = r->worker_memory + r->p->worker_bytes * (size_t)worker;
    return (worker_state *)(void *)(memory + r->p->worker_bytes - GEMM_ALIGN);
}

static int64_t gemm_run_tasks_of(const gemm_plan *p) { return p->items * p->streamed_blocks; }

/* Returns the block that the worker of `task` will most likely compute next: in this pass, in the next one, or in the
 * next product. */
static gemm_prefetch gemm_run_ahead_of(const gemm_run *r, int64_t task, float *words) {
    const gemm_plan *p = r->p;
    int64_t soon = task + p->threads, item = r->first_item, k0 = r->k0, k1 = r->k1;
    if (soon >= gemm_run_tasks_of(p) && k1 < p->g.k) {
        soon -= gemm_run_tasks_of(p);
        k0 = k1, k1 = min_i64(p->g.k, k0 + p->k_block);
    } else if (soon >= gemm_run_tasks_of(p) && r->next) {
        soon -= gemm_run_tasks_of(p);
        p = r->next, words = NULL, item = 0;
        k0 = 0, k1 = min_i64(p->g.k, p->k_block);
    }
    const cpu_matrix *streamed = p->a_stationary ? &p->g.b : &p->g.a;
    if (streamed->packed || soon >= gemm_run_tasks_of(p)) return (gemm_prefetch){.words = NULL};
    cpu_matrix_view view = view_of(streamed, item + soon / p->streamed_blocks);
    return gemm_prefetch_of(p, &view, soon % p->streamed_blocks, k0, k1, r->k1 - r->k0, words);
}

static void gemm_run_task_block(void *context, int task, int worker) {
    const gemm_run *r = context;
    const gemm_plan *p = r->p;
    packed_view stationary = gemm_run_stationary_of(r);
    char *memory = r->worker_memory + p->worker_bytes * (size_t)worker;
    worker_state *state = gemm_run_state_of(r, worker);
    const int64_t number = r->pass * gemm_run_tasks_of(p) + task;
    const bool ready = state->ready == number;
    char *mine = memory + (state->turn ? p->block_bytes : 0), *other = memory + (state->turn ? 0 : p->block_bytes);
    gemm_prefetch later = gemm_run_ahead_of(r, task, p->packs_ahead ? (float *)(void *)other : NULL);
    state->ready = -1;
    gemm_run_block(r, &stationary, r->first_item + task / p->streamed_blocks, task % p->streamed_blocks, mine, ready,
                   &later, r->k0, r->k1);
    if (!later.words) return;
    gemm_prefetch_pack(p, &later, true);
    state->ready = number + p->threads;
    state->turn = !state->turn;
}

/* Computes an item on one thread, which packs both operands. */
static void gemm_run_task_item(void *context, int task, int worker) {
    const gemm_run *r = context;
    const gemm_plan *p = r->p;
    cpu_matrix_view view = view_of(p->a_stationary ? &p->g.a : &p->g.b, task);
    int64_t kw = gemm_plan_block_words(p);
    char *memory = r->worker_memory + p->worker_bytes * (size_t)worker;
    char *block = memory + gemm_bytes((p->a_stationary ? p->a_height : p->b_panels * p->kernels->nr) * kw);
    for (int64_t b = 0; b < p->k_blocks; b++) {
        int64_t k0 = b * p->k_block, k1 = min_i64(p->g.k, k0 + p->k_block);
        packed_view stationary = gemm_run_packed_scratch(p, p->a_stationary, memory, 0, k0, k1);
        gemm_pack_panels(p, p->a_stationary, &view, stationary.words, 0, p->a_stationary ? p->a_panels : p->b_panels,
                         k0, k1, k0, k1);
        for (int64_t i = 0; i < p->streamed_blocks; i++) {
            gemm_prefetch nothing = {0};
            gemm_run_block(r, &stationary, task, i, block, false, &nothing, k0, k1);
        }
    }
}

static void gemm_run_parallel(const gemm_plan *p, pool_task task, void *context, int64_t count) {
    if (p->threads > 1)
        pool_run_most(task, context, (int)count, p->g.threads);
    else
        for (int64_t i = 0; i < count; i++) task(context, (int)i, 0);
}

static void gemm_run_stationary(gemm_run *r) {
    const gemm_plan *p = r->p;
    const cpu_matrix *stationary = p->a_stationary ? &p->g.a : &p->g.b;
    int64_t groups = p->by_item ? p->g.batch : 1;
    for (int64_t group = 0; group < groups; group++) {
        r->first_item = group;
        for (int i = 0; i < p->threads; i++) *gemm_run_state_of(r, i) = (worker_state){.ready = -1};
        for (r->pass = 0; r->pass < p->k_blocks; r->pass++) {
            r->k0 = r->pass * p->k_block;
            r->k1 = min_i64(p->g.k, r->k0 + p->k_block);
            int64_t panels;
            bool along_k;
            if (!stationary->packed)
                gemm_run_parallel(p, gemm_run_task_pack, r, gemm_run_pack_tasks(r, &panels, &along_k));
            gemm_run_parallel(p, gemm_run_task_block, r, gemm_run_tasks_of(p));
        }
    }
}

static double gemm_run_sum_lanes(const double *lanes, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i += GEMM_LANES)
        for (size_t k = 0; k < GEMM_LANES; k++) sum += lanes[i + k];
    return sum;
}

/* Sums the squares of all of C afterwards, for products that do not sum them tile by tile. */
static double gemm_run_sum_all(const cpu_gemm *g) {
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
    gemm_plan p, next;
    cpu_matrix residual, next_residual;
    cpu_gemm sum = *g;
    if (gemm_adds_to_itself(g)) {
        sum.accumulate = true;
        sum.residual = NULL;
    }
    gemm_plan_make(&p, &sum, pool_threads(), &residual);
    gemm_run r = {.p = &p, .stationary_memory = scratch};
    if (g->next && p.path == PATH_STATIONARY && !p.by_item) {
        gemm_plan_make(&next, g->next, pool_threads(), &next_residual);
        if (next.path == PATH_STATIONARY && !next.by_item && !next.a_stationary) r.next = &next;
    }
    assert((uintptr_t)scratch % GEMM_ALIGN == 0);
    r.partial_memory = r.stationary_memory + p.stationary_bytes;
    r.worker_memory = r.partial_memory + p.partial_bytes + p.squares_bytes;
    if (p.squares_bytes) {
        r.squares = (double *)(void *)(r.partial_memory + p.partial_bytes);
        memset(r.squares, 0, p.squares_bytes);
    }
    switch (p.path) {
    case PATH_NOTHING: break;
    case PATH_VECTOR:
        gemm_run_parallel(&p, gemm_task_vector, &r, p.g.batch * div_up(max_i64(p.g.m, p.g.n), gemm_vector_chunk(&p)));
        break;
    case PATH_STATIONARY: gemm_run_stationary(&r); break;
    case PATH_ITEMS: gemm_run_parallel(&p, gemm_run_task_item, &r, p.g.batch); break;
    }
    if (g->squares)
        *g->squares =
            r.squares ? gemm_run_sum_lanes(r.squares, p.squares_bytes / sizeof(double)) : gemm_run_sum_all(&p.g);
}
