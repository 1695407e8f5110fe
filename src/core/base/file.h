/* SPDX-License-Identifier: MIT
 * Files: read whole, mapped, or written so that the old content stays until the new one is safely on the disk.
 * Every message names the path and the system's reason.
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

/* Terminated (data[length] == 0); mem_free it. Refuses what is no regular file, and files of more than `limit`
 * bytes. */
PROPANE_CHECK propane_status file_read(const char *path, size_t limit, char **data, size_t *length, propane_error *err);
/* The same also of a pipe or device, to its end: for texts that people give by hand. */
PROPANE_CHECK propane_status file_read_stream(const char *path, size_t limit, char **data, size_t *length,
                                              propane_error *err);
/* From here on file_check_output refuses a place at which there is a file that this process has read: an output is none
 * of a command's inputs. A library keeps no such list: its caller may write, read and write a file again. */
void file_keep_inputs(void);
PROPANE_CHECK propane_status file_check_output(const char *path, propane_error *err);
/* What the first bytes are of, where they are not of the file that was meant: "a web page: ...". "": nothing that is
 * known. */
const char *file_disguise(const void *data, size_t bytes);
PROPANE_CHECK propane_status file_map_open(const char *path, file_map *out, propane_error *err);
void file_map_close(file_map *map);
/* A file that becomes shorter while it is mapped ends the process where its lost pages are read. After the guard is set
 * (by the program, for the whole process: it handles SIGBUS) zeros are read there instead, file_map_check fails from
 * then on, and so does every file_writer_commit. */
void file_map_guard(void);
PROPANE_CHECK propane_status file_map_check(propane_error *err);

/* Writes a temporary name beside PATH and renames it at commit (after fsync of file and folder). Short writes and a
 * full disk are errors that say so; nothing is left behind. */
typedef struct file_writer file_writer;
PROPANE_CHECK propane_status file_writer_open(const char *path, file_writer **out, propane_error *err);
PROPANE_CHECK propane_status file_writer_write(file_writer *w, const void *data, size_t bytes, propane_error *err);
PROPANE_CHECK propane_status file_writer_seek(file_writer *w, uint64_t offset, propane_error *err);
uint64_t file_writer_offset(const file_writer *w);
PROPANE_CHECK propane_status file_writer_commit(file_writer *w, propane_error *err); /* frees w either way */
void file_writer_abort(file_writer *w);
PROPANE_CHECK propane_status file_write(const char *path, const void *data, size_t bytes, propane_error *err);
/* For files that another program reads now and that are not needed later: not synced, not renamed. */
PROPANE_CHECK propane_status file_write_scratch(const char *path, const void *data, size_t bytes, propane_error *err);

PROPANE_CHECK propane_status file_make_dir(const char *path,
                                           propane_error *err); /* with its parents; there already: OK */
/* With all that is in it; links are removed, not followed. Not there: OK. */
PROPANE_CHECK propane_status file_remove_tree(const char *path, propane_error *err);
/* For this user alone, and new: what is there already is an error. */
PROPANE_CHECK propane_status file_make_private_dir(const char *path, propane_error *err);
/* Makes what was made, removed or renamed in a folder durable (the folder itself, or the one that `path` is in); 0 or
 * an errno. */
int file_sync_folder(const char *path);
int file_sync_folder_of(const char *path);

/* A folder that is there whole or not at all: fill the folder that folder_writer_path names, by file_write and the
 * like, then commit. What had the name is removed once that is safe; whether it may be is the caller's to ask. */
typedef struct folder_writer folder_writer;
PROPANE_CHECK propane_status folder_writer_open(const char *path, folder_writer **out, propane_error *err);
const char *folder_writer_path(const folder_writer *w);
PROPANE_CHECK propane_status folder_writer_commit(folder_writer *w, propane_error *err); /* frees w either way */
void folder_writer_abort(folder_writer *w);

bool file_is_empty_dir(const char *path);
bool file_exists(const char *path);
bool file_is_dir(const char *path);
bool file_same(const char *a, const char *b); /* one file under both names; of names without a file: equal names */

/* Opens for reading; refuses what is not a regular file, unless `pipes` allows anything that can be read to its end. */
struct stat;
PROPANE_CHECK propane_status file_open_input(const char *path, bool pipes, int *fd, struct stat *st,
                                             propane_error *err);
/* "cannot WHAT PATH: the system's reason", with the status that the errno means. */
propane_status file_fail(propane_error *err, const char *what, const char *path, int code);

#endif
