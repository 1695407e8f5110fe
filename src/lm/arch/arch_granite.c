/* SPDX-License-Identifier: MIT
 * Granite 3: a Llama whose embeddings, residual branches and scores are multiplied by factors from the configuration,
 * and whose logits are divided by another factor.
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

static const arch_demand demands[] = {{"hidden_act", "silu swish"}, {NULL, NULL}};

const model_arch model_arch_granite = {
    .type = "granite",
    .class_name = "GraniteForCausalLM",
    .gguf = "granite",
    ARCH_LLAMA_FIELDS,
    .factors = true,
    .gguf_pairs = true,
    .positions = 2048,
    .norm_eps = 1e-6,
    .demands = demands,
    .adapted = "q_proj,v_proj",
    .tensors = tensors,
};
