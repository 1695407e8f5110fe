/* SPDX-License-Identifier: MIT
 * Models as MIL: builders of the forward functions for every architecture of lm/arch/arch.h. Activations are
 * channel-first, [B,C,1,S]. The caller handles the residual stream, so a layer is the two functions
 *
 *     attn  x [B,D,1,S], norm_weight [1,D,1,1], q_proj [Q,D], k_proj [KV,D], v_proj [KV,D], o_proj [D,Q] -> o [B,D,1,S]
 *           stages: norm qkv qknorm rope scores softmax mix out
 *     ffn   x, norm_weight, gate_proj [H,D], up_proj [H,D], down_proj [D,H] -> y [B,D,1,S]      stages: norm up act down
 *     head  x, norm_weight, lm_head [V,D] -> logits [B,V,1,S]                                   stages: norm head
 *
 * and the head. Further parameters, if the architecture has them, are norm_bias [1,D,1,1], q_bias ... down_bias
 * [1,O,1,1], and q_norm, k_norm [1,1,HD,1]. A plain feed-forward half has no gate_proj. With experts, a router [E,D]
 * comes before the matrices; the experts are stacked in gate_proj and up_proj, and next to each other in down_proj (H =
 * E * M). Parameters are in the order of the architecture's rows (model_arch_param). PARAM_lora_a [R,I] and
 * PARAM_lora_b [O,R] follow for each matrix with an adapter.
 *
 * Decisions: norms divide by sqrt(D) before they square, so that fp16 does not overflow. RoPE is a matrix product with
 * a constant signed permutation (Hugging Face's half-split pairs), a form that every chip accepts. Query head h reads
 * key/value head h / (heads / kv heads) by folding the heads of a group into the rows of one matrix product, without
 * copies of K and V. The causal mask is an added constant of -1e4. Learned positions are already added to x.
 */
#ifndef LM_ARCH_FORWARD_H
#define LM_ARCH_FORWARD_H

#include "core/mil/build.h"
#include "lm/arch/model_tensors.h"
#include "lm/arch/quantize.h"

/* Returns the row-major fp32 data of a weight that becomes a constant. NULL makes the build fail. `param` is a
 * model_tensor.param (model_tensors.h). */
typedef const float *(*model_weight)(void *context, model_part part, int layer, const char *param);

typedef struct model_build_options {
    int64_t batch, sequence;
    mil_dtype dtype;    /* MIL_fp16 or MIL_fp32, for every tensor */
    model_weight baked; /* if NULL, weights are parameters ("inputs"), otherwise constants */
    void *baked_context;
    int64_t first_position; /* first position of the sequence, for RoPE; usually 0 */
    bool residual;          /* in attn_decode, attn_cached and ffn, the result is x plus the half's output */
    /* [row of the architecture], the form of each matrix that is a parameter. Forms with blocks add a parameter for
     * scales (lm/arch/quantize.h). NULL means that all matrices are in dtype */
    const model_packing *packings;
    /* NULL means no adapters; adapters are always parameters, even if the other weights are constants */
    const model_lora *lora;
    /* with lora: the input of a module's adapters is multiplied by a parameter drop_PARAM of the same shape, where
     * PARAM is the module's first parameter. These parameters come after all others */
    bool dropout;
} model_build_options;

/* A model_weight whose context is a model_weights. */
const float *model_weight_from(void *weights, model_part part, int layer, const char *param);

/* Each of these functions adds a function `name` to `m` and verifies it. `layer` selects the baked weights and, in
 * attn, the positions that layers of this kind see (model_config_kind). */
PROPANE_CHECK propane_status model_build_attn(mil_module *m, const char *name, const model_config *c,
                                              const model_build_options *o, int layer, mil_function **out,
                                              propane_error *err);
PROPANE_CHECK propane_status model_build_ffn(mil_module *m, const char *name, const model_config *c,
                                             const model_build_options *o, int layer, mil_function **out,
                                             propane_error *err);
PROPANE_CHECK propane_status model_build_head(mil_module *m, const char *name, const model_config *c,
                                              const model_build_options *o, mil_function **out, propane_error *err);
/* What attention sees in programs that keep keys and values themselves, in addition to the new positions. */
typedef struct model_attention {
    /* Receives a layer's new keys or values [B,KVH,HD,S] and returns all keys or values that attention sees,
     * [B,KVH,HD,length]. If NULL, attention sees only the new ones. */
    mil_value *(*extend)(void *context, mil_builder *b, int layer, bool values, mil_value *fresh);
    void *context;
    int64_t length;
    /* The following fields are per kind of layers (model_config_kind). */
    mil_value *mask[MODEL_KINDS]; /* [1,1,S,length], added to the scores */
    /* with RoPE: [1,1,HD,S]; NULL means that these layers do not rotate */
    mil_value *cos[MODEL_KINDS], *sin[MODEL_KINDS];
    bool open; /* no constant may depend on S, so that the program also works for other S */
} model_attention;

/* Builds all layers and the head, with baked weights, in a function that the caller has begun. Computes logits
 * [B,V,1,S] from x [B,D,1,S]. Returns NULL after an error; the builder holds the error. */
mil_value *model_build_layers(mil_builder *b, const model_config *c, const model_build_options *o,
                              const model_attention *cached, mil_value *x);

/* Adds the attention half for generation: N new positions (o->sequence) attend to themselves and to a cache of T
 * positions. The parameters are x [B,D,1,N]; k_cache and v_cache [B,T,KVH,HD]; with RoPE, cos and sin [1,1,HD,N]
 * (model_rope_tables); mask [1,1,N,T+N] (added to the scores: 0 or -1e4; model_mask); then the weights as in attn. The
 * results are o [B,D,1,N] and k_new, v_new [B,N,KVH,HD], which the host writes into the cache. The cache consists of
 * one row per position, so a shorter cache is a prefix of a longer one. Keys are cached after RoPE. N > 1 is used for a
 * chunk of a prompt. Generation uses the functions ffn and head unchanged. */
PROPANE_CHECK propane_status model_build_attn_decode(mil_module *m, const char *name, const model_config *c,
                                                     const model_build_options *o, int layer, int64_t cache,
                                                     mil_function **out, propane_error *err);

/* Adds the attention half for devices that write into a cache in place. A further parameter rows [N] int32, after the
 * caches, holds the cache rows of the new keys and values; mask [1,1,N,T] selects the rows that each new position sees,
 * including its own. The results k_cache_out and v_cache_out are the caches, which the caller binds to the same
 * buffers. A sequence's rows may be anywhere, so positions of several sequences can be processed at once. */
PROPANE_CHECK propane_status model_build_attn_cached(mil_module *m, const char *name, const model_config *c,
                                                     const model_build_options *o, int layer, int64_t cache,
                                                     mil_function **out, propane_error *err);

/* Fills cos and sin [head_dim, count] for positions first, first+1, ... Rows i and i + model_config_rotary/2 hold the
 * cosine and sine of position * model_config_rope_rate(i), times model_config_rope_length. Windowed layers with a
 * separate base use model_config_local_rate and no such factor. Elements that are not rotated get 1 and 0. */
void model_rope_tables(const model_config *c, int64_t layer, int64_t first, int64_t count, double *cos_out,
                       double *sin_out);
/* Fills mask [count, cache + count] with 0 for positions that are seen and MODEL_MASKED for others. A new position sees
 * the cache rows below `filled`, the new positions before it and itself, but only the last `window` of all these (0
 * means all). */
void model_mask(int64_t count, int64_t cache, int64_t filled, int64_t window, float *out);

#define MODEL_MASKED (-1e4) /* finite in fp16 and far below any score */

#endif
