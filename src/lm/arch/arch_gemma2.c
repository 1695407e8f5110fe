/* SPDX-License-Identifier: MIT
 * Gemma 2: embeddings scaled by sqrt(width), gated GELU, norms before and after each half, a window in every second
 * layer, scores and logits capped by tanh.
 */
#include <stddef.h>

#include "lm/arch/arch_gemma_rows.h"

static const arch_tensor tensors[] = {
    ARCH_LLAMA_EMBED_ROW,

    ARCH_GEMMA_ATTN_NORM_ROWS, ARCH_LLAMA_PROJECTION_ROWS,

    ARCH_GEMMA_FFN_NORM_ROWS,  ARCH_LLAMA_MLP_ROWS,

    ARCH_GEMMA_HEAD_ROWS,      {.name = NULL},
};

static const arch_demand demands[] = {ARCH_GEMMA_DEMANDS};

const model_arch model_arch_gemma2 = {
    .type = "gemma2",
    .class_name = "Gemma2ForCausalLM",
    .gguf = "gemma2",
    ARCH_GEMMA_FIELDS,
    .full_every = 2,
    .attention_softcap = 50,
    .logits_softcap = 30,
    .positions = 8192,
    .demands = demands,
    .tensors = tensors,
};
