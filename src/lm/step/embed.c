/* SPDX-License-Identifier: MIT
 * Owns gather and scatter-add. Tasks split the channels, never the positions, so that each sum has a fixed order.
 */
#include "lm/step/embed.h"

#include "core/base/float16.h"
#include "core/base/pool.h"

enum { CHANNELS = TRAIN_EMBED_CHANNELS };

typedef struct embed_context {
    const train_embed *e;
    const float *table, *positions;
    float *gradient;
    const int32_t *tokens;
    char *stream;
} embed_context;

static void embed_gather_task(void *context, int task, int worker) {
    (void)worker;
    const embed_context *c = context;
    const train_embed *e = c->e;
    int begin = task * CHANNELS, end = begin + CHANNELS < e->width ? begin + CHANNELS : e->width;
    for (int b = 0; b < e->batch; b++)
        for (int s = 0; s < e->context; s++) {
            const float *row = c->table + (int64_t)c->tokens[(int64_t)b * e->context + s] * e->width;
            char *at = c->stream + b * e->batch_stride + (int64_t)s * (e->half ? 2 : 4);
            const float *place = c->positions ? c->positions + (int64_t)s * e->width : NULL;
            for (int d = begin; d < end; d++) {
                void *to = at + d * e->row_stride;
                const float value = place ? row[d] + place[d] : row[d];
                if (e->half)
                    *(uint16_t *)to = fp16_from_f32(value);
                else
                    *(float *)to = value;
            }
        }
}

void train_embed_gather(const train_embed *e, const float *table, const float *positions, const int32_t *tokens,
                        void *stream) {
    embed_context c = {.e = e, .table = table, .positions = positions, .tokens = tokens, .stream = stream};
    pool_run(embed_gather_task, &c, TRAIN_EMBED_TASKS(e->width));
}

static void embed_scatter_task(void *context, int task, int worker) {
    (void)worker;
    const embed_context *c = context;
    const train_embed *e = c->e;
    int begin = task * CHANNELS, count = e->width - begin < CHANNELS ? e->width - begin : CHANNELS;
    double delta[CHANNELS] = {0};
    for (int b = 0; b < e->batch; b++)
        for (int s = 0; s < e->context; s++) {
            int64_t index = c->tokens ? c->tokens[(int64_t)b * e->context + s] : s;
            if (e->rows && (index < e->first || index >= e->first + e->rows)) continue;
            float *row = c->gradient + (index - e->first) * e->width + begin;
            const char *at = c->stream + b * e->batch_stride + (int64_t)s * (e->half ? 2 : 4) + begin * e->row_stride;
            for (int d = 0; d < count; d++) {
                const float was = row[d];
                const void *from = at + d * e->row_stride;
                row[d] = was + (e->half ? fp16_to_f32(*(const uint16_t *)from) : *(const float *)from);
                delta[d] += (double)row[d] * (double)row[d] - (double)was * (double)was;
            }
        }
    if (!e->norm_delta) return;
    e->norm_delta[task] = 0;
    for (int d = 0; d < count; d++) e->norm_delta[task] += delta[d];
}

double train_embed_scatter(const train_embed *e, float *gradient, const int32_t *tokens, const void *stream) {
    embed_context c = {.e = e, .gradient = gradient, .tokens = tokens, .stream = (char *)(uintptr_t)stream};
    const int tasks = TRAIN_EMBED_TASKS(e->width);
    double delta = 0;
    pool_run(embed_scatter_task, &c, tasks);
    if (!e->norm_delta) return 0;
    for (int i = 0; i < tasks; i++) delta += e->norm_delta[i];
    return delta;
}
