/* SPDX-License-Identifier: MIT
 * Owns a run's folder while a process trains in it: the decision whether a run may begin or continue in the folder, the
 * lock against other processes, and the removal of the folder if nothing was written.
 */
#include "train/trainer/run_hold.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "train/checkpoint.h"
#include "train/train_run.h"

char *run_path(const char *dir, const char *name) {
    size_t bytes = strlen(dir) + strlen(name) + 2;
    char *path = mem_alloc(bytes);
    if (path) snprintf(path, bytes, "%s/%s", dir, name);
    return path;
}

bool run_holds(const char *dir, const char *name) {
    /* on the stack, because running out of memory would be mistaken for "no"; no file has a longer path */
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s", dir, name);
    return length > 0 && (size_t)length < sizeof path && file_exists(path);
}

/* Locks the folder. Returns false if another process holds the lock for longer than a `propane watch`, which takes the
 * lock for a moment to check it. */
static bool run_folder_lock_folder(int fd) {
    const struct timespec rest = {0, 20000000};
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK) return true;
        if (i == 50) return false;
        (void)nanosleep(&rest, NULL);
    }
    return true;
}

/* A file that exists in a run's folder until the first checkpoint. It means that the other files may be overwritten. */
static const char run_folder_mark[] = ".propane-run";

static propane_status run_folder_check_free(const char *dir, const char *const *files, propane_error *err) {
    static const char *const all[] = {"log.jsonl", TRAIN_RECORD, "report.html", NULL};
    const char *const *lists[] = {all, files};
    for (int l = 0; l < 2; l++)
        for (const char *const *name = lists[l]; *name; name++)
            if (run_holds(dir, *name))
                return propane_fail(err, PROPANE_ERR_INVALID,
                                    "%s already contains %s, which this run would overwrite; give another --run", dir,
                                    *name);
    return PROPANE_OK;
}

propane_status run_fail_resume(const char *dir, propane_error *err) {
    return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                        "%s: there is no checkpoint to resume from; leave out --resume to start a new run", dir);
}

static propane_status run_folder_check(const char *dir, bool resume, const run_files *files, propane_error *err) {
    bool run = run_holds(dir, TRAIN_CHECKPOINT);
    if (resume && !run) return run_fail_resume(dir, err);
    if (!resume && run)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s already contains a run: continue it with: propane train --resume %s, or give another --run", dir, dir);
    if (!resume && files->holds_model)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s already contains a model, which this run would overwrite; give another --run", dir);
    return resume || run_holds(dir, run_folder_mark) ? PROPANE_OK : run_folder_check_free(dir, files->names, err);
}

/* Locks the folder itself, so no lock file can be left behind. */
static propane_status run_folder_lock(const char *dir, run_hold *hold, propane_error *err) {
    hold->made = !file_exists(dir);
    PROPANE_TRY(file_make_dir(dir, err));
    if (access(dir, W_OK) != 0)
        return propane_fail(err, PROPANE_ERR_IO, "cannot write into %s: %s", dir, strerror(errno));
    int fd = open(dir, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && !run_folder_lock_folder(fd)) {
        close(fd);
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: another process is training in this folder; wait for it, or give another --run", dir);
    }
    hold->lock = fd; /* on file systems without locks, -1 or a lock without effect */
    return PROPANE_OK;
}

propane_status run_begin(const char *dir, bool resume, const run_files *files, run_hold *hold, propane_error *err) {
    *hold = (run_hold){.lock = -1};
    PROPANE_TRY(run_folder_check(dir, resume, files, err));
    PROPANE_TRY(run_folder_lock(dir, hold, err));
    if (resume) return PROPANE_OK;
    char *mark = run_path(dir, run_folder_mark);
    propane_status status = mark ? file_write(mark, "", 0, err) : propane_fail_memory(err, strlen(dir));
    mem_free(mark);
    return status;
}

/* Returns whether the folder holds nothing but the mark. */
static bool run_folder_is_untouched(const char *dir) {
    DIR *folder = opendir(dir);
    bool untouched = folder != NULL;
    for (struct dirent *e; untouched && (e = readdir(folder));)
        untouched =
            strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || strcmp(e->d_name, run_folder_mark) == 0;
    if (folder) closedir(folder);
    return untouched;
}

void run_end(const char *dir, run_hold *hold) {
    if (hold->lock < 0) return;
    /* Functions on the open folder need no memory. */
    if (faccessat(hold->lock, TRAIN_CHECKPOINT, F_OK, 0) == 0 || run_folder_is_untouched(dir))
        (void)unlinkat(hold->lock, run_folder_mark, 0);
    struct stat ours, named;
    const bool same = fstat(hold->lock, &ours) == 0 && stat(dir, &named) == 0 && ours.st_dev == named.st_dev &&
                      ours.st_ino == named.st_ino; /* otherwise the folder was moved, and another one has its name */
    if (hold->made && same) (void)rmdir(dir);      /* the system refuses if the folder is not empty */
    close(hold->lock);
    hold->lock = -1;
}
