/* SPDX-License-Identifier: MIT
 * Owns the two forms of checkpoint metadata. The current form has one text per key. Fine-tuning runs of version 0.1 had
 * a single key, "propane", with a JSON object: format, step, evaluated, samples, data, loss and the options by flag
 * name. The old form is read as if it were the current one; values that it lacks are derived from its step.
 */
#include "train/checkpoint_metadata.h"

#include <stdio.h>
#include <string.h>

#include "core/mil/text/number.h"

#define OLD_KEY    "propane"
#define OLD_FORMAT "propane-tune-1"

const char *checkpoint_format(train_kind kind) {
    static const char *const formats[TRAIN_KINDS] = {"propane-checkpoint-1", "propane-finetune-1"};
    return formats[kind];
}

propane_status checkpoint_metadata_open(const char *path, checkpoint_metadata *out, propane_error *err) {
    PROPANE_TRY(safetensors_open(path, &out->file, err));
    out->source = safetensors_source(out->file);
    const char *line = safetensors_metadata(out->file, OLD_KEY), *format = NULL;
    if (!line || safetensors_metadata(out->file, "format")) return PROPANE_OK;
    out->arena = arena_create();
    if (!out->arena) return propane_fail_memory(err, 0);
    PROPANE_TRY(json_parse(line, strlen(line), path, &out->old, err));
    PROPANE_TRY(json_get_text(out->old, path, "format", true, &format, err));
    if (strcmp(format, OLD_FORMAT) == 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: its format is '%.40s'; this version reads %s and %s", path,
                        format, checkpoint_format(TRAIN_IMPORTED), OLD_FORMAT);
}

void checkpoint_metadata_close(checkpoint_metadata *m) {
    json_decref(m->old);
    arena_free(m->arena);
    safetensors_close(m->file);
    *m = (checkpoint_metadata){0};
}

/* ---- the old form ------------------------------------------------------------------------------------------------------------- */

static int64_t checkpoint_old_int(const checkpoint_metadata *m, const char *key) {
    return json_integer_value(json_object_get(json_object_get(m->old, "options"), key));
}

/* Finds a value in the old form. An option's value is stored under its flag's name; all others are at the top level. */
static const json_t *checkpoint_old_value(const checkpoint_metadata *m, const char *key) {
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const train_option *row = &train_option_rows[i];
        if (row->name && strcmp(row->key, key) == 0 && row->type != TRAIN_CHOICE && row->keep != TRAIN_FORGOTTEN)
            return json_object_get(json_object_get(m->old, "options"), row->name);
    }
    /* every step updated the weights */
    const bool all = strcmp(key, "updates") == 0 || strcmp(key, "scaler_good") == 0;
    return json_object_get(m->old, all ? "step" : key);
}

static char *checkpoint_old_text(const checkpoint_metadata *m, const char *key) {
    if (strcmp(key, "format") == 0) return arena_string(m->arena, checkpoint_format(TRAIN_IMPORTED));
    if (strcmp(key, "scaler_scale") == 0) return arena_string(m->arena, "0x1p+0");
    if (strcmp(key, "scaler_skipped") == 0) return arena_string(m->arena, "0");
    const int64_t drawn = json_integer_value(json_object_get(m->old, "step")) * checkpoint_old_int(m, "batch") *
                          checkpoint_old_int(m, "accumulate");
    if (strcmp(key, "position") == 0) return arena_printf(m->arena, "%lld", (long long)drawn);
    const json_t *value = checkpoint_old_value(m, key);
    if (json_is_real(value)) return arena_string(m->arena, mil_number_print((char[40]){0}, json_real_value(value)));
    if (json_is_integer(value)) return arena_printf(m->arena, "%lld", (long long)json_integer_value(value));
    if (json_is_boolean(value)) return arena_string(m->arena, json_is_true(value) ? "1" : "0");
    return arena_string(m->arena, json_is_string(value) ? json_string_value(value) : "");
}

/* Returns the value that a missing key implies, because older versions did not write the key. Returns NULL for other
 * keys. */
static const char *checkpoint_default(const char *key) {
    static const char *const values[][2] = {
        {"best", "-1"},    {"stale", "0"},        {"best_loss", "0x0p+0"}, {"schedule", "cosine"}, {"keep", "best"},
        {"patience", "0"}, {"clipping", "exact"}, {"norm", "0x0p+0"},      {"gradients", "auto"},  {"stream", "fp32"}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (strcmp(values[i][0], key) == 0) return values[i][1];
    return NULL;
}

propane_status checkpoint_metadata_find(const checkpoint_metadata *m, const char *key, const char **out,
                                        propane_error *err) {
    if (!m->old) {
        *out = safetensors_metadata(m->file, key);
        if (!*out) *out = checkpoint_default(key);
        return PROPANE_OK;
    }
    *out = checkpoint_default(key);
    if (!*out) *out = checkpoint_old_text(m, key);
    return *out ? PROPANE_OK : propane_fail_memory(err, strlen(key));
}
