/* SPDX-License-Identifier: MIT
 * Mistral: a Llama without biases, whose attention looks back at most one window. GGUF files name this architecture
 * "llama".
 */
#include <stddef.h>

#include "lm/arch/arch_llama_rows.h"

static const arch_tensor tensors[] = {
    ARCH_LLAMA_EMBED_ROW,

    ARCH_LLAMA_ATTN_NORM_ROW, ARCH_LLAMA_PROJECTION_ROWS,

    ARCH_LLAMA_FFN_NORM_ROW,  ARCH_LLAMA_MLP_ROWS,

    ARCH_LLAMA_HEAD_ROWS,     {.name = NULL},
};

static const arch_demand demands[] = {{"hidden_act", "silu swish"}, {NULL, NULL}};

const model_arch model_arch_mistral = {
    .type = "mistral",
    .class_name = "MistralForCausalLM",
    .gguf = "llama",
    ARCH_LLAMA_FIELDS,
    .windowed = true,
    .gguf_pairs = true,
    .positions = 131072,
    .norm_eps = 1e-6,
    .demands = demands,
    .adapted = "q_proj,v_proj",
    .tensors = tensors,
};
