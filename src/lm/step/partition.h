/* SPDX-License-Identifier: MIT
 * The plan of a training step: which kernels there are, where each runs, and what passes between them. A model is three
 * blocks, the attention and the feed-forward half of a layer and the head; src/core/grad differentiates each block's
 * function, and a table of (stage, direction) -> kernel cuts the joint function into kernels. All layers share them;
 * where layers attend differently (windows, positions), each kind has attention kernels of its own.
 *
 *   six    the kernels of the ANE trainers: fwdAttn fwdFFN ffnBwd sdpaBwd1 sdpaBwd2 qkvBwd on the device, residual
 *          stream and backward of the norms on the host
 *   ten    for grouped queries on engines with small programs: sdpaFwd woFwd ffnFused ffnBwdW2t ffnBwdW13t wotBwd
 *          sdpaBwd1 sdpaBwd2 qBwd kvBwd on the device; norms, the activation's and RoPE's backward, residual stream on the
 *          host
 *   layer  whole halves, forward and backward: for devices that plan themselves, such as the cpu
 *
 * Where the head's product with the vocabulary runs, forward and for its input's gradient, is a choice of its own: plan
 * layer gives it to the device, the others to the host, and each can be set otherwise. The loss is the host's always.
 *
 * Weight gradients are summed in fp32 by kernels of the host in every plan: an engine has no place to accumulate them.
 * Their products are the host's, too, or with `gradients` the device's (gradient_products.h).
 */
#ifndef LM_STEP_PARTITION_H
#define LM_STEP_PARTITION_H

#include "ane/chip/chip.h"
#include "core/base/text.h"
#include "core/mil/build.h"
#include "lm/arch/model_tensors.h"
#include "train/head_place.h"
#include "train/weight_mode.h"

typedef enum partition_place { PARTITION_DEVICE, PARTITION_HOST } partition_place;

typedef struct partition_options {
    const char *name;    /* "six", "ten", "layer" */
    mil_dtype precision; /* MIL_fp16 or MIL_fp32: of what runs on the device; the residual stream is fp32 always */
    int64_t batch, context;
    const model_lora *lora; /* NULL: no adapters */
    /* Does any layer train this parameter? Others get no gradient, and nothing is computed for one. NULL: all do. */
    bool (*trained)(const void *context, model_part part, const char *param);
    const void *trained_context;
    /* Of gradients with at least that many elements the kernels also give the sum of the squares, results
     * square_WEIGHT, so that the norm need not go over them again. 0: no kernel does. */
    int64_t squares;
    /* Backward kernels receive what the norms computed instead of computing it again: a sum over the channels for each
     * position, and what the products read. For a device where passing it on costs nothing. */
    bool keep_norms;
    partition_head head;
    /* The head's sums over the vocabulary are cut on the device into parts whose activation has at most that many
     * bytes, because an engine reads the weights again for each such part of a larger one. 0: not at all. */
    int64_t sum_bytes;
    bool gradients; /* the layers' weight gradients are products of the device, which the host adds up */
    bool defer;     /* a half's weight gradients are queued after the next half's first kernels: for two queues */
} partition_options;
#define PARTITION_SQUARES   65536 /* less is read in no time */
#define PARTITION_SUM_BYTES 1048576

typedef struct partition_kernel {
    const char *name;
    model_part part;
    int kind; /* its block's */
    partition_place place;
    bool backward;
    bool weights;             /* makes weight gradients; on the device, their products */
    mil_function *function;   /* `weights`: the form that overwrites the sums */
    mil_function *accumulate; /* `weights`: the form that adds to them, through parameters sum_P; else NULL */
    double flops, bytes;      /* of one run: arithmetic; parameters read and results written once */
} partition_kernel;

/* A block's values: x, weights, out (logits in the head), d_out, d_x, d_WEIGHT, square_WEIGHT, and whatever passes
 * between kernels. */
typedef struct partition_block {
    model_part part;
    int kind;           /* of attn: the layers' (model_config_kind) */
    const char *name;   /* "attn", "ffn", "head"; of further kinds "attn_1", ... */
    const char *result; /* "out", "logits" */
    mil_function *forward, *joint;
    int first, count; /* its kernels; forward ones come first */
} partition_block;

#define PARTITION_BLOCKS (MODEL_KINDS + 2) /* at most */

typedef struct partition {
    arena *arena;
    partition_options options;
    model_config config;
    mil_module *module;
    int block_count;
    partition_block blocks[PARTITION_BLOCKS]; /* attn, one for each kind of layers, ffn, head */
    int kernel_count;
    partition_kernel *kernels;
} partition;

/* The block of a half of a layer, counted from the first layer's attention on, then of the head's pieces. */
const partition_block *partition_block_at(const partition *p, int64_t instance);

/* Of a block: its forward kernels; of its backward ones those up to the first of the device, those after it, and, in
 * neither, those that make weight gradients. */
typedef enum partition_range {
    PARTITION_FORWARD,
    PARTITION_FIRST,
    PARTITION_REST,
    PARTITION_GRADIENTS
} partition_range;
/* `kernel`: an index into p->kernels, one of the block's. */
bool partition_in_range(const partition *p, const partition_block *b, int kernel, partition_range range);

partition_head partition_head_find(const char *name);              /* of PARTITION_HEAD_WORDS; COUNT: none of them */
const char *partition_head_name(const partition_options *options); /* "host" or "device" */
int partition_name_count(void);
const char *partition_name(int index);
/* Unknown names are PROPANE_ERR_NOT_FOUND and the message lists those there are. */
PROPANE_CHECK propane_status partition_create(const model_config *config, const partition_options *options,
                                              partition **out, propane_error *err);
void partition_free(partition *p);
/* Large heads are computed in pieces of the vocabulary that share the head's kernels: the loss needs all logits, but
 * never at once, so each piece's are computed twice. Sets c->vocab_piece to equal pieces of at most PARTITION_HEAD_ROWS
 * rows where the vocabulary is larger than PARTITION_HEAD_MOST or the batch's logits than PARTITION_LOGITS_BYTES; 0
 * where that is not so or no number of pieces divides the vocabulary. */
#define PARTITION_HEAD_ROWS    16384
#define PARTITION_HEAD_MOST    65536
#define PARTITION_LOGITS_BYTES 256e6
void partition_split_head(model_config *c, int64_t batch, int64_t context);
int64_t partition_calls(const partition *p, const partition_kernel *k); /* of a kernel in one batch */
/* One of the block's parameters other than x and the dropout that the host fills in. */
bool partition_is_weight(const partition_block *b, const char *param);
const char *partition_squares_of(const char *result); /* P of square_P; NULL: it is not one */
bool partition_is_dropout(const char *param);         /* drop_PARAM: lm/arch/forward.h */
/* The chips that a plan is made for, as chip_listed takes them; "": none. */
const char *partition_chips(const char *name, mil_dtype precision);
/* Does the plan claim the chip, and does no known rule refuse one of its device kernels there, in the form that the
 * weight mode gives them (baked: as with inputs)? PROPANE_ERR_UNSUPPORTED with the kernel and the rule's id otherwise.
 * `os`: macOS times 100, 0: not known. Never says that the plan runs there. */
PROPANE_CHECK propane_status partition_supports(const partition *p, const chip *c, int os, weight_mode weights,
                                                propane_error *why);
/* Kernels with place, FLOPs, bytes, inputs and results, for `propane plan`. */
void partition_print(const partition *p, text *out);

#endif
