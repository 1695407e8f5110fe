/* SPDX-License-Identifier: MIT
 * The state of a running model, which the files of this folder share (generate.h describes its use). A set of programs
 * reads a fixed number of positions at once: one position of each of several sequences, or a chunk of a prompt. The
 * attention of a set is compiled for caches of several lengths ("KV buckets", powers of two), so that the cost of a
 * token depends on the number of cached rows and not on the size of the context. All programs use the same weights and
 * the same cache, and are compiled on first use.
 *
 * A row of the cache holds one position of one sequence. As a sequence grows, it takes the first free blocks of rows,
 * and a mask selects the rows that each position sees. Positions of different sequences can therefore be read together,
 * and a shorter bucket is a prefix of the same buffer. Devices that can write into a tensor in place write the new rows
 * themselves (model_build_attn_cached); for other devices, the host copies them (model_build_attn_decode). If a device
 * that writes in place computes in fp32, its programs also add to the residual stream. Attention then reads x and
 * writes out, feed-forward reads out and writes x, and all layers are one chain of requests.
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

/* A parameter of a part's function: a weight, or the scales of a weight. */
typedef struct infer_slot {
    const arch_tensor *row;
    const char *name;
    model_packing packing;
    bool scales;
} infer_slot;

/* Halves of layers (or the head) that share programs, because their matrices are stored in the same forms. A file may
 * hold the matrices of a layer in several forms, and the same matrix of another layer in another form. */
typedef struct infer_variant {
    int part;
    const model_packing *packings; /* by row of the architecture */
    infer_slot slots[INFER_MAX_SLOTS];
    int slot_count;
} infer_variant;

typedef struct infer_kv_bucket {
    int64_t cache;
    propane_program **programs, *program; /* [variants], and the program of the part's first variant */
    propane_buffer *mask[MODEL_KINDS];    /* per kind of layers */
    propane_request **attn;               /* [layers] */
} infer_kv_bucket;

/* Programs for `positions` positions at once, and the buffers that only these programs use. */
typedef struct infer_set {
    int64_t positions;
    propane_program **programs, *ffn, *head; /* [variants], and the programs of the first variant of each part */
    propane_buffer *x, *out, *logits;
    propane_buffer *cos[MODEL_KINDS], *sin[MODEL_KINDS]; /* per kind of layers */
    propane_buffer *rows;                                /* if the device writes in place */
    propane_buffer *k_new, *v_new;                       /* if the device does not write in place */
    propane_request **ffn_requests, *head_request;       /* [layers] */
    infer_kv_bucket kv_buckets[INFER_MAX_KV_BUCKETS];
    int kv_bucket_count;
} infer_set;

typedef struct infer_sequence {
    int64_t position;
    int32_t *history; /* [context], the ids that have been read */
    int32_t *rows;    /* [context], the cache rows of their keys and values */
    int64_t blocks;   /* number of blocks of rows that the sequence holds */
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
    model_packing packing; /* form of all matrices, unless `exact` is set */
    /* `exact`: matrices keep forms that change nothing; `holds`: stored_weights_hold was called */
    bool exact, holds, in_place, chained;
    int64_t context, chunk, rows; /* rows of the cache */
    infer_sequence *sequences, *current;
    int sequence_count;
    bool *taken;                    /* [rows / INFER_ROW_BLOCK, rounded up] */
    infer_set sets[INFER_MAX_SETS]; /* ascending by positions; sets[0] has one position */
    int set_count;
    infer_variant *variants; /* of all parts */
    int variant_count;
    int *variant_of; /* [2 * layers + 1]: attn 0, ffn 0, attn 1, ..., head */
    /* [2 * layers + 1], buffers of the weights, in the order of the slots */
    propane_buffer *(*layers)[INFER_MAX_SLOTS];
    /* [2 * layers + 1], whether a buffer is the stored weights' own memory */
    bool (*lent)[INFER_MAX_SLOTS];
    int64_t weight_bytes;
    const char *forms;                   /* forms of the matrices, in words */
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

/* Halves are numbered attn 0, ffn 0, attn 1, ...; the head comes last. */
static inline int64_t infer_halves(const infer *m) { return 2 * infer_layers(m) + 1; }
static inline int infer_part_of(const infer *m, int64_t half) {
    return half == infer_halves(m) - 1 ? INFER_HEAD : half % 2 ? INFER_FFN : INFER_ATTN;
}
extern const model_part infer_parts[INFER_PARTS];

/* Finds an input or output that the program must have. */
PROPANE_CHECK propane_status infer_io_of(const propane_program *p, const char *name, const propane_io **out,
                                         propane_error *err);

/* Decides which halves share programs (decoder_weights.c). */
PROPANE_CHECK propane_status infer_list_variants(infer *m, propane_error *err);
/* Make the buffers for the weights of a half, in the program's layout, and fill them. A device that shares the host's
 * memory reads stored weights in place, without a copy. */
PROPANE_CHECK propane_status infer_make_weights(infer *m, int half, const propane_program *p, propane_error *err);
PROPANE_CHECK propane_status infer_fill_weights(const infer *m, int half, const propane_program *p, propane_error *err);

/* Provides the programs for a cache of at least `filled` rows. The next attempt after a failure uses what the failed
 * attempt has made. */
PROPANE_CHECK propane_status infer_need_kv_bucket(infer *m, infer_set *s, int64_t filled, infer_kv_bucket **out,
                                                  propane_error *err);
PROPANE_CHECK propane_status infer_need_ffn(infer *m, infer_set *s, propane_error *err);
PROPANE_CHECK propane_status infer_need_head(infer *m, infer_set *s, propane_error *err);
/* Makes a scratch array at least `count` elements large; its previous content is lost. */
PROPANE_CHECK propane_status infer_room(float **array, int64_t *room, int64_t count, propane_error *err);

/* Reserves rows for the positions below `count`; there are always enough. */
void infer_take_rows(infer *m, infer_sequence *s, int64_t count);
/* Truncates the sequence to its first `count` positions and frees the other rows. */
void infer_cut(infer *m, infer_sequence *s, int64_t count);

#endif
