/* SPDX-License-Identifier: MIT
 * Owns models in GGUF files: metadata and configuration, the tensors of the registry, and llama.cpp's order of query
 * and key rows (pairs, as in llama2.c). Metadata that Propane does not support (YaRN, experts of other architectures)
 * is refused, with its key.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "lm/arch/config_layers.h"
#include "lm/arch/stored_weights.h"
#include "lm/files/gguf.h"
#include "lm/files/gguf_keep.h"
#include "lm/files/gguf_rope.h"

static bool gguf_model_is_paired(const model_config *c, const model_tensor *t) {
    return model_arch_of(c)->gguf_pairs && strchr("qk", t->param[0]) &&
           (strcmp(t->param + 1, "_proj") == 0 || strcmp(t->param + 1, "_bias") == 0 ||
            strcmp(t->param + 1, "_proj_lora_b") == 0); /* an adapter's rows are ordered like those of its matrix */
}

/* Returns our row for the file's row r: the file's rows 2i and 2i+1 of a head are our rows i and i + HD/2. */
static int64_t gguf_model_our_row(int64_t head_dim, int64_t r) {
    int64_t i = r % head_dim;
    return r - i + i / 2 + (i % 2 ? head_dim / 2 : 0);
}

/* ---- configuration ------------------------------------------------------------------------------------------------------ */

/* Returns the architecture of a file. Some architectures have the same name in files and differ only in the window: a
 * Llama with a window is a Mistral. */
static const model_arch *gguf_model_arch(const gguf *g, const char *name) {
    const model_arch *a = model_arch_gguf(name);
    char key[80];
    int64_t window = 0;
    if (!a || a->windowed) return a;
    if (gguf_get_int(g, gguf_key_in(key, name, "attention.sliding_window"), false, 0, INT64_MAX, &window, NULL) ||
        window == 0)
        return a;
    for (int i = 0; i < model_arch_count(); i++)
        if (model_arch_at(i)->windowed && strcmp(model_arch_at(i)->gguf, name) == 0) return model_arch_at(i);
    return a;
}

static propane_status gguf_model_refuse_unsupported(const gguf *g, const char *arch, propane_error *err) {
    static const char *const counts[] = {"expert_count", "attention.sliding_window"};
    const model_arch *a = gguf_model_arch(g, arch);
    const bool known[] = {a->experts, a->windowed};
    char key[80];
    int64_t count = 0;
    for (int i = 0; i < 2; i++) {
        if (known[i]) continue;
        PROPANE_TRY(gguf_get_int(g, gguf_key_in(key, arch, counts[i]), false, 0, INT64_MAX, &count, err));
        if (count)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: %s is %lld, which is not supported", gguf_source(g),
                                key, (long long)count);
    }
    return PROPANE_OK;
}

/* Reads the experts' sizes. In GGUF files, the weights of the chosen experts are assumed to be divided by their sum. */
static propane_status gguf_model_read_experts(const gguf *g, const char *arch, model_config *c, propane_error *err) {
    const struct {
        const char *key;
        int64_t *out;
    } sizes[] = {{"expert_count", &c->num_experts},
                 {"expert_used_count", &c->num_experts_per_tok},
                 {"expert_feed_forward_length", &c->moe_intermediate_size}};
    char key[80];
    c->norm_topk_prob = true;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        PROPANE_TRY(gguf_get_int(g, gguf_key_in(key, arch, sizes[i].key), true, 1, 1 << 20, sizes[i].out, err));
    return PROPANE_OK;
}

