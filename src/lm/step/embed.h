/* SPDX-License-Identifier: MIT
 * The embedding of a batch. Rows of the token table [V][D] and of the table of learned positions are gathered into the
 * channel-first residual stream [B,D,1,S], and the stream's gradient is scattered back. This code runs on the host,
 * because no Neural Engine can gather.
 */
#ifndef LM_STEP_EMBED_H
#define LM_STEP_EMBED_H

#include <stdbool.h>
#include <stdint.h>

typedef struct train_embed {
    int batch, context, width;
    bool half; /* the stream is fp16, not fp32 */
    int64_t first, rows;
    /* in bytes; element (b,d,s) of the stream is at byte b*batch_stride + d*row_stride + s*size, with size 4, or 2 for
     * fp16 */
    int64_t batch_stride, row_stride;
    double *norm_delta; /* [TRAIN_EMBED_TASKS(width)], scratch for a scatter; NULL if no norm is computed */
} train_embed;

enum { TRAIN_EMBED_CHANNELS = 16 }; /* channels per task: one cache line of a table row */
#define TRAIN_EMBED_TASKS(width) (((width) + TRAIN_EMBED_CHANNELS - 1) / TRAIN_EMBED_CHANNELS)

/* Gathers rows for `tokens` [B][S]. The data reader has checked that the tokens are within the table. `positions`,
 * which may be NULL, holds rows to add, one per position. */
void train_embed_gather(const train_embed *e, const float *table, const float *positions, const int32_t *tokens,
                        void *stream);
/* Adds the stream's columns to the gradient's rows of their tokens, always in the order of the positions, for any
 * number of threads. If e->rows is not 0, `gradient` holds the rows [first, first + rows), and other tokens are
 * skipped. If `tokens` is NULL, the rows are those of the positions instead of the tokens. Returns the change in the
 * sum of the gradient's squares if e->norm_delta is set, otherwise 0. */
double train_embed_scatter(const train_embed *e, float *gradient, const int32_t *tokens, const void *stream);

#endif
