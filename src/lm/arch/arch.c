/* SPDX-License-Identifier: MIT
 * Owns the list of architectures and the queries on their rows.
 */
#include "lm/arch/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const model_arch *const list[] = {&model_arch_llama,  &model_arch_qwen2,   &model_arch_qwen3,
                                         &model_arch_gpt2,   &model_arch_mistral, &model_arch_granite,
                                         &model_arch_olmo2,  &model_arch_phi3,    &model_arch_smollm3,
                                         &model_arch_gemma2, &model_arch_gemma3,  &model_arch_qwen3_moe};

int model_arch_count(void) { return (int)(sizeof list / sizeof list[0]); }
const model_arch *model_arch_at(int index) { return list[index]; }

const model_arch *model_arch_find(const char *type) {
    for (int i = 0; i < model_arch_count(); i++)
        if (strcmp(list[i]->type, type) == 0) return list[i];
    return NULL;
}

const model_arch *model_arch_gguf(const char *name) {
    for (int i = 0; i < model_arch_count(); i++)
        if (strcmp(list[i]->gguf, name) == 0) return list[i];
    return NULL;
}

const char *model_arch_names(char out[ARCH_NAMES_LENGTH]) {
    out[0] = 0;
    for (int i = 0; i < model_arch_count(); i++) {
        size_t used = strlen(out);
        snprintf(out + used, ARCH_NAMES_LENGTH - used, "%s%s", i ? ", " : "", list[i]->type);
    }
    return out;
}

const model_arch *model_arch_of(const model_config *c) {
    const model_arch *a = model_arch_find(c->model_type);
    return a ? a : list[0];
}

int64_t model_arch_size(const model_config *c, arch_size size) {
    const int64_t sizes[] = {
        1,           c->hidden_size, model_config_hidden(c),     model_config_q(c), model_config_kv(c),
        c->head_dim, c->vocab_size,  c->max_position_embeddings, c->num_experts};
    return sizes[size];
}

bool model_arch_used(const model_config *c, const arch_tensor *row) {
    switch (row->when) {
    case ARCH_IF_ATTENTION_BIAS: return c->attention_bias;
    case ARCH_IF_MLP_BIAS: return c->mlp_bias;
    case ARCH_ALWAYS:
    case ARCH_IF_OWN_HEAD: break;
    }
    return true;
}

bool model_arch_held(const model_config *c, const arch_tensor *row) {
    return row->when == ARCH_IF_OWN_HEAD ? !c->tie_word_embeddings : model_arch_used(c, row);
}

const char *model_arch_stored(const arch_tensor *row) { return row->stored ? row->stored : row->name; }

const arch_tensor *model_arch_leader(const model_config *c, const arch_tensor *row) {
    const arch_tensor *r = model_arch_of(c)->tensors;
    while (r < row && (r->part != row->part || !model_arch_held(c, r) ||
                       strcmp(model_arch_stored(r), model_arch_stored(row)) != 0))
        r++;
    return r;
}

model_packing model_arch_packing(const model_config *c, const arch_tensor *row, model_packing wanted) {
    if (row->role == ARCH_ROUTER && wanted >= MODEL_INT8) return MODEL_FP16;
    return model_packing_for(wanted, model_arch_size(c, row->in));
}

int64_t model_arch_parameters(const model_config *c) {
    int64_t sum = 0;
    for (const arch_tensor *row = model_arch_of(c)->tensors; row->name; row++) {
        bool layer = row->part == MODEL_ATTN || row->part == MODEL_FFN;
        if (model_arch_held(c, row))
            sum += model_arch_size(c, row->out) * model_arch_size(c, row->in) * (layer ? c->num_hidden_layers : 1);
    }
    return sum;
}

const arch_tensor *model_arch_param(const model_config *c, model_part part, int index) {
    for (const arch_tensor *row = model_arch_of(c)->tensors; row->name; row++)
        if (row->part == part && model_arch_used(c, row) && index-- == 0) return row;
    return NULL;
}

static double arch_or_one(double factor) { return factor > 0 ? factor : 1; }

static double arch_embedding_scale(const model_config *c) {
    return model_arch_of(c)->gemma ? sqrt((double)c->hidden_size) : arch_or_one(c->embedding_multiplier);
}

double model_arch_residual_scale(const model_config *c) {
    return arch_or_one(c->residual_multiplier) / arch_embedding_scale(c);
}

double model_arch_stream_eps(const model_config *c) {
    const double m = arch_embedding_scale(c);
    return c->rms_norm_eps / (m * m);
}
