/* SPDX-License-Identifier: MIT
 * Llama and those that changed little of it: Llama 2 and 3 (and TinyLlama, SmolLM2, Stories), Qwen2 and 2.5 (queries, keys
 * and values have biases), Qwen3 (each head's queries and keys are normalised; head_dim stands by itself).
 */
#include <stddef.h>

#include "model/arch.h"

#define EMBED                                                                                                          \
    {MODEL_EMBED,                                                                                                      \
     "embed_tokens",                                                                                                   \
     "model.embed_tokens.weight",                                                                                      \
     "token_embd.weight",                                                                                              \
     ARCH_V,                                                                                                           \
     ARCH_D,                                                                                                           \
     ARCH_TABLE,                                                                                                       \
     ARCH_ALWAYS,                                                                                                      \
     NULL,                                                                                                             \
     false}
#define ATTN(param, name, gguf, out, in, role, when) {MODEL_ATTN, param, name, gguf, out, in, role, when, NULL, false}
#define FFN(param, name, gguf, out, in, role, when)  {MODEL_FFN, param, name, gguf, out, in, role, when, NULL, false}

#define ATTN_NORM                                                                                                      \
    ATTN("norm_weight", "input_layernorm.weight", "attn_norm.weight", ARCH_D, ARCH_1, ARCH_SCALE, ARCH_ALWAYS)
#define Q_PROJ ATTN("q_proj", "self_attn.q_proj.weight", "attn_q.weight", ARCH_Q, ARCH_D, ARCH_MATRIX, ARCH_ALWAYS)
#define K_PROJ ATTN("k_proj", "self_attn.k_proj.weight", "attn_k.weight", ARCH_KV, ARCH_D, ARCH_MATRIX, ARCH_ALWAYS)
#define V_PROJ ATTN("v_proj", "self_attn.v_proj.weight", "attn_v.weight", ARCH_KV, ARCH_D, ARCH_MATRIX, ARCH_ALWAYS)
#define O_PROJ                                                                                                         \
    ATTN("o_proj", "self_attn.o_proj.weight", "attn_output.weight", ARCH_D, ARCH_Q, ARCH_RESIDUAL, ARCH_ALWAYS)
#define QKV_BIAS(when)                                                                                                 \
    ATTN("q_bias", "self_attn.q_proj.bias", "attn_q.bias", ARCH_Q, ARCH_1, ARCH_SHIFT, when),                          \
        ATTN("k_bias", "self_attn.k_proj.bias", "attn_k.bias", ARCH_KV, ARCH_1, ARCH_SHIFT, when),                     \
        ATTN("v_bias", "self_attn.v_proj.bias", "attn_v.bias", ARCH_KV, ARCH_1, ARCH_SHIFT, when)
#define O_BIAS(when) ATTN("o_bias", "self_attn.o_proj.bias", "attn_output.bias", ARCH_D, ARCH_1, ARCH_SHIFT, when)
#define QK_NORM                                                                                                        \
    ATTN("q_norm", "self_attn.q_norm.weight", "attn_q_norm.weight", ARCH_HD, ARCH_1, ARCH_SCALE, ARCH_ALWAYS),         \
        ATTN("k_norm", "self_attn.k_norm.weight", "attn_k_norm.weight", ARCH_HD, ARCH_1, ARCH_SCALE, ARCH_ALWAYS)
#define MLP                                                                                                            \
    FFN("norm_weight", "post_attention_layernorm.weight", "ffn_norm.weight", ARCH_D, ARCH_1, ARCH_SCALE, ARCH_ALWAYS), \
        FFN("gate_proj", "mlp.gate_proj.weight", "ffn_gate.weight", ARCH_H, ARCH_D, ARCH_MATRIX, ARCH_ALWAYS),         \
        FFN("up_proj", "mlp.up_proj.weight", "ffn_up.weight", ARCH_H, ARCH_D, ARCH_MATRIX, ARCH_ALWAYS),               \
        FFN("down_proj", "mlp.down_proj.weight", "ffn_down.weight", ARCH_D, ARCH_H, ARCH_RESIDUAL, ARCH_ALWAYS)