static propane_status gguf_model_read_sizes(const gguf *g, const char *arch, model_config *c, propane_error *err) {
    const struct {
        const char *key;
        int64_t *out;
        int64_t max;
        bool needed;
    } sizes[] = {
        {"embedding_length", &c->hidden_size, 1 << 17, true},
        {"feed_forward_length", &c->intermediate_size, 1 << 20, true},
        {"block_count", &c->num_hidden_layers, 1000, true},
        {"attention.head_count", &c->num_attention_heads, 1 << 12, true},
        {"attention.head_count_kv", &c->num_key_value_heads, 1 << 12, false},
        {"attention.key_length", &c->head_dim, 1 << 12, false},
        {"context_length", &c->max_position_embeddings, 1 << 24, true},
    };
    char key[80];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        PROPANE_TRY(
            gguf_get_int(g, gguf_key_in(key, arch, sizes[i].key), sizes[i].needed, 1, sizes[i].max, sizes[i].out, err));
    if (c->num_key_value_heads < 0) c->num_key_value_heads = c->num_attention_heads;
    if (c->head_dim < 0) c->head_dim = c->hidden_size / c->num_attention_heads;
    if (model_arch_gguf(arch)->experts) PROPANE_TRY(gguf_model_read_experts(g, arch, c, err));
    int64_t values = c->head_dim, turned = c->head_dim;
    PROPANE_TRY(gguf_get_int(g, gguf_key_in(key, arch, "attention.value_length"), false, 1, 1 << 12, &values, err));
    PROPANE_TRY(gguf_get_int(g, gguf_key_in(key, arch, "rope.dimension_count"), false, 1, 1 << 12, &turned, err));
    if (model_arch_gguf(arch)->partial_rotary && turned < c->head_dim) {
        c->rotary_dim = turned;
        turned = c->head_dim;
    }
    if (values == c->head_dim && turned == c->head_dim) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "%s: value_length %lld and rope.dimension_count %lld must equal the head size, %lld",
                        gguf_source(g), (long long)values, (long long)turned, (long long)c->head_dim);
}

/* Factors, with their keys in GGUF files. */
static const struct {
    const char *key;
    size_t offset;
} gguf_model_factors[] = {{"embedding_scale", offsetof(model_config, embedding_multiplier)},
                          {"residual_scale", offsetof(model_config, residual_multiplier)},
                          {"attention.scale", offsetof(model_config, attention_multiplier)},
                          {"logit_scale", offsetof(model_config, logits_scaling)}};
enum { GGUF_MODEL_FACTORS = sizeof gguf_model_factors / sizeof gguf_model_factors[0] };

/* Reads the values that only some architectures have: factors, differences between layers, caps. */
static propane_status gguf_model_read_parts(const gguf *g, const model_arch *a, model_config *c, propane_error *err) {
    char key[80];
    double scale = 0;
    config_layers_default(a, c);
    for (int i = 0; a->factors && i < GGUF_MODEL_FACTORS; i++) {
        double *out = (double *)(void *)((char *)c + gguf_model_factors[i].offset);
        PROPANE_TRY(gguf_get_real(g, gguf_key_in(key, a->gguf, gguf_model_factors[i].key), false, out, err));
        *out = gguf_short_real(*out);
    }
    if (a->windowed) {
        c->sliding_window = 0;
        PROPANE_TRY(gguf_get_int(g, gguf_key_in(key, a->gguf, "attention.sliding_window"), false, 0, INT64_C(1) << 40,
                                 &c->sliding_window, err));
    }
    if (a->full_every)
        PROPANE_TRY(gguf_get_int(g, gguf_key_in(key, a->gguf, "attention.sliding_window_pattern"), false, 0, 1000,
                                 &c->full_every, err));
    if (a->rope_local_theta > 0)
        PROPANE_TRY(
            gguf_get_real(g, gguf_key_in(key, a->gguf, "rope.freq_base_swa"), false, &c->rope_local_theta, err));
    if (!a->gemma) return PROPANE_OK;
    PROPANE_TRY(
        gguf_get_real(g, gguf_key_in(key, a->gguf, "attn_logit_softcapping"), false, &c->attention_softcap, err));
    PROPANE_TRY(gguf_get_real(g, gguf_key_in(key, a->gguf, "final_logit_softcapping"), false, &c->logits_softcap, err));
    PROPANE_TRY(gguf_get_real(g, gguf_key_in(key, a->gguf, "attention.scale"), false, &scale, err));
    if (scale > 0) c->query_pre_attn_scalar = gguf_short_real(1 / (scale * scale));
    return PROPANE_OK;
}

static const char *gguf_model_epsilon_key(const model_arch *a) {
    return a->norm == ARCH_LAYER_NORM ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
}

/* Returns whether the file's first layer has the tensors that the architecture has only under the condition `when`. */
static bool gguf_model_holds_row(const gguf *g, const model_arch *a, arch_when when) {
    char name[80];
    for (const arch_tensor *row = a->tensors; row->name; row++) {
        if (row->when != when) continue;
        snprintf(name, sizeof name, "blk.0.%s", row->gguf);
        return gguf_find_tensor(g, name) != NULL;
    }
    return false;
}

