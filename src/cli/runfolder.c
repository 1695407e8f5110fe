/* SPDX-License-Identifier: MIT
 * Owns the names inside a run's folder.
 */
#include "cli/runfolder.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

char *run_path(const char *dir, const char *name) {
    size_t bytes = strlen(dir) + strlen(name) + 2;
    char *path = mem_alloc(bytes);
    if (path) snprintf(path, bytes, "%s/%s", dir, name);
    return path;
}

propane_status run_tokenizer(const char *given, const char *model, tokenizer **out, propane_error *err) {
    if (given) return tokenizer_read(given, out, err);
    char *path = file_is_dir(model) ? run_path(model, RUN_TOKENIZER) : NULL;
    propane_status status;
    if (path && file_exists(path))
        status = tokenizer_read(path, out, err);
    else
        status = propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s: there is no tokenizer beside the model; give one with --tokenizer", model);
    mem_free(path);
    return status;
}
