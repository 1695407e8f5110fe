/* SPDX-License-Identifier: MIT
 * Qwen3-MoE: a Qwen3 whose feed-forward half consists of experts. Models in which only some layers have experts are
 * refused.
 */
#include <stddef.h>

#include "lm/arch/arch_llama_rows.h"

#define EXPERTS(param_, gguf_, out_, in_, role_)                                                                       \
    {.part = MODEL_FFN,                                                                                                \
     .param = param_,                                                                                                  \
     .name = "mlp.experts." param_ ".weight",                                                                          \
     .stored = "mlp.experts.*." param_ ".weight",                                                                      \
     .gguf = gguf_,                                                                                                    \
     .out = ARCH_##out_,                                                                                               \
     .in = ARCH_##in_,                                                                                                 \
     .role = ARCH_##role_,                                                                                             \
     .experts = true}

static const arch_tensor tensors[] = {
    ARCH_LLAMA_EMBED_ROW,

    ARCH_LLAMA_ATTN_NORM_ROW,
    ARCH_LLAMA_PROJECTION_ROWS,
    ARCH_LLAMA_ATTENTION_BIAS_ROWS,
    ARCH_LLAMA_QK_NORM_ROWS,

    ARCH_LLAMA_FFN_NORM_ROW,
    ARCH_ROW(FFN, "router", "mlp.gate.weight", "ffn_gate_inp.weight", E, D, ROUTER, ALWAYS),
    EXPERTS("gate_proj", "ffn_gate_exps.weight", H, D, MATRIX),
    EXPERTS("up_proj", "ffn_up_exps.weight", H, D, MATRIX),
    EXPERTS("down_proj", "ffn_down_exps.weight", D, H, RESIDUAL),

    ARCH_LLAMA_HEAD_ROWS,
    {.name = NULL},
};

/* The loss that balances experts, which transformers adds with output_router_logits, is not supported. */
static const arch_demand demands[] = {{"hidden_act", "silu swish"},
                                      {"use_sliding_window", "false"},
                                      {"layer_types", "full_attention"},
                                      {"decoder_sparse_step", "1"},
                                      {"mlp_only_layers", "[]"},
                                      {"output_router_logits", "false"},
                                      {NULL, NULL}};

const model_arch model_arch_qwen3_moe = {
    .type = "qwen3_moe",
    .class_name = "Qwen3MoeForCausalLM",
    .gguf = "qwen3moe",
    ARCH_LLAMA_FIELDS,
    .experts = true,
    .positions = 32768,
    .norm_eps = 1e-6,
    .demands = demands,
    .adapted = "q_proj,v_proj",
    .tensors = tensors,
};
