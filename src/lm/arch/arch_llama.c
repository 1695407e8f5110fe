/* SPDX-License-Identifier: MIT
 * Llama 2 and 3 and models of the same form: TinyLlama, SmolLM2, Stories. They have RMSNorm, gated SiLU, RoPE (scaled
 * in Llama 3), and biases if the configuration sets them.
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

static const arch_demand demands[] = {{"hidden_act", "silu swish"}, {"partial_rotary_factor", "1"}, {NULL, NULL}};

const model_arch model_arch_llama = {
    .type = "llama",
    .class_name = "LlamaForCausalLM",
    .gguf = "llama",
    ARCH_LLAMA_FIELDS,
    .gguf_pairs = true,
    .positions = 2048,
    .norm_eps = 1e-6,
    .demands = demands,
    .adapted = "q_proj,v_proj",
    .tensors = tensors,
};
