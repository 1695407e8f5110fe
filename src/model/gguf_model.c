/* SPDX-License-Identifier: MIT
 * Owns models in GGUF files: metadata and configuration, names of tensors, llama.cpp's order of query and key rows (pairs,
 * as llama2.c's). What the metadata says and Propane cannot do (rope scaling, experts) is refused by key.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "model/gguf.h"

/* One row an architecture. */
static const struct architecture {
    const char *name;
    bool pairs; /* rows of a head's queries and keys come in pairs (2i, 2i+1) */
} architectures[] = {{"llama", true}};

static const struct {
    const char *ours, *theirs;
} parts[] = {
    {"input_layernorm", "attn_norm"}, {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},   {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},    {"mlp.up_proj", "ffn_up"},           {"mlp.down_proj", "ffn_down"},
};

enum { NAME_MAX_BYTES = 80 };

/* "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight"; false: a name without a counterpart. */
static bool gguf_name(const model_tensor *t, char out[NAME_MAX_BYTES]) {
    static const char *const outer[][2] = {{"model.embed_tokens.weight", "token_embd.weight"},
                                           {"model.norm.weight", "output_norm.weight"},
                                           {"lm_head.weight", "output.weight"}};
    for (int i = 0; i < 3; i++)
        if (strcmp(t->name, outer[i][0]) == 0) return snprintf(out, NAME_MAX_BYTES, "%s", outer[i][1]) > 0;
    char prefix[40];
    int n = snprintf(prefix, sizeof prefix, "model.layers.%d.", t->layer);
    if (t->layer < 0 || strncmp(t->name, prefix, (size_t)n) != 0) return false;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t length = strlen(parts[i].ours);
        const char *rest = t->name + n + length;
        if (strncmp(t->name + n, parts[i].ours, length) == 0 &&
            (strcmp(rest, ".weight") == 0 || strcmp(rest, ".bias") == 0))
            return snprintf(out, NAME_MAX_BYTES, "blk.%d.%s%s", t->layer, parts[i].theirs, rest) > 0;
    }
    return false;
}

static const struct architecture *architecture_of(const char *name) {
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++)
        if (strcmp(architectures[i].name, name) == 0) return &architectures[i];
    return NULL;
}

static bool is_paired(const struct architecture *a, const model_tensor *t) {
    return a->pairs && (strcmp(t->param, "q_proj") == 0 || strcmp(t->param, "k_proj") == 0);
}

/* Our row behind the file's row r: pairs (2i, 2i+1) come from i and i + HD/2. */
static int64_t our_row(int64_t head_dim, int64_t r) {
    int64_t i = r % head_dim;
    return r - i + i / 2 + (i % 2 ? head_dim / 2 : 0);
}

/* ---- configuration ------------------------------------------------------------------------------------------------------ */

static const char *key_in(char out[80], const char *arch, const char *key) {
    snprintf(out, 80, "%s.%s", arch, key);
    return out;
}

static propane_status refuse_unsupported(const gguf *g, const char *arch, propane_error *err) {
    static const char *const counts[] = {"expert_count", "attention.sliding_window"};
    char key[80];
    const char *scaling = "none";
    int64_t count = 0;
    PROPANE_TRY(gguf_get_text(g, key_in(key, arch, "rope.scaling.type"), false, &scaling, err));
    if (strcmp(scaling, "none") != 0)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: %s is '%.40s'; only plain RoPE can be done",
                            gguf_source(g), key, scaling);
    if (gguf_find_tensor(g, "rope_freqs.weight"))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: the tensor rope_freqs.weight scales RoPE, which cannot be done", gguf_source(g));
    for (int i = 0; i < 2; i++) {
        PROPANE_TRY(gguf_get_int(g, key_in(key, arch, counts[i]), false, 0, INT64_MAX, &count, err));
        if (count)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: %s is %lld, which cannot be done", gguf_source(g),
                                key, (long long)count);
    }
    return PROPANE_OK;
}

static propane_status read_sizes(const gguf *g, const char *arch, model_config *c, propane_error *err) {
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
            gguf_get_int(g, key_in(key, arch, sizes[i].key), sizes[i].needed, 1, sizes[i].max, sizes[i].out, err));
    if (c->num_key_value_heads < 0) c->num_key_value_heads = c->num_attention_heads;
    if (c->head_dim < 0) c->head_dim = c->hidden_size / c->num_attention_heads;
    int64_t values = c->head_dim, turned = c->head_dim;
    PROPANE_TRY(gguf_get_int(g, key_in(key, arch, "attention.value_length"), false, 1, 1 << 12, &values, err));
    PROPANE_TRY(gguf_get_int(g, key_in(key, arch, "rope.dimension_count"), false, 1, 1 << 12, &turned, err));
    if (values == c->head_dim && turned == c->head_dim) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "%s: value_length %lld and rope.dimension_count %lld must be the head size, %lld",
                        gguf_source(g), (long long)values, (long long)turned, (long long)c->head_dim);
}

