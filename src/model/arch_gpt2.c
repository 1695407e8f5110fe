/* SPDX-License-Identifier: MIT
 * GPT-2: LayerNorm, a GELU in its tanh form, learned positions, biases everywhere. Its files hold every matrix of a layer
 * as [in, out], queries, keys and values side by side in one; in Propane they are three of [out, in], like everybody's.
 */
#include <stddef.h>

#include "model/arch.h"

#define LAYER(part, param, name, stored, gguf, out, in, role)                                                          \
    {part, param, name, gguf, out, in, role, ARCH_ALWAYS, stored, in != ARCH_1}
#define ATTN(param, name, stored, gguf, out, in, role)                                                                 \
    LAYER(MODEL_ATTN, param, "attn." name, "attn." stored, gguf, out, in, role)
#define FFN(param, name, stored, gguf, out, in, role)                                                                  \
    LAYER(MODEL_FFN, param, "mlp." name, "mlp." stored, gguf, out, in, role)
#define NORM(part, param, name, gguf, role) {part, param, name, gguf, ARCH_D, ARCH_1, role, ARCH_ALWAYS, NULL, false}

static const arch_tensor tensors[] = {
    {MODEL_EMBED, "embed_tokens", "transformer.wte.weight", "token_embd.weight", ARCH_V, ARCH_D, ARCH_TABLE,
     ARCH_ALWAYS, NULL, false},
    {MODEL_EMBED, "embed_positions", "transformer.wpe.weight", "position_embd.weight", ARCH_P, ARCH_D, ARCH_TABLE,
     ARCH_ALWAYS, NULL, false},

    NORM(MODEL_ATTN, "norm_weight", "ln_1.weight", "attn_norm.weight", ARCH_SCALE),
    NORM(MODEL_ATTN, "norm_bias", "ln_1.bias", "attn_norm.bias", ARCH_SHIFT),
    ATTN("q_proj", "q_proj.weight", "c_attn.weight", "attn_qkv.weight", ARCH_Q, ARCH_D, ARCH_MATRIX),
    ATTN("k_proj", "k_proj.weight", "c_attn.weight", "attn_qkv.weight", ARCH_KV, ARCH_D, ARCH_MATRIX),
    ATTN("v_proj", "v_proj.weight", "c_attn.weight", "attn_qkv.weight", ARCH_KV, ARCH_D, ARCH_MATRIX),
    ATTN("q_bias", "q_proj.bias", "c_attn.bias", "attn_qkv.bias", ARCH_Q, ARCH_1, ARCH_SHIFT),
    ATTN("k_bias", "k_proj.bias", "c_attn.bias", "attn_qkv.bias", ARCH_KV, ARCH_1, ARCH_SHIFT),
    ATTN("v_bias", "v_proj.bias", "c_attn.bias", "attn_qkv.bias", ARCH_KV, ARCH_1, ARCH_SHIFT),
    ATTN("o_proj", "o_proj.weight", "c_proj.weight", "attn_output.weight", ARCH_D, ARCH_Q, ARCH_RESIDUAL),
    ATTN("o_bias", "o_proj.bias", "c_proj.bias", "attn_output.bias", ARCH_D, ARCH_1, ARCH_SHIFT),

    NORM(MODEL_FFN, "norm_weight", "ln_2.weight", "ffn_norm.weight", ARCH_SCALE),
    NORM(MODEL_FFN, "norm_bias", "ln_2.bias", "ffn_norm.bias", ARCH_SHIFT),
    FFN("up_proj", "up_proj.weight", "c_fc.weight", "ffn_up.weight", ARCH_H, ARCH_D, ARCH_MATRIX),
    FFN("up_bias", "up_proj.bias", "c_fc.bias", "ffn_up.bias", ARCH_H, ARCH_1, ARCH_SHIFT),
    FFN("down_proj", "down_proj.weight", "c_proj.weight", "ffn_down.weight", ARCH_D, ARCH_H, ARCH_RESIDUAL),
    FFN("down_bias", "down_proj.bias", "c_proj.bias", "ffn_down.bias", ARCH_D, ARCH_1, ARCH_SHIFT),

    NORM(MODEL_HEAD, "norm_weight", "transformer.ln_f.weight", "output_norm.weight", ARCH_SCALE),
    NORM(MODEL_HEAD, "norm_bias", "transformer.ln_f.bias", "output_norm.bias", ARCH_SHIFT),
    {MODEL_HEAD, "lm_head", "lm_head.weight", "output.weight", ARCH_V, ARCH_D, ARCH_MATRIX, ARCH_IF_OWN_HEAD, NULL,
     false},
    {.name = NULL},
};

static const arch_rename renames[] = {{"hidden_size", "n_embd"},
                                      {"intermediate_size", "n_inner"},
                                      {"num_hidden_layers", "n_layer"},
                                      {"num_attention_heads", "n_head"},
                                      {"num_key_value_heads", NULL},
                                      {"head_dim", NULL},
                                      {"max_position_embeddings", "n_positions"},
                                      {"rms_norm_eps", "layer_norm_epsilon"},
                                      {NULL, NULL}};

static const arch_demand demands[] = {{"activation_function", "gelu_new gelu_pytorch_tanh"},
                                      {"scale_attn_weights", "true"},
                                      {"scale_attn_by_inverse_layer_idx", "false"},
                                      {"add_cross_attention", "false"},
                                      {NULL, NULL}};

const model_arch model_arch_gpt2 = {
    .type = "gpt2",
    .class_name = "GPT2LMHeadModel",
    .gguf = "gpt2",
    .norm = ARCH_LAYER_NORM,
    .mlp = ARCH_GELU_TANH,
    .position = ARCH_LEARNED,
    .act_key = "activation_function",
    .act = "gelu_new",
    .base = "transformer.",
    .layers = "transformer.h.",
    .positions = 1024,
    .norm_eps = 1e-5,
    .tied = true,
    .renames = renames,
    .demands = demands,
    .tensors = tensors,
};