propane_status gguf_config(const gguf *g, model_config *out, propane_error *err) {
    const char *arch;
    char key[80], known[ARCH_NAMES_LENGTH];
    model_config c = {.num_key_value_heads = -1,
                      .head_dim = -1,
                      .rms_norm_eps = 1e-5,
                      .rope_theta = 10000,
                      .bos_token_id = -1,
                      .eos_token_id = -1};
    PROPANE_TRY(gguf_get_text(g, "general.architecture", true, &arch, err));
    const model_arch *a = gguf_model_arch(g, arch);
    if (!a)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: general.architecture '%.40s' is not supported; the supported ones are %s",
                            gguf_source(g), arch, model_arch_names(known));
    snprintf(c.model_type, sizeof c.model_type, "%s", a->type);
    PROPANE_TRY(gguf_model_refuse_unsupported(g, arch, err));
    PROPANE_TRY(gguf_model_read_sizes(g, arch, &c, err));
    PROPANE_TRY(gguf_model_read_parts(g, a, &c, err)); /* including the architecture's default RoPE base */
    PROPANE_TRY(gguf_get_real(g, gguf_key_in(key, arch, gguf_model_epsilon_key(a)), true, &c.rms_norm_eps, err));
    if (a->position == ARCH_ROPE) PROPANE_TRY(gguf_rope_read(g, arch, &c, err));
    c.attention_bias = gguf_model_holds_row(g, a, ARCH_IF_ATTENTION_BIAS);
    c.mlp_bias = gguf_model_holds_row(g, a, ARCH_IF_MLP_BIAS);
    c.rms_norm_eps = gguf_short_real(c.rms_norm_eps);
    const gguf_tensor *embedding = gguf_find_tensor(g, "token_embd.weight");
    if (!embedding || embedding->rank != 2)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the matrix token_embd.weight is missing", gguf_source(g));
    c.vocab_size = embedding->dim[1];
    c.tie_word_embeddings = !gguf_find_tensor(g, "output.weight");
    int64_t last = c.vocab_size - 1;
    PROPANE_TRY(gguf_get_int(g, "tokenizer.ggml.bos_token_id", false, 0, last, &c.bos_token_id, err));
    PROPANE_TRY(gguf_get_int(g, "tokenizer.ggml.eos_token_id", false, 0, last, &c.eos_token_id, err));
    PROPANE_TRY(model_config_check(&c, gguf_source(g), err));
    *out = c;
    return PROPANE_OK;
}

/* ---- weights --------------------------------------------------------------------------------------------------------------- */

/* Sets `dim` to a tensor's shape in the file, innermost dimension first, and returns the rank. */
static int gguf_model_shape(const model_tensor *t, int64_t dim[3]) {
    const model_expert e = t->experts ? model_tensor_expert(t, 0) : (model_expert){t->stored_rows, t->dim[1], 0};
    dim[0] = t->rank == 1 ? e.rows : e.columns;
    dim[1] = t->rank == 1 ? 1 : e.rows;
    dim[2] = t->experts ? t->experts : 1;
    return t->experts ? 3 : t->rank;
}

/* Returns the number of rows in the file: a vector is one row, unless its numbers are reordered in pairs. */
static int64_t gguf_model_row_count(const model_config *c, const model_tensor *t) {
    if (t->experts) return t->experts * model_tensor_expert(t, 0).rows;
    return t->rank == 1 && !gguf_model_is_paired(c, t) ? 1 : t->dim[0];
}

static float *gguf_model_row(const model_weights *w, const model_tensor *t, int64_t row) {
    float *data = model_weights_data(w, t);
    if (t->experts) {
        const int64_t rows = model_tensor_expert(t, 0).rows;
        return data + model_tensor_expert(t, row / rows).first + row % rows * t->dim[1];
    }
    const int64_t ours = gguf_model_is_paired(&w->config, t) ? gguf_model_our_row(w->config.head_dim, row) : row;
    return data + ours * (t->count / gguf_model_row_count(&w->config, t));
}

