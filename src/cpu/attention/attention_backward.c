/* SPDX-License-Identifier: MIT
 * Owns attention's backward pass. Scores and their gradient are stored in panels of nr keys, [panel][row][nr], as the
 * sums over query rows need them. The sums are kept transposed, [width][keys], and written directly to the result if
 * its layout permits.
 *
 * Each block of query rows reads the keys twice, one block of keys at a time. The first pass computes scores and dP,
 * with a separate maximum per lane of a row, because the row's maximum is not known yet. The second pass uses the rows'
 * sums to compute probabilities and dS, and then the three matrix products with these while the block of keys is in L2.
 */
#include <string.h>

#include "cpu/attention/attention_internal.h"

void attention_plan_backward(attention_room *r, const cpu_attention *a, const cpu_gemm_kernels *g) {
    const cpu_attention_sizes *sizes = &a->kernels->attention_sizes;
    int64_t depth = round_up(a->width, GEMM_BLOCK), step = g->mr;
    while (step % ATTENTION_ALIGN) step += g->mr;
    r->rows = min_i64(max_i64(1, sizes->backward_rows / step) * step, round_up(a->period, ATTENTION_ALIGN));
    r->span = attention_span(a->keys, sizes->span, g->nr);
    int64_t stride = r->rows + g->mr;
    r->k = attention_take(r, r->keys * depth);
    r->v = attention_take(r, r->keys * depth);
    r->kt = attention_take(r, r->keys * r->width);
    r->q = attention_take(r, stride * depth);
    r->o = attention_take(r, stride * depth);
    r->qt = attention_take(r, round_up(r->rows, GEMM_BLOCK) * (r->tall + g->mr));
    r->ot = attention_take(r, round_up(r->rows, GEMM_BLOCK) * (r->tall + g->mr));
    r->copy = attention_take(r, g->mr * (r->span + ATTENTION_ALIGN));
    r->out = attention_take(r, (stride + ATTENTION_ALIGN) * (r->width + ATTENTION_ALIGN));
    r->turned = attention_take(r, stride * r->width);
    r->top = attention_take(r, stride * div_up(a->keys, r->span) * ATTENTION_LANES);
    r->sums = attention_take(r, stride * 2 * ATTENTION_LANES);
    r->totals = attention_take(r, 3 * r->rows);
    r->s = attention_take(r, stride * r->keys);
    r->d = attention_take(r, stride * r->keys);
    r->dk = attention_take(r, r->keys * r->tall);
    r->dv = attention_take(r, r->keys * r->tall);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* Packs panels of nr columns. If `positions`, columns are positions and k runs along channels, else vice versa. */
static void backward_pack_columns(const attention_run *r, const cpu_attention_operand *x, int64_t item, float *to,
                                  bool positions, int64_t columns, int64_t depth) {
    int64_t nr = r->g->nr, across = positions ? x->row : x->col, along = positions ? x->col : x->row;
    for (int64_t j = 0; j < columns; j += nr)
        r->g->pack(to + j * depth, (int)nr, attention_item(x, item) + j * across * cpu_dtype_bytes(x->dtype), x->dtype,
                   across, along, min_i64(nr, columns - j), 0, depth, false);
}

/* Stores `rows` rows of scratch, [rows][width], in the operand's rows from `first` on. */
static void backward_store_rows(const attention_run *r, const cpu_attention_operand *x, int64_t item, const float *from,
                                float *turned, int64_t first, int64_t rows) {
    unsigned char *to = attention_item(x, item) + first * x->row * cpu_dtype_bytes(x->dtype);
    if (x->row == 1 && x->dtype == CPU_F32) {
        r->rows->turn((float *)(void *)to, x->col, from, r->room.width, rows, r->a->width);
        return;
    }
    if (x->row == 1) {
        r->g->pack(turned, (int)rows, from, CPU_F32, r->room.width, 1, rows, 0, r->a->width, false);
        attention_store(to, x->dtype, x->col, x->row, turned, rows, r->a->width, rows);
        return;
    }
    attention_store(to, x->dtype, x->row, x->col, from, r->room.width, rows, r->a->width);
}

/* Sums over query rows, in panels of nr keys, [width][nr] each, `panel` floats apart. They are in the operand's memory
 * if a tile can write it directly, else in scratch. With many keys they are always in scratch, because the operand's
 * lines are far apart and a tile's rows would evict each other from L1. */
typedef struct row_sums {
    float *at;
    int64_t step, panel;
    bool direct;
} row_sums;

static row_sums backward_sums_of(const attention_run *r, const cpu_attention_operand *x, int64_t item, float *scratch) {
    const cpu_attention *a = r->a;
    int64_t nr = r->g->nr;
    bool direct = x->dtype == CPU_F32 && x->row == 1 && a->keys % nr == 0 && a->width % r->g->row_step == 0;
    if (direct && a->keys <= r->room.span)
        return (row_sums){(float *)(void *)attention_item(x, item), x->col, nr, true};
    return (row_sums){scratch, nr, nr * r->room.tall, false};
}

static void backward_store_sums(const attention_run *r, const cpu_attention_operand *x, int64_t item,
                                const row_sums *sum) {
    int64_t nr = r->g->nr, bytes = cpu_dtype_bytes(x->dtype);
    for (int64_t c = 0; c < r->a->width && !sum->direct; c++)
        for (int64_t j = 0; j < r->a->keys; j += nr) {
            int64_t count = min_i64(nr, r->a->keys - j);
            unsigned char *to = attention_item(x, item) + (c * x->col + j * x->row) * bytes;
            const float *from = sum->at + j / nr * sum->panel + c * nr;
            if (x->row == 1 && x->dtype == CPU_F32)
                memcpy(to, from, (size_t)count * sizeof(float));
            else
                attention_store(to, x->dtype, 0, x->row, from, 0, 1, count);
        }
}

/* ---- a block of rows --------------------------------------------------------------------------------------------- */

/* `first` is the position of the first row in the item, `local` its position in the head. */
typedef struct row_block {
    const attention_run *r;
    float *m;
    int64_t item, first, local, rows;
    int64_t stride; /* in rows, from a row in one panel of scores to the same row in the next */
    bool q_form, o_form;
    attention_ahead *ahead;
} row_block;

/* A block of keys, starting at panel `panel`. */
typedef struct key_block {
    int64_t begin, panel;
    float *top; /* maxima of the block's rows, ATTENTION_LANES each */
} key_block;

/* Counts the keys of the block that are visible to rows up to row `last` of the row block. */
static int64_t backward_seen_of(const row_block *b, const key_block *k, int64_t last) {
    return max_i64(0, min_i64(seen(b->r->a, b->local + last) - k->begin, b->r->room.span));
}

/* Returns the part of a row that is in panel `j` of the scores at offset `base`. */
static attention_row backward_row_at(const row_block *b, int64_t base, int64_t j, int64_t row) {
    int64_t nr = b->r->g->nr, step = b->stride * nr;
    return (attention_row){b->m + base + j * step + row * nr, step};
}

/* Computes scores and dP of a panel of rows, starting at row `i` of the block. */
static void backward_begin_panel(const row_block *b, const key_block *k, int64_t i) {
    const attention_run *r = b->r;
    const cpu_attention *a = r->a;
    const attention_room *o = &r->room;
    int64_t nr = r->g->nr, rows = min_i64(r->g->mr, b->rows - i), count = backward_seen_of(b, k, i + rows - 1);
    gemm_tile tile = attention_tile(r, rows, false);
    float *q = b->m + o->q + i * a->width, *d = b->m + o->o + i * a->width;
    gemm_next next = {.at = (const char *)q, .row_step = nr};
    for (int64_t j = k->panel; j * nr < k->begin + count; j++) {
        attention_fetch(b->ahead, a->width, &next);
        next.row = backward_row_at(b, o->s, j, i).at;
        tile(q, b->m + o->k + j * nr * a->width, a->width, backward_row_at(b, o->s, j, i).at, nr,
             a->scale * ATTENTION_LOG2_E, false, &next);
        attention_fetch(b->ahead, a->width, &next);
        next.row = backward_row_at(b, o->d, j, i).at;
        tile(d, b->m + o->v + j * nr * a->width, a->width, backward_row_at(b, o->d, j, i).at, nr, 1, false, &next);
    }
    attention_row s = backward_row_at(b, o->s, k->panel, i), dp = backward_row_at(b, o->d, k->panel, i);
    for (int64_t n = i; n < i + rows; n++, s.at += nr, dp.at += nr) {
        float *top = k->top + n * ATTENTION_LANES;
        r->rows->begin(s, dp, backward_seen_of(b, k, n), k->begin ? top - b->stride * ATTENTION_LANES : NULL, top,
                       b->m + o->sums + n * 2 * ATTENTION_LANES);
    }
}

/* Computes probabilities and dS of a panel of rows, and adds their part to dQ. */
static void backward_finish_panel(const row_block *b, const key_block *k, int64_t i) {
    const attention_run *r = b->r;
    const cpu_attention *a = r->a;
    const attention_room *o = &r->room;
    int64_t nr = r->g->nr, rows = min_i64(r->g->mr, b->rows - i), height = attention_height(r, rows);
    int64_t count = backward_seen_of(b, k, i + rows - 1), panels = div_up(count, nr);
    float *copy = b->m + o->copy, *out = b->m + o->out + i * o->width;
    attention_row s = backward_row_at(b, o->s, k->panel, i), d = backward_row_at(b, o->d, k->panel, i);
    for (int64_t n = 0; n < rows && count; n++, s.at += nr, d.at += nr)
        r->rows->finish(s, d, (attention_row){copy + n * GEMM_QUAD, height * GEMM_QUAD}, backward_seen_of(b, k, i + n),
                        panels * nr, k->top + (i + n) * ATTENTION_LANES, b->m + o->totals + i + n, o->rows);
    /* Sums over rows begin at a multiple of GEMM_QUAD, so they may include up to GEMM_QUAD - 1 rows before the first
     * row that sees a panel. Those rows must be zero. */
    int64_t near = div_up(backward_seen_of(b, k, i + rows - 1 + GEMM_QUAD), nr);
    for (int64_t j = k->panel + panels; j < k->panel + near; j++) {
        memset(backward_row_at(b, o->s, j, i).at, 0, (size_t)(rows * nr) * sizeof(float));
        memset(backward_row_at(b, o->d, j, i).at, 0, (size_t)(rows * nr) * sizeof(float));
    }
    gemm_next next = {.at = (const char *)copy};
    for (int64_t j = 0; j < o->width && count; j += nr) {
        attention_fetch(b->ahead, count, &next);
        attention_tile(r, rows, true)(copy, b->m + o->kt + j * a->keys + k->begin * nr, count, out + j, o->width,
                                      a->scale, k->begin > 0, &next);
    }
}

/* A sum over query rows: transposed rows times a block of scores. */
typedef struct over_rows {
    row_sums sum;
    int64_t turned, scores;
    float scale;
} over_rows;

/* Adds the sums for a block of keys. The first `begun` panels of keys already hold sums; the sums of the other panels
 * begin with this block of rows. */
static void backward_add_over_rows(const row_block *b, const key_block *k, const over_rows *x, bool form,
                                   int64_t begun) {
    const attention_run *r = b->r;
    int64_t nr = r->g->nr, mr = r->g->mr, width = r->a->width, depth = round_up(b->rows, GEMM_BLOCK);
    int64_t end = k->begin + backward_seen_of(b, k, b->rows - 1);
    const float *turned = b->m + x->turned;
    gemm_next next = {.at = (const char *)turned, .row_step = x->sum.step};
    for (int64_t j = k->panel; j * nr < end; j++) {
        int64_t from = r->a->causal ? max_i64(0, j * nr - b->local) / GEMM_QUAD * GEMM_QUAD : 0;
        for (int64_t c = 0; c < width; c += mr) {
            int64_t count = min_i64(mr, width - c);
            float *to = x->sum.at + c * x->sum.step + j * x->sum.panel;
            next.row = to;
            attention_fetch(b->ahead, b->rows - from, &next);
            attention_tile(r, count, form)(turned + c * depth + from * attention_height(r, count),
                                           backward_row_at(b, x->scores, j, from).at, b->rows - from, to, x->sum.step,
                                           x->scale, j < begun, &next);
        }
    }
}

static void backward_pack_block(row_block *b) {
    const attention_run *r = b->r;
    const attention_room *o = &r->room;
    const cpu_attention_operand *q = &r->a->at[CPU_ATTENTION_Q], *d = &r->a->at[CPU_ATTENTION_O];
    b->q_form = attention_pack_turned(r, q, b->item, b->m + o->qt, b->first, b->rows);
    attention_pack_rows(r, q, b->item, b->m + o->q, b->first, b->rows);
    b->o_form = attention_pack_turned(r, d, b->item, b->m + o->ot, b->first, b->rows);
    attention_pack_rows(r, d, b->item, b->m + o->o, b->first, b->rows);
}

static key_block backward_key_block_at(const row_block *b, int64_t index) {
    const attention_room *o = &b->r->room;
    return (key_block){index * o->span, index * o->span / b->r->g->nr,
                       b->m + o->top + index * b->stride * ATTENTION_LANES};
}

/* Makes tiles prefetch the data of the next block of keys instead of the next item. */
static void backward_want_next(const row_block *b, const float *x, const float *y, int64_t from, int64_t count) {
    attention_ahead *f = b->ahead;
    f->at[0] = (const char *)(x + from), f->at[1] = (const char *)(y + from);
    f->lines[0] = f->lines[1] = count / 16;
    f->count = 2;
}

void attention_backward_item(const attention_run *r, float *m, int64_t item, attention_ahead *ahead) {
    const cpu_attention *a = r->a;
    const attention_room *o = &r->room;
    int64_t mr = r->g->mr, begun = 0;
    backward_pack_columns(r, &a->at[CPU_ATTENTION_K], item, m + o->k, true, a->keys, a->width);
    backward_pack_columns(r, &a->at[CPU_ATTENTION_V], item, m + o->v, true, a->keys, a->width);
    backward_pack_columns(r, &a->at[CPU_ATTENTION_K], item, m + o->kt, false, a->width, a->keys);
    over_rows dk = {backward_sums_of(r, &a->at[CPU_ATTENTION_DK], item, m + o->dk), o->qt, o->d, a->scale};
    over_rows dv = {backward_sums_of(r, &a->at[CPU_ATTENTION_DV], item, m + o->dv), o->ot, o->s, 1};
    for (int64_t row = 0, rows; row < a->rows; row += rows) {
        int64_t local = row % a->period;
        rows = min_i64(o->rows, a->period - local);
        row_block b = {r, m, item, row, local, rows, o->rows + mr, false, false, ahead};
        int64_t count = seen(a, local + rows - 1), spans = div_up(count, o->span);
        backward_pack_block(&b);
        for (int64_t n = 0; n < spans; n++) {
            key_block k = backward_key_block_at(&b, n);
            if (n + 1 < spans)
                backward_want_next(&b, m + o->k, m + o->v, (k.begin + o->span) * a->width, o->span * a->width);
            for (int64_t i = 0; i < rows; i += mr) backward_begin_panel(&b, &k, i);
        }
        r->rows->join(backward_key_block_at(&b, spans - 1).top, m + o->sums, m + o->totals, o->rows, rows);
        for (int64_t n = 0; n < spans; n++) {
            key_block k = backward_key_block_at(&b, n);
            if (n + 1 < spans)
                backward_want_next(&b, m + o->s, m + o->d, (k.begin + o->span) * b.stride, o->span * b.stride);
            for (int64_t i = 0; i < rows; i += mr) backward_finish_panel(&b, &k, i);
            backward_add_over_rows(&b, &k, &dv, b.o_form, begun);
            backward_add_over_rows(&b, &k, &dk, b.q_form, begun);
        }
        begun = max_i64(begun, div_up(count, r->g->nr));
        backward_store_rows(r, &a->at[CPU_ATTENTION_DQ], item, m + o->out, m + o->turned, row, rows);
    }
    backward_store_sums(r, &a->at[CPU_ATTENTION_DK], item, &dk.sum);
    backward_store_sums(r, &a->at[CPU_ATTENTION_DV], item, &dv.sum);
}
