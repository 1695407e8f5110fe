/* SPDX-License-Identifier: MIT
 * Owns the names inside a run's folder.
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

char *run_path(const char *dir, const char *name) {
    size_t bytes = strlen(dir) + strlen(name) + 2;
    char *path = mem_alloc(bytes);
    if (path) snprintf(path, bytes, "%s/%s", dir, name);
    return path;
}

bool run_holds(const char *dir, const char *name) {
    char path[PATH_MAX]; /* a longer one is of no file; a lack of memory would be taken for "no" */
    const int length = snprintf(path, sizeof path, "%s/%s", dir, name);
    return length > 0 && (size_t)length < sizeof path && file_exists(path);
}

propane_status run_vocabulary(const char *model, int64_t rows, const tokenizer *t, propane_error *err) {
    int64_t own = tokenizer_vocab_size(t);
    if (own <= rows && own > rows / 2) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s has a vocabulary of %" PRId64 ", the tokenizer one of %" PRId64
                        ": they do not belong together%s",
                        model, rows, own,
                        own > rows && own - rows <= rows / 4
                            ? "; if tokens were added, make room for them, in Python: model.resize_token_embeddings"
                            : "");
}

/* Is the checkpoint one of adapters alone? */
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

propane_status run_model(const char *model, const char *adapter, model_weights **out, propane_error *err) {
    if (!adapter && model_adapter_is(model) && !run_holds(model, "model.safetensors"))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s holds an adapter and no model; give the model that it is for, and --adapter %s", model,
                            model);
    if (run_holds(model, TRAIN_CHECKPOINT) && !run_holds(model, "model.safetensors") &&
        run_folder_trains_adapter(model))
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s holds an adapter's run that is not done, and no model; end it first: propane train --resume %s "
            "(--steps says where)",
            model, model);
    PROPANE_TRY(model_store_read(model, out, err));
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
    return status;
}

/* A `propane watch` that looks whether the folder is locked holds it for a moment. false: somebody holds it for longer. */
static bool run_folder_lock_folder(int fd) {
    const struct timespec rest = {0, 20000000};
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK) return true;
        if (i == 50) return false;
        (void)nanosleep(&rest, NULL);
    }
    return true;
}

/* Stands in a run's folder until its first checkpoint: what is beside it may be written anew. */
static const char run_folder_mark[] = ".propane-run";

static propane_status run_folder_check_free(const char *dir, propane_error *err) {
    static const char *const names[] = {
        TRAIN_CONFIG,     MODEL_TOKENIZER,         "log.jsonl",           TRAIN_RECORD,         "report.html",
        "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", MODEL_ADAPTER_CONFIG, MODEL_ADAPTER_WEIGHTS};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (run_holds(dir, names[i]))
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s already holds %s, which this run would overwrite: give another --run", dir,
                                names[i]);
    return PROPANE_OK;
}

static propane_status run_folder_check(const char *dir, bool resume, bool holds_model, propane_error *err) {
    bool run = run_holds(dir, TRAIN_CHECKPOINT);
    if (resume && !run)
        return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                            "%s: there is no checkpoint to resume from; leave out --resume to start", dir);
    if (!resume && run)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s already holds a run: go on with: propane train --resume %s, or give another --run", dir,
                            dir);
    if (!resume && holds_model)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s already holds a model, which this run would overwrite: give another --run", dir);
    return resume || run_holds(dir, run_folder_mark) ? PROPANE_OK : run_folder_check_free(dir, err);
}

/* The folder itself is locked: no file is left behind, whatever happens. */
static propane_status run_folder_lock(const char *dir, run_hold *hold, propane_error *err) {
    hold->made = !file_exists(dir);
    PROPANE_TRY(file_make_dir(dir, err));
    if (access(dir, W_OK) != 0)
        return propane_fail(err, PROPANE_ERR_IO, "cannot write into %s: %s", dir, strerror(errno));
    int fd = open(dir, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && !run_folder_lock_folder(fd)) {
        close(fd);
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: another process is training in this folder; wait for it, or give another --run", dir);
    }
    hold->lock = fd; /* file systems without locks: -1 or a lock that does nothing */
    return PROPANE_OK;
}

propane_status run_begin(const char *dir, bool resume, bool holds_model, run_hold *hold, propane_error *err) {
    *hold = (run_hold){.lock = -1};
    PROPANE_TRY(run_folder_check(dir, resume, holds_model, err));
    PROPANE_TRY(run_folder_lock(dir, hold, err));
    if (resume) return PROPANE_OK;
    char *mark = run_path(dir, run_folder_mark);
    propane_status status = mark ? file_write(mark, "", 0, err) : propane_fail_memory(err, strlen(dir));
    mem_free(mark);
    return status;
}

void run_inherit(const char *dir, run_hold *hold) {
    propane_error ignored;
    if (run_folder_lock(dir, hold, &ignored) != PROPANE_OK) hold->lock = -1;
    hold->made = false;
}

/* Is there nothing in it but the mark? */
static bool run_folder_is_untouched(const char *dir) {
    DIR *folder = opendir(dir);
    bool untouched = folder != NULL;
    for (struct dirent *e; untouched && (e = readdir(folder));)
        untouched =
            strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || strcmp(e->d_name, run_folder_mark) == 0;
    if (folder) closedir(folder);
    return untouched;
}

void run_end(const char *dir, run_hold *hold) {
    if (hold->lock < 0) return;
    /* By the folder that is open: this goes without memory. */
    if (faccessat(hold->lock, TRAIN_CHECKPOINT, F_OK, 0) == 0 || run_folder_is_untouched(dir))
        (void)unlinkat(hold->lock, run_folder_mark, 0);
    if (hold->made) (void)rmdir(dir); /* refused by the system where there is something in it */
    close(hold->lock);
    hold->lock = -1;
}