#define MLP_BIAS(when)                                                                                                 \
    FFN("gate_bias", "mlp.gate_proj.bias", "ffn_gate.bias", ARCH_H, ARCH_1, ARCH_SHIFT, when),                         \
        FFN("up_bias", "mlp.up_proj.bias", "ffn_up.bias", ARCH_H, ARCH_1, ARCH_SHIFT, when),                           \
        FFN("down_bias", "mlp.down_proj.bias", "ffn_down.bias", ARCH_D, ARCH_1, ARCH_SHIFT, when)
#define HEAD                                                                                                           \
    {MODEL_HEAD, "norm_weight", "model.norm.weight", "output_norm.weight", ARCH_D, ARCH_1, ARCH_SCALE, ARCH_ALWAYS,    \
     NULL,       false},                                                                                               \
    {                                                                                                                  \
        MODEL_HEAD, "lm_head", "lm_head.weight", "output.weight", ARCH_V, ARCH_D, ARCH_MATRIX, ARCH_IF_OWN_HEAD, NULL, \
            false                                                                                                      \
    }

static const arch_tensor llama_tensors[] = {
    EMBED,
    ATTN_NORM,
    Q_PROJ,
    K_PROJ,
    V_PROJ,
    O_PROJ,
    QKV_BIAS(ARCH_IF_ATTENTION_BIAS),
    O_BIAS(ARCH_IF_ATTENTION_BIAS),
    MLP,
    MLP_BIAS(ARCH_IF_MLP_BIAS),
    HEAD,
    {.name = NULL},
};

static const arch_tensor qwen2_tensors[] = {
    EMBED, ATTN_NORM, Q_PROJ, K_PROJ, V_PROJ, O_PROJ, QKV_BIAS(ARCH_ALWAYS), MLP, HEAD, {.name = NULL},
};

static const arch_tensor qwen3_tensors[] = {
    EMBED,
    ATTN_NORM,
    Q_PROJ,
    K_PROJ,
    V_PROJ,
    O_PROJ,
    QKV_BIAS(ARCH_IF_ATTENTION_BIAS),
    O_BIAS(ARCH_IF_ATTENTION_BIAS),
    QK_NORM,
    MLP,
    HEAD,
    {.name = NULL},
};

static const arch_rename renames[] = {{NULL, NULL}};

static const arch_demand llama_demands[] = {{"hidden_act", "silu swish"}, {"partial_rotary_factor", "1"}, {NULL, NULL}};

static const arch_demand qwen_demands[] = {
    {"hidden_act", "silu swish"}, {"use_sliding_window", "false"}, {"layer_types", "full_attention"}, {NULL, NULL}};

const model_arch model_arch_llama = {
    .type = "llama",
    .class_name = "LlamaForCausalLM",
    .gguf = "llama",
    .norm = ARCH_RMS_NORM,
    .mlp = ARCH_SILU_GATED,
    .position = ARCH_ROPE,
    .gguf_pairs = true,
    .act_key = "hidden_act",
    .act = "silu",
    .base = "model.",
    .layers = "model.layers.",
    .positions = 2048,
    .norm_eps = 1e-6,
    .renames = renames,
    .demands = llama_demands,
    .tensors = llama_tensors,
};

const model_arch model_arch_qwen2 = {
    .type = "qwen2",
    .class_name = "Qwen2ForCausalLM",
    .gguf = "qwen2",
    .norm = ARCH_RMS_NORM,
    .mlp = ARCH_SILU_GATED,
    .position = ARCH_ROPE,
    .act_key = "hidden_act",
    .act = "silu",
    .base = "model.",
    .layers = "model.layers.",
    .positions = 32768,
    .norm_eps = 1e-6,
    .renames = renames,
    .demands = qwen_demands,
    .tensors = qwen2_tensors,
};

const model_arch model_arch_qwen3 = {
    .type = "qwen3",
    .class_name = "Qwen3ForCausalLM",
    .gguf = "qwen3",
    .norm = ARCH_RMS_NORM,
    .mlp = ARCH_SILU_GATED,
    .position = ARCH_ROPE,
    .act_key = "hidden_act",
    .act = "silu",
    .base = "model.",
    .layers = "model.layers.",
    .positions = 32768,
    .head_dim = 128,
    .norm_eps = 1e-6,
    .renames = renames,
    .demands = qwen_demands,
    .tensors = qwen3_tensors,
};
