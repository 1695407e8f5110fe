/* SPDX-License-Identifier: MIT
 * Owns the diagnosis of a folder that is not a model, or only a part of one. The folder is scanned once for the kinds
 * of files that users have instead. No file is opened.
 */
#include "lm/files/diagnose_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "lm/arch/lora.h"

enum { NAME_MAX_BYTES = 256, PATH_MAX_BYTES = 4096 };

typedef struct contents {
    char weights[NAME_MAX_BYTES]; /* model.safetensors, its index, or a run's checkpoint */
    char shard[NAME_MAX_BYTES];   /* model-00001-of-00004.safetensors */
    char other[NAME_MAX_BYTES];   /* another .safetensors file */
    char pickle[NAME_MAX_BYTES];  /* a PyTorch file */
    char gguf[NAME_MAX_BYTES];
    char inner[2 * NAME_MAX_BYTES]; /* subfolder with a config.json: of a download's cache, or one level too deep */
    int closed;                     /* errno if the folder cannot be read, otherwise 0 */
} contents;

static bool diagnose_has(const char *dir, const char *name) {
    char path[PATH_MAX_BYTES];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n > 0 && n < PATH_MAX_BYTES && file_exists(path);
}

/* Keeps the first name in alphabetical order, because the order of a folder's entries is undefined. */
static void diagnose_keep(char *kept, size_t room, const char *name) {
    if (strlen(name) < room && (!*kept || strcmp(name, kept) < 0)) snprintf(kept, room, "%s", name);
}

static void diagnose_look_inside(contents *c, const char *dir, const char *name) {
    char path[PATH_MAX_BYTES], inner[2 * NAME_MAX_BYTES];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    if (name[0] == '.' || n < 0 || n >= PATH_MAX_BYTES || !file_is_dir(path)) return;
    if (diagnose_has(path, "config.json")) diagnose_keep(c->inner, sizeof c->inner, name);
    if (strcmp(name, "snapshots") != 0) return;
    DIR *folder = opendir(path);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        char below[PATH_MAX_BYTES + NAME_MAX_BYTES];
        snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        n = snprintf(inner, sizeof inner, "snapshots/%s", e->d_name);
        if (e->d_name[0] != '.' && n > 0 && n < (int)sizeof inner && diagnose_has(below, "config.json"))
            diagnose_keep(c->inner, sizeof c->inner, inner);
    }
    if (folder) closedir(folder);
}

static void diagnose_look(contents *c, const char *dir) {
    static const char *const weights[] = {"model.safetensors", "model.safetensors.index.json",
                                          "checkpoint.safetensors"};
    *c = (contents){0};
    DIR *folder = opendir(dir);
    if (!folder) c->closed = errno;
    for (struct dirent *e; folder && (e = readdir(folder));) {
        const char *name = e->d_name;
        for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++)
            if (strcmp(name, weights[i]) == 0) diagnose_keep(c->weights, sizeof c->weights, name);
        bool tensors = text_ends_with(name, ".safetensors"), shard = tensors && strstr(name, "-of-");
        if (shard) diagnose_keep(c->shard, sizeof c->shard, name);
        if (tensors && !shard && strncmp(name, "adapter_", 8) != 0) diagnose_keep(c->other, sizeof c->other, name);
        if ((strncmp(name, "pytorch_model", 13) == 0 && text_ends_with(name, ".bin")) || text_ends_with(name, ".pth") ||
            text_ends_with(name, ".pt"))
            diagnose_keep(c->pickle, sizeof c->pickle, name);
        if (text_ends_with(name, ".gguf")) diagnose_keep(c->gguf, sizeof c->gguf, name);
        diagnose_look_inside(c, dir, name);
    }
    if (folder) closedir(folder);
}

static propane_status diagnose_explain_weights(const char *dir, const contents *c, propane_error *err) {
    if (model_adapter_is(dir))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s contains an adapter but no model; give the base model, and --adapter %s", dir, dir);
    if (c->closed) return propane_fail(err, PROPANE_ERR_IO, "cannot open %s: %s", dir, strerror(c->closed));
    if (diagnose_has(dir, "Manifest.json") || diagnose_has(dir, "model.mil"))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: it is a Core ML model, not the folder of a language model: 'propane run' runs it, and "
                            "'propane train %s' trains its weights",
                            dir, dir);
    if (*c->shard)
        return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                            "%s: it contains %s, but not model.safetensors.index.json, which lists the contents of "
                            "each file: download that file, too",
                            dir, c->shard);
    if (*c->pickle)
        return propane_fail(
            err, PROPANE_ERR_UNSUPPORTED,
            "%s: its weights are in %s, a Python pickle, which is not supported; save them as safetensors in Python: "
            "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(FOLDER)",
            dir, c->pickle);
    if (*c->gguf || *c->other)
        return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                            "%s: it contains no model.safetensors; give the file itself: %s/%s", dir, dir,
                            *c->gguf ? c->gguf : c->other);
    if (*c->inner)
        return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s: it contains no model; give the folder %s/%s", dir, dir,
                            c->inner);
    return propane_fail(
        err, PROPANE_ERR_NOT_FOUND,
        "%s: it contains no model; a model folder has config.json, model.safetensors and tokenizer.json", dir);
}

static propane_status diagnose_explain_tokenizer(const char *dir, propane_error *err) {
    static const struct {
        const char *file, *words;
    } others[] = {{"merges.txt", "vocab.json and merges.txt"}, {"vocab.txt", "vocab.txt (WordPiece)"}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (diagnose_has(dir, others[i].file))
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "%s: its tokenizer is %s, which is not supported; write a tokenizer.json in Python: "
                                "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
                                dir, others[i].words);
    return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                        "%s: there is no tokenizer next to the model; give one with --tokenizer", dir);
}

propane_status folder_explain(const char *dir, folder_part missing, propane_error *err) {
    contents c;
    diagnose_look(&c, dir);
    if (!*c.weights && !(missing == FOLDER_TOKENIZER && model_adapter_is(dir)))
        return diagnose_explain_weights(dir, &c, err);
    if (missing == FOLDER_TOKENIZER) return diagnose_explain_tokenizer(dir, err);
    return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                        "%s: it contains no config.json, which describes the model: download that file, too", dir);
}

propane_status folder_check(const char *dir, propane_error *err) {
    contents c;
    diagnose_look(&c, dir);
    if (!*c.weights) return diagnose_explain_weights(dir, &c, err);
    return diagnose_has(dir, "config.json") ? PROPANE_OK : folder_explain(dir, FOLDER_CONFIG, err);
}
