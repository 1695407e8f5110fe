/* SPDX-License-Identifier: MIT
 * Owns the layout of Hugging Face's cache: HUB/models--OWNER--NAME with refs/main (a commit) and snapshots/COMMIT. HUB
 * is $HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub, as in huggingface_hub
 * (src/huggingface_hub/constants.py).
 */
#include "lm/files/hub_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/memory.h"

enum { ROOM = 1200 };

static bool hub_cache_set(char out[ROOM], const char *variable, const char *below) {
    const char *value = getenv(variable);
    if (!value || !*value) return false;
    snprintf(out, ROOM, "%.900s%s", value, below);
    return true;
}

static void hub_cache_root(char out[ROOM]) {
    out[0] = 0;
    if (hub_cache_set(out, "HF_HUB_CACHE", "") || hub_cache_set(out, "HF_HOME", "/hub")) return;
    if (hub_cache_set(out, "XDG_CACHE_HOME", "/huggingface/hub")) return;
    (void)hub_cache_set(out, "HOME", "/.cache/huggingface/hub");
}

/* Returns the slash in a name of the form OWNER/NAME (letters, digits, "-", "_" and "."). Returns NULL for other names,
 * such as paths that begin with "." or "/". */
static const char *hub_cache_slash(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const size_t owner = strspn(name, letters);
    if (owner == 0 || owner > 96 || name[0] == '.' || name[owner] != '/') return NULL;
    const size_t rest = strspn(name + owner + 1, letters);
    return rest && rest <= 96 && !name[owner + 1 + rest] ? name + owner : NULL;
}

/* Sets `out` to the commit in refs/main, or to "" if there is none. */
static void hub_cache_commit(const char *folder, char out[80]) {
    char path[2 * ROOM], *data = NULL;
    size_t length = 0;
    out[0] = 0;
    snprintf(path, sizeof path, "%s/refs/main", folder);
    if (!file_exists(path) || file_read(path, 4096, &data, &length, NULL) != PROPANE_OK) return;
    const size_t n = length < 79 ? length : 79;
    memcpy(out, data, n);
    out[n] = 0;
    out[strspn(out, "0123456789abcdefABCDEF")] = 0;
    mem_free(data);
}

propane_status hub_cache_find(const char *name, char **out, propane_error *err) {
    const char *slash = hub_cache_slash(name);
    char root[ROOM], folder[ROOM + 240], path[2 * ROOM], commit[80];
    *out = NULL;
    if (file_exists(name) || !slash) {
        *out = mem_copy_string(name);
        return *out ? PROPANE_OK : propane_fail_memory(err, strlen(name));
    }
    hub_cache_root(root);
    snprintf(folder, sizeof folder, "%s/models--%.*s--%s", root, (int)(slash - name), name, slash + 1);
    hub_cache_commit(folder, commit);
    snprintf(path, sizeof path, "%s/snapshots/%s", folder, commit);
    if (!*commit || !file_is_dir(path))
        return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                            "%s: no such file or folder, and no model with this name in the Hugging Face cache "
                            "(%.400s); to download it: hf download %s",
                            name, root, name);
    *out = mem_copy_string(path);
    return *out ? PROPANE_OK : propane_fail_memory(err, strlen(path));
}
