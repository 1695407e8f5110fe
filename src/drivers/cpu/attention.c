/* SPDX-License-Identifier: MIT
 * Owns the loops of attention over the tiles of gemm_kernels.h. Scores lie as a product takes its second operand.
 *
 * Forward they are turned, [key][nr query rows]: what a tile of K Q' writes, what a softmax reads a vector of query rows at
 * a time, without sums across a vector, and what V' P' takes are the same memory, and the result is [width][nr].
 * Backward they lie in panels of nr keys, [panel][row][nr], as sums over query rows want them; these are kept turned,
 * [width][keys], and written where they end up if they can lie there like that.
 */
#include "drivers/cpu/attention.h"

#include <assert.h>
#include <string.h>

#include "base/pool.h"
#include "drivers/cpu/gemm_kernels.h"
#include "drivers/cpu/tile.h"

enum { ALIGN = 16, BLOCK_FLOATS = 96 << 10, LEAST_ROWS = 48, MOST_ROWS = 256, SKIP = 16, MOST_COLUMNS = 64 };

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
    int64_t depth = round_up(a->width, GEMM_BLOCK);
    if (!a->backward) {
        r.block = g->nr;
        r.k = take(&r, (r.keys + g->mr) * depth);
        r.v = take(&r, round_up(r.keys, GEMM_BLOCK) * (r.tall + g->mr));
        r.q = take(&r, depth * g->nr);
        r.s = take(&r, (r.keys + g->mr) * g->nr);
        r.out = take(&r, (r.tall + g->mr) * g->nr);
        r.turned = take(&r, round_up(r.tall + g->mr, ALIGN) * (g->nr + ALIGN));
        return r;
    }
    int64_t most = BLOCK_FLOATS / max_i64(1, a->keys) / ALIGN * ALIGN;
    r.block = min_i64(max_i64(LEAST_ROWS, min_i64(MOST_ROWS, most)), round_up(a->period, ALIGN));
    int64_t stride = r.block + g->mr;
    r.k = take(&r, r.keys * depth);
    r.v = take(&r, r.keys * depth);
    r.q = take(&r, g->mr * depth);
    r.out = take(&r, stride * r.width);
    r.turned = take(&r, stride * r.width);
    r.copy = take(&r, g->mr * r.keys);
    r.s = take(&r, stride * r.keys);
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
    if (x->row == 1 && x->dtype == CPU_F32 && x->col == rows) {
        r->g->pack((float *)(void *)to, (int)rows, from, CPU_F32, r->room.width, 1, rows, 0, r->a->width, false);
        return;
    }
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

/* The result of `cols` query rows, [width][nr], each times its factor, to where it belongs. */
static void store_columns(const run *r, float *m, int64_t item, int64_t first, int64_t cols, const float *factor) {
    const cpu_attention *a = r->a;
    const cpu_attention_operand *x = &a->at[CPU_ATTENTION_O];
    const room *o = &r->room;
    unsigned char *to = item_of(x, item) + first * x->row * size_of(x->dtype);
    mil_dtype dtype = x->dtype == CPU_F16 ? MIL_fp16 : MIL_fp32;
    if (x->row == 1 && x->dtype == CPU_F32) {
        r->rows->scale((float *)(void *)to, x->col, m + o->out, factor, a->width, cols);
        return;
    }
    r->rows->scale(m + o->out, r->g->nr, m + o->out, factor, a->width, cols);
    if (x->row == 1) {
        for (int64_t c = 0; c < a->width; c++)
            cpu_tile_store(to + c * x->col * size_of(x->dtype), dtype, 1, &cols, &x->row, m + o->out + c * r->g->nr);
        return;
    }
    r->g->pack(m + o->turned, (int)a->width, m + o->out, CPU_F32, r->g->nr, 1, a->width, 0, cols, false);
    cpu_tile_store(to, dtype, 2, (int64_t[]){cols, a->width}, (int64_t[]){x->row, x->col}, m + o->turned);
}

/* `cols` query rows from local row `local` on, which is row `first` of the item. */
static void forward_columns(const run *r, float *m, int64_t item, bool v_form, int64_t first, int64_t local,
                            int64_t cols) {
    const cpu_attention *a = r->a;
    const room *o = &r->room;
    const cpu_attention_operand *q = &a->at[CPU_ATTENTION_Q];
    int64_t nr = r->g->nr, mr = r->g->mr, count = seen(a, local + cols - 1), depth = round_up(a->keys, GEMM_BLOCK);
    gemm_next none = {(const char *)(m + o->q), 0, 0, NULL, 0, NULL};
    r->g->pack(m + o->q, (int)nr, item_of(q, item) + first * q->row * size_of(q->dtype), q->dtype, q->row, q->col, cols,
               0, a->width, false);
    for (int64_t j = 0; j < count; j += mr)
        tile_of(r, min_i64(mr, a->keys - j), false)(m + o->k + j * a->width, m + o->q, a->width, m + o->s + j * nr, nr,
                                                    a->scale, false, &none);
    float inverse[MOST_COLUMNS];
    r->rows->columns(m + o->s, count, a->causal ? local : count, inverse);
    for (int64_t c = 0; c < a->width; c += mr)
        tile_of(r, min_i64(mr, a->width - c), v_form)(m + o->v + c * depth, m + o->s, count, m + o->out + c * nr, nr, 1,
                                                      false, &none);
    store_columns(r, m, item, first, cols, inverse);
}

