/* SPDX-License-Identifier: MIT
 * Owns the conversions between the whole model and the trained model. A tensor with one row per id is recognised by its
 * part and parameter; all other tensors are the same in both models.
 */
#include "lm/data/compact_vocab.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/files/safetensors.h"

enum { MULTIPLE = 64 }; /* suits the rows of engines and the pieces of the head */

static size_t compact_vocab_table_bytes(const vocab_map *c) { return (size_t)(c->vocab * c->width) * sizeof(float); }

/* Returns 0 for the embedding, 1 for the head, and -1 for other tensors. */
static int compact_vocab_table_of(const model_tensor *t) {
    if (t->part == MODEL_EMBED && strcmp(t->param, "embed_tokens") == 0) return 0;
    return t->part == MODEL_HEAD && strcmp(t->param, "lm_head") == 0 ? 1 : -1;
}

propane_status compact_vocab_create(const uint8_t *used, const model_config *whole, vocab_map **out,
                                    propane_error *err) {
    *out = NULL;
    vocab_map *c = mem_alloc(sizeof *c);
    if (!c) return propane_fail_memory(err, sizeof *c);
    c->vocab = whole->vocab_size;
    c->width = whole->hidden_size;
    c->ids = mem_array((size_t)c->vocab, sizeof *c->ids);
    c->map = mem_array((size_t)c->vocab, sizeof *c->map);
    if (!c->ids || !c->map) {
        compact_vocab_free(c);
        return propane_fail_memory(err, (size_t)c->vocab * sizeof *c->ids);
    }
    int64_t occur = 0;
    for (int64_t i = 0; i < c->vocab; i++) occur += used[i] != 0;
    int64_t spare = (occur + MULTIPLE - 1) / MULTIPLE * MULTIPLE - occur;
    for (int64_t i = 0; i < c->vocab; i++) {
        bool take = used[i] != 0 || spare > 0;
        if (take && !used[i]) spare--;
        c->map[i] = take ? (int32_t)c->count : -1;
        if (take) c->ids[c->count++] = (int32_t)i;
    }
    *out = c;
    return PROPANE_OK;
}

void compact_vocab_free(vocab_map *c) {
    if (!c) return;
    for (int i = 0; i < 2; i++)
        if (c->tables[i]) mem_pages_free(c->tables[i], compact_vocab_table_bytes(c));
    mem_free(c->ids);
    mem_free(c->map);
    mem_free(c);
}

model_config compact_vocab_config(const vocab_map *c, const model_config *whole) {
    model_config small = *whole;
    small.vocab_size = c->count;
    small.bos_token_id = small.eos_token_id = -1;
    return small;
}

static propane_status compact_vocab_keep(vocab_map *c, int table, const float *data, propane_error *err) {
    if (!c->tables[table]) c->tables[table] = mem_pages_alloc(compact_vocab_table_bytes(c));
    if (!c->tables[table]) return propane_fail_memory(err, compact_vocab_table_bytes(c));
    if (data) memcpy(c->tables[table], data, compact_vocab_table_bytes(c));
    return PROPANE_OK;
}

propane_status compact_vocab_take(vocab_map *c, const model_weights *whole, model_weights *small, propane_error *err) {
    for (int i = 0; i < whole->count; i++) {
        const model_tensor *t = &whole->tensors[i];
        if (compact_vocab_table_of(t) >= 0)
            PROPANE_TRY(compact_vocab_keep(c, compact_vocab_table_of(t), model_weights_data(whole, t), err));
    }
    for (int i = 0; i < small->count; i++) {
        const model_tensor *t = &small->tensors[i], *from = model_weights_find(whole, t->name);
        float *to = model_weights_data(small, t);
        int table = compact_vocab_table_of(t);
        if (table < 0) memcpy(to, model_weights_data(whole, from), (size_t)t->count * sizeof *to);
        for (int64_t r = 0; table >= 0 && r < t->dim[0]; r++)
            memcpy(to + r * c->width, c->tables[table] + c->ids[t->first_row + r] * c->width,
                   (size_t)c->width * sizeof *to);
    }
    return PROPANE_OK;
}

