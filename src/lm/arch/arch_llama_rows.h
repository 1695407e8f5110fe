/* SPDX-License-Identifier: MIT
 * Rows of tensors and fields of model_arch that models of Llama's form share. The rows are in the order of the
 * architectures' tables.
 */
#ifndef LM_ARCH_ARCH_LLAMA_ROWS_H
#define LM_ARCH_ARCH_LLAMA_ROWS_H

#include "lm/arch/arch.h"

#define ARCH_LLAMA_EMBED_ROW                                                                                           \
    ARCH_ROW(EMBED, "embed_tokens", "model.embed_tokens.weight", "token_embd.weight", V, D, TABLE, ALWAYS)
#define ARCH_LLAMA_ATTN_NORM_ROW                                                                                       \
    ARCH_ROW(ATTN, "norm_weight", "input_layernorm.weight", "attn_norm.weight", D, 1, SCALE, ALWAYS)
#define ARCH_LLAMA_O_PROJ_ROW                                                                                          \
    ARCH_ROW(ATTN, "o_proj", "self_attn.o_proj.weight", "attn_output.weight", D, Q, RESIDUAL, ALWAYS)
#define ARCH_LLAMA_PROJECTION_ROWS                                                                                     \
    ARCH_ROW(ATTN, "q_proj", "self_attn.q_proj.weight", "attn_q.weight", Q, D, MATRIX, ALWAYS),                        \
        ARCH_ROW(ATTN, "k_proj", "self_attn.k_proj.weight", "attn_k.weight", KV, D, MATRIX, ALWAYS),                   \
        ARCH_ROW(ATTN, "v_proj", "self_attn.v_proj.weight", "attn_v.weight", KV, D, MATRIX, ALWAYS),                   \
        ARCH_LLAMA_O_PROJ_ROW
#define ARCH_LLAMA_QKV_BIAS_ROWS(when)                                                                                 \
    ARCH_ROW(ATTN, "q_bias", "self_attn.q_proj.bias", "attn_q.bias", Q, 1, SHIFT, when),                               \
        ARCH_ROW(ATTN, "k_bias", "self_attn.k_proj.bias", "attn_k.bias", KV, 1, SHIFT, when),                          \
        ARCH_ROW(ATTN, "v_bias", "self_attn.v_proj.bias", "attn_v.bias", KV, 1, SHIFT, when)
#define ARCH_LLAMA_ATTENTION_BIAS_ROWS                                                                                 \
    ARCH_LLAMA_QKV_BIAS_ROWS(IF_ATTENTION_BIAS),                                                                       \
        ARCH_ROW(ATTN, "o_bias", "self_attn.o_proj.bias", "attn_output.bias", D, 1, SHIFT, IF_ATTENTION_BIAS)
#define ARCH_LLAMA_QK_NORM_ROWS                                                                                        \
    ARCH_ROW(ATTN, "q_norm", "self_attn.q_norm.weight", "attn_q_norm.weight", HD, 1, SCALE, ALWAYS),                   \
        ARCH_ROW(ATTN, "k_norm", "self_attn.k_norm.weight", "attn_k_norm.weight", HD, 1, SCALE, ALWAYS)
#define ARCH_LLAMA_FFN_NORM_ROW                                                                                        \
    ARCH_ROW(FFN, "norm_weight", "post_attention_layernorm.weight", "ffn_norm.weight", D, 1, SCALE, ALWAYS)
#define ARCH_LLAMA_DOWN_PROJ_ROW                                                                                       \
    ARCH_ROW(FFN, "down_proj", "mlp.down_proj.weight", "ffn_down.weight", D, H, RESIDUAL, ALWAYS)
#define ARCH_LLAMA_MLP_ROWS                                                                                            \
    ARCH_ROW(FFN, "gate_proj", "mlp.gate_proj.weight", "ffn_gate.weight", H, D, MATRIX, ALWAYS),                       \
        ARCH_ROW(FFN, "up_proj", "mlp.up_proj.weight", "ffn_up.weight", H, D, MATRIX, ALWAYS),                         \
        ARCH_LLAMA_DOWN_PROJ_ROW
#define ARCH_LLAMA_MLP_BIAS_ROWS                                                                                       \
    ARCH_ROW(FFN, "gate_bias", "mlp.gate_proj.bias", "ffn_gate.bias", H, 1, SHIFT, IF_MLP_BIAS),                       \
        ARCH_ROW(FFN, "up_bias", "mlp.up_proj.bias", "ffn_up.bias", H, 1, SHIFT, IF_MLP_BIAS),                         \
        ARCH_ROW(FFN, "down_bias", "mlp.down_proj.bias", "ffn_down.bias", D, 1, SHIFT, IF_MLP_BIAS)
#define ARCH_LLAMA_HEAD_ROWS                                                                                           \
    ARCH_ROW(HEAD, "norm_weight", "model.norm.weight", "output_norm.weight", D, 1, SCALE, ALWAYS),                     \
        ARCH_ROW(HEAD, "lm_head", "lm_head.weight", "output.weight", V, D, MATRIX, IF_OWN_HEAD)

#define ARCH_LLAMA_FIELDS                                                                                              \
    .norm = ARCH_RMS_NORM, .mlp = ARCH_SILU_GATED, .position = ARCH_ROPE, .act_key = "hidden_act", .act = "silu",      \
    .base = "model.", .layers = "model.layers."

#endif
