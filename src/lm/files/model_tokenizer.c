/* SPDX-License-Identifier: MIT
 * Owns the search for a model's tokenizer.
 */
#include "lm/files/model_tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "lm/files/diagnose_folder.h"

/* Reads the tokenizer in a folder. Sets *out to NULL if there is none. */
static propane_status model_tokenizer_in(const char *dir, tokenizer **out, propane_error *err) {
    static const char *const names[] = {MODEL_TOKENIZER, "tokenizer.json", "tekken.json", "tokenizer.model"};
    *out = NULL;
    for (int i = 0; i < 4; i++) {
        char path[1100];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        bool there = file_exists(path);
        propane_status status = there ? tokenizer_read(path, out, err) : PROPANE_OK;
        if (there) return status;
    }
    return PROPANE_OK;
}

propane_status model_tokenizer_open(const char *given, const char *model, tokenizer **out, propane_error *err) {
    const char *from = given ? given : model, *slash = strrchr(from, '/');
    bool is_dir = file_is_dir(from);
    char dir[1000];
    if (!is_dir && (given || text_ends_with(model, ".gguf"))) return tokenizer_read(from, out, err);
    if (is_dir)
        snprintf(dir, sizeof dir, "%s", from);
    else
        snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - from) : 1, slash ? from : ".");
    PROPANE_TRY(model_tokenizer_in(dir, out, err));
    if (*out) return PROPANE_OK;
    if (is_dir) return folder_explain(dir, FOLDER_TOKENIZER, err);
    return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                        "%s: there is no tokenizer next to the model; give one with --tokenizer", model);
}
