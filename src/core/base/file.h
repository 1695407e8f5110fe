/* SPDX-License-Identifier: MIT
 * Reads files as a whole, maps them, and writes them so that the old content stays until the new content is safely on
 * disk. Error messages contain the path and, after a failed system call, the system's reason.
 */
#ifndef CORE_BASE_FILE_H
#define CORE_BASE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/status.h"

typedef struct file_map {
    const uint8_t *data; /* NULL for an empty file */
    size_t bytes;
} file_map;

/* Reads a whole file into *data, which is terminated (data[length] == 0); the caller frees it with mem_free. Rejects
 * anything that is not a regular file, and files larger than `limit` bytes. */
PROPANE_CHECK propane_status file_read(const char *path, size_t limit, char **data, size_t *length, propane_error *err);
/* Like file_read, but also reads a pipe or a terminal to its end; /dev/null is empty, other devices are rejected. Used
 * for texts that people supply by hand. */
PROPANE_CHECK propane_status file_read_stream(const char *path, size_t limit, char **data, size_t *length,
                                              propane_error *err);
/* Makes waits for pipes fail with PROPANE_ERR_CANCELLED once `asked` returns true. A wait calls `asked` every 0.1 s. */
void file_end_waits(bool (*asked)(void));
/* Begins to record the files that this process reads, up to 1000. file_check_output then refuses the path of a recorded
 * file, because a command's output must not be one of its inputs. The library itself never makes this call, so other
 * programs may read a file and rewrite it. */
void file_keep_inputs(void);
PROPANE_CHECK propane_status file_check_output(const char *path, propane_error *err);
/* Records an input file that was not opened by a function of this header. */
struct stat;
void file_note_input(const struct stat *st);
/* Explains why a file cannot be read if its first bytes show another format. Returns text to append to a message, such
 * as ": it is compressed with gzip: unpack it", or "" if no format is recognized. */
const char *file_disguise(const void *data, size_t bytes);
PROPANE_CHECK propane_status file_map_open(const char *path, file_map *out, propane_error *err);
void file_map_close(file_map *map);
/* If a file becomes shorter while it is mapped, reading a lost page kills the process. The guard handles SIGBUS for the
 * whole process, so only a program sets it, never the library. With the guard, lost pages are read as zeros, and
 * file_map_check and every file_writer_commit fail from then on. */
void file_map_guard(void);
PROPANE_CHECK propane_status file_map_check(propane_error *err);

/* Writes to a temporary file in the folder of PATH. The commit syncs the file, renames it to PATH and syncs the folder.
 * Short writes and a full disk are reported as errors, and no temporary file remains. */
typedef struct file_writer file_writer;
PROPANE_CHECK propane_status file_writer_open(const char *path, file_writer **out, propane_error *err);
PROPANE_CHECK propane_status file_writer_write(file_writer *w, const void *data, size_t bytes, propane_error *err);
PROPANE_CHECK propane_status file_writer_seek(file_writer *w, uint64_t offset, propane_error *err);
uint64_t file_writer_offset(const file_writer *w);
PROPANE_CHECK propane_status file_writer_commit(file_writer *w, propane_error *err); /* frees w even on failure */
void file_writer_abort(file_writer *w);
PROPANE_CHECK propane_status file_write(const char *path, const void *data, size_t bytes, propane_error *err);
/* Writes a file that another program reads immediately and that is not needed later. The file is neither synced nor
 * written under a temporary name. */
PROPANE_CHECK propane_status file_write_scratch(const char *path, const void *data, size_t bytes, propane_error *err);

/* Makes a folder with its parents. An existing folder is not an error. */
PROPANE_CHECK propane_status file_make_dir(const char *path, propane_error *err);
/* Removes a file or folder with all its contents. Links are removed, not followed. A missing path is not an error. */
PROPANE_CHECK propane_status file_remove_tree(const char *path, propane_error *err);
/* Makes a new folder that only this user can access. An existing path is an error. */
PROPANE_CHECK propane_status file_make_private_dir(const char *path, propane_error *err);
/* Sync the folder `path` (file_sync_folder) or the folder that contains `path` (file_sync_folder_of), so that entries
 * made, removed or renamed there are durable. Return 0 or an errno. */
int file_sync_folder(const char *path);
int file_sync_folder_of(const char *path);

/* Writes a folder that appears under its name only when it is complete. The caller fills the folder at
 * folder_writer_path with file_write and similar functions, then calls folder_writer_end. An existing folder of that
 * name is removed once the new one is in place; the caller decides beforehand whether it may be replaced. */
typedef struct folder_writer folder_writer;
PROPANE_CHECK propane_status folder_writer_open(const char *path, folder_writer **out, propane_error *err);
const char *folder_writer_path(const folder_writer *w);
/* Frees w. If `status`, the result of filling the folder, is PROPANE_OK, gives the folder its name. Otherwise removes
 * the folder and returns `status`; in the existing message, the final path then replaces the temporary one. */
PROPANE_CHECK propane_status folder_writer_end(folder_writer *w, propane_status status, propane_error *err);

bool file_is_empty_dir(const char *path);
bool file_exists(const char *path);
bool file_is_dir(const char *path);
/* Returns true if both names refer to the same file or, if neither file exists, would refer to the same file. */
bool file_same(const char *a, const char *b);

/* Opens a file for reading and sets *fd, which the caller closes, and *st. Accepts only regular files or, with `pipes`,
 * anything that can be read to its end. */
PROPANE_CHECK propane_status file_open_input(const char *path, bool pipes, int *fd, struct stat *st,
                                             propane_error *err);
/* Reports "cannot WHAT PATH: the system's reason" with the status that matches the errno. */
propane_status file_fail(propane_error *err, const char *what, const char *path, int code);

#endif
