/* SPDX-License-Identifier: MIT
 * What the files of the forward functions share: the context of the function that is built, its weights, the pieces of
 * attention. Private to src/lm/arch/forward*.c. Every call returns NULL after the builder failed, and takes NULL then.
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
    const char *prefix; /* of stages: "", "attn.", ... */
    bool whole;         /* parameter names carry the layer */
    const char *low_of; /* the parameter whose A made `low`, in this half */
    mil_value *low;
    const model_attention *cached; /* NULL: attention sees this sequence alone */
} forward_context;

/* The weights of a part in the order of the architecture's rows. */
enum { WEIGHTS_MAX = 32 };
typedef struct forward_weights {
    int count;
    const char *params[WEIGHTS_MAX];
    mil_value *values[WEIGHTS_MAX];
} forward_weights;

typedef struct forward_rope {
    mil_value *cos, *sin; /* [1,1,HD,S] */
    mil_value *turn; /* [1,1,HD,HD]: (-x2, x1) = turn * (x1, x2); NULL: the halves are sliced and swapped instead */
} forward_rope;

/* Where attention looks: one span of keys and values (training), or two (cache and new positions). */
typedef struct forward_span {
    mil_value *k, *v; /* [B,KV heads,HD,T] */
    int64_t length;
} forward_span;

/* The pieces (forward_parts.c); forward_norm and forward_with_residual in forward.c. */
void forward_stage(forward_context *x, const char *name); /* the stage that the next operations belong to */
mil_type forward_tensor4(const forward_context *x, int64_t a, int64_t b, int64_t c, int64_t d);
mil_value *forward_reshape4(forward_context *x, mil_value *v, int64_t a, int64_t b, int64_t c, int64_t d);
mil_value *forward_swap_last_two(forward_context *x, mil_value *v);
/* What the value is called in programs and plans: label leaves it where the name is taken, named fails. */
mil_value *forward_label(forward_context *x, mil_value *v, const char *name);
mil_value *forward_named(forward_context *x, mil_value *v, const char *name);
mil_value *forward_divide_by_rms(forward_context *x, mil_value *v, int64_t axis, int64_t n, double eps,
                                 const char *factor);
mil_value *forward_norm(forward_context *x, mil_value *v, const forward_weights *w); /* [B,D,1,S] -> the same */
/* A half's result as it is added to the stream: normalised, where the architecture does, and scaled. */
mil_value *forward_half_result(forward_context *x, const forward_weights *w, mil_value *y);
mil_value *forward_with_residual(forward_context *x, mil_value *in, mil_value *y);
/* A number of rows that a reshape shall give; -1 where positions are open. */
int64_t forward_rows_of(const forward_context *x, int64_t rows);

/* Experts (forward_experts.c). What each expert counts for at each position, [B,E,1,S], from the router's product; and
 * the experts' activations [B,E*M,1,S], multiplied with it. */
mil_value *forward_expert_parts(forward_context *x, mil_value *router);
mil_value *forward_choose_experts(forward_context *x, mil_value *act, mil_value *parts);

/* A function from begin to end (forward.c). */
PROPANE_CHECK propane_status forward_begin(forward_context *x, mil_module *m, const char *name, const model_config *c,
                                           const model_build_options *o, model_part part, int layer,
                                           propane_error *err);
mil_value *forward_input(forward_context *x, const char *name, int64_t a, int64_t b, int64_t c, int64_t d);
mil_value *forward_activation(forward_context *x); /* the residual stream, [B,D,1,S] */
PROPANE_CHECK propane_status forward_end(forward_context *x, mil_function **out, propane_error *err);

/* Weights (forward_weights.c). */
forward_weights forward_declare(forward_context *x);
mil_value *forward_weight(const forward_weights *w, const char *param); /* NULL: the architecture has none */
mil_value *forward_linear(forward_context *x, const forward_weights *w, const char *param, const char *bias_param,
                          mil_value *v, const char *name); /* with its adapter */

/* Attention (forward_attention.c). */
mil_value *forward_rope_turn(forward_context *x);
/* Of a layer; `turn`: what another layer's has already, or NULL. No cosines: the layer does not turn. */
forward_rope forward_rope_constants(forward_context *x, int64_t layer, mil_value *turn);
mil_value *forward_heads_of(forward_context *x, const forward_rope *r, mil_value *v, int64_t heads,
                            mil_value *norm_weight, const char *name);
mil_value *forward_causal_mask(forward_context *x, int64_t layer);
mil_value *forward_attention(forward_context *x, mil_value *q, const forward_span *spans, int span_count,
                             mil_value *mask);

#endif
