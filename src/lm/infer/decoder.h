/* SPDX-License-Identifier: MIT
 * The state of a running model, shared by the files of this folder (generate.h describes its use). A set of programs
 * reads a fixed number of positions at once: one per sequence for several sequences, or a chunk of a prompt. Its
 * attention is compiled for caches of several lengths ("KV buckets", powers of two), so that a token's cost depends on
 * the cache's content and not on the context's size. All programs use the same weights and the same cache. They are
 * compiled on first use.
 *
 * A row of the cache holds one position of one sequence. A sequence acquires blocks of rows as it grows, the first free
 * ones, and a mask selects the rows that each position sees. Positions of different sequences can therefore be read
 * together, and a shorter bucket is a prefix of the same buffer. Devices that can write into a tensor in place do so
 * (model_build_attn_cached). For the others the host copies the new rows (model_build_attn_decode). If such a
 * device computes in fp32, its programs also hold the residual stream: attention reads x and writes out,
 * feed-forward reads out and writes x, and all layers are one chain of requests.
 */
#ifndef LM_INFER_DECODER_H
#define LM_INFER_DECODER_H

#include "lm/arch/forward.h"
#include "lm/arch/quantize.h"

typedef struct infer infer; /* lm/infer/generate.h */

enum {
    INFER_ATTN,
    INFER_FFN,
    INFER_HEAD,
    INFER_PARTS,
    INFER_MAX_SETS = 7,
    INFER_MAX_KV_BUCKETS = 24,
    INFER_MAX_SLOTS = 48,
    INFER_ROW_BLOCK = 32
};

/* A parameter of a part that is a weight, or a weight's scales. */
typedef struct infer_slot {
    const arch_tensor *row;
    const char *name;
    model_packing packing;
    bool scales;
} infer_slot;

/* Halves of layers, or the head, whose matrices are all stored alike: they share programs. A file may hold a layer's
 * matrices in several forms, and the same matrix of another layer in another one. */
typedef struct infer_variant {
    int part;
    const model_packing *packings; /* by row of the architecture */
    infer_slot slots[INFER_MAX_SLOTS];
    int slot_count;
} infer_variant;

typedef struct infer_kv_bucket {
    int64_t cache;
    propane_program **programs, *program; /* [variants], of which this is the first */
    propane_buffer *mask[MODEL_KINDS];    /* of each kind of layers */
    propane_request **attn;               /* [layers] */
} infer_kv_bucket;

/* Programs for `positions` positions at once, and the buffers that only they use. */
typedef struct infer_set {
    int64_t positions;
    propane_program **programs, *ffn, *head; /* [variants], the first one of each */
    propane_buffer *x, *out, *logits;
    propane_buffer *cos[MODEL_KINDS], *sin[MODEL_KINDS]; /* per kind of layers */
    propane_buffer *rows;                                /* if it writes in place */
    propane_buffer *k_new, *v_new;                       /* if it does not */
    propane_request **ffn_requests, *head_request;       /* [layers] */
    infer_kv_bucket kv_buckets[INFER_MAX_KV_BUCKETS];
    int kv_bucket_count;
} infer_set;

typedef struct infer_sequence {
    int64_t position;
    int32_t *history; /* [context], the ids that were read */
    int32_t *rows;    /* [context], the rows of their keys and values */
    int64_t blocks;   /* blocks of rows that it holds */
} infer_sequence;

/* A position to be read. */
typedef struct infer_column {
    infer_sequence *sequence;
    int32_t id;
    int64_t position;
} infer_column;

struct infer {
    arena *arena;
    propane_device *device;
    model_weights *weights;
    model_config config;
    mil_dtype dtype;
    model_packing packing;                /* form of all matrices; `exact` means as stored */
    bool exact, holds, in_place, chained; /* whether it holds the stored weights */
    int64_t context, chunk, rows;         /* rows of the cache */
    infer_sequence *sequences, *current;
    int sequence_count;
    bool *taken;                    /* [rows / INFER_ROW_BLOCK, rounded up] */
    infer_set sets[INFER_MAX_SETS]; /* ascending by positions; the first one has one */
    int set_count;
    infer_variant *variants; /* of all parts */
    int variant_count;
    int *variant_of;                            /* [2 * layers + 1]: attn 0, ffn 0, attn 1, ..., head */
    propane_buffer *(*layers)[INFER_MAX_SLOTS]; /* the same, in the order of the slots */
    bool (*lent)[INFER_MAX_SLOTS];              /* the same: the buffer is the stored weights' own memory */
    int64_t weight_bytes;
    const char *forms;                   /* of matrices, in words */
    propane_buffer **k_cache, **v_cache; /* [layers] */
    propane_request **chain;             /* [2 * layers + 1] */
    float *stream;                       /* [D, chunk], the residual stream */
    float *result;                       /* [D, chunk] */
    float *logits;                       /* [logit_room] */
    int64_t logit_room;
    int kinds;                    /* kinds of layers */
    float *table_cos, *table_sin; /* [kinds, context, HD] */
    float *angles;                /* [HD, chunk] */
    float *mask;                  /* [mask_room] */
    int64_t mask_room;
    infer_column *columns; /* [chunk] */
    int32_t *numbers;      /* [chunk] */
};

static inline int64_t infer_layers(const infer *m) { return m->config.num_hidden_layers; }
static inline bool infer_turns(const infer *m) { return model_arch_of(&m->config)->position == ARCH_ROPE; }

/* Half `half` of the layers (attn 0, ffn 0, attn 1, ...), or the head, which is the last one. */
static inline int64_t infer_halves(const infer *m) { return 2 * infer_layers(m) + 1; }
static inline int infer_part_of(const infer *m, int64_t half) {
    return half == infer_halves(m) - 1 ? INFER_HEAD : half % 2 ? INFER_FFN : INFER_ATTN;
}
extern const model_part infer_parts[INFER_PARTS];

/* Returns an input or output that the program must have. */
PROPANE_CHECK propane_status infer_io_of(const propane_program *p, const char *name, const propane_io **out,
                                         propane_error *err);

/* decoder_weights.c: which halves share programs. */
PROPANE_CHECK propane_status infer_list_variants(infer *m, propane_error *err);
/* Makes the buffers for the weights of a half, with the program's layout, and then fills them. If the device is the
 * host, a buffer of stored weights is the weights' own memory. */
PROPANE_CHECK propane_status infer_make_weights(infer *m, int half, const propane_program *p, propane_error *err);
PROPANE_CHECK propane_status infer_fill_weights(const infer *m, int half, const propane_program *p, propane_error *err);

/* Provides the programs for a cache of at least this many rows. Anything that a failed attempt leaves behind is used by the next one. */
PROPANE_CHECK propane_status infer_need_kv_bucket(infer *m, infer_set *s, int64_t filled, infer_kv_bucket **out,
                                                  propane_error *err);
PROPANE_CHECK propane_status infer_need_ffn(infer *m, infer_set *s, propane_error *err);
PROPANE_CHECK propane_status infer_need_head(infer *m, infer_set *s, propane_error *err);
/* Provides a scratch array of at least `count` elements; its previous content is lost. */
PROPANE_CHECK propane_status infer_room(float **array, int64_t *room, int64_t count, propane_error *err);

/* Reserves rows for positions below `count`; there are always enough. */
void infer_take_rows(infer *m, infer_sequence *s, int64_t count);
/* Truncates the sequence to its first `count` positions and frees the other rows. */
void infer_cut(infer *m, infer_sequence *s, int64_t count);

#endif
