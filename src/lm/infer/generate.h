/* SPDX-License-Identifier: MIT
 * Running a model: token ids in, logits, losses or new ids out. All layers share three programs (attention with a cache
 * of keys and values, feed-forward, head), compiled for one position and for chunks of them; weights are inputs, loaded
 * once. The residual stream is fp32 on the host.
 */
#ifndef LM_INFER_GENERATE_H
#define LM_INFER_GENERATE_H

#include "core/mil/mil.h"
#include "lm/arch/model_tensors.h"
#include "lm/arch/quantize.h"
#include "lm/infer/sample.h"

typedef struct infer infer;

enum { INFER_MAX_SEQUENCES = 256 };

typedef struct infer_options {
    mil_dtype dtype;       /* MIL_fp32 or MIL_fp16: of the programs */
    int64_t context;       /* longest sequence; 0: the model's max_position_embeddings */
    int64_t chunk;         /* most positions that a prompt is read by at once; 0: 512 */
    model_packing weights; /* how matrices are stored (lm/arch/quantize.h); MODEL_UNPACKED: in `dtype` */
    bool exact;            /* instead: as infer_exact_packing says */
    int sequences;         /* that can be read at the same time; 0: 1 */
} infer_options;

/* The device must outlive it; the weights' matrices are copied to the device, the embedding is read from `weights`,
 * which must outlive it too. */
PROPANE_CHECK propane_status infer_create(propane_device *device, model_weights *weights, const infer_options *options,
                                          infer **out, propane_error *err);
/* The fewest bits that hold the numbers of all matrices of a part (layers' halves, head) as they are. */
model_packing infer_exact_packing(const model_weights *weights, model_part part);
void infer_free(infer *m);
int64_t infer_context(const infer *m);
int infer_vocab(const infer *m);
int64_t infer_width(const infer *m); /* of the residual stream */
/* Refuses scores that are not numbers: no text can be drawn from them. */
PROPANE_CHECK propane_status infer_check_scores(const infer *m, const float *logits, propane_error *err);
/* The forms of its matrices: "q4_k and q6_k"; numbers that are in no blocks are in the programs' type. The machine's memory. */
const char *infer_weight_forms(const infer *m);
int64_t infer_weight_bytes(const infer *m); /* what each token reads */
int64_t infer_position(const infer *m);     /* tokens read so far */
void infer_reset(infer *m);                 /* a fresh sequence */
int infer_sequences(const infer *m);
/* The sequence that reset, reuse, read, score, position and generate are about from now on; the first one is 0. */
void infer_select(infer *m, int sequence);
/* How many ids a sequence that was read begins with, of those given. */
int64_t infer_shared(const infer *m, int sequence, const int32_t *ids, int64_t count);
/* Goes back to the longest beginning that the sequence shares with `ids`, and returns its length: what need not be read
 * again. */
int64_t infer_reuse(infer *m, const int32_t *ids, int64_t count);

/* Reads ids at the end of the sequence. `logits` [vocab] (may be NULL): after the last one. An id outside the
 * vocabulary and a sequence longer than the context are errors; then nothing was read. */
PROPANE_CHECK propane_status infer_read(infer *m, const int32_t *ids, int64_t count, float *logits, propane_error *err);
/* What infer_read would say of these ids before it reads any. */
PROPANE_CHECK propane_status infer_check(const infer *m, const int32_t *ids, int64_t count, propane_error *err);
/* infer_read in parts: as many of the ids as one pass takes, in *read; `logits` are filled by the last
 * part. */
PROPANE_CHECK propane_status infer_read_part(infer *m, const int32_t *ids, int64_t count, float *logits, int64_t *read,
                                             propane_error *err);
/* Reads as infer_read_part does, and adds to `sum` [width] what the head would multiply at each position: the
 * normalised stream. */
PROPANE_CHECK propane_status infer_embed_part(infer *m, const int32_t *ids, int64_t count, double *sum, int64_t *read,
                                              propane_error *err);
/* One id at the end of each of these different sequences, all at once: the weights are read once for all. logits[i]
 * [vocab]: after the i-th; NULL: not wanted. */
PROPANE_CHECK propane_status infer_read_each(infer *m, const int *sequences, const int32_t *ids, int count,
                                             float *const *logits, propane_error *err);
/* As infer_read, and gives -log p of each id after the first in nats: nll [count - 1]. Begins a fresh
 * sequence; the last id is predicted, not read. */
PROPANE_CHECK propane_status infer_score(infer *m, const int32_t *ids, int64_t count, double *nll, propane_error *err);
/* Mean of infer_score over a sequence of any length, in windows of at most infer_context predictions that follow one
 * another, each with a fresh cache. count >= 2. `predictions` (may be NULL): how many the mean is over. `tell` (may be
 * NULL) hears of each window: how many of all predictions are done, and their mean; its error ends the work. */
typedef propane_status (*infer_tell)(void *context, int64_t done, int64_t total, double mean, propane_error *err);
PROPANE_CHECK propane_status infer_loss(infer *m, const int32_t *ids, int64_t count, infer_tell tell, void *context,
                                        double *mean, int64_t *predictions, propane_error *err);

#endif
