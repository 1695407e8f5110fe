/* SPDX-License-Identifier: MIT
 * Loaded before a command (LD_PRELOAD): the machine stops at one of the calls that change the disk. The process ends
 * there as in a power cut, with exit code 137, before the call is made.
 *   STOP_AT=N         the N-th of write, fsync, rename, unlink, mkdir, truncation and creation of a file; 0 or unset
 *                     for none
 *   STOP_LOSE=1       data written to files and not synced are lost too, as POSIX allows: these files are empty. 2:
 *                     they have their length and contain zeros, as if a file's length reached the disk before its
 *                     contents
 *   STOP_UNDO=DIR     the last changes of folders that were not synced are lost too: renames, new and removed files
 *                     and folders. DIR is an empty folder of the same file system, where replaced files are kept
 *   STOP_UNDO_LAST=N  undoes at most N of them, the latest first (unset: all); the earlier ones have reached the disk
 *   STOP_UNDO_SEED=N  undoes a random selection, drawn from seed N: an earlier change may be lost and a later one
 *                     kept, unless both affect one name
 *   STOP_ERROR=N      the call fails instead with that error number (28: full, 122: quota, 5: input or output), and
 *                     the process continues
 *   STOP_ON=1         all later calls that write, create or sync fail too: a disk that is full, a mount that has gone
 *   STOP_COUNT=F      writes the number of calls to this file when the process ends
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
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
static const char *stop_kept; /* STOP_UNDO */

__attribute__((constructor)) static void stop_begin(void) {
    const char *at = getenv("STOP_AT");
    stop_at = at ? strtoull(at, NULL, 10) : 0;
    const char *error = getenv("STOP_ERROR");
    const char *lose = getenv("STOP_LOSE");
    stop_lose = lose ? atoi(lose) : 0;
    stop_error = error ? atoi(error) : 0;
    stop_on = getenv("STOP_ON") != NULL;
    stop_kept = getenv("STOP_UNDO");
}

__attribute__((destructor)) static void stop_end(void) {
    const char *path = getenv("STOP_COUNT");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f) return;
    fprintf(f, "%llu\n", (unsigned long long)atomic_load(&stop_calls));
    fclose(f);
}

/* The changes of folders since each was synced, in order. A folder is identified by device and number, so that a
 * change inside a folder that was renamed later still belongs to it. */
enum { STOP_CHANGES = 4096 };
typedef struct StopFolder {
    dev_t device;
    ino_t number;
} StopFolder;
typedef struct StopChange {
    enum {
        STOP_SYNCED,
        STOP_RENAMED,
        STOP_EXCHANGED,
        STOP_MADE,
        STOP_MADE_FOLDER,
        STOP_REMOVED,
        STOP_REMOVED_FOLDER
    } what;
    StopFolder folder[2]; /* of the new name and, if there is one, of the old one */
    int open[2];          /* descriptors of these folders */
    char name[2][NAME_MAX + 1];
    int kept; /* the previous file of the new name is DIR/<index> */
} StopChange;
static StopChange stop_changes[STOP_CHANGES];
static int stop_change_count;
static pthread_mutex_t stop_lock = PTHREAD_MUTEX_INITIALIZER;

static StopFolder stop_folder_of(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 ? (StopFolder){st.st_dev, st.st_ino} : (StopFolder){0};
}

