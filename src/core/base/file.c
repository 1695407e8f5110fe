/* SPDX-License-Identifier: MIT
 * Owns reading and writing of files. A written file appears under its name only when it is complete: the bytes are
 * written to a temporary file (core/base/temporary.h) and synced, and the file is then renamed.
 */
#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/temporary.h"

/* ---- reading ----------------------------------------------------------------------------------------------------- */

enum { TICK_MS = 100, REPORT_TICKS = 30 };

static bool (*file_asked)(void);

void file_end_waits(bool (*asked)(void)) { file_asked = asked; }

/* Waits until a pipe has bytes or its last writer has closed it. A wait for the first bytes is logged after
 * REPORT_TICKS ticks. */
static propane_status file_wait(int fd, const char *path, bool first, propane_error *err) {
    struct pollfd waits = {.fd = fd, .events = POLLIN};
    for (int tick = 0;; tick += tick < REPORT_TICKS) {
        if (poll(&waits, 1, TICK_MS) > 0) return PROPANE_OK;
        if (file_asked && file_asked())
            return propane_fail(err, PROPANE_ERR_CANCELLED, "cancelled while waiting for %s, a pipe", path);
        if (first && tick == REPORT_TICKS - 1)
            log_print("waiting for %s, a pipe from which nothing has come yet", path);
    }
}

static propane_status file_read_all(const char *path, bool pipes, size_t limit, char **data, size_t *length,
                                    propane_error *err) {
    int fd;
    struct stat st;
    *data = NULL;
    *length = 0;
    PROPANE_TRY(file_open_input(path, pipes, &fd, &st, err));
    propane_status status = PROPANE_OK;
    char *buffer = NULL;
    size_t capacity = 0, used = 0;
    bool regular = S_ISREG(st.st_mode), waits = S_ISFIFO(st.st_mode);
    if (regular && (uint64_t)st.st_size > limit) {
        status = propane_fail(err, PROPANE_ERR_LIMIT, "%s has %lld bytes; the limit here is %zu", path,
                              (long long)st.st_size, limit);
        goto done;
    }
    for (;;) {
        if (capacity - used < 2) {
            size_t larger = capacity ? capacity * 2 : (regular ? (size_t)st.st_size + 2 : 64 << 10);
            if (larger > limit && larger - limit > 2) larger = limit + 2; /* one extra byte reveals a longer file */
            char *grown = larger > capacity ? mem_resize(buffer, larger) : NULL;
            if (!grown) {
                status = propane_fail_memory(err, larger);
                goto done;
            }
            buffer = grown;
            capacity = larger;
        }
        if (waits && (status = file_wait(fd, path, !used, err)) != PROPANE_OK) goto done;
        ssize_t n = read(fd, buffer + used, capacity - used - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            status = file_fail(err, "read", path, errno);
            goto done;
        }
        if (n == 0) break;
        used += (size_t)n;
        if (used > limit) {
            status = propane_fail(err, PROPANE_ERR_LIMIT, "%s has more than %zu bytes, the limit here", path, limit);
            goto done;
        }
    }
    buffer[used] = 0;
    *data = buffer;
    *length = used;
    buffer = NULL;
done:
    mem_free(buffer);
    close(fd);
    return status;
}

propane_status file_read(const char *path, size_t limit, char **data, size_t *length, propane_error *err) {
    return file_read_all(path, false, limit, data, length, err);
}

propane_status file_read_stream(const char *path, size_t limit, char **data, size_t *length, propane_error *err) {
    return file_read_all(path, true, limit, data, length, err);
}

struct file_writer {
    char *path, *temporary;
    int fd;
    uint64_t offset;       /* position in the file of the next byte */
    size_t held;           /* bytes in `buffer`, not yet written */
    propane_status status; /* status of the first failure */
    char buffer[64 << 10];
};

static void file_writer_free(file_writer *w) {
    if (!w) return;
    if (w->fd >= 0) close(w->fd);
    mem_free(w->path);
    temporary_forget(w->temporary);
    mem_free(w->temporary);
    mem_free(w);
}

propane_status file_writer_open(const char *path, file_writer **out, propane_error *err) {
    *out = NULL;
    if (!*path) return propane_fail(err, PROPANE_ERR_INVALID, "cannot write a file with an empty name");
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode)) /* a rename would replace the device node itself */
        return propane_fail(err, PROPANE_ERR_INVALID, "cannot write %s: it is %s, not a file", path,
                            S_ISDIR(there.st_mode) ? "a folder" : "a device or pipe");
    file_writer *w = mem_alloc(sizeof *w);
    if (!w) return propane_fail_memory(err, sizeof *w);
    w->fd = -1;
    w->path = mem_copy_string(path);
    propane_status status = w->path ? PROPANE_OK : propane_fail_memory(err, strlen(path) + 1);
    temporary_sweep(path);
    if (!status) status = temporary_file(path, &w->temporary, &w->fd, err);
    if (status)
        file_writer_free(w);
    else
        *out = w;
    return status;
}

static propane_status file_write_all(file_writer *w, const void *data, size_t bytes, propane_error *err) {
    const char *p = data;
    while (bytes) {
        ssize_t n = write(w->fd, p, bytes < (1u << 30) ? bytes : (1u << 30));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            w->status = PROPANE_ERR_IO;
            return file_fail(err, "write", w->path, n < 0 ? errno : ENOSPC);
        }
        p += n;
        bytes -= (size_t)n;
    }
    return PROPANE_OK;
}

static propane_status file_flush(file_writer *w, propane_error *err) {
    size_t held = w->held;
    w->held = 0;
    return file_write_all(w, w->buffer, held, err);
}

