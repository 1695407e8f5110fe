/* SPDX-License-Identifier: MIT
 * Owns gather and scatter-add. Tasks split the channels, never the positions, so that each sum has one order.
 */
#include "train/embed.h"

#include "base/pool.h"

#define CHANNELS 16 /* a task's: one cache line of a table row */

typedef struct embed_context {
    const train_embed *e;
    const float *table, *positions;
    float *gradient;
    const int32_t *tokens;
    char *stream;
} embed_context;

static void gather_task(void *context, int task, int worker) {
    (void)worker;
    const embed_context *c = context;
    const train_embed *e = c->e;
    int begin = task * CHANNELS, end = begin + CHANNELS < e->width ? begin + CHANNELS : e->width;
    for (int b = 0; b < e->batch; b++)
        for (int s = 0; s < e->context; s++) {
            const float *row = c->table + (int64_t)c->tokens[(int64_t)b * e->context + s] * e->width;
            char *at = c->stream + b * e->batch_stride + (int64_t)s * 4;
            const float *place = c->positions ? c->positions + (int64_t)s * e->width : NULL;
            for (int d = begin; d < end; d++)
                *(float *)(void *)(at + d * e->row_stride) = place ? row[d] + place[d] : row[d];
        }
}

void train_embed_gather(const train_embed *e, const float *table, const float *positions, const int32_t *tokens,
                        float *stream) {
    embed_context c = {.e = e, .table = table, .positions = positions, .tokens = tokens, .stream = (char *)stream};
    pool_run(gather_task, &c, (e->width + CHANNELS - 1) / CHANNELS);
}

static void scatter_task(void *context, int task, int worker) {
    (void)worker;
    const embed_context *c = context;
    const train_embed *e = c->e;
    int begin = task * CHANNELS, end = begin + CHANNELS < e->width ? begin + CHANNELS : e->width;
    for (int b = 0; b < e->batch; b++)
        for (int s = 0; s < e->context; s++) {
            int64_t index = c->tokens ? c->tokens[(int64_t)b * e->context + s] : s;
            if (e->rows && (index < e->first || index >= e->first + e->rows)) continue;
            float *row = c->gradient + (index - e->first) * e->width;
            const char *at = c->stream + b * e->batch_stride + (int64_t)s * 4;
            for (int d = begin; d < end; d++) row[d] += *(const float *)(const void *)(at + d * e->row_stride);
        }
}

void train_embed_scatter(const train_embed *e, float *gradient, const int32_t *tokens, const float *stream) {
    embed_context c = {.e = e, .gradient = gradient, .tokens = tokens, .stream = (char *)(uintptr_t)stream};
    pool_run(scatter_task, &c, (e->width + CHANNELS - 1) / CHANNELS);
}

void train_embed_scatter_positions(const train_embed *e, float *gradient, const float *stream) {
    train_embed_scatter(e, gradient, NULL, stream);
}
