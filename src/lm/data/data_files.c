/* SPDX-License-Identifier: MIT
 * Owns the conversion of the user's paths to lists of files. Files are sorted by bytes, independently of locale and
 * file system, so that the same folder gives the same run. A folder is divided by the names in it. Of a test file, only
 * the first bytes are read, to recognise its kind.
 */
#include "lm/data/data_files.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "lm/data/data_splits.h"
#include "lm/data/token_dump.h"
#include "lm/text/tokens.h"

enum { MOST_FILES = 100000, MOST_DEPTH = 32 };

static propane_status data_files_add(data_files *f, arena *a, const char *path, propane_error *err) {
    if (f->count == MOST_FILES)
        return propane_fail(err, PROPANE_ERR_LIMIT, "%s: more than %d files; concatenate them first", path, MOST_FILES);
    const char **wider = ARENA_MORE(a, f->paths, f->count, err);
    if (!wider) return PROPANE_ERR_MEMORY;
    f->paths = wider;
    f->paths[f->count] = arena_string(a, path);
    return f->paths[f->count++] ? PROPANE_OK : propane_fail_memory(err, strlen(path));
}

/* Returns whether a file in a folder is data, that is, text or tokens. */
static bool data_files_is_data(const char *path) {
    char head[65536];
    FILE *file = fopen(path, "rb");
    const size_t n = file ? fread(head, 1, sizeof head, file) : 0;
    if (file) fclose(file);
    return n > 0 && (token_file_is(head, n) || token_dump_is(path, head, n) || !memchr(head, 0, n));
}

/* ---- a folder ---------------------------------------------------------------------------------------------------------------- */

/* The files of a folder and its subfolders, before they are sorted. */
typedef struct data_found {
    struct data_item {
        const char *path;
        data_part part;
    } *items;
    int count, left_out;
    bool divided; /* some files belong to a part */
} data_found;

/* The entries of one folder. */
typedef struct data_folder {
    data_entry *entries;
    int count;
} data_folder;

static propane_status data_files_note(data_found *f, arena *a, const char *path, propane_error *err) {
    if (f->count == MOST_FILES)
        return propane_fail(err, PROPANE_ERR_LIMIT, "%s: more than %d files; concatenate them first", path, MOST_FILES);
    struct data_item *wider = ARENA_MORE(a, f->items, f->count, err);
    if (!wider) return PROPANE_ERR_MEMORY;
    f->items = wider;
    f->items[f->count++] = (struct data_item){path, DATA_ANY};
    return PROPANE_OK;
}

static propane_status data_files_enter(data_folder *d, arena *a, const char *name, int first, bool folder,
                                       const data_found *f, propane_error *err) {
    data_entry *wider = ARENA_MORE(a, d->entries, d->count, err);
    if (!wider) return PROPANE_ERR_MEMORY;
    d->entries = wider;
    data_entry *e = &d->entries[d->count++];
    *e = (data_entry){.name = arena_string(a, name), .first = first, .end = f->count, .folder = folder, .data = true};
    for (int i = first; i < f->count; i++) {
        const char *slash = strrchr(f->items[i].path, '/'), *own = slash ? slash + 1 : f->items[i].path;
        e->data &= data_splits_is_data(own) || (folder && data_splits_is_document(own));
    }
    return e->name ? PROPANE_OK : propane_fail_memory(err, strlen(name));
}

/* Divides a folder by the names in it. Files in a subfolder that has itself been divided keep their parts. */
static void data_files_divide(data_folder *d, data_found *f) {
    data_splits_find(d->entries, d->count);
    for (int k = 0; k < d->count; k++) {
        const data_entry *e = &d->entries[k];
        f->divided |= e->part != DATA_ANY;
        for (int i = e->first; i < e->end; i++)
            if (f->items[i].part == DATA_ANY) f->items[i].part = e->part;
    }
}

static propane_status data_files_walk(data_found *f, arena *a, const char *dir, int depth, propane_error *err) {
    DIR *folder = depth < MOST_DEPTH ? opendir(dir) : NULL;
    data_folder own = {0};
    propane_status status = PROPANE_OK;
    if (!folder)
        return propane_fail(err, PROPANE_ERR_IO, "cannot read the folder %s: %s", dir,
                            depth < MOST_DEPTH ? strerror(errno) : "it is nested too deep");
    for (struct dirent *e; status == PROPANE_OK && (e = readdir(folder));) {
        struct stat st = {0};
        const int first = f->count;
        if (e->d_name[0] == '.') continue;
        const char *path = arena_printf(a, "%s%s%s", dir, text_ends_with(dir, "/") ? "" : "/", e->d_name);
        const bool below = path && lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
        if (!path)
            status = propane_fail_memory(err, strlen(dir));
        else if (below)
            status = data_files_walk(f, a, path, depth + 1, err);
        /* a file of size 0 such as /proc/kmsg may have no end */
        else if (S_ISREG(st.st_mode) && st.st_size && data_files_is_data(path))
            status = data_files_note(f, a, path, err);
        else
            f->left_out++;
        if (status == PROPANE_OK && f->count > first)
            status = data_files_enter(&own, a, e->d_name, first, below, f, err);
    }
    closedir(folder);
    if (status == PROPANE_OK) data_files_divide(&own, f);
    return status;
}

static int data_files_compare(const void *x, const void *y) {
    return strcmp(((const struct data_item *)x)->path, ((const struct data_item *)y)->path);
}

/* Returns the names of a part's files: "train.jsonl", "a.csv and b.csv", or "12 files". Returns NULL if there are
 * none. */
