/* SPDX-License-Identifier: MIT
 * Files: read whole, mapped, or written so that the old content stays until the new content is safely on disk. Every
 * message contains the path and the system's reason.
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
/* Like file_read, but also reads a pipe or a terminal to its end; /dev/null is empty, other devices are rejected. For
 * texts that people supply by hand. */
PROPANE_CHECK propane_status file_read_stream(const char *path, size_t limit, char **data, size_t *length,
                                              propane_error *err);
/* Makes waits for pipes end with PROPANE_ERR_CANCELLED once `asked` returns true. It is asked every 0.1 s. */
void file_end_waits(bool (*asked)(void));
/* After this call, file_check_output refuses a path to a file that this process has read, because a command's output
 * must not be one of its inputs. The library itself keeps no such list: its caller may write, read and rewrite a
 * file. */
void file_keep_inputs(void);
PROPANE_CHECK propane_status file_check_output(const char *path, propane_error *err);
/* Adds a file that was opened in another way than by this header. */
struct stat;
void file_note_input(const struct stat *st);
/* Recognizes from its first bytes a file that is not what was meant, such as "a web page: ...". Returns "" if nothing
 * is recognized. */
const char *file_disguise(const void *data, size_t bytes);
PROPANE_CHECK propane_status file_map_open(const char *path, file_map *out, propane_error *err);
void file_map_close(file_map *map);
/* If a file becomes shorter while it is mapped, reading a lost page kills the process. The guard handles SIGBUS for the
 * whole process, so only the program sets it. Lost pages are then read as zeros, and from then on file_map_check and
 * every file_writer_commit fail. */
void file_map_guard(void);
PROPANE_CHECK propane_status file_map_check(propane_error *err);

/* Writes to a temporary name in the folder of PATH and renames it at commit, after fsync of the file and the folder.
 * Short writes and a full disk are reported as errors, and no temporary file is left. */
typedef struct file_writer file_writer;
PROPANE_CHECK propane_status file_writer_open(const char *path, file_writer **out, propane_error *err);
PROPANE_CHECK propane_status file_writer_write(file_writer *w, const void *data, size_t bytes, propane_error *err);
PROPANE_CHECK propane_status file_writer_seek(file_writer *w, uint64_t offset, propane_error *err);
uint64_t file_writer_offset(const file_writer *w);
PROPANE_CHECK propane_status file_writer_commit(file_writer *w, propane_error *err); /* frees w even on failure */
void file_writer_abort(file_writer *w);
PROPANE_CHECK propane_status file_write(const char *path, const void *data, size_t bytes, propane_error *err);
/* Writes files that another program reads immediately and that are not needed later: not synced, not renamed. */
PROPANE_CHECK propane_status file_write_scratch(const char *path, const void *data, size_t bytes, propane_error *err);

/* Makes a folder with its parents. An existing folder is not an error. */
PROPANE_CHECK propane_status file_make_dir(const char *path, propane_error *err);
/* Removes a file or folder with all its contents. Links are removed, not followed. A missing path is not an error. */
PROPANE_CHECK propane_status file_remove_tree(const char *path, propane_error *err);
/* Makes a new folder that only this user can access. An existing path is an error. */
PROPANE_CHECK propane_status file_make_private_dir(const char *path, propane_error *err);
/* Syncs a folder (the folder itself, or the one that contains `path`), so that entries made, removed or renamed in it
 * are durable. Returns 0 or an errno. */
int file_sync_folder(const char *path);
int file_sync_folder_of(const char *path);

/* A folder that appears whole or not at all. Fill the folder that folder_writer_path returns, with file_write and
 * similar functions, then end. Whatever had the name before is removed once that is safe; the caller decides whether it
 * may be. */
typedef struct folder_writer folder_writer;
PROPANE_CHECK propane_status folder_writer_open(const char *path, folder_writer **out, propane_error *err);
const char *folder_writer_path(const folder_writer *w);
/* Frees w. If `status`, the result of filling the folder, is PROPANE_OK, gives the folder its name. Otherwise removes it
 * and returns `status`; the existing error then names the folder as the caller did, and not the temporary one. */
PROPANE_CHECK propane_status folder_writer_end(folder_writer *w, propane_status status, propane_error *err);

bool file_is_empty_dir(const char *path);
bool file_exists(const char *path);
bool file_is_dir(const char *path);
/* Returns true if both names are the same file; for names without a file, true if a file
 * of one name would also have the other. */
bool file_same(const char *a, const char *b);

/* Opens a file for reading. Rejects anything that is not a regular file, unless `pipes` also allows anything that can
 * be read to its end. */
PROPANE_CHECK propane_status file_open_input(const char *path, bool pipes, int *fd, struct stat *st,
                                             propane_error *err);
/* Reports "cannot WHAT PATH: the system's reason" with the status that matches the errno. */
propane_status file_fail(propane_error *err, const char *what, const char *path, int code);

#endif
