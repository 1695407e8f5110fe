/* SPDX-License-Identifier: MIT
 * The part of the loss that works on a chunk of the logits. loss.c includes this file once per instruction set and
 * defines LOSS_NAME(name), LOSS_TARGET and LOSS_BYTES (bytes per vector) for it. Vectors are the compiler's vector
 * types, and every operation rounds the same way at every width.
 */

typedef float LOSS_NAME(floats) __attribute__((vector_size(LOSS_BYTES), aligned(4), may_alias));
typedef int32_t LOSS_NAME(whole) __attribute__((vector_size(LOSS_BYTES), aligned(4), may_alias));

/* Computes e = exp(x - top) for x <= top, and 0 below e^-87. Adding a large constant rounds the exponent of the power
 * of 2 to an integer in the last bits of the sum. From there it is shifted to the exponent field. The relative error is
 * at most 2e-7 (1 + top - x); small terms contribute little. Four independent vectors are processed at once, because
 * one chain of operations is longer than a processor's out-of-order window. */
LOSS_TARGET INLINE void LOSS_NAME(exp_lanes)(float *e, const float *x, const float *top) {
    enum { VECTOR = LOSS_BYTES / 4, SIDE = 4 };
    for (int at = 0; at < LANES; at += SIDE * VECTOR) {
        LOSS_NAME(floats) r[SIDE], n[SIDE], p[SIDE];
        LOSS_NAME(whole) none[SIDE];
        EACH_OF_FOUR(r[k] = *(const LOSS_NAME(floats) *)(x + at + k * VECTOR) -
                            *(const LOSS_NAME(floats) *)(top + at + k * VECTOR));
        EACH_OF_FOUR(r[k] = r[k] * 1.44269504f);
        EACH_OF_FOUR(n[k] = r[k] + 12582912.0f);
        EACH_OF_FOUR(none[k] = r[k] < -125.5f); /* NaN is kept */
        EACH_OF_FOUR(r[k] = r[k] - (n[k] - 12582912.0f));
        EACH_OF_FOUR(p[k] = r[k] * 0x1.5bba46p-10f + 0x1.3cea9ep-7f);
        EACH_OF_FOUR(p[k] = p[k] * r[k] + 0x1.c6b754p-5f);
        EACH_OF_FOUR(p[k] = p[k] * r[k] + 0x1.ebf9bcp-3f);
        EACH_OF_FOUR(p[k] = p[k] * r[k] + 0x1.62e42ap-1f);
        EACH_OF_FOUR(p[k] = p[k] * r[k] + 1.0f);
        EACH_OF_FOUR(p[k] = p[k] * (LOSS_NAME(floats))(((LOSS_NAME(whole))n[k] + 127) << 23));
        EACH_OF_FOUR(*(LOSS_NAME(floats) *)(e + at + k * VECTOR) =
                         (LOSS_NAME(floats))((LOSS_NAME(whole))p[k] & ~none[k]));
    }
}

/* Adds rows v .. v+rows-1 to the running maximum and sum of each lane. */
LOSS_TARGET INLINE void LOSS_NAME(chunk_sum)(const train_logits *l, group *g, int v, int rows) {
    float room[CHUNK][LANES], peak[LANES], part[LANES] = {0}, e[LANES];
    const float *row[CHUNK];
    memcpy(peak, g->top, sizeof peak);
    for (int r = 0; r < rows; r++) {
        row[r] = load_row(l, g->b, v + r, g->s, g->count, room[r]);
        for (int i = 0; i < LANES; i++) peak[i] = row[r][i] > peak[i] ? row[r][i] : peak[i];
    }
    for (int r = 0; r < rows; r++) {
        fetch_row(l, g->b, v + CHUNK + r, g->s, g->count);
        LOSS_NAME(exp_lanes)(e, row[r], peak);
        for (int i = 0; i < LANES; i++) part[i] += e[i];
    }
    for (int i = 0; i < LANES; i++) {
        if (peak[i] > g->top[i]) g->sum[i] *= exp((double)g->top[i] - (double)peak[i]);
        g->sum[i] += (double)part[i];
        g->top[i] = peak[i];
    }
}

