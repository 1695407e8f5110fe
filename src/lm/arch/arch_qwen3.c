/* SPDX-License-Identifier: MIT
 * Qwen3: a Llama whose queries and keys are normalised head by head; the head size does not depend on the width.
 */
#include <stddef.h>

#include "lm/arch/arch_llama_rows.h"

static const arch_tensor tensors[] = {
    ARCH_LLAMA_EMBED_ROW,

    ARCH_LLAMA_ATTN_NORM_ROW,       ARCH_LLAMA_PROJECTION_ROWS,
    ARCH_LLAMA_ATTENTION_BIAS_ROWS, ARCH_LLAMA_QK_NORM_ROWS,

    ARCH_LLAMA_FFN_NORM_ROW,        ARCH_LLAMA_MLP_ROWS,

    ARCH_LLAMA_HEAD_ROWS,           {.name = NULL},
};

static const arch_demand demands[] = {
    {"hidden_act", "silu swish"}, {"use_sliding_window", "false"}, {"layer_types", "full_attention"}, {NULL, NULL}};

const model_arch model_arch_qwen3 = {
    .type = "qwen3",
    .class_name = "Qwen3ForCausalLM",
    .gguf = "qwen3",
    ARCH_LLAMA_FIELDS,
    .positions = 32768,
    .head_dim = 128,
    .norm_eps = 1e-6,
    .demands = demands,
    .adapted = "q_proj,v_proj",
    .tensors = tensors,
};
