/* SPDX-License-Identifier: MIT
 * Softmax cross-entropy over channel-first logits [B,V,1,S]: the mean loss in nats, and the gradient, which overwrites
 * the logits. Threads work on separate groups of positions; the result does not depend on the number of threads.
 */
#ifndef LM_STEP_LOSS_H
#define LM_STEP_LOSS_H

#include "core/base/status.h"

typedef struct train_logits {
    void *data;          /* element (b,v,s) is at byte b*batch_stride + v*row_stride + s*size */
    propane_dtype dtype; /* PROPANE_FP16 or PROPANE_FP32 */
    int batch, vocab, context;
    int64_t batch_stride, row_stride;
} train_logits;

/* Computes the loss. Each of `targets` [B][S] must be in 0 .. vocab-1, or -1 for a position that does not count; for
 * any other value, returns PROPANE_ERR_INVALID. Sets `nats` [B][S] to the loss of each position and *mean to the mean
 * over the N positions that count. If `gradient_scale` is not 0, the logits become (softmax - onehot) * gradient_scale
 * / N, and 0 at positions that do not count. Does not allocate. */
PROPANE_CHECK propane_status train_loss(const train_logits *logits, const int32_t *targets, double gradient_scale,
                                        double *nats, double *mean, propane_error *err);

/* State of a loss over logits that come in pieces of the vocabulary. The caller first passes all pieces to
 * train_loss_add, one after the other. Then it computes each piece again, and train_loss_gradient turns the piece into
 * its gradient. `first` is the piece's first row. The arrays are [B][S] each and belong to the caller. */
typedef struct train_loss_sums {
    float *top, *goal; /* the largest logit so far, and the target's logit */
    double *sum;       /* sum of exp(logit - top) */
    int vocab;         /* rows in all pieces */
} train_loss_sums;

PROPANE_CHECK propane_status train_loss_add(const train_logits *piece, int first, const int32_t *targets,
                                            const train_loss_sums *sums, propane_error *err);
void train_loss_mean(const train_loss_sums *sums, const int32_t *targets, int64_t positions, double *nats,
                     double *mean);
/* With `scales` [B], sequence b gets the gradient of its summed loss, times gradient_scale * scales[b]. With NULL, all
 * get the gradient of gradient_scale times the mean over the positions that count. */
PROPANE_CHECK propane_status train_loss_gradient(const train_logits *piece, int first, const int32_t *targets,
                                                 double gradient_scale, const float *scales,
                                                 const train_loss_sums *sums, propane_error *err);

#endif
