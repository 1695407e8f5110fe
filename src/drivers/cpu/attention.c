/* SPDX-License-Identifier: MIT
 * Owns the loops of attention over the tiles of gemm_kernels.h. Scores lie in panels of nr columns, [panel][row][nr]: what
 * a tile writes, what a softmax reads a row at a time, and what a product takes as its second operand are the same memory.
 * Sums over query rows are kept turned, [width][keys], where those panels are the second operand.
 */
#include "drivers/cpu/attention.h"

#include <assert.h>
#include <string.h>

#include "base/pool.h"
#include "drivers/cpu/gemm_kernels.h"
#include "drivers/cpu/tile.h"

enum { ALIGN = 16, BLOCK_FLOATS = 96 << 10, LEAST_ROWS = 48, MOST_ROWS = 256, FORWARD_ROWS = 96, SKIP = 16 };

static int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return div_up(a, b) * b; }
static int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

static const attention_kernels *row_kernels_of(cpu_isa isa) {
    switch (isa) {
#if defined(__x86_64__)
    case CPU_ISA_AVX2: return &attention_kernels_avx2;
    case CPU_ISA_AVX512:
    case CPU_ISA_AVX512_BF16: return &attention_kernels_avx512;
#elif defined(__aarch64__)
    case CPU_ISA_NEON: return &attention_kernels_neon;
#endif
    default: return &attention_kernels_plain;
    }
}

/* What one thread works in; floats. */
typedef struct room {
    int64_t keys;                                                    /* rounded up to whole panels, with room behind */
    int64_t width, tall;                                             /* rounded up to panels of columns; of rows */
    int64_t block;                                                   /* query rows at a time */
    int64_t k, kt, v, q, o, qt, ot, s, d, copy, out, turned, dk, dv; /* where each begins */
    int64_t floats;
} room;

typedef struct run {
    const cpu_attention *a;
    const gemm_kernels *g;
    const attention_kernels *rows;
    room room;
    float *scratch;
    int64_t chunks; /* of an item's rows; 1 backward */
} run;

static int64_t take(room *r, int64_t floats) {
    int64_t at = r->floats;
    r->floats += round_up(floats, ALIGN);
    return at;
}

static room plan_room(const cpu_attention *a, const gemm_kernels *g) {
    room r = {.keys = round_up(round_up(a->keys, g->nr), 16) + g->nr,
              .width = round_up(a->width, g->nr),
              .tall = round_up(a->width, g->row_step)};
    int64_t most = BLOCK_FLOATS / max_i64(1, a->keys) / ALIGN * ALIGN;
    r.block = a->backward ? max_i64(LEAST_ROWS, min_i64(MOST_ROWS, most)) : FORWARD_ROWS;
    r.block = min_i64(r.block, round_up(a->period, ALIGN));
    int64_t stride = r.block + g->mr, depth = round_up(a->width, GEMM_BLOCK);
    r.k = take(&r, r.keys * depth);
    r.v = take(&r, a->backward ? r.keys * depth : r.keys * r.width);
    r.q = take(&r, g->mr * depth);
    r.out = take(&r, stride * r.width);
    r.turned = take(&r, stride * r.width);
    r.copy = take(&r, g->mr * r.keys);
    r.s = take(&r, a->backward ? stride * r.keys : g->mr * r.keys);
    if (!a->backward) return r;
    r.kt = take(&r, r.keys * r.width);
    r.o = take(&r, g->mr * depth);
    r.qt = take(&r, round_up(r.block, GEMM_BLOCK) * (r.tall + g->mr));
    r.ot = take(&r, round_up(r.block, GEMM_BLOCK) * (r.tall + g->mr));
    r.d = take(&r, stride * r.keys);
    r.dk = take(&r, r.keys * r.tall);
    r.dv = take(&r, r.keys * r.tall);
    return r;
}

