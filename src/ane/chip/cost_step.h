/* SPDX-License-Identifier: MIT
 * Training steps as other projects published them, and what the host beside each engine does per second. The engine's
 * figures are the model's; the host's are assumptions, each derived from the parts of published steps, because nothing of a
 * Mac was measured by Propane.
 */
#ifndef ANE_CHIP_COST_STEP_H
#define ANE_CHIP_COST_STEP_H

#include "ane/chip/cost_model.h"

/* The host of a chip. */
typedef struct cost_host {
    double gemm_tflops;    /* fp32 products by the processor's matrix unit, while it has nothing else to do */
    double waiting_tflops; /* the same in the published trainers, their waiting included */
    double stream_gbs;     /* elementwise work, casts, copies of activations; several cores */
    double memory_gbs;     /* AdamW, which only streams */
    double shared_gbs;     /* what engine, host and update move at once, at most */
} cost_host;
cost_host cost_host_of(const chip *c);
const char *cost_host_sources(void); /* a line for each figure: where it comes from, and which code it stands for */
/* GB/s at which the engine cuts fp16 weights out of an input that holds them beside the activation, and uses them. */
double cost_packed_gbs(const chip *c);

typedef enum cost_style {
    COST_STYLE_STATIC,       /* weights baked, 72 programs, head and dW on the host */
    COST_STYLE_STATIC_HEAD,  /* head, softmax and backward norms on the engine too, 86 programs */
    COST_STYLE_STATIC_PLAIN, /* 60 programs, norms on the host */
    COST_STYLE_PACKED,       /* weights beside the activation in one input ("dynamic") */
    COST_STYLE_INPUTS,       /* weights as inputs of their own */
    COST_STYLE_SYNC,         /* packed, one call after the other, everything staged (rustane) */
    COST_STYLE_FORWARD,      /* the forward half of the last */
    COST_STYLE_ENGINE,       /* the engine's part of a static step */
    COST_STYLE_COUNT
} cost_style;
const char *cost_style_name(cost_style style);

typedef struct cost_sizes {
    double layers, width, hidden, q, kv, vocab, context, batch;
} cost_sizes;

double cost_layer_weights(const cost_sizes *s); /* of one layer, norms left out */

/* Parts of a step in ms. */
typedef struct cost_step {
    double engine_ms, staging_ms, elementwise_ms, gemm_ms, update_ms, ms;
} cost_step;

void cost_step_published(const chip *c, const cost_sizes *sizes, cost_style style, cost_step *out);

typedef struct cost_step_point {
    const char *id, *chip, *shape;
    double published_ms;
    bool covered;
    const char *reason;
    cost_style style;
    cost_sizes sizes;
    cost_step step;
} cost_step_point;

/* What a row of workload train_step says; false: it is not one. */
bool cost_step_point_read(const char *id, const char *chip_title, const char *workload, const char *shape,
                          const char *note, double ms, cost_step_point *out);

#endif