static propane_status gguf_model_find_tensor(const gguf *g, const model_tensor *t, const gguf_tensor **out,
                                             propane_error *err) {
    const gguf_tensor *found = *out = gguf_find_tensor(g, t->gguf);
    int64_t dim[3], has[3] = {1, 1, 1};
    const int rank = gguf_model_shape(t, dim);
    if (!found) return propane_fail(err, PROPANE_ERR_INVALID, "%s: the tensor %s is missing", gguf_source(g), t->gguf);
    for (int i = 0; i < found->rank && i < 3; i++) has[i] = found->dim[i];
    if (found->rank == rank && memcmp(dim, has, sizeof dim) == 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s: the tensor %s is [%lld, %lld, %lld], but the configuration implies [%lld, %lld, %lld]",
                        gguf_source(g), t->gguf, (long long)has[2], (long long)has[1], (long long)has[0],
                        (long long)dim[2], (long long)dim[1], (long long)dim[0]);
}

/* Returns whether the file stores the tensor in our order. */
static bool gguf_model_is_plain(const model_config *c, const model_tensor *t) {
    if (t->experts) return model_tensor_expert(t, 0).columns == t->dim[1];
    return !gguf_model_is_paired(c, t) && t->stored_rows == t->dim[0];
}

/* Returns the form that holds a matrix as the file does, or MODEL_UNPACKED. */
static model_packing gguf_model_form(const gguf *g, const model_tensor *t) {
    const gguf_tensor *from = gguf_find_tensor(g, t->gguf);
    if (!from || t->rank != 2 || t->experts) return MODEL_UNPACKED;
    return gguf_keep_form(from->type->type, t->dim[1]);
}

static void gguf_model_keep_rows(const gguf_tensor *from, const model_weights *w, const model_tensor *t) {
    const int64_t blocks = t->dim[1] / from->type->block, row_bytes = blocks * from->type->bytes;
    const bool paired = gguf_model_is_paired(&w->config, t);
    uint16_t *scales = NULL;
    uint8_t *to = stored_weights_at(w, t, &scales);
    for (int64_t r = 0; r < t->dim[0]; r++) {
        const int64_t ours = paired ? gguf_model_our_row(w->config.head_dim, r) : r;
        int64_t scale_bytes;
        uint8_t *row = to + model_packing_bytes(t->form, ours * t->dim[1], &scale_bytes);
        gguf_keep_blocks(from->type->type, from->data + (t->first_row + r) * row_bytes, blocks, row,
                         scales ? scales + scale_bytes / 2 : NULL);
    }
}

static propane_status gguf_model_fill_one(const gguf *g, model_weights *w, const model_tensor *t, propane_error *err) {
    const gguf_tensor *from = NULL;
    const int64_t count = gguf_model_row_count(&w->config, t), width = t->count / count;
    PROPANE_TRY(gguf_model_find_tensor(g, t, &from, err));
    if (t->form != MODEL_UNPACKED) {
        gguf_model_keep_rows(from, w, t);
        return PROPANE_OK;
    }
    if (gguf_model_is_plain(&w->config, t)) return gguf_f32(g, from, model_weights_data(w, t), err);
    float *rows = mem_array((size_t)from->count, sizeof *rows);
    propane_status status = rows ? gguf_f32(g, from, rows, err) : propane_fail_memory(err, (size_t)from->count * 4);
    /* elements of the tensors that precede it in the stored tensor */
    const int64_t before = t->first_row * (t->count / t->dim[0]);
    for (int64_t r = 0; !status && r < count; r++)
        memcpy(gguf_model_row(w, t, r), rows + before + r * width, (size_t)width * sizeof *rows);
    mem_free(rows);
    return status;
}

typedef struct gguf_model_filling {
    const gguf *g;
    model_weights *w;
} gguf_model_filling;

static propane_status gguf_model_fill_task(void *context, int task, propane_error *err) {
    const gguf_model_filling *f = context;
    return gguf_model_fill_one(f->g, f->w, &f->w->tensors[task], err);
}

static propane_status gguf_model_fill(const gguf *g, model_weights *w, propane_error *err) {
    gguf_model_filling f = {g, w};
    return pool_try(gguf_model_fill_task, &f, w->count, err);
}

/* Checks the metadata against the sizes of the file's tensors before memory is allocated for the model. */
static propane_status gguf_model_check_tensors(const gguf *g, const model_config *c, propane_error *err) {
    double floats = (double)model_arch_parameters(c);
    double held = 0;
    for (int i = 0; i < gguf_tensor_count(g); i++) held += (double)gguf_tensor_at(g, i)->count;
    if (floats <= 2 * held + 1e6) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: the metadata describes %.0f weights, but the file holds %.0f",
                        gguf_source(g), floats, held);
}