/* Reads the targets' logits before the gradient overwrites them. */
LOSS_TARGET INLINE void LOSS_NAME(group_sum)(const loss_context *c, group *g) {
    const train_logits *l = c->logits;
    for (int i = 0; i < g->count; i++) {
        int row = row_in(c, g->targets[i]);
        uint16_t half;
        if (row < 0) continue;
        const char *at = loss_row_of(l, g->b, row, g->s + i);
        memcpy(&half, at, 2);
        if (l->dtype == PROPANE_FP16)
            g->goal[i] = fp16_to_f32(half);
        else
            memcpy(&g->goal[i], at, 4);
    }
    for (int v = 0; v < l->vocab; v += CHUNK)
        LOSS_NAME(chunk_sum)(l, g, v, l->vocab - v < CHUNK ? l->vocab - v : CHUNK);
}

LOSS_TARGET INLINE void LOSS_NAME(row_gradient)(const loss_context *c, const group *g, int v, bool goal) {
    const train_logits *l = c->logits;
    float room[LANES], *row = load_row(l, g->b, v, g->s, g->count, room);
    fetch_row(l, g->b, v + CHUNK, g->s, g->count);
    LOSS_NAME(exp_lanes)(row, row, g->top);
    for (int i = 0; i < LANES; i++) row[i] *= g->factor[i];
    for (int i = 0; goal && i < g->count; i++)
        if (row_in(c, g->targets[i]) == v) row[i] -= g->gradient;
    store_row(l, g->b, v, g->s, g->count, row);
}

LOSS_TARGET INLINE void LOSS_NAME(group_gradient)(const loss_context *c, group *g) {
    const train_logits *l = c->logits;
    g->gradient = c->scales ? c->gradient * c->scales[g->b] : c->gradient;
    for (int i = 0; i < LANES; i++)
        g->factor[i] = i < g->count && g->targets[i] >= 0 ? (float)((double)g->gradient / g->sum[i]) : 0;
    for (int v = 0; v < l->vocab; v += CHUNK) {
        uint32_t goals = 0; /* bit mask of the chunk's rows that are a target */
        for (int i = 0; i < g->count; i++) {
            int row = row_in(c, g->targets[i]) - v;
            if (row >= 0 && row < CHUNK) goals |= UINT32_C(1) << row;
        }
        for (int r = 0; r < CHUNK && v + r < l->vocab; r++) LOSS_NAME(row_gradient)(c, g, v + r, goals >> r & 1);
    }
}

LOSS_TARGET INLINE void LOSS_NAME(loss_work)(void *context, int task) {
    const loss_context *c = context;
    const train_logits *l = c->logits;
    group g = {.b = task / c->groups, .s = task % c->groups * LANES};
    int64_t at = (int64_t)g.b * l->context + g.s;
    g.count = l->context - g.s < LANES ? l->context - g.s : LANES;
    g.targets = c->targets + at;
    for (int i = 0; i < LANES; i++) g.top[i] = -INFINITY;
    if (c->sums && (!c->add || c->first > 0)) group_load(c->sums, at, &g);
    if (!c->sums || c->add) LOSS_NAME(group_sum)(c, &g);
    if (c->sums && c->add) group_store(c->sums, at, &g);
    for (int i = 0; !c->sums && i < g.count; i++)
        c->nats[at + i] = g.targets[i] >= 0 ? log(g.sum[i]) + (double)g.top[i] - (double)g.goal[i] : 0;
    if (c->write) LOSS_NAME(group_gradient)(c, &g);
}

static LOSS_TARGET void LOSS_NAME(loss_task)(void *context, int task, int worker) {
    (void)worker;
    LOSS_NAME(loss_work)(context, task);
}
