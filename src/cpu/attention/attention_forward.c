/* SPDX-License-Identifier: MIT
 * Owns attention's forward pass over the tiles of gemm_ukernel.h, and runs both directions.
 *
 * Scores are transposed, [key][nr query rows]. A tile of K Q' writes this layout, a softmax reads it one vector of
 * query rows at a time without sums across a vector, and V' P' reads the same memory. The result is [width][nr]. Keys
 * are processed in blocks whose scores stay in L1. A block is read once for a group of panels of query rows. A row's
 * maximum and sums carry over from block to block, and the result is rescaled when the maximum grows.
 */
#include <assert.h>

#include "core/base/pool.h"
#include "cpu/attention/attention_internal.h"

static attention_room attention_forward_plan_room(const cpu_attention *a, const cpu_gemm_kernels *g) {
    attention_room r = {.keys = round_up(round_up(a->keys, g->nr), 16) + g->nr,
                        .width = round_up(a->width, g->nr),
                        .tall = round_up(a->width, g->row_step)};
    if (a->backward) {
        attention_plan_backward(&r, a, g);
        return r;
    }
    int64_t depth = round_up(a->width, GEMM_BLOCK), nr = g->nr, group = ATTENTION_GROUP;
    r.rows = group * nr;
    /* The span is a multiple of GEMM_QUAD whole panels. */
    r.span = attention_span(a->keys, a->kernels->attention_sizes.span, g->mr * GEMM_QUAD);
    r.k = attention_take(&r, (r.keys + g->mr) * depth);
    r.v = attention_take(&r, round_up(r.keys, GEMM_BLOCK) * (r.tall + g->mr));
    r.q = attention_take(&r, group * depth * nr);
    r.s = attention_take(&r, (r.span + g->mr) * nr);
    r.out = attention_take(&r, group * (r.tall + g->mr) * nr);
    r.top = attention_take(&r, group * nr);
    r.sums = attention_take(&r, group * nr);
    r.turned = attention_take(&r, round_up(r.tall + g->mr, ATTENTION_ALIGN) * (nr + ATTENTION_ALIGN));
    return r;
}

