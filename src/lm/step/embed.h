/* SPDX-License-Identifier: MIT
 * The embedding tables: rows of [V][D], and of learned positions, gathered into the channel-first residual stream
 * [B,D,1,S], and its gradient scattered back. On the host, because no engine of this kind gathers.
 */
#ifndef LM_STEP_EMBED_H
#define LM_STEP_EMBED_H

#include <stdint.h>

typedef struct train_embed {
    int batch, context, width;
    int64_t first, rows;
    int64_t batch_stride,
        row_stride;     /* bytes: element (b,d,s) of the stream lies at b*batch_stride + d*row_stride + 4*s */
    double *norm_delta; /* [TRAIN_EMBED_TASKS(width)]: scratch of a scatter; NULL: no norm is computed */
} train_embed;

enum { TRAIN_EMBED_CHANNELS = 16 }; /* a task's: one cache line of a table row */
#define TRAIN_EMBED_TASKS(width) (((width) + TRAIN_EMBED_CHANNELS - 1) / TRAIN_EMBED_CHANNELS)

/* `tokens` [B][S]. Tokens are within the table: the data reader has checked them. `positions` (may be NULL): rows that
 * are added, one a position. */
void train_embed_gather(const train_embed *e, const float *table, const float *positions, const int32_t *tokens,
                        float *stream);
/* gradient[token] += stream's column, in the order of positions whatever the number of threads. With e->rows,
 * `gradient` holds the rows [first, first + rows) and other tokens are skipped. Without `tokens`: the same for the
 * learned positions. With e->norm_delta: by how much the sum of the gradient's squares has changed; else 0. */
double train_embed_scatter(const train_embed *e, float *gradient, const int32_t *tokens, const float *stream);

#endif
