/* SPDX-License-Identifier: MIT
 * OLMo 2: a Llama that normalises the result of each half of a layer instead of the half's input. Queries and keys are
 * normalised over all heads jointly.
 */
#include <stddef.h>

#include "lm/arch/arch_llama_rows.h"

static const arch_tensor tensors[] = {
    ARCH_LLAMA_EMBED_ROW,

    ARCH_LLAMA_PROJECTION_ROWS,
    ARCH_ROW(ATTN, "q_norm", "self_attn.q_norm.weight", "attn_q_norm.weight", Q, 1, SCALE, ALWAYS),
    ARCH_ROW(ATTN, "k_norm", "self_attn.k_norm.weight", "attn_k_norm.weight", KV, 1, SCALE, ALWAYS),
    ARCH_ROW(ATTN, "post_weight", "post_attention_layernorm.weight", "post_attention_norm.weight", D, 1, SCALE, ALWAYS),

    ARCH_LLAMA_MLP_ROWS,
    ARCH_ROW(FFN, "post_weight", "post_feedforward_layernorm.weight", "post_ffw_norm.weight", D, 1, SCALE, ALWAYS),

    ARCH_LLAMA_HEAD_ROWS,
    {.name = NULL},
};

static const arch_demand demands[] = {{"hidden_act", "silu swish"}, {"attention_bias", "false"}, {NULL, NULL}};

const model_arch model_arch_olmo2 = {
    .type = "olmo2",
    .class_name = "Olmo2ForCausalLM",
    .gguf = "olmo2",
    ARCH_LLAMA_FIELDS,
    .positions = 2048,
    .norm_eps = 1e-5,
    .demands = demands,
    .adapted = "q_proj,v_proj",
    .tensors = tensors,
};
