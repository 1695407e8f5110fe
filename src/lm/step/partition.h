/* SPDX-License-Identifier: MIT
 * The plan of a training step: which kernels there are, where each runs, and which values pass between them. A model
 * consists of three blocks: the attention and feed-forward halves of a layer, and the head. src/core/grad
 * differentiates each block's function, and a table of (stage, direction) -> kernel cuts the resulting function into
 * kernels. All layers share the kernels. If layers attend differently (windows, positions), each kind of layer has
 * separate attention kernels.
 *
 *   six    the kernels of the ANE trainers: fwdAttn fwdFFN ffnBwd sdpaBwd1 sdpaBwd2 qkvBwd on the device, residual
 *          stream and backward of the norms on the host
 *   ten    for grouped queries on engines with small programs: sdpaFwd woFwd ffnFused ffnBwdW2t ffnBwdW13t wotBwd
 *          sdpaBwd1 sdpaBwd2 qBwd kvBwd on the device; norms, the activation's and RoPE's backward, residual stream on the
 *          host
 *   layer  whole halves, forward and backward: for devices that do their own planning, such as the cpu
 *
 * The place of the head's vocabulary product, forward and for its input's gradient, is a separate choice: plan "layer"
 * puts it on the device, the others on the host, and each default can be overridden. The loss always runs on the host.
 *
 * In every plan, host kernels sum the weight gradients in fp32, because an engine has no place to accumulate them. The
 * matrix products of these gradients also run on the host. With `gradients`, those of the layers run on the device
 * (gradient_products.h).
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
    const char *name; /* "six", "ten", "layer" */
    /* MIL_fp16 or MIL_fp32, the type of computation on the device; the residual stream is fp32 unless `half_stream` is
     * set */
    mil_dtype precision;
    int64_t batch, context;
    const model_lora *lora; /* NULL if there are no adapters */
    /* Returns whether any layer trains this parameter. No gradient is computed for other parameters. NULL means that
     * all parameters are trained. */
    bool (*trained)(const void *context, model_part part, const char *param);
    const void *trained_context;
    /* For gradients with at least this many elements, the kernels also return the sum of the squares as results
     * square_WEIGHT, so that the norm need not read the gradients again. 0 means that no kernel does. */
    int64_t squares;
    /* Backward kernels receive what the norms computed instead of computing it again: a sum over the channels per
     * position, and the values that matrix products read. For a device on which passing values costs nothing. */
    bool keep_norms;
    partition_head head;
    /* On the device, the head's sums over the vocabulary are cut into parts whose activations have at most this many
     * bytes, because an engine rereads the weights for each such part of a larger activation. 0 means that the sums are
     * not cut. */
    int64_t sum_bytes;
    /* the device computes the matrix products of the layers' weight gradients, and the host adds them up */
    bool gradients;
    bool half_stream; /* plan "layer" in fp16 only: the stream is fp16, too, for engines that refuse fp32 inputs */
    bool defer;       /* a half's weight gradients are queued after the next half's first kernels; for two queues */
} partition_options;
#define PARTITION_SQUARES   65536 /* smaller gradients are read in negligible time */
#define PARTITION_SUM_BYTES 1048576

typedef struct partition_kernel {
    const char *name;
    model_part part;
    int kind; /* kind of the kernel's block */
    partition_place place;
    bool backward;
    bool weights;             /* computes weight gradients or, on the device, their matrix products */
    mil_function *function;   /* with `weights`, the form that overwrites the sums */
    mil_function *accumulate; /* with `weights`, the form that adds to them through parameters sum_P; otherwise NULL */
    double flops, bytes;      /* per run: operations, and the bytes of all parameters and results */
} partition_kernel;

/* A block's values are x, weights, out (logits in the head), d_out, d_x, d_WEIGHT, square_WEIGHT, and the values that
 * pass between kernels. */
typedef struct partition_block {
    model_part part;
    int kind;           /* for attn, the kind of the layers (model_config_kind) */
    const char *name;   /* "attn", "ffn", "head"; "attn_1", ... for further kinds */
    const char *result; /* "out", "logits" */
    mil_function *forward, *joint;
    int first, count; /* its kernels, with the forward ones first */
} partition_block;

