/* SPDX-License-Identifier: MIT
 * Owns the way from what a user names to files. Order is by bytes, whatever the locale and the file system: the same folder
 * gives the same run.
 */
#include "train/data/data_files.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "model/text/tokens.h"
#include "train/data/jsonl.h"
#include "train/data/token_dump.h"

enum { MOST_FILES = 100000, MOST_DEPTH = 32 };

static propane_status data_files_add(data_files *f, arena *a, const char *path, propane_error *err) {
    if (f->count == MOST_FILES)
        return propane_fail(err, PROPANE_ERR_LIMIT, "%s: more than %d files; join them first", path, MOST_FILES);
    if (f->count == f->room) {
        const int room = f->room ? 2 * f->room : 16;
        const char **wider = ARENA_ARRAY(a, room, const char *);
        if (!wider) return propane_fail_memory(err, (size_t)room * sizeof *wider);
        if (f->count) memcpy(wider, f->paths, (size_t)f->count * sizeof *wider);
        f->paths = wider;
        f->room = room;
    }
    f->paths[f->count] = arena_string(a, path);
    return f->paths[f->count++] ? PROPANE_OK : propane_fail_memory(err, strlen(path));
}

/* In a folder there may be anything: text and tokens are meant. */
static bool data_files_is_data(const char *path) {
    char head[65536];
    FILE *file = fopen(path, "rb");
    const size_t n = file ? fread(head, 1, sizeof head, file) : 0;
    if (file) fclose(file);
    return n > 0 && (token_file_is(head, n) || token_dump_is(path, head, n) || !memchr(head, 0, n));
}

static propane_status data_files_walk(data_files *f, arena *a, const char *dir, int depth, propane_error *err) {
    DIR *folder = depth < MOST_DEPTH ? opendir(dir) : NULL;
    propane_status status = PROPANE_OK;
    if (!folder)
        return propane_fail(err, PROPANE_ERR_IO, "cannot read the folder %s: %s", dir,
                            depth < MOST_DEPTH ? strerror(errno) : "it lies too deep");
    for (struct dirent *e; status == PROPANE_OK && (e = readdir(folder));) {
        struct stat st;
        if (e->d_name[0] == '.') continue;
        const char *path = arena_printf(a, "%s%s%s", dir, text_ends_with(dir, "/") ? "" : "/", e->d_name);
        if (!path)
            status = propane_fail_memory(err, strlen(dir));
        else if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
            status = data_files_walk(f, a, path, depth + 1, err);
        else if (S_ISREG(st.st_mode) && data_files_is_data(path))
            status = data_files_add(f, a, path, err);
        else
            f->left_out++;
    }
    closedir(folder);
    return status;
}

static int data_files_compare(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static propane_status data_files_pattern(data_files *f, arena *a, const char *value, propane_error *err) {
    glob_t found;
    propane_status status = PROPANE_OK;
    const int code = glob(value, GLOB_NOSORT, NULL, &found);
    if (code == GLOB_NOMATCH) return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s: no file is called like that", value);
    if (code) return propane_fail(err, PROPANE_ERR_IO, "%s: cannot look for such files", value);
    for (size_t i = 0; i < found.gl_pathc && status == PROPANE_OK; i++)
        if (!file_is_dir(found.gl_pathv[i])) status = data_files_add(f, a, found.gl_pathv[i], err);
    globfree(&found);
    return status;
}

static propane_status data_files_value(data_files *f, arena *a, const char *value, propane_error *err) {
    const int first = f->count, left_out = f->left_out;
    const bool folder = file_is_dir(value), pattern = !file_exists(value) && strpbrk(value, "*?[");
    if (!folder && !pattern) return data_files_add(f, a, value, err); /* missing: told when it is opened */
    PROPANE_TRY(folder ? data_files_walk(f, a, value, 0, err) : data_files_pattern(f, a, value, err));
    if (f->count > first) qsort(f->paths + first, (size_t)(f->count - first), sizeof *f->paths, data_files_compare);
    if (f->count > first) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s: there is no text in it%s", value,
                        f->left_out > left_out ? "; its files are of other kinds" : "");
}

propane_status data_files_find(const char *list, arena *a, data_files *out, propane_error *err) {
    *out = (data_files){0};
    for (const char *at = list; *at;) {
        const size_t n = strcspn(at, ";");
        const char *value = arena_string_n(a, at, n);
        if (!value) return propane_fail_memory(err, n);
        if (n) PROPANE_TRY(data_files_value(out, a, value, err));
        at += n + (at[n] == ';');
    }
    return PROPANE_OK;
}
