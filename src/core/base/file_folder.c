/* SPDX-License-Identifier: MIT
 * Owns making, removing and syncing folders. folder_writer.c owns folders that are written as a whole.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/memory.h"

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

/* ---- removing ---------------------------------------------------------------------------------------------------- */

enum { TREE_DEPTH = 64, TREE_NAME = 256 };

/* Finds any entry of the folder, or returns false if none is left. Allocates nothing on Linux, because folders are also
 * removed after memory has run out. A removal may change the order of the entries, so each call starts from the
 * beginning. */
static bool file_folder_any_entry(int fd, char name[TREE_NAME]) {
#ifdef __linux__
    union {
        struct dirent64 entry;
        char bytes[4096];
    } block;
    if (lseek(fd, 0, SEEK_SET) != 0) return false;
    for (long n; (n = syscall(SYS_getdents64, fd, block.bytes, sizeof block.bytes)) > 0;)
        for (long at = 0; at < n;) {
            struct dirent64 head; /* a copy, because entries may be unaligned */
            memcpy(&head, block.bytes + at, offsetof(struct dirent64, d_name));
            const char *own = block.bytes + at + offsetof(struct dirent64, d_name);
            at += head.d_reclen;
            if (strcmp(own, ".") == 0 || strcmp(own, "..") == 0 || strlen(own) >= TREE_NAME) continue;
            memcpy(name, own, strlen(own) + 1);
            return true;
        }
    return false;
#else
    const int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = again >= 0 ? fdopendir(again) : NULL;
    bool found = false;
    for (struct dirent *e; folder && !found && (e = readdir(folder));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || strlen(e->d_name) >= TREE_NAME) continue;
        memcpy(name, e->d_name, strlen(e->d_name) + 1);
        found = true;
    }
    if (folder)
        closedir(folder);
    else if (again >= 0)
        close(again);
    return found;
#endif
}

/* Removes the entry `name` of the folder `parent`; links are removed, not followed. Returns 0 or an errno. */
static int file_folder_remove_entry(int parent, const char *name, int depth) {
    struct stat st;
    char inner[TREE_NAME];
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? 0 : errno;
    if (!S_ISDIR(st.st_mode)) return unlinkat(parent, name, 0) == 0 || errno == ENOENT ? 0 : errno;
    if (depth > TREE_DEPTH) return ELOOP;
    const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int code = fd < 0 ? errno : 0;
    while (!code && file_folder_any_entry(fd, inner)) code = file_folder_remove_entry(fd, inner, depth + 1);
    if (fd >= 0) close(fd);
    if (code) return code;
    return unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : errno;
}

propane_status file_remove_tree(const char *path, propane_error *err) {
    const int code = file_folder_remove_entry(AT_FDCWD, path, 0);
    return code ? file_fail(err, "remove", path, code) : PROPANE_OK;
}

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

/* ---- on the disk ------------------------------------------------------------------------------------------------- */

/* Ignores EINVAL and ENOTSUP, which file systems return if they cannot sync a folder. */
int file_sync_folder(const char *path) {
    int code = 0, fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == EACCES ? 0 : errno; /* the folder may be writable but not readable */
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
