/* SPDX-License-Identifier: MIT
 * Granite 3: a Llama whose embeddings, residual branches and scores are multiplied with factors of the configuration, and
 * whose logits are divided by one.
 */
#include <stddef.h>

#include "model/arch/arch.h"

static const arch_tensor tensors[] = {
    ARCH_ROW(EMBED, "embed_tokens", "model.embed_tokens.weight", "token_embd.weight", V, D, TABLE, ALWAYS),

    ARCH_ROW(ATTN, "norm_weight", "input_layernorm.weight", "attn_norm.weight", D, 1, SCALE, ALWAYS),
    ARCH_ROW(ATTN, "q_proj", "self_attn.q_proj.weight", "attn_q.weight", Q, D, MATRIX, ALWAYS),
    ARCH_ROW(ATTN, "k_proj", "self_attn.k_proj.weight", "attn_k.weight", KV, D, MATRIX, ALWAYS),
    ARCH_ROW(ATTN, "v_proj", "self_attn.v_proj.weight", "attn_v.weight", KV, D, MATRIX, ALWAYS),
    ARCH_ROW(ATTN, "o_proj", "self_attn.o_proj.weight", "attn_output.weight", D, Q, RESIDUAL, ALWAYS),
    ARCH_ROW(ATTN, "q_bias", "self_attn.q_proj.bias", "attn_q.bias", Q, 1, SHIFT, IF_ATTENTION_BIAS),
    ARCH_ROW(ATTN, "k_bias", "self_attn.k_proj.bias", "attn_k.bias", KV, 1, SHIFT, IF_ATTENTION_BIAS),
    ARCH_ROW(ATTN, "v_bias", "self_attn.v_proj.bias", "attn_v.bias", KV, 1, SHIFT, IF_ATTENTION_BIAS),
    ARCH_ROW(ATTN, "o_bias", "self_attn.o_proj.bias", "attn_output.bias", D, 1, SHIFT, IF_ATTENTION_BIAS),

    ARCH_ROW(FFN, "norm_weight", "post_attention_layernorm.weight", "ffn_norm.weight", D, 1, SCALE, ALWAYS),
    ARCH_ROW(FFN, "gate_proj", "mlp.gate_proj.weight", "ffn_gate.weight", H, D, MATRIX, ALWAYS),
    ARCH_ROW(FFN, "up_proj", "mlp.up_proj.weight", "ffn_up.weight", H, D, MATRIX, ALWAYS),
    ARCH_ROW(FFN, "down_proj", "mlp.down_proj.weight", "ffn_down.weight", D, H, RESIDUAL, ALWAYS),
    ARCH_ROW(FFN, "gate_bias", "mlp.gate_proj.bias", "ffn_gate.bias", H, 1, SHIFT, IF_MLP_BIAS),
    ARCH_ROW(FFN, "up_bias", "mlp.up_proj.bias", "ffn_up.bias", H, 1, SHIFT, IF_MLP_BIAS),
    ARCH_ROW(FFN, "down_bias", "mlp.down_proj.bias", "ffn_down.bias", D, 1, SHIFT, IF_MLP_BIAS),

    ARCH_ROW(HEAD, "norm_weight", "model.norm.weight", "output_norm.weight", D, 1, SCALE, ALWAYS),
    ARCH_ROW(HEAD, "lm_head", "lm_head.weight", "output.weight", V, D, MATRIX, IF_OWN_HEAD),
    {.name = NULL},
};

static const arch_rename renames[] = {{NULL, NULL}};

static const arch_demand demands[] = {{"hidden_act", "silu swish"}, {NULL, NULL}};

const model_arch model_arch_granite = {
    .type = "granite",
    .class_name = "GraniteForCausalLM",
    .gguf = "granite",
    .norm = ARCH_RMS_NORM,
    .mlp = ARCH_SILU_GATED,
    .position = ARCH_ROPE,
    .act_key = "hidden_act",
    .act = "silu",
    .base = "model.",
    .layers = "model.layers.",
    .factors = true,
    .gguf_pairs = true,
    .positions = 2048,
    .norm_eps = 1e-6,
    .renames = renames,
    .demands = demands,
    .adapted = "q_proj,v_proj",
    .tensors = tensors,
};