size_t cpu_attention_scratch_bytes(const cpu_attention *a, int threads) {
    room r = plan_room(a, gemm_kernels_of(a->isa));
    return (size_t)r.floats * sizeof(float) * (size_t)threads;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------------ */

static unsigned char *item_of(const cpu_attention_operand *x, int64_t item) {
    return (unsigned char *)x->data + x->offset[item];
}

static int64_t size_of(cpu_dtype dtype) { return dtype == CPU_F16 ? 2 : 4; }

/* Panels of nr columns: positions across and channels along, or the other way round. */
static void pack_columns(const run *r, const cpu_attention_operand *x, int64_t item, float *to, bool positions,
                         int64_t columns, int64_t depth) {
    int64_t nr = r->g->nr, across = positions ? x->row : x->col, along = positions ? x->col : x->row;
    for (int64_t j = 0; j < columns; j += nr)
        r->g->pack(to + j * depth, (int)nr, item_of(x, item) + j * across * size_of(x->dtype), x->dtype, across, along,
                   min_i64(nr, columns - j), 0, depth, false);
}

static int height_of(const run *r, int64_t rows) { return (int)round_up(rows, r->g->row_step); }

/* A panel of query rows, [width][height]. */
static void pack_rows_of(const run *r, const cpu_attention_operand *x, int64_t item, float *to, int64_t first,
                         int64_t rows) {
    r->g->pack(to, height_of(r, rows), item_of(x, item) + first * x->row * size_of(x->dtype), x->dtype, x->row, x->col,
               rows, 0, r->a->width, false);
}

/* Query rows of a block as columns of the first operand: panels of mr channels, one behind the other, each with `rows` k.
 * True: in the second form of A. */
static bool pack_turned_rows(const run *r, const cpu_attention_operand *x, int64_t item, float *to, int64_t first,
                             int64_t rows) {
    int64_t mr = r->g->mr, depth = round_up(rows, GEMM_BLOCK);
    bool form = x->row == 1 && x->col != 1;
    for (int64_t c = 0; c < r->a->width; c += mr) {
        int64_t count = min_i64(mr, r->a->width - c);
        const unsigned char *from = item_of(x, item) + (c * x->col + first * x->row) * size_of(x->dtype);
        if (form)
            r->g->pack_rows(to + c * depth, height_of(r, count), from, x->dtype, x->col, count, 0, rows, false);
        else
            r->g->pack(to + c * depth, height_of(r, count), from, x->dtype, x->col, x->row, count, 0, rows, false);
    }
    return form;
}

static gemm_tile tile_of(const run *r, int64_t rows, bool form) {
    int index = height_of(r, rows) / r->g->row_step - 1;
    return form ? r->g->row_tiles[index] : r->g->tiles[index];
}

/* [rows][width] of scratch to where the operand's rows lie. */
static void store_rows(const run *r, const cpu_attention_operand *x, int64_t item, const float *from, float *turned,
                       int64_t first, int64_t rows) {
    unsigned char *to = item_of(x, item) + first * x->row * size_of(x->dtype);
    mil_dtype dtype = x->dtype == CPU_F16 ? MIL_fp16 : MIL_fp32;
    if (x->row == 1) {
        r->g->pack(turned, (int)rows, from, CPU_F32, r->room.width, 1, rows, 0, r->a->width, false);
        cpu_tile_store(to, dtype, 2, (int64_t[]){r->a->width, rows}, (int64_t[]){x->col, x->row}, turned);
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        cpu_tile_store(to + i * x->row * size_of(x->dtype), dtype, 1, &r->a->width, &x->col, from + i * r->room.width);
}

/* How many keys the rows up to local row `last` see. */
static int64_t seen(const cpu_attention *a, int64_t last) { return a->causal ? min_i64(a->keys, last + 1) : a->keys; }

/* ---- forward ------------------------------------------------------------------------------------------------------------ */

static void forward_panel(const run *r, float *m, int64_t item, int64_t first, int64_t local, int64_t rows,
                          float *out) {
    const cpu_attention *a = r->a;
    const room *o = &r->room;
    int64_t nr = r->g->nr, height = height_of(r, rows), count = seen(a, local + rows - 1), step = height * nr;
    gemm_next none = {(const char *)(m + o->q), 0, 0, NULL, 0};
    pack_rows_of(r, &a->at[CPU_ATTENTION_Q], item, m + o->q, first, rows);
    gemm_tile tile = tile_of(r, rows, false);
    for (int64_t j = 0; j * nr < count; j++)
        tile(m + o->q, m + o->k + j * nr * a->width, a->width, m + o->s + j * step, nr, a->scale, false, &none);
    float inverse[GEMM_BLOCK];
    for (int64_t i = 0; i < rows; i++)
        inverse[i] = r->rows->exponentials((attention_row){m + o->s + i * nr, step},
                                           (attention_row){m + o->copy + i * GEMM_QUAD, height * GEMM_QUAD},
                                           seen(a, local + i), round_up(count, GEMM_BLOCK));
    tile = tile_of(r, rows, true);
    for (int64_t j = 0; j < o->width; j += nr)
        tile(m + o->copy, m + o->v + j * a->keys, count, out + j, o->width, 1, false, &none);
    for (int64_t i = 0; i < rows; i++) r->rows->scale(out + i * o->width, inverse[i], a->width);
}

/* The rows of a chunk: blocks of the same number all over the item, so that causal chunks are alike. */
static void forward_task(void *context, int task, int worker) {
    const run *r = context;
    const cpu_attention *a = r->a;
    const room *o = &r->room;
    float *m = r->scratch + worker * o->floats;
    int64_t item = task / r->chunks, chunk = task % r->chunks, blocks = div_up(a->period, o->block);
    pack_columns(r, &a->at[CPU_ATTENTION_K], item, m + o->k, true, a->keys, a->width);
    pack_columns(r, &a->at[CPU_ATTENTION_V], item, m + o->v, false, a->width, a->keys);
    for (int64_t b = chunk; b < blocks * (a->rows / a->period); b += r->chunks) {
        int64_t local = b % blocks * o->block, first = b / blocks * a->period + local;
        int64_t rows = min_i64(o->block, a->period - local);
        for (int64_t i = 0; i < rows; i += r->g->mr)
            forward_panel(r, m, item, first + i, local + i, min_i64(r->g->mr, rows - i), m + o->out + i * o->width);
        store_rows(r, &a->at[CPU_ATTENTION_O], item, m + o->out, m + o->turned, first, rows);
    }
}

/* ---- backward ----------------------------------------------------------------------------------------------------------- */

/* Probabilities and the scores' gradient of a panel of rows, into their place in the block; and dQ of these rows. */
static void backward_panel(const run *r, float *m, int64_t item, int64_t first, int64_t local, int64_t i,
                           int64_t rows) {
    const cpu_attention *a = r->a;
    const room *o = &r->room;
    int64_t nr = r->g->nr, height = height_of(r, rows), step = (o->block + r->g->mr) * nr;
    int64_t count = seen(a, local + i + rows - 1), panels = div_up(count, nr);
    float *s = m + o->s + i * nr, *d = m + o->d + i * nr;
    gemm_next none = {(const char *)(m + o->q), 0, 0, NULL, 0};
    pack_rows_of(r, &a->at[CPU_ATTENTION_Q], item, m + o->q, first + i, rows);
    pack_rows_of(r, &a->at[CPU_ATTENTION_O], item, m + o->o, first + i, rows);
    gemm_tile tile = tile_of(r, rows, false);
    for (int64_t j = 0; j < panels; j++) {
        tile(m + o->q, m + o->k + j * nr * a->width, a->width, s + j * step, nr, a->scale, false, &none);
        tile(m + o->o, m + o->v + j * nr * a->width, a->width, d + j * step, nr, 1, false, &none);
    }
    for (int64_t n = 0; n < rows; n++)
        r->rows->gradient((attention_row){s + n * nr, step}, (attention_row){d + n * nr, step},
                          (attention_row){m + o->copy + n * GEMM_QUAD, height * GEMM_QUAD}, seen(a, local + i + n),
                          panels * nr);
    /* sums over rows begin at a multiple of SKIP: up to that many rows before those that see a panel */
    int64_t near = div_up(min_i64(a->keys, count + r->g->mr + SKIP), nr);
    for (int64_t j = panels; j < near; j++) {
        memset(s + j * step, 0, (size_t)(rows * nr) * sizeof *s);
        memset(d + j * step, 0, (size_t)(rows * nr) * sizeof *d);
    }
    tile = tile_of(r, rows, true);
    for (int64_t j = 0; j < o->width; j += nr)
        tile(m + o->copy, m + o->kt + j * a->keys, count, m + o->out + i * o->width + j, o->width, a->scale, false,
             &none);
}

/* sum [width][keys] += turned rows x block of scores */
static void add_over_rows(const run *r, const float *turned, bool form, const float *scores, float *sum, int64_t local,
                          int64_t rows, float scale) {
    const cpu_attention *a = r->a;
    int64_t nr = r->g->nr, mr = r->g->mr, step = (r->room.block + mr) * nr, depth = round_up(rows, GEMM_BLOCK);
    int64_t panels = div_up(seen(a, local + rows - 1), nr);
    gemm_next none = {(const char *)turned, 0, 0, NULL, 0};
    for (int64_t j = 0; j < panels; j++) {
        int64_t from = a->causal ? max_i64(0, j * nr - local - (mr - 1)) / SKIP * SKIP : 0;
        for (int64_t c = 0; c < a->width; c += mr) {
            int64_t count = min_i64(mr, a->width - c);
            tile_of(r, count, form)(turned + c * depth + from * height_of(r, count), scores + j * step + from * nr,
                                    rows - from, sum + c * r->room.keys + j * nr, r->room.keys, scale, true, &none);
        }
    }
}

static void store_sum(const run *r, const cpu_attention_operand *x, int64_t item, const float *sum) {
    mil_dtype dtype = x->dtype == CPU_F16 ? MIL_fp16 : MIL_fp32;
    for (int64_t c = 0; c < r->a->width; c++)
        cpu_tile_store(item_of(x, item) + c * x->col * size_of(x->dtype), dtype, 1, &r->a->keys, &x->row,
                       sum + c * r->room.keys);
}

static void backward_task(void *context, int task, int worker) {
    const run *r = context;
    const cpu_attention *a = r->a;
    const room *o = &r->room;
    float *m = r->scratch + worker * o->floats;
    int64_t item = task;
    pack_columns(r, &a->at[CPU_ATTENTION_K], item, m + o->k, true, a->keys, a->width);
    pack_columns(r, &a->at[CPU_ATTENTION_V], item, m + o->v, true, a->keys, a->width);
    pack_columns(r, &a->at[CPU_ATTENTION_K], item, m + o->kt, false, a->width, a->keys);
    memset(m + o->dk, 0, (size_t)(o->keys * o->tall) * sizeof *m);
    memset(m + o->dv, 0, (size_t)(o->keys * o->tall) * sizeof *m);
    for (int64_t head = 0; head < a->rows; head += a->period)
        for (int64_t local = 0; local < a->period; local += o->block) {
            int64_t first = head + local, rows = min_i64(o->block, a->period - local);
            bool q_form = pack_turned_rows(r, &a->at[CPU_ATTENTION_Q], item, m + o->qt, first, rows);
            bool o_form = pack_turned_rows(r, &a->at[CPU_ATTENTION_O], item, m + o->ot, first, rows);
            for (int64_t i = 0; i < rows; i += r->g->mr)
                backward_panel(r, m, item, first, local, i, min_i64(r->g->mr, rows - i));
            add_over_rows(r, m + o->ot, o_form, m + o->s, m + o->dv, local, rows, 1);
            add_over_rows(r, m + o->qt, q_form, m + o->d, m + o->dk, local, rows, a->scale);
            store_rows(r, &a->at[CPU_ATTENTION_DQ], item, m + o->out, m + o->turned, first, rows);
        }
    store_sum(r, &a->at[CPU_ATTENTION_DK], item, m + o->dk);
    store_sum(r, &a->at[CPU_ATTENTION_DV], item, m + o->dv);
}

void cpu_attention_run(const cpu_attention *a, void *scratch) {
    run r = {.a = a, .g = gemm_kernels_of(a->isa), .rows = row_kernels_of(a->isa), .scratch = scratch, .chunks = 1};
    assert((uintptr_t)scratch % 64 == 0);
    r.room = plan_room(a, r.g);
    if (!a->backward) { /* what a row comes to does not depend on the chunk that it is in */
        int64_t blocks = div_up(a->period, r.room.block) * (a->rows / a->period);
        while (r.chunks < blocks && a->items * r.chunks < 4 * pool_threads()) r.chunks++;
    }
    pool_run(a->backward ? backward_task : forward_task, &r, (int)(a->items * r.chunks));
}
