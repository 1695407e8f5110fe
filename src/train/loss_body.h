/* SPDX-License-Identifier: MIT
 * The loss's work on a chunk, included by loss.c once for each instruction set: LOSS_NAME(name), LOSS_TARGET, LOSS_BYTES of
 * a vector. Vectors are the compilers' own, and no step of them rounds otherwise in another width.
 */

typedef float LOSS_NAME(floats) __attribute__((vector_size(LOSS_BYTES), aligned(4), may_alias));
typedef int32_t LOSS_NAME(whole) __attribute__((vector_size(LOSS_BYTES), aligned(4), may_alias));

/* e = exp(x - top) for x <= top, relative error below 2e-7 (2^(x/ln 2): a polynomial of degree 6 on [-0.5, 0.5] and the
 * exponent's bits); below -87 it is 0. Four vectors side by side, as one chain of steps is longer than a processor looks
 * ahead. */
LOSS_TARGET INLINE void LOSS_NAME(exp_lanes)(float *e, const float *x, const float *top) {
    enum { VECTOR = LOSS_BYTES / 4, SIDE = 4 };
    for (int at = 0; at < LANES; at += SIDE * VECTOR) {
        LOSS_NAME(floats) r[SIDE], n[SIDE], p[SIDE];
        LOSS_NAME(whole) none[SIDE], bits[SIDE];
        EACH_OF_FOUR(r[k] = *(const LOSS_NAME(floats) *)(x + at + k * VECTOR) -
                            *(const LOSS_NAME(floats) *)(top + at + k * VECTOR));
        EACH_OF_FOUR(none[k] = r[k] < -87.0f); /* NaN stays */
        EACH_OF_FOUR(r[k] = (LOSS_NAME(floats))((LOSS_NAME(whole))r[k] & ~none[k]));
        EACH_OF_FOUR(n[k] = r[k] * 1.44269504f + 12582912.0f); /* rounds to a whole number in the low bits */
        EACH_OF_FOUR(bits[k] = (LOSS_NAME(whole))n[k]);
        EACH_OF_FOUR(n[k] = n[k] - 12582912.0f);
        EACH_OF_FOUR(r[k] = r[k] - n[k] * 0.693145752f); /* ln 2 in two parts */
        EACH_OF_FOUR(r[k] = r[k] - n[k] * 1.42860677e-6f);
        EACH_OF_FOUR(p[k] = r[k] * 1.38888889e-3f + 8.33333333e-3f);
        EACH_OF_FOUR(p[k] = p[k] * r[k] + 4.16666667e-2f);
        EACH_OF_FOUR(p[k] = p[k] * r[k] + 1.66666667e-1f);
        EACH_OF_FOUR(p[k] = p[k] * r[k] + 0.5f);
        EACH_OF_FOUR(p[k] = p[k] * r[k] + 1.0f);
        EACH_OF_FOUR(p[k] = p[k] * r[k] + 1.0f);
        EACH_OF_FOUR(p[k] = p[k] * (LOSS_NAME(floats))((bits[k] + 127) << 23));
        EACH_OF_FOUR(*(LOSS_NAME(floats) *)(e + at + k * VECTOR) =
                         (LOSS_NAME(floats))((LOSS_NAME(whole))p[k] & ~none[k]));
    }
}

/* Adds a chunk, which begins at row v, to the running maximum and sum of each lane. */
LOSS_TARGET INLINE void LOSS_NAME(chunk_sum)(const train_logits *l, group *g, int v, int rows,
                                             float block[CHUNK][LANES]) {
    float peak[LANES], part[LANES] = {0};
    memcpy(peak, g->top, sizeof peak);
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < LANES; i++) peak[i] = block[r][i] > peak[i] ? block[r][i] : peak[i];
    for (int r = 0; r < rows; r++) {
        float e[LANES];
        fetch_row(l, g->b, v + CHUNK + r, g->s, g->count);
        LOSS_NAME(exp_lanes)(e, block[r], peak);
        for (int i = 0; i < LANES; i++) part[i] += e[i];
    }
    for (int i = 0; i < LANES; i++) {
        if (peak[i] > g->top[i]) g->sum[i] *= exp((double)g->top[i] - (double)peak[i]);
        g->sum[i] += (double)part[i];
        g->top[i] = peak[i];
    }
}

LOSS_TARGET INLINE void LOSS_NAME(chunk_gradient)(const train_logits *l, const group *g, int v, int rows,
                                                  float block[CHUNK][LANES]) {
    for (int r = 0; r < rows; r++) {
        fetch_row(l, g->b, v + CHUNK + r, g->s, g->count);
        LOSS_NAME(exp_lanes)(block[r], block[r], g->top);
        for (int i = 0; i < LANES; i++) block[r][i] *= g->factor[i];
    }
}

/* The targets' logits are read before the gradient takes their place. */
LOSS_TARGET INLINE void LOSS_NAME(group_sum)(const loss_context *c, group *g) {
    const train_logits *l = c->logits;
    float block[CHUNK][LANES];
    for (int i = 0; i < g->count; i++) {
        int row = row_in(c, g->targets[i]);
        uint16_t half;
        if (row < 0) continue;
        const char *at = row_of(l, g->b, row, g->s + i);
        memcpy(&half, at, 2);
        if (l->dtype == PROPANE_FP16)
            g->goal[i] = fp16_to_f32(half);
        else
            memcpy(&g->goal[i], at, 4);
    }
    for (int v = 0; v < l->vocab; v += CHUNK) {
        int rows = l->vocab - v < CHUNK ? l->vocab - v : CHUNK;
        load_chunk(l, g->b, v, rows, g->s, g->count, block);
        LOSS_NAME(chunk_sum)(l, g, v, rows, block);
    }
}

LOSS_TARGET INLINE void LOSS_NAME(group_gradient)(const loss_context *c, group *g) {
    const train_logits *l = c->logits;
    float block[CHUNK][LANES];
    for (int i = 0; i < LANES; i++)
        g->factor[i] = i < g->count && g->targets[i] >= 0 ? (float)((double)c->gradient / g->sum[i]) : 0;
    for (int v = 0; v < l->vocab; v += CHUNK) {
        int rows = l->vocab - v < CHUNK ? l->vocab - v : CHUNK;
        load_chunk(l, g->b, v, rows, g->s, g->count, block);
        LOSS_NAME(chunk_gradient)(l, g, v, rows, block);
        for (int i = 0; i < g->count; i++) {
            int row = row_in(c, g->targets[i]);
            if (row >= v && row < v + rows) block[row - v][i] -= c->gradient;
        }
        store_chunk(l, g->b, v, rows, g->s, g->count, block);
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
