/* SPDX-License-Identifier: MIT
 * Running a model: token ids in, logits, losses or new ids out. All layers share three programs (attention with a cache
 * of keys and values, feed-forward, head), compiled for one position and for chunks of positions. Weights are inputs,
 * loaded once. The residual stream is fp32 on the host.
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
    mil_dtype dtype;       /* MIL_fp32 or MIL_fp16, the type of the programs */
    int64_t context;       /* longest sequence; 0 for the model's max_position_embeddings */
    int64_t chunk;         /* most positions of a prompt to read at once; 0 for 512 */
    model_packing weights; /* how matrices are stored (lm/arch/quantize.h); MODEL_UNPACKED means in `dtype` */
    bool exact;            /* instead, choose by infer_exact_packing */
    int sequences;         /* sequences that can be read at the same time; 0 for 1 */
} infer_options;

/* The device must outlive the result. The weights' matrices are copied to the device. The embedding is read from
 * `weights`, which must also outlive it. */
PROPANE_CHECK propane_status infer_create(propane_device *device, model_weights *weights, const infer_options *options,
                                          infer **out, propane_error *err);
/* Returns the packing with the fewest bits that holds all matrices of a part (the layers' halves, or the head)
 * exactly. */
model_packing infer_exact_packing(const model_weights *weights, model_part part);
void infer_free(infer *m);
int64_t infer_context(const infer *m);
int infer_vocab(const infer *m);
int64_t infer_width(const infer *m); /* width of the residual stream */
/* Refuses scores that are not numbers, from which no text can be drawn. */
PROPANE_CHECK propane_status infer_check_scores(const infer *m, const float *logits, propane_error *err);
/* Returns the forms of its matrices, such as "q4_k and q6_k". Weights that are not in blocks have the programs'
 * type. The text belongs to the machine. */
const char *infer_weight_forms(const infer *m);
int64_t infer_weight_bytes(const infer *m); /* bytes that each token reads */
int64_t infer_position(const infer *m);     /* tokens read so far */
void infer_reset(infer *m);                 /* begins a new sequence */
int infer_sequences(const infer *m);
/* Selects the sequence for reset, reuse, read, score, position and generate; initially 0. */
void infer_select(infer *m, int sequence);
/* Returns how many of the given ids a sequence that was read begins with. */
int64_t infer_shared(const infer *m, int sequence, const int32_t *ids, int64_t count);
/* Truncates the sequence to the longest prefix that it shares with `ids`, and returns its length, which need not be
 * read again. */
int64_t infer_reuse(infer *m, const int32_t *ids, int64_t count);

/* Appends ids to the sequence. `logits` [vocab] (may be NULL) receives those after the last id. An id outside the
 * vocabulary and a sequence longer than the context are errors; nothing is read then. */
PROPANE_CHECK propane_status infer_read(infer *m, const int32_t *ids, int64_t count, float *logits, propane_error *err);
/* Makes the checks on these ids that infer_read makes before it reads any. */
PROPANE_CHECK propane_status infer_check(const infer *m, const int32_t *ids, int64_t count, propane_error *err);
/* Does infer_read in parts. *read is the number of ids that one pass read. The last part fills in `logits`. */
PROPANE_CHECK propane_status infer_read_part(infer *m, const int32_t *ids, int64_t count, float *logits, int64_t *read,
                                             propane_error *err);
/* Reads like infer_read_part, and adds to `sum` [width] the head's input at each position: the normalised stream. */
PROPANE_CHECK propane_status infer_embed_part(infer *m, const int32_t *ids, int64_t count, double *sum, int64_t *read,
                                              propane_error *err);
/* Appends one id to each of several different sequences in one pass, so that the weights are read only once.
 * logits[i] [vocab] receives the logits after the i-th id; it is NULL if they are not wanted. */
PROPANE_CHECK propane_status infer_read_each(infer *m, const int *sequences, const int32_t *ids, int count,
                                             float *const *logits, propane_error *err);
/* Reads like infer_read and returns -log p of each id after the first in nats: nll [count - 1]. Begins a new sequence;
 * the last id is predicted, not read. */
PROPANE_CHECK propane_status infer_score(infer *m, const int32_t *ids, int64_t count, double *nll, propane_error *err);
/* Computes the mean of infer_score over a sequence of any length, in consecutive windows of at most infer_context
 * predictions, each with an empty cache. count must be >= 2. `predictions` (may be NULL) receives the number of
 * predictions in the mean. `progress` (may be NULL) is called after each window with the number of predictions done and
 * their mean; an error from it ends the work. */
typedef propane_status (*infer_progress)(void *context, int64_t done, int64_t total, double mean, propane_error *err);
PROPANE_CHECK propane_status infer_loss(infer *m, const int32_t *ids, int64_t count, infer_progress progress,
                                        void *context, double *mean, int64_t *predictions, propane_error *err);

#endif
