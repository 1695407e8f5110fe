/* SPDX-License-Identifier: MIT
 * Owns temporary names. A name contains 64 random bits and is always created, never opened: with O_EXCL and O_NOFOLLOW,
 * or by mkdir for a folder. If the name is taken, another is tried. The creator holds a lock (flock), which the system
 * releases when the process ends, so a file or folder without a lock is garbage. Names in use are listed, so that a
 * dying process can remove them. Fails if the system provides no random bits.
 */
#include "core/base/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/random.h>
#endif

#include "core/base/file.h"
#include "core/base/fork.h"
#include "core/base/memory.h"

enum { HEX_DIGITS = 16, TRIES = 100, SUFFIX_ROOM = 32 };
static const char temporary_mark[] = ".tmp-", temporary_old[] = ".old-";

/* ---- files being written ----------------------------------------------------------------------------------------- */

enum { MOST_LISTED = 64 };
static struct {
    fork_mutex mutex;
    const char *names[MOST_LISTED]; /* owned by their makers */
    atomic_int count, making;       /* names listed, and names being made now */
    _Atomic pid_t owner;            /* the process that owns the list; a child has a copy of its parent's */
    void (*on_making)(void);
} live = {.mutex = FORK_MUTEX_INITIALIZER};

void temporary_on_making(void (*call)(void)) { live.on_making = call; }

bool temporary_exists(void) {
    return atomic_load(&live.owner) == getpid() && atomic_load(&live.count) + atomic_load(&live.making) > 0;
}

void temporary_freeze(void) { fork_mutex_lock(&live.mutex); }
void temporary_thaw(void) { fork_mutex_unlock(&live.mutex); }

/* A name is made between temporary_begin_making and temporary_end_making; temporary_remove_all waits until it is
 * made. */
static void temporary_begin_making(void) {
    temporary_freeze();
    if (live.owner != getpid()) live.count = 0;
    live.owner = getpid();
    live.making++;
    if (live.on_making) live.on_making();
}

/* Ends the making of a name and lists the name; NULL means that no name was made. If the list is full, the name is left
 * to the next sweep. */
static void temporary_end_making(const char *name) {
    if (name && live.count < MOST_LISTED) live.names[live.count++] = name;
    live.making--;
    temporary_thaw();
}

void temporary_forget(const char *name) {
    if (!name) return;
    temporary_freeze();
    for (int i = live.count - 1; i >= 0; i--)
        if (live.names[i] == name) {
            live.names[i] = live.names[live.count - 1];
            live.count--;
            break;
        }
    temporary_thaw();
}