static propane_status file_refuse_failed(const file_writer *w, propane_error *err) {
    return propane_fail(err, w->status, "cannot write %s: an earlier write failed", w->path);
}

propane_status file_writer_write(file_writer *w, const void *data, size_t bytes, propane_error *err) {
    if (w->status) return file_refuse_failed(w, err);
    w->offset += bytes;
    if (bytes > sizeof w->buffer - w->held) PROPANE_TRY(file_flush(w, err));
    if (bytes >= sizeof w->buffer) return file_write_all(w, data, bytes, err);
    if (bytes) memcpy(w->buffer + w->held, data, bytes);
    w->held += bytes;
    return PROPANE_OK;
}

propane_status file_writer_seek(file_writer *w, uint64_t offset, propane_error *err) {
    if (w->status) return file_refuse_failed(w, err);
    PROPANE_TRY(file_flush(w, err));
    if (offset > INT64_MAX || lseek(w->fd, (off_t)offset, SEEK_SET) < 0) {
        w->status = PROPANE_ERR_IO;
        return file_fail(err, "seek in", w->path, offset > INT64_MAX ? EFBIG : errno);
    }
    w->offset = offset;
    return PROPANE_OK;
}

uint64_t file_writer_offset(const file_writer *w) { return w->offset; }

/* Syncs a file. On macOS, F_FULLFSYNC also flushes the drive's cache; fsync is used where that fails. */
static int file_sync_file(int fd) {
#ifdef F_FULLFSYNC
    if (fcntl(fd, F_FULLFSYNC) == 0) return 0;
#endif
    return fsync(fd);
}

propane_status file_writer_commit(file_writer *w, propane_error *err) {
    propane_status status = file_map_check(err);
    if (!status) status = w->status ? file_refuse_failed(w, err) : file_flush(w, err);
    if (!status && file_sync_file(w->fd) != 0) status = file_fail(err, "sync", w->path, errno);
    const int held = dup(w->fd), fd = w->fd; /* keeps the lock until the new name exists */
    w->fd = held;
    if (close(fd) != 0 && !status) status = file_fail(err, "close", w->path, errno);
    temporary_freeze();
    if (!status && rename(w->temporary, w->path) != 0) status = file_fail(err, "rename a new file to", w->path, errno);
    temporary_thaw();
    if (status) {
        unlink(w->temporary);
    } else {
        int code = file_sync_folder_of(w->path);
        if (code) status = file_fail(err, "sync the folder of", w->path, code);
    }
    file_writer_free(w);
    return status;
}

void file_writer_abort(file_writer *w) {
    if (!w) return;
    unlink(w->temporary);
    file_writer_free(w);
}

propane_status file_write(const char *path, const void *data, size_t bytes, propane_error *err) {
    file_writer *w;
    PROPANE_TRY(file_writer_open(path, &w, err));
    propane_status status = file_writer_write(w, data, bytes, err);
    if (status) {
        file_writer_abort(w);
        return status;
    }
    return file_writer_commit(w, err);
}

propane_status file_write_scratch(const char *path, const void *data, size_t bytes, propane_error *err) {
    (void)unlink(path); /* an existing entry may be a link, which must not be followed */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
    int code = errno;
    if (!f) {
        if (fd >= 0) close(fd);
        return file_fail(err, "write", path, code);
    }
    bool written = fwrite(data, 1, bytes, f) == bytes;
    code = errno;
    if (fclose(f) != 0 && written) {
        code = errno;
        written = false;
    }
    return written ? PROPANE_OK : file_fail(err, "write", path, code);
}

const char *file_disguise(const void *data, size_t bytes) {
    static const struct {
        const char *begin;
        size_t bytes;
        const char *meaning;
    } rows[] = {
        {"version https://git-lfs", 23,
         ": it is a Git LFS pointer, not the file itself: run 'git lfs pull' in its folder"},
        {"<!DOCTYPE", 9, ": it is a web page: was the download refused?"},
        {"<!doctype", 9, ": it is a web page: was the download refused?"},
        {"<html", 5, ": it is a web page: was the download refused?"},
        {"PK\003\004", 4,
         ": it is a ZIP archive, perhaps a PyTorch pickle, which is not supported; save it as safetensors"},
        {"\200\002", 2, ": it is a Python pickle, which is not supported; save it as safetensors"},
        {"\200\004", 2, ": it is a Python pickle, which is not supported; save it as safetensors"},
        {"\037\213", 2, ": it is compressed with gzip: unpack it"},
        {"PAR1", 4,
         ": it is a Parquet table; convert it to JSON lines in Python: Dataset.from_parquet(FILE).to_json(FILE)"},
        {"\377\376", 2, ": it is UTF-16: save it as UTF-8"},
        {"\376\377", 2, ": it is UTF-16: save it as UTF-8"},
        {"GGUF", 4, ": it is a GGUF file; its name must end in .gguf"},
        {"\211PNG\r\n\032\n", 8, ": it is a PNG image"},
        {"\377\330\377", 3, ": it is a JPEG image"},
        {"GIF8", 4, ": it is a GIF image"},
        {"%PDF-", 5, ": it is a PDF document"},
        {"\177ELF", 4, ": it is a program for Linux (ELF)"},
        {"\317\372\355\376", 4, ": it is a program for macOS (Mach-O)"},
        {"\223NUMPY", 6, ": it is a NumPy array"},
        {"\211HDF\r\n\032\n", 8, ": it is an HDF5 file, as written by Keras; convert it with coremltools"},
        {"SQLite format 3", 15, ": it is an SQLite database"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (bytes >= rows[i].bytes && memcmp(data, rows[i].begin, rows[i].bytes) == 0) return rows[i].meaning;
    return "";
}
