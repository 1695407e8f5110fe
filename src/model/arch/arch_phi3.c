/* SPDX-License-Identifier: MIT
 * Phi-3: a Llama whose files hold queries, keys and values as one matrix, gate and up as another. RoPE may turn a part of a
 * head only. Contexts end where the sliding window does; two sets of RoPE factors (longrope) are refused.
 */
#include <stddef.h>

#include "model/arch/arch.h"

/* A row that lies in the files together with others. */
#define FUSED(part, param, name, stored, gguf, out)                                                                    \
    {MODEL_##part, param, name, gguf, ARCH_##out, ARCH_D, ARCH_MATRIX, ARCH_ALWAYS, stored, false}

static const arch_tensor tensors[] = {
    ARCH_ROW(EMBED, "embed_tokens", "model.embed_tokens.weight", "token_embd.weight", V, D, TABLE, ALWAYS),

    ARCH_ROW(ATTN, "norm_weight", "input_layernorm.weight", "attn_norm.weight", D, 1, SCALE, ALWAYS),
    FUSED(ATTN, "q_proj", "self_attn.q_proj.weight", "self_attn.qkv_proj.weight", "attn_qkv.weight", Q),
    FUSED(ATTN, "k_proj", "self_attn.k_proj.weight", "self_attn.qkv_proj.weight", "attn_qkv.weight", KV),
    FUSED(ATTN, "v_proj", "self_attn.v_proj.weight", "self_attn.qkv_proj.weight", "attn_qkv.weight", KV),
    ARCH_ROW(ATTN, "o_proj", "self_attn.o_proj.weight", "attn_output.weight", D, Q, RESIDUAL, ALWAYS),

    ARCH_ROW(FFN, "norm_weight", "post_attention_layernorm.weight", "ffn_norm.weight", D, 1, SCALE, ALWAYS),
    FUSED(FFN, "gate_proj", "mlp.gate_proj.weight", "mlp.gate_up_proj.weight", "ffn_up.weight", H),
    FUSED(FFN, "up_proj", "mlp.up_proj.weight", "mlp.gate_up_proj.weight", "ffn_up.weight", H),
    ARCH_ROW(FFN, "down_proj", "mlp.down_proj.weight", "ffn_down.weight", D, H, RESIDUAL, ALWAYS),

    ARCH_ROW(HEAD, "norm_weight", "model.norm.weight", "output_norm.weight", D, 1, SCALE, ALWAYS),
    ARCH_ROW(HEAD, "lm_head", "lm_head.weight", "output.weight", V, D, MATRIX, IF_OWN_HEAD),
    {.name = NULL},
};

static const arch_rename renames[] = {{NULL, NULL}};

static const arch_demand demands[] = {{"hidden_act", "silu swish"}, {NULL, NULL}};

const model_arch model_arch_phi3 = {
    .type = "phi3",
    .class_name = "Phi3ForCausalLM",
    .gguf = "phi3",
    .norm = ARCH_RMS_NORM,
    .mlp = ARCH_SILU_GATED,
    .position = ARCH_ROPE,
    .windowed = true,
    .partial_rotary = true,
    .act_key = "hidden_act",
    .act = "silu",
    .base = "model.",
    .layers = "model.layers.",
    .positions = 4096,
    .norm_eps = 1e-5,
    .renames = renames,
    .demands = demands,
    .adapted = "qkv_proj",
    .tensors = tensors,
};