static propane_status gguf_model_reserve(const gguf *g, model_weights *w, propane_error *err) {
    for (int i = 0; i < w->count; i++) w->tensors[i].form = gguf_model_form(g, &w->tensors[i]);
    return stored_weights_reserve(w, err);
}

propane_status gguf_read_model(const char *path, bool stored, model_weights **out, propane_error *err) {
    gguf *g;
    model_config c;
    *out = NULL;
    PROPANE_TRY(gguf_open(path, &g, err));
    propane_status status = gguf_config(g, &c, err);
    if (!status) status = gguf_model_check_tensors(g, &c, err);
    if (!status) status = stored ? model_weights_declare(&c, out, err) : model_weights_create(&c, out, err);
    if (!status && stored) status = gguf_model_reserve(g, *out, err);
    if (!status) status = gguf_model_fill(g, *out, err);
    if (status) {
        model_weights_free(*out);
        *out = NULL;
    }
    gguf_close(g);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------------------- */

/* Refuses differences that GGUF files cannot express: programs that read them infer from the architecture which layers
 * have no positions, and that the weights of experts are divided by their sum. */
static propane_status gguf_model_refuse_unsaid(const model_config *c, const char *path, propane_error *err) {
    model_config usual = *c;
    usual.nope_every = model_arch_of(c)->nope_every;
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        if (model_config_turns(c, i) != model_config_turns(&usual, i))
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "%s: a GGUF file implies that one layer in %lld of a %s has no positions, but here it "
                                "is one in %lld; write a folder or .safetensors instead",
                                path, (long long)usual.nope_every, c->model_type, (long long)c->nope_every);
    if (!c->num_experts || c->norm_topk_prob) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "%s: a GGUF file implies that the expert weights of a %s are divided by their sum, but here "
                        "they are not (norm_topk_prob is false); write a folder or .safetensors instead",
                        path, c->model_type);
}

static gguf_type gguf_model_type_for(const model_tensor *t, gguf_type type) {
    if (t->rank == 1 || t->role == ARCH_ROUTER) return GGUF_TYPE_F32; /* as in llama.cpp's files */
    const int64_t width = t->experts ? model_tensor_expert(t, 0).columns : t->dim[1];
    while (width % gguf_type_get((int)type)->block) type = gguf_type_get((int)type)->narrow;
    return type;
}

/* Writes the keys for differences between layers, and for experts. */
static void gguf_model_put_layers(gguf_header *h, const model_arch *a, const model_config *c) {
    char key[80];
    if (a->experts) {
        gguf_put_u32(h, gguf_key_in(key, a->gguf, "expert_count"), (uint32_t)c->num_experts);
        gguf_put_u32(h, gguf_key_in(key, a->gguf, "expert_used_count"), (uint32_t)c->num_experts_per_tok);
        gguf_put_u32(h, gguf_key_in(key, a->gguf, "expert_feed_forward_length"), (uint32_t)c->moe_intermediate_size);
    }
    if (a->windowed && c->sliding_window)
        gguf_put_u32(h, gguf_key_in(key, a->gguf, "attention.sliding_window"), (uint32_t)c->sliding_window);
    if (a->full_every)
        gguf_put_u32(h, gguf_key_in(key, a->gguf, "attention.sliding_window_pattern"), (uint32_t)c->full_every);
    if (a->rope_local_theta > 0)
        gguf_put_f32(h, gguf_key_in(key, a->gguf, "rope.freq_base_swa"), (float)c->rope_local_theta);
    if (!a->gemma) return;
    if (c->attention_softcap > 0 || a->attention_softcap > 0)
        gguf_put_f32(h, gguf_key_in(key, a->gguf, "attn_logit_softcapping"), (float)c->attention_softcap);
    if (c->logits_softcap > 0 || a->logits_softcap > 0)
        gguf_put_f32(h, gguf_key_in(key, a->gguf, "final_logit_softcapping"), (float)c->logits_softcap);
    gguf_put_f32(h, gguf_key_in(key, a->gguf, "attention.scale"), (float)model_config_score_scale(c));
}

