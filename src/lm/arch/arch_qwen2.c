/* SPDX-License-Identifier: MIT
 * Qwen2 and Qwen2.5: a Llama whose queries, keys and values have biases.
 */
#include <stddef.h>

#include "lm/arch/arch_llama_rows.h"

static const arch_tensor tensors[] = {
    ARCH_LLAMA_EMBED_ROW,

    ARCH_LLAMA_ATTN_NORM_ROW,
    ARCH_LLAMA_PROJECTION_ROWS,
    ARCH_LLAMA_QKV_BIAS_ROWS(ALWAYS),

    ARCH_LLAMA_FFN_NORM_ROW,
    ARCH_LLAMA_MLP_ROWS,

    ARCH_LLAMA_HEAD_ROWS,
    {.name = NULL},
};

static const arch_demand demands[] = {
    {"hidden_act", "silu swish"}, {"use_sliding_window", "false"}, {"layer_types", "full_attention"}, {NULL, NULL}};

const model_arch model_arch_qwen2 = {
    .type = "qwen2",
    .class_name = "Qwen2ForCausalLM",
    .gguf = "qwen2",
    ARCH_LLAMA_FIELDS,
    .positions = 32768,
    .norm_eps = 1e-6,
    .demands = demands,
    .adapted = "q_proj,v_proj",
    .tensors = tensors,
};