/* Opens the folder of a path and returns the name in it. */
static int stop_split(int folder, const char *path, char *name, StopFolder *id) {
    char before[PATH_MAX];
    snprintf(before, sizeof before, "%s", path);
    size_t length = strlen(before);
    while (length > 1 && before[length - 1] == '/') before[--length] = '\0';
    char *slash = strrchr(before, '/');
    snprintf(name, NAME_MAX + 1, "%s", slash ? slash + 1 : before);
    if (slash) slash[slash == before] = '\0';
    const int fd = (int)syscall(SYS_openat, folder, slash ? before : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    *id = stop_folder_of(fd);
    return fd;
}

static void stop_kept_name(char name[PATH_MAX], int i) { snprintf(name, PATH_MAX, "%s/%d", stop_kept, i); }

/* Records a change of the new name (and an old one) before it is made. Returns NULL if nothing is undone. */
static StopChange *stop_note(int folder, const char *path, int old_folder, const char *old) {
    if (!stop_kept || stop_change_count == STOP_CHANGES) return NULL;
    StopChange *c = &stop_changes[stop_change_count];
    *c = (StopChange){.open = {-1, -1}};
    c->open[0] = stop_split(folder, path, c->name[0], &c->folder[0]);
    if (old) c->open[1] = stop_split(old_folder, old, c->name[1], &c->folder[1]);
    char kept[PATH_MAX];
    stop_kept_name(kept, stop_change_count);
    c->kept = syscall(SYS_linkat, c->open[0], c->name[0], AT_FDCWD, kept, 0) ==
              0; /* folders cannot be linked, so they are exchanged */
    return c;
}

static void stop_forget(StopChange *c) {
    c->what = STOP_SYNCED;
    for (int k = 0; k < 2; k++)
        if (c->open[k] >= 0) syscall(SYS_close, c->open[k]);
    c->open[0] = c->open[1] = -1;
}

static long stop_noted(StopChange *c, int what, long result) {
    if (c && result >= 0) {
        c->what = what;
        stop_change_count++;
    } else if (c) {
        char kept[PATH_MAX];
        stop_kept_name(kept, stop_change_count);
        if (c->kept) syscall(SYS_unlinkat, AT_FDCWD, kept, 0);
        stop_forget(c);
    }
    return result;
}

/* Records that the folder is on the disk with its changes. A rename between two folders is on the disk as soon as
 * either folder is. */
static void stop_folder_synced(int fd) {
    const StopFolder id = stop_folder_of(fd);
    for (StopChange *c = stop_changes; c < stop_changes + stop_change_count; c++)
        for (int k = 0; k < 2 && c->what != STOP_SYNCED; k++)
            if (c->folder[k].number == id.number && c->folder[k].device == id.device) stop_forget(c);
}

/* Records a sync through any descriptor of the file. */
static void stop_file_synced(int fd) {
    const StopFolder id = stop_folder_of(fd);
    for (int other = 3; other < STOP_FILES; other++) {
        if (!atomic_load(&stop_dirty[other])) continue;
        const StopFolder of = stop_folder_of(other);
        if (of.number == id.number && of.device == id.device) atomic_store(&stop_dirty[other], 0);
    }
}

static void stop_undo_one(const StopChange *c, int i) {
    char kept[PATH_MAX];
    stop_kept_name(kept, i);
    switch (c->what) {
    case STOP_EXCHANGED:
        syscall(SYS_renameat2, c->open[0], c->name[0], c->open[1], c->name[1], 2 /* RENAME_EXCHANGE */);
        break;
    case STOP_RENAMED: syscall(SYS_renameat2, c->open[0], c->name[0], c->open[1], c->name[1], 0); break;
    case STOP_MADE: syscall(SYS_unlinkat, c->open[0], c->name[0], 0); break;
    case STOP_MADE_FOLDER: syscall(SYS_unlinkat, c->open[0], c->name[0], AT_REMOVEDIR); break;
    case STOP_REMOVED_FOLDER: syscall(SYS_mkdirat, c->open[0], c->name[0], 0777); break;
    default: break;
    }
    if (c->kept && c->what != STOP_MADE && c->what != STOP_SYNCED)
        syscall(SYS_renameat2, AT_FDCWD, kept, c->open[0], c->name[0], 0);
}

/* Returns whether both changes affect one name in one folder. */
static int stop_same_name(const StopChange *a, const StopChange *b) {
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            if (a->open[i] >= 0 && b->open[k] >= 0 && a->folder[i].number == b->folder[k].number &&
                a->folder[i].device == b->folder[k].device && strcmp(a->name[i], b->name[k]) == 0)
                return 1;
    return 0;
}

/* Returns whether a later change of the same name has reached the disk, so that this one has too. */
static int stop_is_pinned(int i, const char *undone) {
    for (int later = i + 1; later < stop_change_count; later++)
        if (!undone[later] && stop_changes[later].what != STOP_SYNCED &&
            stop_same_name(&stop_changes[i], &stop_changes[later]))
            return 1;
    return 0;
}

static void stop_undo(void) {
    static char undone[STOP_CHANGES];
    const char *last = getenv("STOP_UNDO_LAST"), *seed = getenv("STOP_UNDO_SEED");
    int left = last ? atoi(last) : STOP_CHANGES;
    uint32_t state = seed ? (uint32_t)strtoul(seed, NULL, 10) * 2654435761u : 0;
    for (int i = stop_change_count - 1; stop_kept && i >= 0 && left > 0; i--) {
        if (stop_changes[i].what == STOP_SYNCED) continue;
        state = state * 1664525u + 1013904223u;
        if (seed && (state >> 31 || stop_is_pinned(i, undone))) continue;
        stop_undo_one(&stop_changes[i], i);
        undone[i] = 1;
        left--;
    }
}

/* Loses unsynced data: the files become empty, or contain zeros. */
static void stop_lose_contents(void) {
    for (int fd = 3; fd < STOP_FILES; fd++) {
        struct stat st;
        if (!atomic_load(&stop_dirty[fd]) || fstat(fd, &st)) continue;
        (void)!syscall(SYS_ftruncate, fd, 0);
        if (stop_lose == 2) (void)!syscall(SYS_ftruncate, fd, st.st_size);
    }
}

/* Returns true if this call fails. */
static int stop_here(void) {
    const uint64_t n = atomic_fetch_add(&stop_calls, 1) + 1;
    if (!stop_at || (stop_error && stop_on ? n < stop_at : n != stop_at)) return 0;
    if (stop_error) {
        errno = stop_error;
        return 1;
    }
    if (stop_lose) stop_lose_contents();
    stop_undo();
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
    pthread_mutex_lock(&stop_lock);
    stop_file_synced(fd);
    stop_folder_synced(fd);
    pthread_mutex_unlock(&stop_lock);
    return (int)syscall(SYS_fsync, fd);
}

/* A file that is closed without a sync can still lose its contents, so a copy of the descriptor is kept. */
int close(int fd) {
    if (fd >= 0 && fd < STOP_FILES && atomic_exchange(&stop_dirty[fd], 0)) {
        const int copy = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, STOP_FILES / 4);
        if (copy >= 0 && copy < STOP_FILES) atomic_store(&stop_dirty[copy], 1);
    }
    return (int)syscall(SYS_close, fd);
}

