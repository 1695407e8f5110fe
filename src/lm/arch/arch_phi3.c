/* SPDX-License-Identifier: MIT
 * Phi-3: a Llama whose files hold queries, keys and values as one matrix, and gate and up as another. RoPE may rotate
 * only part of a head, with separate factors (longrope).
 */
#include <stddef.h>

#include "lm/arch/arch_llama_rows.h"

/* A row that files hold as one tensor together with other rows. */
#define FUSED(part, param, name, stored, gguf, out)                                                                    \
    {MODEL_##part, param, name, gguf, ARCH_##out, ARCH_D, ARCH_MATRIX, ARCH_ALWAYS, stored, false, false}

static const arch_tensor tensors[] = {
    ARCH_LLAMA_EMBED_ROW,

    ARCH_LLAMA_ATTN_NORM_ROW,
    FUSED(ATTN, "q_proj", "self_attn.q_proj.weight", "self_attn.qkv_proj.weight", "attn_qkv.weight", Q),
    FUSED(ATTN, "k_proj", "self_attn.k_proj.weight", "self_attn.qkv_proj.weight", "attn_qkv.weight", KV),
    FUSED(ATTN, "v_proj", "self_attn.v_proj.weight", "self_attn.qkv_proj.weight", "attn_qkv.weight", KV),
    ARCH_LLAMA_O_PROJ_ROW,

    ARCH_LLAMA_FFN_NORM_ROW,
    FUSED(FFN, "gate_proj", "mlp.gate_proj.weight", "mlp.gate_up_proj.weight", "ffn_up.weight", H),
    FUSED(FFN, "up_proj", "mlp.up_proj.weight", "mlp.gate_up_proj.weight", "ffn_up.weight", H),
    ARCH_LLAMA_DOWN_PROJ_ROW,

    ARCH_LLAMA_HEAD_ROWS,
    {.name = NULL},
};

static const arch_demand demands[] = {{"hidden_act", "silu swish"}, {NULL, NULL}};

const model_arch model_arch_phi3 = {
    .type = "phi3",
    .class_name = "Phi3ForCausalLM",
    .gguf = "phi3",
    ARCH_LLAMA_FIELDS,
    .windowed = true,
    .partial_rotary = true,
    .positions = 4096,
    .norm_eps = 1e-5,
    .demands = demands,
    .adapted = "qkv_proj",
    .tensors = tensors,
};
