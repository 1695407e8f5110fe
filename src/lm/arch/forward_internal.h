/* SPDX-License-Identifier: MIT
 * Declarations that the files src/lm/arch/forward*.c share: the context of the function that is being built, its
 * weights, and the pieces of attention. After the builder has failed, every function that returns a mil_value returns
 * NULL and accepts NULL values.
 */
#ifndef LM_ARCH_FORWARD_INTERNAL_H
#define LM_ARCH_FORWARD_INTERNAL_H

#include "lm/arch/arch.h"
#include "lm/arch/forward.h"

typedef struct forward_context {
    mil_builder b;
    const model_config *c;
    const model_arch *arch;
    const model_build_options *o;
    model_part part;
    int layer;
    const char *prefix; /* prefix of stages: "", "attn.", ... */
    bool whole;         /* parameter names include the layer */
    const char *low_of; /* the parameter whose matrix A computed `low` in this half */
    mil_value *low;
    const model_attention *cached; /* NULL if attention sees only this sequence */
} forward_context;

/* The weights of a part, in the order of the architecture's rows. */
enum { WEIGHTS_MAX = 32 };
typedef struct forward_weights {
    int count;
    const char *params[WEIGHTS_MAX];
    mil_value *values[WEIGHTS_MAX];
} forward_weights;

typedef struct forward_rope {
    mil_value *cos, *sin; /* [1,1,HD,S] */
    /* [1,1,HD,HD], with (-x2, x1) = turn * (x1, x2); if NULL, the halves are swapped by slices instead */
    mil_value *turn;
} forward_rope;

/* The keys and values that attention reads: one span (training), or two (cache and new positions). */
typedef struct forward_span {
    mil_value *k, *v; /* [B,KV heads,HD,T] */
    int64_t length;
} forward_span;

/* Small pieces (forward_parts.c); forward_norm and forward_with_residual are in forward.c. */
void forward_stage(forward_context *x, const char *name); /* sets the stage of the next operations */
mil_type forward_tensor4(const forward_context *x, int64_t a, int64_t b, int64_t c, int64_t d);
mil_value *forward_reshape4(forward_context *x, mil_value *v, int64_t a, int64_t b, int64_t c, int64_t d);
mil_value *forward_swap_last_two(forward_context *x, mil_value *v);
/* Set a value's name in programs and plans. If the name is taken, forward_label keeps the old name, and forward_named
 * fails. */
mil_value *forward_label(forward_context *x, mil_value *v, const char *name);
mil_value *forward_named(forward_context *x, mil_value *v, const char *name);
mil_value *forward_divide_by_rms(forward_context *x, mil_value *v, int64_t axis, int64_t n, double eps,
                                 const char *factor);
/* Returns the part's norm of v [B,D,1,S], or v itself if the part has no norm before it. */
mil_value *forward_norm(forward_context *x, mil_value *v, const forward_weights *w);
/* Returns a half's result as it is added to the stream: normalised if the architecture has a norm after the half, and
 * scaled. */
mil_value *forward_half_result(forward_context *x, const forward_weights *w, mil_value *y);
mil_value *forward_with_residual(forward_context *x, mil_value *in, mil_value *y);
/* Returns the number of rows for a reshape, or -1 if the number of positions is open. */
int64_t forward_rows_of(const forward_context *x, int64_t rows);

/* Experts (forward_experts.c). forward_expert_parts computes the weight of each expert at each position, [B,E,1,S],
 * from the router's matrix product. forward_choose_experts multiplies the experts' activations [B,E*M,1,S] by these
 * weights. */
mil_value *forward_expert_parts(forward_context *x, mil_value *router);
mil_value *forward_choose_experts(forward_context *x, mil_value *act, mil_value *parts);

/* Begin and end a function (forward.c). */
PROPANE_CHECK propane_status forward_begin(forward_context *x, mil_module *m, const char *name, const model_config *c,
                                           const model_build_options *o, model_part part, int layer,
                                           propane_error *err);
mil_value *forward_input(forward_context *x, const char *name, int64_t a, int64_t b, int64_t c, int64_t d);
mil_value *forward_activation(forward_context *x); /* the residual stream, [B,D,1,S] */
PROPANE_CHECK propane_status forward_end(forward_context *x, mil_function **out, propane_error *err);

/* Weights (forward_weights.c). */
forward_weights forward_declare(forward_context *x);
/* NULL if the architecture has no such weight */
mil_value *forward_weight(const forward_weights *w, const char *param);
mil_value *forward_linear(forward_context *x, const forward_weights *w, const char *param, const char *bias_param,
                          mil_value *v, const char *name);

/* Attention (forward_attention.c). */
mil_value *forward_rope_turn(forward_context *x);
/* Returns a layer's RoPE constants. `turn` is the constant of another layer, or NULL to make one. The result has no
 * `cos` if the layer does not rotate. */
forward_rope forward_rope_constants(forward_context *x, int64_t layer, mil_value *turn);
mil_value *forward_heads_of(forward_context *x, const forward_rope *r, mil_value *v, int64_t heads,
                            mil_value *norm_weight, const char *name);
mil_value *forward_causal_mask(forward_context *x, int64_t layer);
mil_value *forward_attention(forward_context *x, mil_value *q, const forward_span *spans, int span_count,
                             mil_value *mask);

#endif