static void gguf_model_put_config(gguf_header *h, const model_config *c, gguf_type type) {
    const model_arch *a = model_arch_of(c);
    static const struct {
        const char *key;
        size_t offset;
    } sizes[] = {
        {"vocab_size", offsetof(model_config, vocab_size)},
        {"context_length", offsetof(model_config, max_position_embeddings)},
        {"embedding_length", offsetof(model_config, hidden_size)},
        {"block_count", offsetof(model_config, num_hidden_layers)},
        {"feed_forward_length", offsetof(model_config, intermediate_size)},
        {"attention.head_count", offsetof(model_config, num_attention_heads)},
        {"attention.head_count_kv", offsetof(model_config, num_key_value_heads)},
        {"attention.key_length", offsetof(model_config, head_dim)},
        {"attention.value_length", offsetof(model_config, head_dim)},
    };
    char key[80];
    gguf_put_text(h, "general.architecture", a->gguf);
    gguf_put_text(h, "general.type", "model");
    gguf_put_text(h, "general.name", "propane");
    gguf_put_u32(h, "general.file_type", (uint32_t)gguf_type_get((int)type)->file_type);
    gguf_put_u32(h, "general.quantization_version", 2);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t value;
        memcpy(&value, (const char *)c + sizes[i].offset, sizeof value);
        if (sizes[i].offset == offsetof(model_config, max_position_embeddings)) value = model_config_longest(c);
        gguf_put_u32(h, gguf_key_in(key, a->gguf, sizes[i].key), (uint32_t)value);
    }
    gguf_put_f32(h, gguf_key_in(key, a->gguf, gguf_model_epsilon_key(a)), (float)c->rms_norm_eps);
    for (int i = 0; a->factors && i < GGUF_MODEL_FACTORS; i++) {
        double value;
        memcpy(&value, (const char *)c + gguf_model_factors[i].offset, sizeof value);
        if (value > 0) gguf_put_f32(h, gguf_key_in(key, a->gguf, gguf_model_factors[i].key), (float)value);
    }
    gguf_model_put_layers(h, a, c);
    gguf_rope_put(h, a, c);
}

/* Declares tensors [from, to) of the registry, which are those of the model or of its adapters. */
static void gguf_model_put_tensors(gguf_header *h, const model_weights *w, int from, int to, gguf_type type) {
    for (int i = from; i < to; i++) {
        const model_tensor *t = &w->tensors[i];
        int64_t dim[3];
        const int rank = gguf_model_shape(t, dim);
        if (t->first_row == 0) gguf_put_tensor(h, t->gguf, rank, dim, gguf_model_type_for(t, type));
    }
    if (from == 0) gguf_rope_put_tensors(h, &w->config);
}

/* Room for encoded rows in bytes, unless one row is larger. No second copy of a matrix is held. */
enum { GGUF_MODEL_ROOM = 1 << 20, GGUF_MODEL_TASK = 1 << 13 /* elements, at least */ };

typedef struct gguf_model_rows {
    const model_weights *w;
    const model_tensor *t;
    gguf_type type;
    int64_t width, row_bytes, each; /* rows of a task */
    int64_t first, end;
    uint8_t *room;
} gguf_model_rows;

static void gguf_model_encode_task(void *context, int task, int worker) {
    const gguf_model_rows *m = context;
    const int64_t from = m->first + task * m->each, to = from + m->each < m->end ? from + m->each : m->end;
    (void)worker;
    for (int64_t r = from; r < to; r++)
        gguf_encode_blocks(m->type, gguf_model_row(m->w, m->t, r), m->width, m->room + (r - m->first) * m->row_bytes);
}

static propane_status gguf_model_write_rows(file_writer *f, const model_weights *w, const model_tensor *t,
                                            gguf_type type, uint8_t *room, uint64_t *written, propane_error *err) {
    const int64_t rows = gguf_model_row_count(&w->config, t), width = t->count / rows,
                  row_bytes = (int64_t)gguf_tensor_bytes(type, width),
                  some = GGUF_MODEL_ROOM > row_bytes ? GGUF_MODEL_ROOM / row_bytes : 1;
    gguf_model_rows m = {.w = w, .t = t, .type = type, .width = width, .row_bytes = row_bytes, .room = room};
    m.each = width < GGUF_MODEL_TASK ? GGUF_MODEL_TASK / width : 1;
    for (; m.first < rows; m.first = m.end) {
        m.end = m.first + some < rows ? m.first + some : rows;
        pool_run(gguf_model_encode_task, &m, (int)((m.end - m.first + m.each - 1) / m.each));
        const size_t bytes = (size_t)((m.end - m.first) * row_bytes);
        PROPANE_TRY(file_writer_write(f, room, bytes, err));
        *written += bytes;
    }
    return PROPANE_OK;
}

