/* SPDX-License-Identifier: MIT
 * Owns the names inside a run's folder.
 */
#include "cli/runfolder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

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
    size_t length = strlen(model);
    if (length > 5 && strcmp(model + length - 5, ".gguf") == 0) return tokenizer_read(model, out, err);
    static const char *const names[] = {RUN_TOKENIZER, "tokenizer.json"};
    for (int i = 0; i < 2 && file_is_dir(model); i++) {
        char *path = run_path(model, names[i]);
        if (!path) return propane_fail_memory(err, strlen(model));
        bool there = file_exists(path);
        propane_status status = there ? tokenizer_read(path, out, err) : PROPANE_OK;
        mem_free(path);
        if (there) return status;
    }
    return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                        "%s: there is no tokenizer beside the model; give one with --tokenizer", model);
}

propane_status run_lock(const char *dir, int *lock, propane_error *err) {
    *lock = -1;
    PROPANE_TRY(file_make_dir(dir, err));
    if (access(dir, W_OK) != 0)
        return propane_fail(err, PROPANE_ERR_IO, "cannot write into %s: %s", dir, strerror(errno));
    int fd =
        open(dir, O_RDONLY | O_CLOEXEC); /* the folder itself is locked: no file is left behind, whatever happens */
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(fd);
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: another process is training in this folder; wait for it, or give another --run", dir);
    }
    *lock = fd; /* file systems without locks: -1 or a lock that does nothing */
    return PROPANE_OK;
}

void run_unlock(const char *dir, int lock) {
    if (lock < 0) return;
    (void)rmdir(dir); /* refused by the system where there is something in it */
    close(lock);
}