void temporary_remove_all(void) {
    temporary_freeze();
    for (int i = live.owner == getpid() ? live.count - 1 : -1; i >= 0; i--)
        for (int tries = 0; tries < 3 && file_exists(live.names[i]);
             tries++) /* another thread may still be writing into it */
            (void)!file_remove_tree(live.names[i], NULL);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* Fills `name` (of strlen(path) + SUFFIX_ROOM bytes) with a new random name. Returns 0 or an errno. */
static int temporary_draw_name(char *name, const char *path, const char *mark) {
    uint64_t bits;
    if (getentropy(&bits, sizeof bits) != 0) return errno;
    snprintf(name, strlen(path) + SUFFIX_ROOM, "%s%s%016llx", path, mark, (unsigned long long)bits);
    return 0;
}

/* Returns false if a sweeper removed the new file between its creation and its lock. */
static bool temporary_still_named(const char *name, int fd) {
    struct stat open_one, named;
    return fstat(fd, &open_one) == 0 && lstat(name, &named) == 0 && open_one.st_ino == named.st_ino &&
           open_one.st_dev == named.st_dev;
}

static int temporary_open_file(const char *name) {
    return open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

static int temporary_open_folder(const char *name) {
    if (mkdir(name, 0777) != 0) return -1;
    const int fd = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const int code = errno;
    if (fd < 0) (void)rmdir(name); /* for example because no descriptor is free */
    errno = code;
    return fd;
}

/* Returns 0 or an errno; EEXIST means that another name must be tried. A failure of flock is ignored: on a file system
 * without locks, the sweeper gets no lock either and removes nothing. */
static int temporary_try(const char *path, int (*open_one)(const char *), char *name, int *fd) {
    int code = temporary_draw_name(name, path, temporary_mark);
    if (code) return code;
    *fd = open_one(name);
    if (*fd < 0) return errno;
    (void)flock(*fd, LOCK_EX | LOCK_NB);
    if (temporary_still_named(name, *fd)) return 0;
    close(*fd);
    *fd = -1;
    return EEXIST;
}

static propane_status temporary_make(const char *path, int (*open_one)(const char *), char **name, int *fd,
                                     propane_error *err) {
    const size_t bytes = strlen(path) + SUFFIX_ROOM;
    *fd = -1;
    *name = mem_alloc(bytes);
    if (!*name) return propane_fail_memory(err, bytes);
    int code = EEXIST;
    temporary_begin_making();
    for (int i = 0; i < TRIES && code == EEXIST; i++) code = temporary_try(path, open_one, *name, fd);
    temporary_end_making(code ? NULL : *name);
    if (!code) return PROPANE_OK;
    mem_free(*name);
    *name = NULL;
    return file_fail(err, "write", path, code);
}

propane_status temporary_file(const char *path, char **name, int *fd, propane_error *err) {
    return temporary_make(path, temporary_open_file, name, fd, err);
}

propane_status temporary_folder(const char *path, char **name, int *fd, propane_error *err) {
    return temporary_make(path, temporary_open_folder, name, fd, err);
}

propane_status temporary_old_name(const char *path, char **name, propane_error *err) {
    const size_t bytes = strlen(path) + SUFFIX_ROOM;
    *name = mem_alloc(bytes);
    if (!*name) return propane_fail_memory(err, bytes);
    struct stat st;
    int code = EEXIST;
    for (int i = 0; i < TRIES && code == EEXIST; i++) {
        code = temporary_draw_name(*name, path, temporary_old);
        if (!code && lstat(*name, &st) == 0) code = EEXIST;
    }
    if (!code) return PROPANE_OK;
    mem_free(*name);
    *name = NULL;
    return file_fail(err, "write", path, code);
}

propane_status temporary_scratch(const char *prefix, char **name, propane_error *err) {
    const char *given = getenv("TMPDIR"), *folder = given && *given ? given : "/tmp";
    const size_t length = strlen(folder) + strlen(prefix) + 2;
    char *path = mem_alloc(length);
    *name = mem_alloc(length + SUFFIX_ROOM);
    propane_status status = path && *name ? PROPANE_OK : propane_fail_memory(err, length);
    if (path) snprintf(path, length, "%s/%s", folder, prefix);
    int code = EEXIST;
    for (int i = 0; i < TRIES && !status && code == EEXIST; i++) {
        code = temporary_draw_name(*name, path, "-");
        if (!code && mkdir(*name, 0700) != 0) code = errno;
    }
    if (!status && code) status = file_fail(err, "write", path, code);
    mem_free(path);
    if (!status) return PROPANE_OK;
    mem_free(*name);
    *name = NULL;
    return status;
}

/* ---- remains of killed processes --------------------------------------------------------------------------------- */

/* Accepts ".tmp-" or ".old-", followed by 16 hexadecimal digits or by up to 7 decimal digits: the process ID that
 * earlier versions used. */
static bool temporary_is_mark(const char *mark) {
    if (strncmp(mark, temporary_mark, sizeof temporary_mark - 1) != 0 &&
        strncmp(mark, temporary_old, sizeof temporary_old - 1) != 0)
        return false;
    const char *digits = mark + sizeof temporary_mark - 1;
    const size_t n = strlen(digits);
    return (n == HEX_DIGITS && strspn(digits, "0123456789abcdef") == n) ||
           (n >= 1 && n <= 7 && strspn(digits, "0123456789") == n);
}

static const char *temporary_last_mark(const char *name) {
    const char *dash = strrchr(name, '-');
    return dash && dash - name >= 4 ? dash - 4 : NULL;
}

static void temporary_sweep_one(const char *path) {
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0) return;
    const bool own = fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) && st.st_uid == geteuid();
    if (own && flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)!file_remove_tree(path, NULL); /* a failure does no harm: the next sweep tries again */
    close(fd);
}

/* Returns true if `path` is an original that was renamed away and nothing has its name again. It may then be the only
 * copy, and is not removed. */
static bool temporary_is_needed(const char *path) {
    const size_t digits = strlen(path) - (strrchr(path, '-') ? strlen(strrchr(path, '-')) : 0);
    const size_t whole = digits + 1 - (sizeof temporary_old - 1);
    if (strncmp(path + whole, temporary_old, sizeof temporary_old - 1) != 0) return false;
    char *name = mem_copy_string(path);
    if (name) name[whole] = 0;
    const bool needed = !name || !file_exists(name);
    mem_free(name);
    return needed;
}

/* Sweeps the temporaries of the name `of` in a folder; NULL means all names. */
static void temporary_sweep_in(const char *folder, const char *of) {
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const size_t length = strlen(entry->d_name), whole = of ? strlen(of) : 0;
        const char *mark = of ? (strncmp(entry->d_name, of, whole) == 0 ? entry->d_name + whole : NULL)
                              : temporary_last_mark(entry->d_name);
        if (!mark || !temporary_is_mark(mark)) continue;
        char *path = mem_alloc(strlen(folder) + length + 2);
        if (!path) break;
        snprintf(path, strlen(folder) + length + 2, "%s/%s", folder, entry->d_name);
        if (!temporary_is_needed(path)) temporary_sweep_one(path);
        mem_free(path);
    }
    if (dir) closedir(dir);
}

void temporary_sweep(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = mem_copy_string(slash ? path : ".");
    if (!folder) return;
    if (slash) folder[slash == path ? 1 : slash - path] = 0;
    temporary_sweep_in(folder, slash ? slash + 1 : path);
    mem_free(folder);
}

void temporary_sweep_folder(const char *folder) { temporary_sweep_in(folder, NULL); }
