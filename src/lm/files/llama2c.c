/* SPDX-License-Identifier: MIT
 * Owns llama2.c checkpoints. One table holds the order of the tensors in the file, for reading and writing.
 */
#include "lm/files/llama2c.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/memory.h"

enum { HEADER_INTS = 7, HEADER_BYTES = 28 };

/* The tensors in file order. A layer's tensor is stored for all layers, one after the other. */
static const struct {
    model_part part;
    const char *param;
    bool interleaved; /* rows of a head come in pairs (2i, 2i+1) */
} order[] = {
    {MODEL_EMBED, "embed_tokens", false}, {MODEL_ATTN, "norm_weight", false}, {MODEL_ATTN, "q_proj", true},
    {MODEL_ATTN, "k_proj", true},         {MODEL_ATTN, "v_proj", false},      {MODEL_ATTN, "o_proj", false},
    {MODEL_FFN, "norm_weight", false},    {MODEL_FFN, "gate_proj", false},    {MODEL_FFN, "down_proj", false},
    {MODEL_FFN, "up_proj", false},        {MODEL_HEAD, "norm_weight", false},
};
enum { ORDER_COUNT = sizeof order / sizeof order[0] };

static int llama2c_layers_of(const model_config *c, model_part part) {
    return part == MODEL_ATTN || part == MODEL_FFN ? (int)c->num_hidden_layers : 1;
}

/* Returns the file's row for our row `row`: our rows i and i + HD/2 of a head are the file's rows 2i and 2i+1. */
static int64_t llama2c_file_row(const model_config *c, int64_t row) {
    int64_t hd = c->head_dim, head = row / hd, i = row % hd;
    return head * hd + (i < hd / 2 ? 2 * i : 2 * (i - hd / 2) + 1);
}

static propane_status llama2c_read_header(const uint8_t *data, size_t length, const char *source, model_config *c,
                                          propane_error *err) {
    if (length < HEADER_BYTES)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: %zu bytes are too few for a llama2.c checkpoint (its header has %d)", source, length,
                            HEADER_BYTES);
    int32_t h[HEADER_INTS];
    for (int i = 0; i < HEADER_INTS; i++)
        h[i] = (int32_t)((uint32_t)data[4 * i] | (uint32_t)data[4 * i + 1] << 8 | (uint32_t)data[4 * i + 2] << 16 |
                         (uint32_t)data[4 * i + 3] << 24);
    static const char *const names[HEADER_INTS] = {"dim",        "hidden_dim", "n_layers", "n_heads",
                                                   "n_kv_heads", "vocab_size", "seq_len"};
    if (h[0] == 0x616b3432)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: a llama2.c checkpoint of version 1 or later ('ak42'); only version 0 is supported",
                            source);
    for (int i = 0; i < HEADER_INTS; i++)
        if (i == 5 ? h[i] == 0 || h[i] == INT32_MIN : h[i] < 1)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: offset %d: %s is %d; is it a llama2.c checkpoint?",
                                source, 4 * i, names[i], (int)h[i]);
    if (h[0] % h[3] != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: dim (%d) must be a multiple of n_heads (%d)", source,
                            (int)h[0], (int)h[3]);
    int32_t vocab = h[5] < 0 ? -h[5] : h[5];
    *c = (model_config){
        .model_type = "llama",
        .hidden_size = h[0],
        .intermediate_size = h[1],
        .num_hidden_layers = h[2],
        .num_attention_heads = h[3],
        .num_key_value_heads = h[4],
        .head_dim = h[0] / h[3],
        .vocab_size = vocab,
        .max_position_embeddings = h[6],
        .rms_norm_eps = 1e-5,
        .rope_theta = 10000,
        .tie_word_embeddings = h[5] > 0,
        .bos_token_id = vocab > 2 ? 1 : -1,
        .eos_token_id = vocab > 2 ? 2 : -1,
    };
    return model_config_check(c, source, err);
}

/* Returns the size of a checkpoint file. model_config_check has bounded the sizes, so products do not overflow. */
static uint64_t llama2c_file_bytes(const model_config *c) {
    int64_t d = c->hidden_size, h = c->intermediate_size, q = model_config_q(c), kv = model_config_kv(c);
    int64_t layer = 2 * d + 2 * q * d + 2 * kv * d + 3 * h * d;
    int64_t table = c->vocab_size * d;
    int64_t floats = table * (c->tie_word_embeddings ? 1 : 2) + c->num_hidden_layers * layer + d +
                     c->max_position_embeddings * c->head_dim;
    return HEADER_BYTES + 4 * (uint64_t)floats;
}

static void llama2c_load_rows(const model_weights *w, const model_tensor *t, bool interleaved, const uint8_t *from) {
    float *to = model_weights_data(w, t);
    size_t row_bytes = (size_t)t->dim[1] * sizeof(float);
    for (int64_t r = 0; r < t->dim[0]; r++)
        memcpy(to + r * t->dim[1], from + (size_t)(interleaved ? llama2c_file_row(&w->config, r) : r) * row_bytes,
               row_bytes);
}

static uint64_t llama2c_rope_bytes(const model_config *c) {
    return 4 * (uint64_t)(c->max_position_embeddings * c->head_dim);
}

