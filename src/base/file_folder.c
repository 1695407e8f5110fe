/* SPDX-License-Identifier: MIT
 * Owns folders: made, removed, synced. One that is written as a whole is folder_writer.c's.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

propane_status file_make_dir(const char *path, propane_error *err) {
    char *copy = mem_copy_string(path);
    if (!copy) return propane_fail_memory(err, strlen(path) + 1);
    propane_status status = PROPANE_OK;
    for (char *p = copy; !status && *p; p++) {
        if (p[1] != '/' && p[1] != 0) continue;
        char end = p[1];
        p[1] = 0;
        if (mkdir(copy, 0777) != 0) {
            int code = errno;
            if (!file_is_dir(copy)) status = file_fail(err, "make the folder", copy, code == EEXIST ? ENOTDIR : code);
        }
        p[1] = end;
    }
    if (!status && !file_is_dir(path)) status = file_fail(err, "make the folder", path, ENOTDIR);
    mem_free(copy);
    return status;
}

enum { TREE_DEPTH = 64 };

static propane_status folder_remove_tree(const char *path, int depth, propane_error *err);

static propane_status folder_remove_entries(const char *path, int depth, propane_error *err) {
    DIR *folder = opendir(path);
    if (!folder) return file_fail(err, "open the folder", path, errno);
    propane_status status = PROPANE_OK;
    for (struct dirent *e; !status && (e = readdir(folder));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        size_t bytes = strlen(path) + strlen(e->d_name) + 2;
        char *inner = mem_alloc(bytes);
        if (!inner) {
            status = propane_fail_memory(err, bytes);
            break;
        }
        snprintf(inner, bytes, "%s/%s", path, e->d_name);
        status = folder_remove_tree(inner, depth + 1, err);
        mem_free(inner);
    }
    closedir(folder);
    return status;
}

static propane_status folder_remove_tree(const char *path, int depth, propane_error *err) {
    struct stat st;
    if (depth > TREE_DEPTH)
        return propane_fail(err, PROPANE_ERR_LIMIT, "%s: folders inside one another %d deep are not removed", path,
                            depth);
    if (lstat(path, &st) != 0) return errno == ENOENT ? PROPANE_OK : file_fail(err, "look at", path, errno);
    if (!S_ISDIR(st.st_mode))
        return unlink(path) == 0 || errno == ENOENT ? PROPANE_OK : file_fail(err, "remove", path, errno);
    PROPANE_TRY(folder_remove_entries(path, depth, err));
    return rmdir(path) == 0 || errno == ENOENT ? PROPANE_OK : file_fail(err, "remove the folder", path, errno);
}

propane_status file_remove_tree(const char *path, propane_error *err) { return folder_remove_tree(path, 0, err); }

bool file_is_empty_dir(const char *path) {
    DIR *folder = opendir(path);
    bool empty = folder != NULL;
    for (struct dirent *e; empty && (e = readdir(folder));)
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    if (folder) closedir(folder);
    return empty;
}

propane_status file_make_private_dir(const char *path, propane_error *err) {
    return mkdir(path, 0700) == 0 ? PROPANE_OK : file_fail(err, "make the folder", path, errno);
}

/* ---- on the disk ----------------------------------------------------------------------------------------------------------- */

/* File systems that cannot sync a folder say EINVAL: nothing can be done there. */
int file_sync_folder(const char *path) {
    int code = 0, fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == EACCES ? 0 : errno; /* a folder that one may write but not read */
    if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP) code = errno;
    close(fd);
    return code;
}

int file_sync_folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = mem_copy_string(slash ? path : ".");
    if (!folder) return ENOMEM;
    if (slash) folder[slash == path ? 1 : slash - path] = 0;
    int code = file_sync_folder(folder);
    mem_free(folder);
    return code;
}
