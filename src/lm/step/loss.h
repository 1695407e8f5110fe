/* SPDX-License-Identifier: MIT
 * Softmax cross-entropy over channel-first logits [B,V,1,S]: the mean loss in nats, and the gradient in place of the
 * logits. Threads share out groups of positions; nothing depends on how many there are.
 */
#ifndef LM_STEP_LOSS_H
#define LM_STEP_LOSS_H

#include "core/base/status.h"

typedef struct train_logits {
    void *data;          /* element (b,v,s) lies at b*batch_stride + v*row_stride + s*size bytes */
    propane_dtype dtype; /* PROPANE_FP16 or PROPANE_FP32 */
    int batch, vocab, context;
    int64_t batch_stride, row_stride;
} train_logits;

/* `targets` [B][S], each in 0 .. vocab-1 or -1, which counts for nothing (checked: PROPANE_ERR_INVALID). `nats` [B][S]
 * receives the loss of each position; `mean` is over the N positions that count. With `gradient_scale` other than 0 the
 * logits become (softmax - onehot) * gradient_scale / N, and 0 where nothing counts. Does not allocate. */
PROPANE_CHECK propane_status train_loss(const train_logits *logits, const int32_t *targets, double gradient_scale,
                                        double *nats, double *mean, propane_error *err);

/* The same where the logits come in pieces of the vocabulary. First all are added up, one after the other, then each,
 * made again, becomes its own gradient. `first`: the piece's first row. The arrays are the caller's, [B][S] each. */
typedef struct train_loss_sums {
    float *top, *goal; /* the largest logit so far; the target's */
    double *sum;       /* of exp(logit - top) */
    int vocab;         /* of all pieces */
} train_loss_sums;

PROPANE_CHECK propane_status train_loss_add(const train_logits *piece, int first, const int32_t *targets,
                                            const train_loss_sums *sums, propane_error *err);
void train_loss_mean(const train_loss_sums *sums, const int32_t *targets, int64_t positions, double *nats,
                     double *mean);
/* `scales` [B]: sequence b's gradient is that of its summed loss times gradient_scale * scales[b]; NULL: of the mean of
 * all. */
PROPANE_CHECK propane_status train_loss_gradient(const train_logits *piece, int first, const int32_t *targets,
                                                 double gradient_scale, const float *scales,
                                                 const train_loss_sums *sums, propane_error *err);

#endif
