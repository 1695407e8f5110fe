/* SPDX-License-Identifier: MIT
 * Owns folders that are written as a whole. Such a folder is filled under a temporary name (core/base/temporary.h) and
 * then renamed, so it appears under its name only when it is complete. One call swaps it with an existing folder
 * (RENAME_EXCHANGE, RENAME_SWAP). Where the file system cannot do that, two renames are used, and the old folder is
 * kept until the second has succeeded.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/temporary.h"

/* Syncs the folders of a tree; its files were synced when they were written. */
static int folder_sync_tree(const char *path) {
    DIR *folder = opendir(path);
    if (!folder) return errno;
    int code = 0;
    for (struct dirent *e; !code && (e = readdir(folder));) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        const size_t bytes = strlen(path) + strlen(e->d_name) + 2;
        char *inner = mem_alloc(bytes);
        if (!inner) code = ENOMEM;
        if (inner) snprintf(inner, bytes, "%s/%s", path, e->d_name);
        if (inner && lstat(inner, &st) == 0 && S_ISDIR(st.st_mode)) code = folder_sync_tree(inner);
        mem_free(inner);
    }
    closedir(folder);
    return code ? code : file_sync_folder(path);
}

/* ---- whole or not at all ----------------------------------------------------------------------------------------- */

/* The number of descriptors needed to sync or remove a package's tree, one per level. They are reserved when the writer
 * is opened, so that a process with too few fails before it writes anything, and never while it cleans up. */
enum { LEVELS = 6 };

struct folder_writer {
    char *path, *made;
    int fd; /* descriptor of the folder `made`; it holds the lock */
    int kept_count, kept[LEVELS];
};

static void folder_give_back(folder_writer *w) {
    while (w->kept_count > 0) close(w->kept[--w->kept_count]);
}

static propane_status folder_keep_descriptors(folder_writer *w, propane_error *err) {
    while (w->kept_count < LEVELS) {
        const int fd = fcntl(w->fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0) return file_fail(err, "write", w->path, errno);
        w->kept[w->kept_count++] = fd;
    }
    return PROPANE_OK;
}

static void folder_writer_free(folder_writer *w) {
    if (!w) return;
    folder_give_back(w);
    if (w->fd >= 0) close(w->fd);
    mem_free(w->path);
    temporary_forget(w->made);
    mem_free(w->made);
    mem_free(w);
}

/* Returns the path without trailing slashes. A link to a folder is followed, so that the folder is replaced and not the
 * link. */
static char *folder_real_name(const char *given) {
    char *path = mem_copy_string(given), *real = NULL;
    size_t length = path ? strlen(path) : 0;
    while (length > 1 && path[length - 1] == '/') path[--length] = 0;
    struct stat st;
    if (!path || lstat(path, &st) != 0 || !S_ISLNK(st.st_mode)) return path;
    char *system = realpath(path, NULL);
    real = system ? mem_copy_string(system) : path;
    if (system) mem_free(path);
    free(system);
    return real;
}

/* Makes the folders that contain `path`. */
static propane_status folder_make_parents(const char *path, propane_error *err) {
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return PROPANE_OK;
    char *parent = mem_copy_string(path);
    if (!parent) return propane_fail_memory(err, strlen(path) + 1);
    parent[slash - path] = 0;
    propane_status status = file_make_dir(parent, err);
    mem_free(parent);
    return status;
}

propane_status folder_writer_open(const char *path, folder_writer **out, propane_error *err) {
    *out = NULL;
    if (!*path) return propane_fail(err, PROPANE_ERR_INVALID, "cannot write a folder with an empty name");
    folder_writer *w = mem_alloc(sizeof *w);
    if (!w) return propane_fail_memory(err, sizeof *w);
    w->fd = -1;
    w->path = folder_real_name(path);
    propane_status status = w->path ? PROPANE_OK : propane_fail_memory(err, strlen(path) + 1);
    if (!status && file_exists(w->path) && !file_is_dir(w->path))
        status = propane_fail(err, PROPANE_ERR_INVALID, "cannot write %s: it exists and is not a folder", path);
    if (!status) status = folder_make_parents(w->path, err);
    if (!status) temporary_sweep(w->path);
    if (!status) status = temporary_folder(w->path, &w->made, &w->fd, err);
    if (!status && (status = folder_keep_descriptors(w, err)) != PROPANE_OK) (void)rmdir(w->made);
    if (status)
        folder_writer_free(w);
    else
        *out = w;
    return status;
}

const char *folder_writer_path(const folder_writer *w) { return w->made; }

/* Swaps the names of two folders in one call. Returns 0 or an errno. */
static int folder_swap(const char *a, const char *b) {
#if defined(RENAME_EXCHANGE)
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0 ? 0 : errno;
#elif defined(__APPLE__) && defined(RENAME_SWAP)
    return renamex_np(a, b, RENAME_SWAP) == 0 ? 0 : errno;
#else
    return ENOTSUP;
#endif
}

/* Replaces `path` with `made` by two renames; if the second fails, the first is undone. The replaced folder is then at
 * `old`, and the caller removes it. Returns 0 or an errno. */
static int folder_rename_twice(const char *made, const char *path, const char *old) {
    if (rename(path, old) != 0) return errno;
    if (rename(made, path) == 0) return 0;
    const int code = errno;
    (void)rename(old, path);
    return code;
}

/* Renames `made` to `path`. Sets *old to the new path of the replaced folder, which the caller frees with mem_free, or
 * to NULL if there was none. */
static propane_status folder_take_name(const char *made, const char *path, char **old, propane_error *err) {
    struct stat st;
    *old = NULL;
    if (lstat(path, &st) != 0)
        return rename(made, path) == 0 ? PROPANE_OK : file_fail(err, "rename a new folder to", path, errno);
    int code = folder_swap(made, path);
    if (code == EINVAL || code == ENOSYS || code == ENOTSUP) {
        PROPANE_TRY(temporary_old_name(path, old, err));
        code = folder_rename_twice(made, path, *old);
    } else if (!code) {
        *old = mem_copy_string(made);
    }
    if (!code) return PROPANE_OK;
    mem_free(*old);
    *old = NULL;
    return file_fail(err, "rename a new folder to", path, code);
}

static propane_status folder_commit(folder_writer *w, propane_error *err) {
    char *old = NULL;
    int code = folder_sync_tree(w->made);
    propane_status status = code ? file_fail(err, "sync", w->path, code) : PROPANE_OK;
    temporary_freeze();
    if (!status) status = folder_take_name(w->made, w->path, &old, err);
    temporary_thaw();
    if (status) (void)!file_remove_tree(w->made, NULL); /* only the first error is reported */
    if (!status && (code = file_sync_folder_of(w->path)) != 0)
        status = file_fail(err, "sync the folder of", w->path, code);
    if (!status && old) status = file_remove_tree(old, err);
    mem_free(old);
    return status;
}

/* Replaces the temporary path in a message with the final one, which is shorter. */
static void folder_name_in(const folder_writer *w, propane_error *err) {
    const size_t made = strlen(w->made), given = strlen(w->path);
    for (char *at = err->text; (at = strstr(at, w->made)); at += given) {
        memcpy(at, w->path, given);
        memmove(at + given, at + made, strlen(at + made) + 1);
    }
}

propane_status folder_writer_end(folder_writer *w, propane_status status, propane_error *err) {
    if (!w) return status;
    folder_give_back(w);
    if (status == PROPANE_OK) {
        status = folder_commit(w, err);
    } else {
        (void)!file_remove_tree(w->made, NULL);
        if (err) folder_name_in(w, err);
    }
    folder_writer_free(w);
    return status;
}