/* Writes a stored tensor: `first` and the tensors that follow it within the same stored tensor. */
static propane_status gguf_model_write_tensor(file_writer *f, const model_weights *w, const model_tensor *first,
                                              gguf_type type, uint8_t *room, propane_error *err) {
    static const uint8_t zeros[32] = {0};
    const model_tensor *t;
    uint64_t written = 0;
    if (first->stored_rows == first->dim[0]) {
        PROPANE_TRY(gguf_model_write_rows(f, w, first, type, room, &written, err));
    } else {
        for (int k = 0; (t = model_weights_piece(w, first, k)); k++)
            PROPANE_TRY(gguf_model_write_rows(f, w, t, type, room, &written, err));
    }
    return file_writer_write(f, zeros, (size_t)(-written % 32), err);
}

static propane_status gguf_model_write_all(file_writer *f, const model_weights *w, const gguf_header *h, int from,
                                           int to, gguf_type type, propane_error *err) {
    text header = {0};
    gguf_print_header(h, &header);
    propane_status status = header.failed ? propane_fail_memory(err, header.capacity)
                                          : file_writer_write(f, header.data, header.length, err);
    text_deinit(&header);
    int64_t widest = 1;
    for (int i = from; i < to; i++)
        if (w->tensors[i].dim[w->tensors[i].rank - 1] > widest) widest = w->tensors[i].dim[w->tensors[i].rank - 1];
    const size_t room_bytes = 4 * widest > GGUF_MODEL_ROOM ? 4 * (size_t)widest : GGUF_MODEL_ROOM;
    uint8_t *room = mem_alloc(room_bytes);
    if (!status && !room) status = propane_fail_memory(err, room_bytes);
    for (int i = from; !status && i < to; i++)
        if (w->tensors[i].first_row == 0)
            status =
                gguf_model_write_tensor(f, w, &w->tensors[i], gguf_model_type_for(&w->tensors[i], type), room, err);
    if (!status && from == 0) status = gguf_rope_write(f, &w->config, err);
    mem_free(room);
    return status;
}

propane_status gguf_write_model(const model_weights *w, const tokenizer *t, const char *path, gguf_type type,
                                propane_error *err) {
    gguf_header h = {0};
    file_writer *f = NULL;
    PROPANE_TRY(gguf_model_refuse_unsaid(&w->config, path, err));
    gguf_model_put_config(&h, &w->config, type);
    propane_status status = t ? gguf_put_tokenizer(&h, t, w->config.vocab_size, err) : PROPANE_OK;
    if (!t && w->config.bos_token_id >= 0)
        gguf_put_u32(&h, "tokenizer.ggml.bos_token_id", (uint32_t)w->config.bos_token_id);
    if (!t && w->config.eos_token_id >= 0)
        gguf_put_u32(&h, "tokenizer.ggml.eos_token_id", (uint32_t)w->config.eos_token_id);
    if (!status) gguf_model_put_tensors(&h, w, 0, w->count, type);
    if (!status) status = file_writer_open(path, &f, err);
    if (!status) status = gguf_model_write_all(f, w, &h, 0, w->count, type, err);
    gguf_header_deinit(&h);
    if (!status) return file_writer_commit(f, err);
    if (f) file_writer_abort(f);
    return status;
}

/* The alpha in the file is chosen so that llama.cpp's factor, alpha / rank, equals the adapter's scale. */
propane_status gguf_write_adapter(const model_weights *w, const char *path, propane_error *err) {
    const model_arch *a = model_arch_of(&w->config);
    const int total = model_weights_total(w);
    gguf_header h = {0};
    file_writer *f = NULL;
    gguf_put_text(&h, "general.type", "adapter");
    gguf_put_text(&h, "general.architecture", a->gguf);
    gguf_put_text(&h, "general.name", "propane");
    gguf_put_text(&h, "adapter.type", "lora");
    gguf_put_f32(&h, "adapter.lora.alpha", (float)(model_lora_scale(&w->lora) * (double)w->lora.rank));
    gguf_model_put_tensors(&h, w, w->count, total, GGUF_TYPE_F32);
    propane_status status = file_writer_open(path, &f, err);
    if (!status) status = gguf_model_write_all(f, w, &h, w->count, total, GGUF_TYPE_F32, err);
    gguf_header_deinit(&h);
    if (!status) return file_writer_commit(f, err);
    if (f) file_writer_abort(f);
    return status;
}