static int stop_open(int folder, const char *path, int flags, mode_t mode) {
    if (flags & (O_CREAT | O_TRUNC) && stop_here()) return -1;
    if (!(flags & O_CREAT) || syscall(SYS_faccessat, folder, path, F_OK) == 0)
        return (int)syscall(SYS_openat, folder, path, flags, mode);
    pthread_mutex_lock(&stop_lock);
    StopChange *const c = stop_note(folder, path, 0, NULL);
    const int fd = (int)stop_noted(c, STOP_MADE, syscall(SYS_openat, folder, path, flags, mode));
    pthread_mutex_unlock(&stop_lock);
    return fd;
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

int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    if (stop_here()) return -1;
    pthread_mutex_lock(&stop_lock);
    StopChange *const c = stop_note(b, to, a, from);
    const long result =
        stop_noted(c, flags & 2 ? STOP_EXCHANGED : STOP_RENAMED, syscall(SYS_renameat2, a, from, b, to, flags));
    if (c && result >= 0 && flags & 2) c->kept = 0; /* both still exist */
    pthread_mutex_unlock(&stop_lock);
    return (int)result;
}

int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int folder, const char *path, int flags) {
    if (!stop_error && stop_here()) return -1; /* files can be removed from a full disk */
    pthread_mutex_lock(&stop_lock);
    StopChange *const c = stop_note(folder, path, 0, NULL);
    const long result = stop_noted(c, flags & AT_REMOVEDIR ? STOP_REMOVED_FOLDER : STOP_REMOVED,
                                   syscall(SYS_unlinkat, folder, path, flags));
    pthread_mutex_unlock(&stop_lock);
    return (int)result;
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdir(const char *path, mode_t mode) {
    if (stop_here()) return -1;
    pthread_mutex_lock(&stop_lock);
    StopChange *const c = stop_note(AT_FDCWD, path, 0, NULL);
    const long result = stop_noted(c, STOP_MADE_FOLDER, syscall(SYS_mkdirat, AT_FDCWD, path, mode));
    pthread_mutex_unlock(&stop_lock);
    return (int)result;
}

int ftruncate(int fd, off_t bytes) {
    if (stop_here()) return -1;
    return (int)syscall(SYS_ftruncate, fd, bytes);
}