static const char *data_files_names(const data_found *f, arena *a, const char *dir, data_part part) {
    const size_t skip = strlen(dir) + !text_ends_with(dir, "/");
    const char *list = NULL;
    int count = 0;
    for (int i = 0; i < f->count; i++) {
        if (f->items[i].part != part || ++count > 2) continue;
        list = arena_printf(a, "%s%s%.200s", list ? list : "", list ? " and " : "", f->items[i].path + skip);
    }
    return count > 2 ? arena_printf(a, "%d files", count) : list;
}

/* Returns a line such as "mlx: train.jsonl for training, valid.jsonl for validation; not read: test.jsonl". */
static const char *data_files_division(const data_found *f, arena *a, const char *dir) {
    const char *train = data_files_names(f, a, dir, DATA_TRAIN), *valid = data_files_names(f, a, dir, DATA_VALID),
               *test = data_files_names(f, a, dir, DATA_TEST);
    const char *trained = train ? arena_printf(a, "%s for training", train) : NULL;
    const char *held = valid ? arena_printf(a, "%s%s for validation", train ? ", " : "", valid) : NULL;
    const char *rest = test ? arena_printf(a, "%snot read: %s", train || valid ? "; " : "", test) : NULL;
    if ((train && !trained) || (valid && !held) || (test && !rest)) return NULL;
    return arena_printf(a, "%.300s: %s%s%s", dir, trained ? trained : "", held ? held : "", rest ? rest : "");
}

static propane_status data_files_share(data_found *f, arena *a, data_use use, data_set *out, propane_error *err) {
    for (int i = 0; i < f->count; i++) {
        const data_part part = f->items[i].part;
        const bool held = part == DATA_VALID || (part == DATA_ANY && use == DATA_TO_VALIDATE);
        if (part == DATA_BESIDE)
            out->left_out++;
        else if (part != DATA_TEST)
            PROPANE_TRY(data_files_add(held ? &out->valid : &out->train, a, f->items[i].path, err));
    }
    return PROPANE_OK;
}

/* Sorts the files and assigns the remaining parts. If the folder was divided at any depth, files without a part are for
 * training, except documents, which are left out. */
static void data_files_settle(data_found *f, data_use use) {
    if (f->count) qsort(f->items, (size_t)f->count, sizeof *f->items, data_files_compare);
    for (int i = 0; i < f->count && f->divided; i++) {
        const char *slash = strrchr(f->items[i].path, '/'), *name = slash ? slash + 1 : f->items[i].path;
        data_part *part = &f->items[i].part;
        if (*part == DATA_ANY) *part = data_splits_is_document(name) ? DATA_BESIDE : DATA_TRAIN;
        if (*part == DATA_VALID && use == DATA_TO_LEARN) *part = DATA_TEST;
    }
}

static propane_status data_files_folder(data_set *out, arena *a, const char *dir, data_use use, propane_error *err) {
    data_found f = {0};
    const data_files *wanted = use == DATA_TO_VALIDATE ? &out->valid : &out->train;
    const int before = wanted->count;
    PROPANE_TRY(data_files_walk(&f, a, dir, 0, err));
    if (!f.count)
        return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s: it contains no text%s", dir,
                            f.left_out ? "; its files are of other kinds" : "");
    out->left_out += f.left_out;
    data_files_settle(&f, use);
    PROPANE_TRY(data_files_share(&f, a, use, out, err));
    if (!f.divided) return PROPANE_OK;
    const char *division = data_files_division(&f, a, dir);
    if (!division) return propane_fail_memory(err, strlen(dir));
    if (wanted->count == before)
        return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s; there is no file for %s: name the file itself", division,
                            use == DATA_TO_VALIDATE ? "validation" : "training");
    if (use == DATA_TO_VALIDATE) return PROPANE_OK;
    out->division = out->division ? arena_printf(a, "%s\n%s", out->division, division) : division;
    return out->division ? PROPANE_OK : propane_fail_memory(err, strlen(division));
}

/* ---- a value of --data ----------------------------------------------------------------------------------------------------------- */

static int data_files_compare_paths(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static propane_status data_files_pattern(data_files *f, arena *a, const char *value, propane_error *err) {
    glob_t found;
    propane_status status = PROPANE_OK;
    const int code = glob(value, GLOB_NOSORT, NULL, &found), first = f->count;
    if (code == GLOB_NOMATCH) return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s: no file matches", value);
    if (code) return propane_fail(err, PROPANE_ERR_IO, "%s: cannot search for files", value);
    for (size_t i = 0; i < found.gl_pathc && status == PROPANE_OK; i++)
        if (!file_is_dir(found.gl_pathv[i])) status = data_files_add(f, a, found.gl_pathv[i], err);
    globfree(&found);
    if (status == PROPANE_OK && f->count == first)
        status = propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s: it contains no text", value);
    if (status == PROPANE_OK)
        qsort(f->paths + first, (size_t)(f->count - first), sizeof *f->paths, data_files_compare_paths);
    return status;
}

propane_status data_files_find(const char *list, data_use use, arena *a, data_set *out, propane_error *err) {
    data_files *plain = use == DATA_TO_VALIDATE ? &out->valid : &out->train;
    *out = (data_set){0};
    for (const char *at = list; *at;) {
        const size_t n = strcspn(at, ";");
        const char *value = arena_string_n(a, at, n);
        if (!value) return propane_fail_memory(err, n);
        if (n && file_is_dir(value))
            PROPANE_TRY(data_files_folder(out, a, value, use, err));
        else if (n && !file_exists(value) && strpbrk(value, "*?["))
            PROPANE_TRY(data_files_pattern(plain, a, value, err));
        else if (n)
            PROPANE_TRY(data_files_add(plain, a, value, err)); /* a missing file is reported when it is opened */
        at += n + (at[n] == ';');
    }
    return PROPANE_OK;
}
