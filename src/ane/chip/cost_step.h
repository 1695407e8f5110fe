/* SPDX-License-Identifier: MIT
 * Declares a model of training steps that other projects published, and the rates of the host next to each engine. The
 * engine's figures come from the time model. The host's figures are assumptions, each derived from the parts of
 * published steps, because Propane measured nothing on a Mac.
 */
#ifndef ANE_CHIP_COST_STEP_H
#define ANE_CHIP_COST_STEP_H

#include "ane/chip/cost_model.h"

/* The host of a chip; hosts.def describes each figure and its source. */
typedef struct cost_host {
    double gemm_tflops, waiting_tflops;
    double stream_gbs, memory_gbs, shared_gbs;
    double watts;
    const char *source;
} cost_host;
cost_host cost_host_of(const chip *c);
const char *cost_host_sources(void); /* one line per figure: its source, and the code that it describes */
/* Returns the ms that the engine needs to cut fp16 weights out of inputs that also contain an activation, and to use
 * them. */
double cost_packed_ms(const chip *c, double weight_bytes, double positions);
/* CPU time in ns per activation (layers x width x positions) of a whole step, apart from its matrix products. */
#define COST_ELEMENT_NS 28.9
#define COST_IDLE_WATTS 0.3 /* of an idle Mac, M3 Pro (slavko) */

typedef enum cost_style {
    COST_STYLE_STATIC,       /* weights baked, 72 programs, head and dW on the host */
    COST_STYLE_STATIC_HEAD,  /* head, softmax and backward norms on the engine too, 86 programs */
    COST_STYLE_STATIC_PLAIN, /* 60 programs, norms on the host */
    COST_STYLE_PACKED,       /* weights next to the activation in one input ("dynamic") */
    COST_STYLE_INPUTS,       /* weights as separate inputs */
    COST_STYLE_SYNC,         /* packed, one call after the other, everything staged (rustane) */
    COST_STYLE_FORWARD,      /* the forward half of COST_STYLE_SYNC */
    COST_STYLE_ENGINE,       /* only the engine's part of a static step */
    COST_STYLE_PRODUCTS,     /* packed, one call per matrix product, all else on the processor (AutoANE) */
    COST_STYLE_COUNT
} cost_style;
const char *cost_style_name(cost_style style);

typedef struct cost_sizes {
    double layers, width, hidden, q, kv, vocab, context, batch; /* vocab: 0 if not stated */
} cost_sizes;

double cost_layer_weights(const cost_sizes *s); /* of one layer, without norms */

/* The parts of a step in ms. */
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

/* Reads a row of workload train_step. Returns false if the row is of another workload. */
bool cost_step_point_read(const char *id, const char *chip_title, const char *workload, const char *shape,
                          const char *note, double ms, cost_step_point *out);

#endif
