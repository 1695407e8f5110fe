/* SPDX-License-Identifier: MIT
 * SmolLM3: a Llama in which every fourth layer has no positional encoding (NoPE).
 */
#include <stddef.h>

#include "lm/arch/arch_llama_rows.h"

static const arch_tensor tensors[] = {
    ARCH_LLAMA_EMBED_ROW,

    ARCH_LLAMA_ATTN_NORM_ROW,       ARCH_LLAMA_PROJECTION_ROWS,
    ARCH_LLAMA_ATTENTION_BIAS_ROWS,

    ARCH_LLAMA_FFN_NORM_ROW,        ARCH_LLAMA_MLP_ROWS,
    ARCH_LLAMA_MLP_BIAS_ROWS,

    ARCH_LLAMA_HEAD_ROWS,           {.name = NULL},
};

static const arch_demand demands[] = {
    {"hidden_act", "silu swish"}, {"use_sliding_window", "false"}, {"layer_types", "full_attention"}, {NULL, NULL}};

const model_arch model_arch_smollm3 = {
    .type = "smollm3",
    .class_name = "SmolLM3ForCausalLM",
    .gguf = "smollm3",
    ARCH_LLAMA_FIELDS,
    .gguf_pairs = true,
    .nope_every = 4,
    .rope_theta = 2e6,
    .positions = 32768,
    .norm_eps = 1e-6,
    .tied = true,
    .demands = demands,
    .adapted = "q_proj,v_proj",
    .tensors = tensors,
};
