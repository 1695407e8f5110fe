/* SPDX-License-Identifier: MIT
 * Rows of tensors that the Gemma models share. They have norms before and after each half of a layer. Hugging Face's
 * files store the weights of these norms minus 1.
 */
#ifndef LM_ARCH_ARCH_GEMMA_ROWS_H
#define LM_ARCH_ARCH_GEMMA_ROWS_H

#include "lm/arch/arch_llama_rows.h"

/* A norm's row; `name` comes without ".weight". Propane stores other numbers than the files do, and therefore uses
 * another name. */
#define ARCH_GEMMA_NORM(part, param, name, gguf, size)                                                                 \
    {MODEL_##part, param,       name ".scale",  gguf,  ARCH_##size, ARCH_1,                                            \
     ARCH_SCALE,   ARCH_ALWAYS, name ".weight", false, true}

#define ARCH_GEMMA_ATTN_NORM_ROWS                                                                                      \
    ARCH_GEMMA_NORM(ATTN, "norm_weight", "input_layernorm", "attn_norm.weight", D),                                    \
        ARCH_GEMMA_NORM(ATTN, "post_weight", "post_attention_layernorm", "post_attention_norm.weight", D)
#define ARCH_GEMMA_FFN_NORM_ROWS                                                                                       \
    ARCH_GEMMA_NORM(FFN, "norm_weight", "pre_feedforward_layernorm", "ffn_norm.weight", D),                            \
        ARCH_GEMMA_NORM(FFN, "post_weight", "post_feedforward_layernorm", "post_ffw_norm.weight", D)
#define ARCH_GEMMA_HEAD_ROWS                                                                                           \
    ARCH_GEMMA_NORM(HEAD, "norm_weight", "model.norm", "output_norm.weight", D),                                       \
        ARCH_ROW(HEAD, "lm_head", "lm_head.weight", "output.weight", V, D, MATRIX, IF_OWN_HEAD)

#define ARCH_GEMMA_DEMANDS                                                                                             \
    {"hidden_activation", "gelu_pytorch_tanh"}, {"attention_bias", "false"}, {"use_bidirectional_attention", "false"}, \
    {                                                                                                                  \
        NULL, NULL                                                                                                     \
    }

/* Fields of model_arch that both models share. */
#define ARCH_GEMMA_FIELDS                                                                                              \
    .norm = ARCH_RMS_NORM, .mlp = ARCH_GELU_GATED, .position = ARCH_ROPE, .act_key = "hidden_activation",              \
    .act = "gelu_pytorch_tanh", .base = "model.", .layers = "model.layers.", .windowed = true, .gemma = true,          \
    .window = 4096, .head_dim = 256, .norm_eps = 1e-6, .tied = true, .adapted = "q_proj,v_proj"

#endif