propane_status compact_vocab_restore(const vocab_map *c, const model_config *whole, const model_weights *small,
                                     model_weights **out, propane_error *err) {
    model_config config = *whole;
    config.vocab_piece = 0;
    PROPANE_TRY(model_weights_create(&config, out, err));
    for (int i = 0; i < (*out)->count; i++) {
        const model_tensor *t = &(*out)->tensors[i];
        if (compact_vocab_table_of(t) >= 0)
            memcpy(model_weights_data(*out, t), c->tables[compact_vocab_table_of(t)], compact_vocab_table_bytes(c));
    }
    for (int i = 0; i < small->count; i++) {
        const model_tensor *t = &small->tensors[i], *to = model_weights_find(*out, t->stored);
        const float *from = model_weights_data(small, t);
        if (compact_vocab_table_of(t) < 0) to = model_weights_find(*out, t->name);
        float *target = model_weights_data(*out, to);
        if (compact_vocab_table_of(t) < 0) memcpy(target, from, (size_t)t->count * sizeof *from);
        for (int64_t r = 0; compact_vocab_table_of(t) >= 0 && r < t->dim[0]; r++)
            memcpy(target + c->ids[t->first_row + r] * c->width, from + r * c->width, (size_t)c->width * sizeof *from);
    }
    return PROPANE_OK;
}

propane_status compact_vocab_map(const vocab_map *c, int32_t *ids, int64_t count, propane_error *err) {
    for (int64_t i = 0; i < count; i++) {
        if (ids[i] == -1) continue;
        if (ids[i] < 0 || ids[i] >= c->vocab || c->map[ids[i]] < 0)
            return propane_fail(err, PROPANE_ERR_INVALID, "token %d is not among the %lld ids that occur in the data",
                                (int)ids[i], (long long)c->count);
        ids[i] = c->map[ids[i]];
    }
    return PROPANE_OK;
}

/* ---- the file of a run ---------------------------------------------------------------------------------------------------- */

static const char *const names[] = {"embed_tokens", "lm_head"};

propane_status compact_vocab_write(const vocab_map *c, const char *path, propane_error *err) {
    const int64_t dim[] = {c->vocab, c->width};
    safetensors_writer *w = NULL;
    PROPANE_TRY(safetensors_writer_open(path, &w, err));
    propane_status status = safetensors_writer_declare(w, "ids", ST_I32, 1, &c->count, err);
    for (int i = 0; i < 2 && !status; i++)
        if (c->tables[i]) status = safetensors_writer_declare(w, names[i], ST_F32, 2, dim, err);
    if (!status) status = safetensors_writer_data(w, c->ids, (size_t)c->count * sizeof *c->ids, err);
    for (int i = 0; i < 2 && !status; i++)
        if (c->tables[i]) status = safetensors_writer_data(w, c->tables[i], compact_vocab_table_bytes(c), err);
    if (!status) return safetensors_writer_commit(w, err);
    safetensors_writer_abort(w);
    return status;
}

static propane_status compact_vocab_read_all(vocab_map *c, const safetensors *s, propane_error *err) {
    const int64_t dim[] = {c->vocab, c->width};
    const safetensors_tensor *t;
    PROPANE_TRY(safetensors_expect(s, "ids", ST_I32, -1, NULL, &t, err));
    if (t->count != c->count || memcmp(t->data, c->ids, (size_t)c->count * sizeof *c->ids) != 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: the run was started with data that contains other ids; resume with the same data",
                            safetensors_source(s));
    for (int i = 0; i < 2; i++) {
        if (!safetensors_find(s, names[i])) continue;
        PROPANE_TRY(safetensors_expect(s, names[i], ST_F32, 2, dim, &t, err));
        PROPANE_TRY(compact_vocab_keep(c, i, NULL, err));
        PROPANE_TRY(safetensors_f32(s, t, c->tables[i], err));
    }
    return c->tables[0]
               ? PROPANE_OK
               : propane_fail(err, PROPANE_ERR_INVALID, "%s: the table embed_tokens is missing", safetensors_source(s));
}

propane_status compact_vocab_read(vocab_map *c, const char *path, propane_error *err) {
    safetensors *s = NULL;
    PROPANE_TRY(safetensors_open(path, &s, err));
    propane_status status = safetensors_verify_model(s, err);
    if (status == PROPANE_OK) status = compact_vocab_read_all(c, s, err);
    safetensors_close(s);
    return status;
}