propane_status llama2c_parse(const void *data, size_t length, const char *source, model_weights **out,
                             propane_error *err) {
    const uint8_t *p = data;
    model_config c;
    *out = NULL;
    PROPANE_TRY(llama2c_read_header(p, length, source, &c, err));
    if (length != llama2c_file_bytes(&c)) /* before memory is allocated for what the header claims */
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: the file has %zu bytes, but a llama2.c checkpoint of these sizes has %llu; it is %s",
                            source, length, (unsigned long long)llama2c_file_bytes(&c),
                            length < llama2c_file_bytes(&c) ? "truncated" : "too long, or of another version");
    model_weights *w;
    PROPANE_TRY(model_weights_create(&c, &w, err));
    p += HEADER_BYTES;
    for (int i = 0; i < ORDER_COUNT; i++)
        for (int layer = 0; layer < llama2c_layers_of(&c, order[i].part); layer++) {
            const model_tensor *t = model_weights_param(w, order[i].part, layer, order[i].param);
            llama2c_load_rows(w, t, order[i].interleaved, p);
            p += (uint64_t)t->count * 4;
        }
    p += llama2c_rope_bytes(&c); /* two tables of angles that are no longer used */
    if (!c.tie_word_embeddings) llama2c_load_rows(w, model_weights_param(w, MODEL_HEAD, -1, "lm_head"), false, p);
    *out = w;
    return PROPANE_OK;
}

propane_status llama2c_read(const char *path, model_weights **out, propane_error *err) {
    file_map map;
    *out = NULL;
    PROPANE_TRY(file_map_open(path, &map, err));
    propane_status status = llama2c_parse(map.data, map.bytes, path, out, err);
    file_map_close(&map);
    return status;
}

static propane_status llama2c_save_rows(file_writer *f, const model_weights *w, const model_tensor *t, bool interleaved,
                                        propane_error *err) {
    const float *from = model_weights_data(w, t);
    if (!interleaved) return file_writer_write(f, from, (size_t)t->count * sizeof(float), err);
    int64_t hd = w->config.head_dim;
    for (int64_t r = 0; r < t->dim[0]; r++) { /* r: row of the file; pairs (2i, 2i+1) come from i and i + HD/2 */
        int64_t i = r % hd, ours = r - i + i / 2 + (i % 2 ? hd / 2 : 0);
        PROPANE_TRY(file_writer_write(f, from + ours * t->dim[1], (size_t)t->dim[1] * sizeof(float), err));
    }
    return PROPANE_OK;
}

/* Writes cos, then sin, [positions, HD/2]; run.c skips them, but older readers use them. */
static propane_status llama2c_save_rope(file_writer *f, const model_config *c, propane_error *err) {
    for (int table = 0; table < 2; table++)
        for (int64_t s = 0; s < c->max_position_embeddings; s++)
            for (int64_t i = 0; i < c->head_dim / 2; i++) {
                double angle = (double)s * pow(c->rope_theta, -2.0 * (double)i / (double)c->head_dim);
                float v = (float)(table ? sin(angle) : cos(angle));
                PROPANE_TRY(file_writer_write(f, &v, sizeof v, err));
            }
    return PROPANE_OK;
}

static propane_status llama2c_save_all(file_writer *f, const model_weights *w, propane_error *err) {
    const model_config *c = &w->config;
    int64_t vocab = c->tie_word_embeddings ? c->vocab_size : -c->vocab_size;
    const int32_t h[HEADER_INTS] = {(int32_t)c->hidden_size,
                                    (int32_t)c->intermediate_size,
                                    (int32_t)c->num_hidden_layers,
                                    (int32_t)c->num_attention_heads,
                                    (int32_t)c->num_key_value_heads,
                                    (int32_t)vocab,
                                    (int32_t)c->max_position_embeddings};
    PROPANE_TRY(file_writer_write(f, h, sizeof h, err));
    for (int i = 0; i < ORDER_COUNT; i++)
        for (int layer = 0; layer < llama2c_layers_of(c, order[i].part); layer++)
            PROPANE_TRY(llama2c_save_rows(f, w, model_weights_param(w, order[i].part, layer, order[i].param),
                                          order[i].interleaved, err));
    PROPANE_TRY(llama2c_save_rope(f, c, err));
    if (c->tie_word_embeddings) return PROPANE_OK;
    return llama2c_save_rows(f, w, model_weights_param(w, MODEL_HEAD, -1, "lm_head"), false, err);
}

propane_status llama2c_write(const model_weights *w, const char *path, propane_error *err) {
    const model_config *c = &w->config;
    if (strcmp(c->model_type, "llama") != 0 || c->attention_bias || c->mlp_bias || c->rope_scaling != MODEL_ROPE_PLAIN)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: a llama2.c checkpoint can hold only a Llama without biases and rope scaling, not this "
                            "model (%s): write a folder, .safetensors or .gguf",
                            path, c->model_type);
    if (model_config_q(c) != c->hidden_size)
        return propane_fail(
            err, PROPANE_ERR_UNSUPPORTED,
            "%s: a llama2.c checkpoint cannot store head_dim %lld; it must be hidden_size / num_attention_heads", path,
            (long long)c->head_dim);
    if (fabs(c->rms_norm_eps - 1e-5) > 1e-9 || c->rope_theta != 10000)
        return propane_fail(
            err, PROPANE_ERR_UNSUPPORTED,
            "%s: a llama2.c checkpoint cannot store rms_norm_eps %g and rope_theta %g; they must be 1e-5 and 10000",
            path, c->rms_norm_eps, c->rope_theta);
    file_writer *f;
    PROPANE_TRY(file_writer_open(path, &f, err));
    propane_status status = llama2c_save_all(f, w, err);
    if (!status) return file_writer_commit(f, err);
    file_writer_abort(f);
    return status;
}
