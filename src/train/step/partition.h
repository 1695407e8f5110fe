/* SPDX-License-Identifier: MIT
 * The plan of a training step: which kernels there are, where each runs, and what passes between them. A model is
 * three blocks, the attention and the feed-forward half of a layer and the head; src/grad differentiates each block's
 * function, and a table of (stage, direction) -> kernel cuts the joint function into kernels. All layers share them.
 *
 *   six    the kernels of the ANE trainers: fwdAttn fwdFFN ffnBwd sdpaBwd1 sdpaBwd2 qkvBwd on the device, residual
 *          stream, backward of the norms and head on the host
 *   ten    for grouped queries on engines with small programs: sdpaFwd woFwd ffnFused ffnBwdW2t ffnBwdW13t wotBwd
 *          sdpaBwd1 sdpaBwd2 qBwd kvBwd on the device; norms, the activation's and RoPE's backward, residual stream on the
 *          host
 *   layer  whole halves, forward and backward: for devices that plan themselves, such as the cpu
 *
 * Weight gradients are kernels of the host in every plan, summed in fp32: an engine has no place to accumulate them.
 */
#ifndef TRAIN_STEP_PARTITION_H
#define TRAIN_STEP_PARTITION_H

#include "base/text.h"
#include "chip/chip.h"
#include "mil/build.h"
#include "model/arch/model_tensors.h"

/* How the device's programs get their weights: as inputs of their own, side by side with the activations in one input
 * (train/step/weight_packing.h), or as constants, compiled anew after each update. All give the same numbers. */
typedef enum plan_weights { PLAN_INPUTS, PLAN_PACKED, PLAN_BAKED, PLAN_RELOAD, PLAN_WEIGHTS_COUNT } plan_weights;
const char *plan_weights_name(plan_weights weights); /* "inputs", "packed", "baked" */
/* PLAN_WEIGHTS_COUNT: there is no such mode. */
plan_weights plan_weights_find(const char *name);

typedef enum plan_place { PLAN_DEVICE, PLAN_HOST } plan_place;

typedef struct plan_options {
    const char *name;    /* "six", "ten", "layer" */
    mil_dtype precision; /* MIL_fp16 or MIL_fp32: of what runs on the device; the residual stream is fp32 always */
    int64_t batch, context;
    const model_lora *lora; /* NULL: no adapters */
    /* Does any layer train this parameter? Others get no gradient, and nothing is computed for one. NULL: all do. */
    bool (*trained)(const void *context, model_part part, const char *param);
    const void *trained_context;
    /* Of gradients with at least that many elements the kernels also give the sum of the squares, results square_WEIGHT, so
     * that the norm need not go over them again. 0: no kernel does. */
    int64_t squares;
    /* Backward kernels receive what the norms computed instead of computing it again: a sum over the channels for each
     * position, and what the products read. For a device where passing it on costs nothing. */
    bool keep_norms;
} plan_options;
#define PLAN_SQUARES 65536 /* less is read in no time */

typedef struct plan_kernel {
    const char *name;
    model_part part;
    plan_place place;
    bool backward;
    bool weights;             /* makes weight gradients */
    mil_function *function;   /* `weights`: the form that overwrites the sums */
    mil_function *accumulate; /* `weights`: the form that adds to them, through parameters sum_P; else NULL */
    double flops, bytes;      /* of one run: arithmetic; parameters read and results written once */
} plan_kernel;

/* A block's values: x, weights, out (logits in the head), d_out, d_x, d_WEIGHT, square_WEIGHT, and whatever passes between
 * kernels. */
typedef struct plan_block {
    model_part part;
    const char *name;   /* "attn", "ffn", "head" */
    const char *result; /* "out", "logits" */
    mil_function *forward, *joint;
    int first, count; /* its kernels; forward ones come first */
} plan_block;

#define PLAN_BLOCKS 3

typedef struct plan {
    arena *arena;
    plan_options options;
    model_config config;
    mil_module *module;
    plan_block blocks[PLAN_BLOCKS]; /* attn, ffn, head */
    int kernel_count;
    plan_kernel *kernels;
} plan;

int plan_name_count(void);
const char *plan_name(int index);
/* Unknown names are PROPANE_ERR_NOT_FOUND and the message lists those there are. */
PROPANE_CHECK propane_status plan_create(const model_config *config, const plan_options *options, plan **out,
                                         propane_error *err);
void plan_free(plan *p);
/* Large heads are computed in pieces of the vocabulary that share the head's kernels: the loss needs all logits, but never at
 * once, so each piece's are computed twice. Sets c->vocab_piece to equal pieces of at most PLAN_HEAD_ROWS rows where the
 * vocabulary is larger than PLAN_HEAD_MOST or the batch's logits than PLAN_LOGITS_BYTES; 0 where that is not so or no
 * number of pieces divides the vocabulary. */
#define PLAN_HEAD_ROWS    16384
#define PLAN_HEAD_MOST    65536
#define PLAN_LOGITS_BYTES 256e6
void plan_split_head(model_config *c, int64_t batch, int64_t context);
int64_t plan_calls(const plan *p, const plan_kernel *k); /* of a kernel in one batch */
/* One of the block's parameters other than x and the dropout that the host fills in. */
bool plan_is_weight(const plan_block *b, const char *param);
const char *plan_squares_of(const char *result); /* P of square_P; NULL: it is not one */
bool plan_is_dropout(const char *param);         /* drop_PARAM: model/arch/forward.h */
/* The chips that a plan is made for, as chip_listed takes them; "": none. */
const char *plan_chips(const char *name, mil_dtype precision);
/* Does the plan claim the chip, and does no known rule refuse one of its device kernels there, in the form that the weight
 * mode gives them (baked: as with inputs)? PROPANE_ERR_UNSUPPORTED with the kernel and the rule's id otherwise. `os`: macOS times 100, 0: not known. Never says that the plan runs there. */
PROPANE_CHECK propane_status plan_supports(const plan *p, const chip *c, int os, plan_weights weights,
                                           propane_error *why);
/* Kernels with place, FLOPs, bytes, inputs and results, for `propane plan`. */
void plan_print(const plan *p, text *out);

#endif