propane_status gguf_config(const gguf *g, model_config *out, propane_error *err) {
    const char *arch;
    char key[80];
    model_config c = {.num_key_value_heads = -1,
                      .head_dim = -1,
                      .rms_norm_eps = 1e-5,
                      .rope_theta = 10000,
                      .bos_token_id = -1,
                      .eos_token_id = -1};
    PROPANE_TRY(gguf_get_text(g, "general.architecture", true, &arch, err));
    if (!architecture_of(arch))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: general.architecture is '%.40s'; only 'llama' is known",
                            gguf_source(g), arch);
    snprintf(c.model_type, sizeof c.model_type, "%s", arch);
    PROPANE_TRY(refuse_unsupported(g, arch, err));
    PROPANE_TRY(read_sizes(g, arch, &c, err));
    PROPANE_TRY(gguf_get_real(g, key_in(key, arch, "attention.layer_norm_rms_epsilon"), true, &c.rms_norm_eps, err));
    PROPANE_TRY(gguf_get_real(g, key_in(key, arch, "rope.freq_base"), false, &c.rope_theta, err));
    snprintf(key, sizeof key, "%.7g", c.rms_norm_eps); /* the fp32 number next to 1e-5 means 1e-5 */
    c.rms_norm_eps = strtod(key, NULL);
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

static propane_status find_tensor(const gguf *g, const model_tensor *t, const gguf_tensor **out, propane_error *err) {
    char name[NAME_MAX_BYTES];
    if (!gguf_name(t, name))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: the tensor %s has no name in GGUF files", gguf_source(g),
                            t->name);
    const gguf_tensor *found = *out = gguf_find_tensor(g, name);
    if (!found) return propane_fail(err, PROPANE_ERR_INVALID, "%s: the tensor %s is missing", gguf_source(g), name);
    bool fits =
        found->rank == t->rank && found->dim[0] == t->dim[t->rank - 1] && (t->rank == 1 || found->dim[1] == t->dim[0]);
    if (fits) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s: the tensor %s is [%lld, %lld]; the configuration makes it [%lld, %lld]", gguf_source(g),
                        name, (long long)(found->rank > 1 ? found->dim[1] : 1), (long long)found->dim[0],
                        (long long)(t->rank > 1 ? t->dim[0] : 1), (long long)t->dim[t->rank - 1]);
}

static propane_status fill(const gguf *g, model_weights *w, propane_error *err) {
    const struct architecture *a = architecture_of(w->config.model_type);
    for (int i = 0; i < w->count; i++) {
        const model_tensor *t = &w->tensors[i];
        const gguf_tensor *from = NULL;
        float *to = model_weights_data(w, t);
        PROPANE_TRY(find_tensor(g, t, &from, err));
        if (!is_paired(a, t)) {
            PROPANE_TRY(gguf_f32(g, from, to, err));
            continue;
        }
        int64_t width = t->count / t->dim[0]; /* a bias has rows of one */
        float *rows = mem_array((size_t)t->count, sizeof *rows);
        propane_status status = rows ? gguf_f32(g, from, rows, err) : propane_fail_memory(err, (size_t)t->count * 4);
        for (int64_t r = 0; !status && r < t->dim[0]; r++)
            memcpy(to + our_row(w->config.head_dim, r) * width, rows + r * width, (size_t)width * sizeof *rows);
        mem_free(rows);
        PROPANE_TRY(status);
    }
    return PROPANE_OK;
}

/* Before memory is taken for what the metadata claims: every tensor is there, shaped and readable. */
static propane_status check_tensors(const gguf *g, const model_config *c, propane_error *err) {
    double floats = 2.0 * (double)c->vocab_size * (double)c->hidden_size;
    floats +=
        (double)c->num_hidden_layers * (double)c->hidden_size *
        (3.0 * (double)c->intermediate_size + 2.0 * (double)model_config_q(c) + 2.0 * (double)model_config_kv(c) + 2);
    double held = 0;
    for (int i = 0; i < gguf_tensor_count(g); i++) held += (double)gguf_tensor_at(g, i)->count;
    if (floats <= 2 * held + 1e6) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: the metadata describes %.0f weights, but the file holds %.0f",
                        gguf_source(g), floats, held);
}