/* The rows of a chunk: blocks of the same number all over the item, so that causal chunks are alike. */
static void forward_task(void *context, int task, int worker) {
    const run *r = context;
    const cpu_attention *a = r->a;
    const room *o = &r->room;
    float *m = r->scratch + worker * o->floats;
    int64_t item = task / r->chunks, chunk = task % r->chunks, blocks = div_up(a->period, o->block), mr = r->g->mr;
    for (int64_t j = 0; j < a->keys; j += mr)
        pack_rows_of(r, &a->at[CPU_ATTENTION_K], item, m + o->k + j * a->width, j, min_i64(mr, a->keys - j));
    bool v_form = pack_turned_rows(r, &a->at[CPU_ATTENTION_V], item, m + o->v, 0, a->keys);
    for (int64_t b = chunk; b < blocks * (a->rows / a->period); b += r->chunks) {
        int64_t local = b % blocks * o->block, first = b / blocks * a->period + local;
        forward_columns(r, m, item, v_form, first, local, min_i64(o->block, a->period - local));
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
    gemm_next none = {(const char *)(m + o->q), 0, 0, NULL, 0, NULL};
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

/* Sums over query rows, [width][keys]: in scratch, or in the operand's own memory where a tile can write it. */
typedef struct row_sums {
    float *at;
    int64_t step;
    bool direct;
} row_sums;

static row_sums sums_of(const run *r, const cpu_attention_operand *x, int64_t item, float *scratch) {
    const cpu_attention *a = r->a;
    bool direct = x->dtype == CPU_F32 && x->row == 1 && a->keys % r->g->nr == 0 && a->width % r->g->row_step == 0;
    if (direct) return (row_sums){(float *)(void *)item_of(x, item), x->col, true};
    return (row_sums){scratch, r->room.keys, false};
}

/* sum += turned rows x block of scores. The first `begun` panels of keys hold sums already, the others nothing. */
static void add_over_rows(const run *r, const float *turned, bool form, const float *scores, const row_sums *sum,
                          int64_t begun, int64_t local, int64_t rows, float scale) {
    const cpu_attention *a = r->a;
    int64_t nr = r->g->nr, mr = r->g->mr, step = (r->room.block + mr) * nr, depth = round_up(rows, GEMM_BLOCK);
    int64_t panels = div_up(seen(a, local + rows - 1), nr);
    for (int64_t j = 0; j < panels; j++) {
        int64_t from = a->causal ? max_i64(0, j * nr - local - (mr - 1)) / SKIP * SKIP : 0;
        for (int64_t c = 0; c < a->width; c += mr) {
            int64_t count = min_i64(mr, a->width - c);
            float *to = sum->at + c * sum->step + j * nr;
            gemm_next next = {(const char *)turned, 0, 0, to, sum->step, NULL};
            tile_of(r, count, form)(turned + c * depth + from * height_of(r, count), scores + j * step + from * nr,
                                    rows - from, to, sum->step, scale, j < begun, &next);
        }
    }
}

static void store_sums(const run *r, const cpu_attention_operand *x, int64_t item, const row_sums *sum) {
    mil_dtype dtype = x->dtype == CPU_F16 ? MIL_fp16 : MIL_fp32;
    for (int64_t c = 0; c < r->a->width && !sum->direct; c++)
        cpu_tile_store(item_of(x, item) + c * x->col * size_of(x->dtype), dtype, 1, &r->a->keys, &x->row,
                       sum->at + c * sum->step);
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
    row_sums dk = sums_of(r, &a->at[CPU_ATTENTION_DK], item, m + o->dk);
    row_sums dv = sums_of(r, &a->at[CPU_ATTENTION_DV], item, m + o->dv);
    int64_t begun = 0;
    for (int64_t head = 0; head < a->rows; head += a->period)
        for (int64_t local = 0; local < a->period; local += o->block) {
            int64_t first = head + local, rows = min_i64(o->block, a->period - local);
            bool q_form = pack_turned_rows(r, &a->at[CPU_ATTENTION_Q], item, m + o->qt, first, rows);
            bool o_form = pack_turned_rows(r, &a->at[CPU_ATTENTION_O], item, m + o->ot, first, rows);
            for (int64_t i = 0; i < rows; i += r->g->mr)
                backward_panel(r, m, item, first, local, i, min_i64(r->g->mr, rows - i));
            add_over_rows(r, m + o->ot, o_form, m + o->s, &dv, begun, local, rows, 1);
            add_over_rows(r, m + o->qt, q_form, m + o->d, &dk, begun, local, rows, a->scale);
            begun = max_i64(begun, div_up(seen(a, local + rows - 1), r->g->nr));
            store_rows(r, &a->at[CPU_ATTENTION_DQ], item, m + o->out, m + o->turned, first, rows);
        }
    store_sums(r, &a->at[CPU_ATTENTION_DK], item, &dk);
    store_sums(r, &a->at[CPU_ATTENTION_DV], item, &dv);
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
