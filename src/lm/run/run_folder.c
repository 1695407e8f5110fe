/* SPDX-License-Identifier: MIT
 * Owns the loading of language models from paths, and the model's files in a run's folder.
 */
#include "lm/run/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/coreml/package.h"
#include "lm/files/diagnose_folder.h"
#include "lm/files/model_tokenizer.h"
#include "lm/files/store.h"
#include "train/checkpoint.h"
#include "train/train_run.h"

propane_status run_vocabulary(const char *model, int64_t rows, const tokenizer *t, propane_error *err) {
    int64_t own = tokenizer_vocab_size(t);
    if (own <= rows && own > rows / 2) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s has a vocabulary of %" PRId64 ", but the tokenizer one of %" PRId64 ": they do not match%s",
                        model, rows, own,
                        own > rows && own - rows <= rows / 4
                            ? "; if tokens were added, make room for them in Python: model.resize_token_embeddings"
                            : "");
}

/* Returns whether the folder's checkpoint holds only adapters. */
static bool run_folder_trains_adapter(const char *dir) {
    train_options options;
    propane_error none = {0};
    char *path = run_path(dir, TRAIN_CHECKPOINT);
    arena *a = arena_create();
    train_options_default(&options, TRAIN_LANGUAGE);
    bool yes = path && a && train_checkpoint_recall(path, a, &options, &none) == PROPANE_OK && options.lora_rank > 0;
    arena_free(a);
    mem_free(path);
    return yes;
}

bool run_is_model(const char *path) {
    model_form form;
    propane_error none = {0};
    return !mil_is_program_folder(path) && !text_ends_with(path, ".mil") && !text_ends_with(path, ".mlmodel") &&
           model_store_form(path, &form, &none) == PROPANE_OK;
}

propane_status run_config(const char *path, model_config *out, propane_error *err) {
    if (!file_is_dir(path) && text_ends_with(path, ".json")) return model_config_read(path, out, err);
    return model_store_config(path, out, err);
}

propane_status run_model(const char *model, const char *adapter, bool stored, model_weights **out, propane_error *err) {
    if (!adapter && model_adapter_is(model) && !run_holds(model, "model.safetensors"))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s contains an adapter but no model; give the base model, and --adapter %s", model, model);
    if (run_holds(model, TRAIN_CHECKPOINT) && !run_holds(model, "model.safetensors") &&
        run_folder_trains_adapter(model))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s contains an unfinished adapter run and no model; finish it first: propane train "
                            "--resume %s (--steps N ends it at step N)",
                            model, model);
    PROPANE_TRY(model_store_read(model, stored && !adapter, out, err));
    propane_status status = adapter ? model_adapter_read(*out, adapter, err) : PROPANE_OK;
    if (status == PROPANE_OK && adapter) status = model_lora_merge(*out, err);
    if (status == PROPANE_OK) return status;
    model_weights_free(*out);
    *out = NULL;
    return status;
}

propane_status run_copy_chat(const char *model, const char *dir, propane_error *err) {
    static const char *const names[] = {"tokenizer_config.json", "chat_template.jinja"};
    const char *slash = strrchr(model, '/');
    char folder[1000];
    if (file_is_dir(model))
        snprintf(folder, sizeof folder, "%s", model);
    else
        snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - model) : 1, slash ? model : ".");
    propane_status status = PROPANE_OK;
    for (int i = 0; i < 2 && status == PROPANE_OK; i++) {
        char *from = run_path(folder, names[i]), *to = run_path(dir, names[i]), *data = NULL;
        size_t length = 0;
        if (!from || !to) status = propane_fail_memory(err, strlen(folder));
        bool there = status == PROPANE_OK && file_exists(from) && !file_same(from, to);
        if (there) status = file_read(from, (size_t)32 << 20, &data, &length, err);
        if (there && status == PROPANE_OK) status = file_write(to, data, length, err);
        mem_free(data);
        mem_free(from);
        mem_free(to);
    }
    return status == PROPANE_OK ? tokenizer_chat_copy_tools(model, dir, err) : status;
}
