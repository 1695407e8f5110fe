/* SPDX-License-Identifier: MIT
 * GPT-2 has LayerNorm, GELU in its tanh form, learned positions and biases everywhere. Its files hold every matrix of a
 * layer as [in, out], and queries, keys and values next to each other in one matrix. In Propane these are three
 * matrices [out, in], as in every architecture.
 */
#include <stddef.h>

#include "lm/arch/arch.h"

/* A row whose tensor has another name in the files; the files hold matrices transposed. */
#define MOVED(part, param, name, stored, gguf, out, in, role)                                                          \
    {MODEL_##part,        param, name, gguf, ARCH_##out, ARCH_##in, ARCH_##role, ARCH_ALWAYS, stored,                  \
     ARCH_##in != ARCH_1, false}

static const arch_tensor tensors[] = {
    ARCH_ROW(EMBED, "embed_tokens", "transformer.wte.weight", "token_embd.weight", V, D, TABLE, ALWAYS),
    ARCH_ROW(EMBED, "embed_positions", "transformer.wpe.weight", "position_embd.weight", P, D, TABLE, ALWAYS),

    ARCH_ROW(ATTN, "norm_weight", "ln_1.weight", "attn_norm.weight", D, 1, SCALE, ALWAYS),
    ARCH_ROW(ATTN, "norm_bias", "ln_1.bias", "attn_norm.bias", D, 1, SHIFT, ALWAYS),
    MOVED(ATTN, "q_proj", "attn.q_proj.weight", "attn.c_attn.weight", "attn_qkv.weight", Q, D, MATRIX),
    MOVED(ATTN, "k_proj", "attn.k_proj.weight", "attn.c_attn.weight", "attn_qkv.weight", KV, D, MATRIX),
    MOVED(ATTN, "v_proj", "attn.v_proj.weight", "attn.c_attn.weight", "attn_qkv.weight", KV, D, MATRIX),
    MOVED(ATTN, "q_bias", "attn.q_proj.bias", "attn.c_attn.bias", "attn_qkv.bias", Q, 1, SHIFT),
    MOVED(ATTN, "k_bias", "attn.k_proj.bias", "attn.c_attn.bias", "attn_qkv.bias", KV, 1, SHIFT),
    MOVED(ATTN, "v_bias", "attn.v_proj.bias", "attn.c_attn.bias", "attn_qkv.bias", KV, 1, SHIFT),
    MOVED(ATTN, "o_proj", "attn.o_proj.weight", "attn.c_proj.weight", "attn_output.weight", D, Q, RESIDUAL),
    MOVED(ATTN, "o_bias", "attn.o_proj.bias", "attn.c_proj.bias", "attn_output.bias", D, 1, SHIFT),

    ARCH_ROW(FFN, "norm_weight", "ln_2.weight", "ffn_norm.weight", D, 1, SCALE, ALWAYS),
    ARCH_ROW(FFN, "norm_bias", "ln_2.bias", "ffn_norm.bias", D, 1, SHIFT, ALWAYS),
    MOVED(FFN, "up_proj", "mlp.up_proj.weight", "mlp.c_fc.weight", "ffn_up.weight", H, D, MATRIX),
    MOVED(FFN, "up_bias", "mlp.up_proj.bias", "mlp.c_fc.bias", "ffn_up.bias", H, 1, SHIFT),
    MOVED(FFN, "down_proj", "mlp.down_proj.weight", "mlp.c_proj.weight", "ffn_down.weight", D, H, RESIDUAL),
    MOVED(FFN, "down_bias", "mlp.down_proj.bias", "mlp.c_proj.bias", "ffn_down.bias", D, 1, SHIFT),

    ARCH_ROW(HEAD, "norm_weight", "transformer.ln_f.weight", "output_norm.weight", D, 1, SCALE, ALWAYS),
    ARCH_ROW(HEAD, "norm_bias", "transformer.ln_f.bias", "output_norm.bias", D, 1, SHIFT, ALWAYS),
    ARCH_ROW(HEAD, "lm_head", "lm_head.weight", "output.weight", V, D, MATRIX, IF_OWN_HEAD),
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
    .adapted = "c_attn",
    .tensors = tensors,
};
