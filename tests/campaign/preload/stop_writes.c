/* SPDX-License-Identifier: MIT
 * Loaded before a command (LD_PRELOAD): the machine stops at one of the calls that change the disk. The process ends there as by a
 * power cut, exit code 137, before the call is made.
 *   STOP_AT=N      the N-th of write, fsync, rename, unlink, mkdir, truncation and creation of a file; 0 or unset: none
 *   STOP_LOSE=1    what was written to files and not synced is lost, too, as POSIX allows: these files are empty
 *   STOP_ERROR=N   the call fails instead with that error number (28: full, 122: quota, 5: input or output), and the process goes on
 *   STOP_ON=1      and so do all that write, create or sync after it: a disk that is full, a mount that has gone
 *   STOP_COUNT=F   how many there were goes into this file when the process ends
 * Folders' entries stay as they are: that a rename without a synced folder may be undone is not shown here.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { STOP_FILES = 1024 };
static atomic_uint_fast64_t stop_calls;
static atomic_bool stop_dirty[STOP_FILES]; /* by descriptor: written and not synced */
static uint64_t stop_at;
static int stop_lose, stop_error, stop_on;

__attribute__((constructor)) static void stop_begin(void) {
    const char *at = getenv("STOP_AT");
    stop_at = at ? strtoull(at, NULL, 10) : 0;
    const char *error = getenv("STOP_ERROR");
    stop_lose = getenv("STOP_LOSE") != NULL;
    stop_error = error ? atoi(error) : 0;
    stop_on = getenv("STOP_ON") != NULL;
}

__attribute__((destructor)) static void stop_end(void) {
    const char *path = getenv("STOP_COUNT");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f) return;
    fprintf(f, "%llu\n", (unsigned long long)atomic_load(&stop_calls));
    fclose(f);
}

/* True: this call fails. */
static int stop_here(void) {
    const uint64_t n = atomic_fetch_add(&stop_calls, 1) + 1;
    if (!stop_at || (stop_error && stop_on ? n < stop_at : n != stop_at)) return 0;
    if (stop_error) {
        errno = stop_error;
        return 1;
    }
    for (int fd = 3; stop_lose && fd < STOP_FILES; fd++)
        if (atomic_load(&stop_dirty[fd])) (void)!syscall(SYS_ftruncate, fd, 0);
    _exit(137);
}

static int stop_is_file(int fd) {
    struct stat st;
    return fd > 2 && fd < STOP_FILES && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

ssize_t write(int fd, const void *data, size_t bytes) {
    if (stop_is_file(fd)) {
        if (stop_here()) return -1;
        atomic_store(&stop_dirty[fd], 1);
    }
    return syscall(SYS_write, fd, data, bytes);
}

int fsync(int fd) {
    if (stop_here()) return -1;
    if (fd >= 0 && fd < STOP_FILES) atomic_store(&stop_dirty[fd], 0);
    return (int)syscall(SYS_fsync, fd);
}

int close(int fd) {
    if (fd >= 0 && fd < STOP_FILES)
        atomic_store(&stop_dirty[fd], 0); /* what is closed unsynced is a log's, not a result's */
    return (int)syscall(SYS_close, fd);
}

static int stop_open(int folder, const char *path, int flags, mode_t mode) {
    if (flags & (O_CREAT | O_TRUNC) && stop_here()) return -1;
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return stop_open(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return stop_open(folder, path, flags, mode);
}

int rename(const char *from, const char *to) {
    if (stop_here()) return -1;
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    if (stop_here()) return -1;
    return (int)syscall(SYS_renameat2, a, from, b, to, flags);
}

int unlink(const char *path) {
    if (!stop_error && stop_here()) return -1; /* a full disk can be tidied */
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int unlinkat(int folder, const char *path, int flags) {
    if (!stop_error && stop_here()) return -1; /* a full disk can be tidied */
    return (int)syscall(SYS_unlinkat, folder, path, flags);
}

int mkdir(const char *path, mode_t mode) {
    if (stop_here()) return -1;
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int ftruncate(int fd, off_t bytes) {
    if (stop_here()) return -1;
    return (int)syscall(SYS_ftruncate, fd, bytes);
}
