/* SPDX-License-Identifier: MIT
 * Runs a model on token ids and returns logits, losses or new ids. Layers share programs (attention with a cache of
 * keys and values, feed-forward) and there is one for the head; they are compiled for one position and for chunks of
 * positions. Weights are inputs and are loaded once. The residual stream is fp32.
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
    model_packing weights; /* form of the matrices (lm/arch/quantize.h); MODEL_UNPACKED means `dtype` */
    bool exact;            /* ignore `weights` and choose forms that change nothing (infer_exact_packing) */
    int sequences;         /* sequences that can be read at the same time; 0 for 1 */
} infer_options;

/* Creates a running model. `device` and `weights` must outlive it: matrices are copied to the device if it cannot read
 * them in place, and the embedding is read from `weights`. */
PROPANE_CHECK propane_status infer_create(propane_device *device, model_weights *weights, const infer_options *options,
                                          infer **out, propane_error *err);
/* Returns the form with the fewest bits that holds all matrices of a part (one kind of half of all layers, or the head)
 * exactly, or MODEL_UNPACKED. */
model_packing infer_exact_packing(const model_weights *weights, model_part part);
void infer_free(infer *m);
int64_t infer_context(const infer *m);
int infer_vocab(const infer *m);
int64_t infer_width(const infer *m); /* width of the residual stream */
/* Returns PROPANE_ERR_LIMIT if a logit is NaN, because no text can then be drawn. */
PROPANE_CHECK propane_status infer_check_scores(const infer *m, const float *logits, propane_error *err);
/* Returns the forms of the model's matrices, such as "q4_k and q6_k". Matrices that are not packed have the programs'
 * type. The text belongs to `m`. */
const char *infer_weight_forms(const infer *m);
int64_t infer_weight_bytes(const infer *m); /* bytes of weights that are read for each token */
int64_t infer_position(const infer *m);     /* number of tokens of the current sequence that have been read */
void infer_reset(infer *m);                 /* empties the current sequence */
int infer_sequences(const infer *m);
/* Selects the current sequence, to which functions without a parameter `sequence` refer; initially 0. */
void infer_select(infer *m, int sequence);
/* Returns the length of the longest prefix of `ids` with which a sequence begins. */
int64_t infer_shared(const infer *m, int sequence, const int32_t *ids, int64_t count);
/* Truncates the current sequence to the longest prefix that it shares with `ids`, and returns the length of this
 * prefix, which need not be read again. */
int64_t infer_reuse(infer *m, const int32_t *ids, int64_t count);

/* Appends ids to the current sequence. `logits` [vocab] (may be NULL) receives the logits after the last id. An id
 * outside the vocabulary or a sequence longer than the context is an error, and nothing is read. */
PROPANE_CHECK propane_status infer_read(infer *m, const int32_t *ids, int64_t count, float *logits, propane_error *err);
/* Checks ids as infer_read does before it reads any. */
PROPANE_CHECK propane_status infer_check(const infer *m, const int32_t *ids, int64_t count, propane_error *err);
/* Reads as many of the ids as one pass can, and sets *read to their number. If these are all ids, also fills in
 * `logits`. */
PROPANE_CHECK propane_status infer_read_part(infer *m, const int32_t *ids, int64_t count, float *logits, int64_t *read,
                                             propane_error *err);
/* Reads like infer_read_part, and adds the head's input at each position (the normalised stream) to `sum` [width]. */
PROPANE_CHECK propane_status infer_embed_part(infer *m, const int32_t *ids, int64_t count, double *sum, int64_t *read,
                                              propane_error *err);
/* Appends one id to each of several different sequences in one pass, so that the weights are read only once. logits[i]
 * [vocab] receives the logits after the i-th id; `logits` is NULL if they are not wanted. */
PROPANE_CHECK propane_status infer_read_each(infer *m, const int *sequences, const int32_t *ids, int count,
                                             float *const *logits, propane_error *err);
/* Empties the current sequence, reads all ids but the last, and sets nll [count - 1] to -log p in nats of each id after
 * the first. */
PROPANE_CHECK propane_status infer_score(infer *m, const int32_t *ids, int64_t count, double *nll, propane_error *err);
/* Computes the mean of infer_score over a sequence of any length, in consecutive windows of at most infer_context
 * predictions, each with an empty cache. count must be >= 2. `predictions` (may be NULL) receives the number of
 * predictions in the mean. `progress` (may be NULL) is called after each window with the number of predictions done and
 * their mean; if it returns an error, infer_loss stops and returns the error. */
typedef propane_status (*infer_progress)(void *context, int64_t done, int64_t total, double mean, propane_error *err);
PROPANE_CHECK propane_status infer_loss(infer *m, const int32_t *ids, int64_t count, infer_progress progress,
                                        void *context, double *mean, int64_t *predictions, propane_error *err);

#endif
