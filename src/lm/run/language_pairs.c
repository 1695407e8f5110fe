/* SPDX-License-Identifier: MIT
 * Owns the losses under the reference model and their file.
 */
#include "lm/run/language_pairs.h"

#include "core/files/safetensors.h"

static const char *const pairs_names[2] = {"trained", "held_out"};

propane_status language_pairs_create(arena *a, const token_windows *data, int batch, double beta, language_pairs **out,
                                     propane_error *err) {
    language_pairs *p = *out = ARENA_ARRAY(a, 1, language_pairs);
    if (!p) return propane_fail_memory(err, sizeof *p);
    *p = (language_pairs){.preference = {.beta = beta}, .data = data, .batch = batch};
    for (int i = 0; i < 2; i++) {
        p->reference[i] = ARENA_ARRAY(a, data->packs[i].windows + 1, float);
        if (!p->reference[i]) return propane_fail_memory(err, (size_t)data->packs[i].windows * sizeof(float));
    }
    p->preference.reference = p->own = ARENA_ARRAY(a, batch, float);
    return p->own ? PROPANE_OK : propane_fail_memory(err, (size_t)batch * sizeof(float));
}

propane_status language_pairs_write(const language_pairs *p, const char *path, propane_error *err) {
    safetensors_writer *w = NULL;
    PROPANE_TRY(safetensors_writer_open(path, &w, err));
    propane_status status = PROPANE_OK;
    for (int i = 0; i < 2 && status == PROPANE_OK; i++)
        status = safetensors_writer_declare(w, pairs_names[i], ST_F32, 1, &p->data->packs[i].windows, err);
    for (int i = 0; i < 2 && status == PROPANE_OK; i++)
        status = safetensors_writer_data(w, p->reference[i], (size_t)p->data->packs[i].windows * sizeof(float), err);
    if (status == PROPANE_OK) return safetensors_writer_commit(w, err);
    safetensors_writer_abort(w);
    return status;
}

propane_status language_pairs_read(language_pairs *p, const char *path, propane_error *err) {
    safetensors *s = NULL;
    const safetensors_tensor *found = NULL;
    PROPANE_TRY(safetensors_open(path, &s, err));
    propane_status status = safetensors_verify(s, err);
    for (int i = 0; i < 2 && status == PROPANE_OK; i++) {
        status = safetensors_expect(s, pairs_names[i], ST_F32, 1, &p->data->packs[i].windows, &found, err);
        if (status == PROPANE_OK) status = safetensors_f32(s, found, p->reference[i], err);
    }
    safetensors_close(s);
    return status;
}

void language_pairs_batch(language_pairs *p, uint64_t position) {
    for (int i = 0; p && i < p->batch; i++)
        p->own[i] = p->reference[0][packed_windows_shuffled(&p->data->packs[0], p->data->seed, position + (uint64_t)i)];
}

void language_pairs_held_out(language_pairs *p, int64_t at, int64_t index, int64_t windows) {
    if (!p) return;
    p->own[at] = index < windows ? p->reference[1][packed_windows_evenly(&p->data->packs[1], index, windows)] : 0;
}

static bool pairs_has_target(const int32_t *targets, int64_t context) {
    for (int64_t i = 0; i < context; i++)
        if (targets[i] >= 0) return true;
    return false;
}

int64_t language_pairs_count(const int32_t *targets, int64_t count, int64_t context) {
    int64_t n = 0;
    for (int64_t w = 0; w + 1 < count; w += 2)
        n += pairs_has_target(targets + w * context, context) && pairs_has_target(targets + (w + 1) * context, context);
    return n;
}