#define PARTITION_BLOCKS (MODEL_KINDS + 2) /* upper bound */

typedef struct partition {
    arena *arena;
    partition_options options;
    model_config config;
    mil_module *module;
    int block_count;
    partition_block blocks[PARTITION_BLOCKS]; /* one attn block per kind of layer, then ffn, then head */
    int kernel_count;
    partition_kernel *kernels;
} partition;

/* Returns the block of an instance. Instances count the halves of layers, starting at the first layer's attention, then
 * the head's pieces. */
const partition_block *partition_block_at(const partition *p, int64_t instance);

/* Ranges of a block's kernels: the forward kernels, the backward kernels up to and including the first on the device,
 * the backward kernels after it, and the kernels that compute weight gradients. The last are in neither of the backward
 * ranges. */
typedef enum partition_range {
    PARTITION_FORWARD,
    PARTITION_FIRST,
    PARTITION_REST,
    PARTITION_GRADIENTS
} partition_range;
/* `kernel` is an index into p->kernels and must be one of the block's kernels. */
bool partition_in_range(const partition *p, const partition_block *b, int kernel, partition_range range);

/* Returns PARTITION_HEAD_COUNT if the name is unknown. */
partition_head partition_head_find(const char *name);
const char *partition_head_name(const partition_options *options); /* "host" or "device" */
int partition_name_count(void);
const char *partition_name(int index);
/* Returns PROPANE_ERR_NOT_FOUND for an unknown name, with a message that lists the valid ones. */
PROPANE_CHECK propane_status partition_create(const model_config *config, const partition_options *options,
                                              partition **out, propane_error *err);
void partition_free(partition *p);
/* Large heads are computed in equal pieces of the vocabulary that share the head's kernels. The loss needs all logits,
 * but never at once, so each piece's logits are computed twice. Sets c->vocab_piece to the rows of a piece, at most
 * PARTITION_HEAD_ROWS, if the vocabulary is larger than PARTITION_HEAD_MOST, or if it is larger than
 * PARTITION_HEAD_ROWS and the batch's logits are larger than PARTITION_LOGITS_BYTES. Sets c->vocab_piece to 0
 * otherwise, or if no suitable number of pieces divides the vocabulary. */
#define PARTITION_HEAD_ROWS    16384
#define PARTITION_HEAD_MOST    65536
#define PARTITION_LOGITS_BYTES 256e6
void partition_split_head(model_config *c, int64_t batch, int64_t context);
int64_t partition_calls(const partition *p, const partition_kernel *k); /* calls of a kernel per batch */
/* Returns whether `param` is one of the block's parameters other than x and the dropout, which the host fills in. */
bool partition_is_weight(const partition_block *b, const char *param);
const char *partition_squares_of(const char *result); /* P of square_P, or NULL for other names */
/* Returns whether `param` is an adapter, that is, called PARAM_lora_a or PARAM_lora_b. Serves as
 * partition_options.trained. */
bool partition_is_adapter(const void *context, model_part part, const char *param);
bool partition_is_dropout(const char *param); /* whether `param` is called drop_PARAM (lm/arch/forward.h) */
/* Returns the chips that a plan is made for, in the form that chip_listed accepts, or "" if there are none. */
const char *partition_chips(const char *name, mil_dtype precision, bool half_stream);
/* Returns PROPANE_OK if the plan is made for the chip, the chip supports the weight mode, and no known rule of the chip
 * refuses a device kernel in the form that the weight mode needs (baked is checked like inputs). Otherwise returns
 * PROPANE_ERR_UNSUPPORTED; for a refused kernel the message names the kernel and the rule's id. `os` is the macOS
 * version times 100, or 0 if it is unknown. PROPANE_OK does not prove that the plan runs on the chip. */
PROPANE_CHECK propane_status partition_supports(const partition *p, const chip *c, int os, weight_mode weights,
                                                propane_error *why);
/* Prints kernels with place, FLOPs, bytes, inputs and results, for `propane plan`. */
void partition_print(const partition *p, text *out);

#endif
