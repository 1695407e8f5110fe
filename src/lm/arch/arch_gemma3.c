/* SPDX-License-Identifier: MIT
 * Gemma 3 (text): like Gemma 2, with norms of each head's queries and keys instead of caps. Five layers of six have a
 * window and a separate RoPE base.
 */
#include <stddef.h>

#include "lm/arch/arch_gemma_rows.h"

static const arch_tensor tensors[] = {
    ARCH_LLAMA_EMBED_ROW,

    ARCH_GEMMA_ATTN_NORM_ROWS,
    ARCH_LLAMA_PROJECTION_ROWS,
    ARCH_GEMMA_NORM(ATTN, "q_norm", "self_attn.q_norm", "attn_q_norm.weight", HD),
    ARCH_GEMMA_NORM(ATTN, "k_norm", "self_attn.k_norm", "attn_k_norm.weight", HD),

    ARCH_GEMMA_FFN_NORM_ROWS,
    ARCH_LLAMA_MLP_ROWS,

    ARCH_GEMMA_HEAD_ROWS,
    {.name = NULL},
};

static const arch_demand demands[] = {ARCH_GEMMA_DEMANDS};

const model_arch model_arch_gemma3 = {
    .type = "gemma3_text",
    .class_name = "Gemma3ForCausalLM",
    .gguf = "gemma3",
    ARCH_GEMMA_FIELDS,
    .full_every = 6,
    .rope_theta = 1e6,
    .rope_local_theta = 10000,
    .positions = 131072,
    .demands = demands,
    .tensors = tensors,
};