size_t cpu_attention_scratch_bytes(const cpu_attention *a, int threads) {
    attention_room r = attention_forward_plan_room(a, &a->kernels->gemm);
    return (size_t)r.floats * sizeof(float) * (size_t)threads;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Multiplies the results of `cols` query rows, [width][nr], by their factors and stores them in the operand O. */
static void attention_forward_store_columns(const attention_run *r, float *m, float *out, int64_t item, int64_t first,
                                            int64_t cols, const float *factor) {
    const cpu_attention *a = r->a;
    const cpu_attention_operand *x = &a->at[CPU_ATTENTION_O];
    const attention_room *o = &r->room;
    unsigned char *to = attention_item(x, item) + first * x->row * cpu_dtype_bytes(x->dtype);
    if (x->row == 1 && x->dtype == CPU_F32) {
        r->rows->scale((float *)(void *)to, x->col, out, factor, a->width, cols);
        return;
    }
    r->rows->scale(out, r->g->nr, out, factor, a->width, cols);
    if (x->row == 1) {
        attention_store(to, x->dtype, x->col, x->row, out, r->g->nr, a->width, cols);
        return;
    }
    r->g->pack(m + o->turned, (int)a->width, out, CPU_F32, r->g->nr, 1, a->width, 0, cols, false);
    attention_store(to, x->dtype, x->row, x->col, m + o->turned, a->width, cols, a->width);
}

/* A panel of a group: its query rows, and its part of the scratch memory. */
typedef struct panel {
    int64_t local, cols;
    float *q, *out, *top, *sums;
} panel;

/* Processes the block of keys from `begin` for a panel that sees `count` keys of the block. */
static void attention_forward_block(const attention_run *r, float *m, const panel *p, bool v_form, int64_t begin,
                                    int64_t count, attention_ahead *ahead) {
    const cpu_attention *a = r->a;
    const attention_room *o = &r->room;
    int64_t nr = r->g->nr, mr = r->g->mr, depth = round_up(a->keys, GEMM_BLOCK);
    float *s = m + o->s, factor[ATTENTION_COLUMNS];
    gemm_next next = {.at = (const char *)p->q};
    for (int64_t j = 0; j < count; j += mr) {
        attention_fetch(ahead, a->width, &next);
        attention_tile(r, min_i64(mr, a->keys - begin - j), false)(m + o->k + (begin + j) * a->width, p->q, a->width,
                                                                   s + j * nr, nr, a->scale * ATTENTION_LOG2_E, false,
                                                                   &next);
    }
    r->rows->columns(s, count, a->causal ? p->local - begin : count, p->top, p->sums, factor);
    if (begin) r->rows->scale(p->out, nr, p->out, factor, a->width, nr);
    for (int64_t c = 0; c < a->width; c += mr) {
        int64_t height = min_i64(mr, a->width - c);
        const float *v = m + o->v + c * depth + begin * attention_height(r, height);
        attention_fetch(ahead, count, &next);
        attention_tile(r, height, v_form)(v, s, count, p->out + c * nr, nr, 1, begin > 0, &next);
    }
}

/* Processes a group of query rows, starting at row `local` of the head, which is row `first` of the item. */
static void attention_forward_group(const attention_run *r, float *m, int64_t item, bool v_form, int64_t first,
                                    int64_t local, attention_ahead *ahead) {
    const cpu_attention *a = r->a;
    const attention_room *o = &r->room;
    const cpu_attention_operand *q = &a->at[CPU_ATTENTION_Q];
    int64_t nr = r->g->nr, depth = round_up(a->width, GEMM_BLOCK), rows = min_i64(o->rows, a->period - local);
    panel p[ATTENTION_GROUP];
    int panels = 0;
    for (int64_t i = 0; i < rows; i += nr, panels++) {
        panel *x = &p[panels];
        *x = (panel){.local = local + i,
                     .cols = min_i64(nr, rows - i),
                     .q = m + o->q + i * depth,
                     .out = m + o->out + panels * (o->tall + r->g->mr) * nr,
                     .top = m + o->top + i,
                     .sums = m + o->sums + i};
        r->g->pack(x->q, (int)nr, attention_item(q, item) + (first + i) * q->row * cpu_dtype_bytes(q->dtype), q->dtype,
                   q->row, q->col, x->cols, 0, a->width, false);
        for (int64_t c = 0; c < nr; c++) x->top[c] = -1e30f, x->sums[c] = 0;
    }
    for (int64_t begin = 0; begin < seen(a, local + rows - 1); begin += o->span)
        for (int i = 0; i < panels; i++) {
            int64_t count = min_i64(seen(a, p[i].local + p[i].cols - 1) - begin, o->span);
            if (count > 0) attention_forward_block(r, m, &p[i], v_form, begin, count, ahead);
        }
    for (int i = 0; i < panels; i++) {
        for (int64_t c = 0; c < nr; c++) p[i].sums[c] = 1 / p[i].sums[c];
        attention_forward_store_columns(r, m, p[i].out, item, first + i * nr, p[i].cols, p[i].sums);
    }
}

/* Processes the rows of a chunk: every chunks-th group of the item, so that causal chunks have about equal work. */
static void attention_forward_item(const attention_run *r, float *m, int64_t item, int64_t chunk,
                                   attention_ahead *ahead) {
    const cpu_attention *a = r->a;
    const attention_room *o = &r->room;
    int64_t groups = div_up(a->period, o->rows);
    attention_pack_rows(r, &a->at[CPU_ATTENTION_K], item, m + o->k, 0, a->keys);
    bool v_form = attention_pack_turned(r, &a->at[CPU_ATTENTION_V], item, m + o->v, 0, a->keys);
    for (int64_t b = chunk; b < groups * (a->rows / a->period); b += r->chunks) {
        int64_t local = b % groups * o->rows;
        attention_forward_group(r, m, item, v_form, b / groups * a->period + local, local, ahead);
    }
}

static void attention_forward_run_task(void *context, int task, int worker) {
    const attention_run *r = context;
    float *m = r->scratch + worker * r->room.floats;
    int64_t begin = task / r->chunks * r->together, end = min_i64(r->a->items, begin + r->together);
    for (int64_t item = begin; item < end; item++) {
        attention_ahead ahead = attention_look_ahead(r, item, end);
        if (r->a->backward)
            attention_backward_item(r, m, item, &ahead);
        else
            attention_forward_item(r, m, item, task % r->chunks, &ahead);
    }
}

void cpu_attention_run(const cpu_attention *a, void *scratch) {
    attention_run r = {.a = a, .g = &a->kernels->gemm, .rows = &a->kernels->attention, .scratch = scratch, .chunks = 1};
    assert((uintptr_t)scratch % 64 == 0);
    r.room = attention_forward_plan_room(a, r.g);
    r.tallest = r.g->mr / r.g->row_step - 1;
    int64_t tasks = 4 * pool_threads(), groups = div_up(a->period, r.room.rows) * (a->rows / a->period);
    /* A row's result does not depend on its chunk. */
    while (!a->backward && r.chunks < groups && a->items * r.chunks < tasks) r.chunks++;
    r.together = max_i64(1, a->items / tasks);
    pool_run_most(attention_forward_run_task, &r, (int)(div_up(a->items, r.together) * r.chunks), a->threads);
}
