/* SPDX-License-Identifier: MIT
 * Owns checks of paths, opening files for reading, and the message for a failed system call. Also records which files a
 * command has read, because its output must not be one of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"

propane_status file_fail(propane_error *err, const char *what, const char *path, int code) {
    propane_status status = code == ENOENT   ? PROPANE_ERR_NOT_FOUND
                            : code == ENOMEM ? PROPANE_ERR_MEMORY
                                             : PROPANE_ERR_IO;
    return propane_fail(err, status, "cannot %s %s: %s", what, path, strerror(code));
}

/* ---- files that were read ---------------------------------------------------------------------------------------- */

enum { FILE_INPUTS = 1000 };

/* The first FILE_INPUTS files that this process has read since file_keep_inputs was called. */
static struct {
    pthread_mutex_t mutex;
    bool kept;
    int count;
    struct {
        dev_t device;
        ino_t number;
    } file[FILE_INPUTS];
} file_inputs = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static bool file_is_input(const struct stat *st) {
    bool found = false;
    for (int i = 0; !found && i < file_inputs.count; i++)
        found = file_inputs.file[i].device == st->st_dev && file_inputs.file[i].number == st->st_ino;
    return found;
}

void file_note_input(const struct stat *st) {
    pthread_mutex_lock(&file_inputs.mutex);
    if (file_inputs.kept && file_inputs.count < FILE_INPUTS && !file_is_input(st)) {
        file_inputs.file[file_inputs.count].device = st->st_dev;
        file_inputs.file[file_inputs.count++].number = st->st_ino;
    }
    pthread_mutex_unlock(&file_inputs.mutex);
}

void file_keep_inputs(void) {
    pthread_mutex_lock(&file_inputs.mutex);
    file_inputs.kept = true;
    pthread_mutex_unlock(&file_inputs.mutex);
}

propane_status file_check_output(const char *path, propane_error *err) {
    struct stat st;
    if (stat(path, &st) != 0) return PROPANE_OK;
    pthread_mutex_lock(&file_inputs.mutex);
    const bool input = file_is_input(&st);
    pthread_mutex_unlock(&file_inputs.mutex);
    if (!input) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s is also an input: give the output another name", path);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Returns true if reading from the device comes to an end, as for a terminal or /dev/null. */
static bool file_device_ends(int fd, const struct stat *st) {
    struct stat none;
    return isatty(fd) || (stat("/dev/null", &none) == 0 && none.st_rdev == st->st_rdev);
}

/* On Linux, poll also waits for the first writer of a named pipe, so open need not: file_read_stream can then report
 * the wait. */
#ifdef __linux__
enum { OPEN_WAITS = 0 };
#else
enum { OPEN_WAITS = 1 };
#endif

propane_status file_open_input(const char *path, bool pipes, int *fd, struct stat *st, propane_error *err) {
    /* Without O_NONBLOCK, opening a pipe that has no writer would block. */
    *fd = open(path, O_RDONLY | O_CLOEXEC | (pipes && OPEN_WAITS ? 0 : O_NONBLOCK));
    if (*fd < 0) return file_fail(err, "open", path, errno);
    if (fstat(*fd, st) != 0) {
        int code = errno;
        close(*fd);
        return file_fail(err, "open", path, code);
    }
    const bool device = S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode);
    if (S_ISREG(st->st_mode) || (pipes && !S_ISDIR(st->st_mode) && (!device || file_device_ends(*fd, st)))) {
        if (pipes) (void)fcntl(*fd, F_SETFL, fcntl(*fd, F_GETFL) & ~O_NONBLOCK);
        file_note_input(st);
        return PROPANE_OK;
    }
    close(*fd);
    return propane_fail(err, PROPANE_ERR_INVALID, "cannot read %s: it is %s", path,
                        S_ISDIR(st->st_mode) ? "a folder, not a file"
                        : pipes              ? "a device, not a file or pipe"
                                             : "a device or pipe, not a file");
}

/* ---- existing files ---------------------------------------------------------------------------------------------- */

bool file_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

/* Gets the status of the folder that contains `path`; *known is false if there is no such folder. Returns the name
 * without the folder. */
static const char *file_folder_of(const char *path, struct stat *folder, bool *known) {
    const char *slash = strrchr(path, '/');
    char text[4096];
    const size_t length = slash ? (size_t)(slash - path) + 1 : 1; /* with the slash, for "/name" */
    *known = length < sizeof text;
    if (*known) snprintf(text, sizeof text, "%.*s", (int)length, slash ? path : ".");
    *known = *known && stat(text, folder) == 0;
    return slash ? slash + 1 : path;
}

bool file_same(const char *a, const char *b) {
    struct stat at, bt;
    const bool a_exists = stat(a, &at) == 0, b_exists = stat(b, &bt) == 0;
    if (a_exists != b_exists) return false;
    if (!a_exists) {
        bool a_known, b_known;
        const char *a_name = file_folder_of(a, &at, &a_known), *b_name = file_folder_of(b, &bt, &b_known);
        if (!a_known || !b_known) return strcmp(a, b) == 0;
        if (strcmp(a_name, b_name) != 0) return false;
    }
    return at.st_dev == bt.st_dev && at.st_ino == bt.st_ino;
}

bool file_is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}