propane_status gguf_read_model(const char *path, model_weights **out, propane_error *err) {
    gguf *g;
    model_config c;
    *out = NULL;
    PROPANE_TRY(gguf_open(path, &g, err));
    propane_status status = gguf_config(g, &c, err);
    if (!status) status = check_tensors(g, &c, err);
    if (!status) status = model_weights_create(&c, out, err);
    if (!status) status = fill(g, *out, err);
    if (status) {
        model_weights_free(*out);
        *out = NULL;
    }
    gguf_close(g);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------------------- */

static gguf_type type_for(const model_tensor *t, gguf_type type) {
    if (t->rank == 1) return GGUF_TYPE_F32;
    return type == GGUF_TYPE_Q8_0 && t->dim[1] % 32 ? GGUF_TYPE_F16 : type;
}

static void put_config(gguf_header *h, const model_config *c, gguf_type type) {
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
        {"rope.dimension_count", offsetof(model_config, head_dim)},
    };
    char key[80];
    gguf_put_text(h, "general.architecture", c->model_type);
    gguf_put_text(h, "general.type", "model");
    gguf_put_text(h, "general.name", "propane");
    gguf_put_u32(h, "general.file_type",
                 type == GGUF_TYPE_F32    ? 0
                 : type == GGUF_TYPE_F16  ? 1
                 : type == GGUF_TYPE_Q8_0 ? 7
                                          : 32);
    gguf_put_u32(h, "general.quantization_version", 2);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t value;
        memcpy(&value, (const char *)c + sizes[i].offset, sizeof value);
        gguf_put_u32(h, key_in(key, c->model_type, sizes[i].key), (uint32_t)value);
    }
    gguf_put_f32(h, key_in(key, c->model_type, "attention.layer_norm_rms_epsilon"), (float)c->rms_norm_eps);
    gguf_put_f32(h, key_in(key, c->model_type, "rope.freq_base"), (float)c->rope_theta);
}

static propane_status put_tensors(gguf_header *h, const model_weights *w, gguf_type type, propane_error *err) {
    for (int i = 0; i < w->count; i++) {
        const model_tensor *t = &w->tensors[i];
        const int64_t dim[2] = {t->dim[t->rank - 1], t->dim[0]};
        char name[NAME_MAX_BYTES];
        if (!gguf_name(t, name))
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "the tensor %s has no name in GGUF files", t->name);
        gguf_put_tensor(h, name, t->rank, dim, type_for(t, type));
    }
    return PROPANE_OK;
}

/* Row by row, so that no second copy of a matrix is held. */
static propane_status write_tensor(file_writer *f, const model_weights *w, const model_tensor *t, gguf_type type,
                                   uint8_t *row, propane_error *err) {
    static const uint8_t zeros[32] = {0};
    bool paired = is_paired(architecture_of(w->config.model_type), t);
    int64_t rows = t->rank == 1 && !paired ? 1 : t->dim[0], width = t->count / rows;
    uint64_t written = 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t from = paired ? our_row(w->config.head_dim, r) : r;
        size_t bytes = gguf_encode_blocks(type, model_weights_data(w, t) + from * width, width, row);
        PROPANE_TRY(file_writer_write(f, row, bytes, err));
        written += bytes;
    }
    return file_writer_write(f, zeros, (size_t)(-written % 32), err);
}

static propane_status write_all(file_writer *f, const model_weights *w, const gguf_header *h, gguf_type type,
                                propane_error *err) {
    text header = {0};
    gguf_print_header(h, &header);
    propane_status status = header.failed ? propane_fail_memory(err, header.capacity)
                                          : file_writer_write(f, header.data, header.length, err);
    text_deinit(&header);
    int64_t widest = 1;
    for (int i = 0; i < w->count; i++)
        if (w->tensors[i].dim[w->tensors[i].rank - 1] > widest) widest = w->tensors[i].dim[w->tensors[i].rank - 1];
    uint8_t *row = mem_array((size_t)widest, 4);
    if (!status && !row) status = propane_fail_memory(err, (size_t)widest * 4);
    for (int i = 0; !status && i < w->count; i++)
        status = write_tensor(f, w, &w->tensors[i], type_for(&w->tensors[i], type), row, err);
    mem_free(row);
    return status;
}

propane_status gguf_write_model(const model_weights *w, const tokenizer *t, const char *path, gguf_type type,
                                propane_error *err) {
    gguf_header h = {0};
    file_writer *f = NULL;
    if (!architecture_of(w->config.model_type))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: models of type '%s' are not written as GGUF", path,
                            w->config.model_type);
    put_config(&h, &w->config, type);
    propane_status status = t ? gguf_put_tokenizer(&h, t, w->config.vocab_size, err) : PROPANE_OK;
    if (!t && w->config.bos_token_id >= 0)
        gguf_put_u32(&h, "tokenizer.ggml.bos_token_id", (uint32_t)w->config.bos_token_id);
    if (!t && w->config.eos_token_id >= 0)
        gguf_put_u32(&h, "tokenizer.ggml.eos_token_id", (uint32_t)w->config.eos_token_id);
    if (!status) status = put_tensors(&h, w, type, err);
    if (!status) status = file_writer_open(path, &f, err);
    if (!status) status = write_all(f, w, &h, type, err);
    gguf_header_deinit(&h);
    if (!status) return file_writer_commit(f, err);
    if (f) file_writer_abort(f);
    return status;
}
