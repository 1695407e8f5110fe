/* SPDX-License-Identifier: MIT
 * Owns the folders from which Apple's compiler reads programs and its loader reads compiled nets, with their files and
 * users. Equal programs share a folder. A folder may be emptied once its program is loaded, if a trial has shown that
 * this works (remembered.h). The next equal program fills the folder again.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "ane/driver/ane.h"
#include "ane/driver/ane_lab.h"
#include "core/base/file.h"
#include "core/base/memory.h"

struct ane_folder {
    char path[ANE_PATH_BYTES], other[ANE_PATH_BYTES]; /* `other` is a second place for the same files, or "" */
    bool filled;
    int users;
    struct ane_folder *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static ane_folder *folders;
static void (*folder_made)(const char *path);

void ane_on_folder(void (*made)(const char *path)) { folder_made = made; }
void ane_folder_made(const char *path) {
    if (folder_made) folder_made(path);
}

/* ---- users ---------------------------------------------------------------------------------------------------------------- */

propane_status ane_folder_open(const char *path, ane_folder **out, propane_error *err) {
    pthread_mutex_lock(&mutex);
    ane_folder *f = folders;
    while (f && strcmp(f->path, path) != 0) f = f->next;
    if (!f && (f = mem_alloc(sizeof *f)) != NULL) {
        snprintf(f->path, sizeof f->path, "%s", path);
        f->next = folders;
        folders = f;
        ane_folder_made(path);
    }
    if (f) f->users++;
    pthread_mutex_unlock(&mutex);
    *out = f;
    return f ? PROPANE_OK : propane_fail_memory(err, sizeof *f);
}

/* Removes the files. A temporary folder that cannot be removed is left to the system. */
void ane_folder_empty(ane_folder *f) {
    (void)!file_remove_tree(f->path, NULL);
    if (f->other[0]) (void)!file_remove_tree(f->other, NULL);
    f->filled = false;
}

void ane_folder_close(ane_folder *f) {
    pthread_mutex_lock(&mutex);
    if (--f->users == 0) {
        ane_folder_empty(f);
        ane_folder **link = &folders;
        while (*link != f) link = &(*link)->next;
        *link = f->next;
        mem_free(f);
    }
    pthread_mutex_unlock(&mutex);
}

bool ane_folder_shared(const ane_folder *f) {
    pthread_mutex_lock(&mutex);
    bool shared = f->users > 1;
    pthread_mutex_unlock(&mutex);
    return shared;
}

const char *ane_folder_path(const ane_folder *f) { return f->path; }
const char *ane_folder_other(const ane_folder *f) { return f->other; }

/* ---- files ---------------------------------------------------------------------------------------------------------------- */

static propane_status folder_fill_place(const char *path, const ane_source *s, propane_error *err) {
    char inner[ANE_PATH_BYTES + 60];
    PROPANE_TRY(file_remove_tree(path, err)); /* files of an earlier process would be read instead */
    PROPANE_TRY(file_make_private_dir(path, err));
    snprintf(inner, sizeof inner, "%s/model.mil", path);
    PROPANE_TRY(file_write_scratch(inner, s->program.data, s->program.length, err));
    if (!s->weights.length) return PROPANE_OK;
    snprintf(inner, sizeof inner, "%s/%s", path, s->weights_path);
    *strrchr(inner, '/') = 0;
    PROPANE_TRY(file_make_dir(inner, err));
    snprintf(inner, sizeof inner, "%s/%s", path, s->weights_path);
    return file_write_scratch(inner, s->weights.data, s->weights.length, err);
}

static bool folder_is(const char *a, const char *b) {
    struct stat x, y;
    return strcmp(a, b) == 0 || (stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

propane_status ane_folder_fill(ane_folder *f, const char *other, const ane_source *s, propane_error *err) {
    if (f->filled) return PROPANE_OK;
    PROPANE_TRY(folder_fill_place(f->path, s, err));
    f->filled = true;
    if (!*other || folder_is(f->path, other)) return PROPANE_OK;
    snprintf(f->other, sizeof f->other, "%s", other);
    ane_folder_made(other);
    if (folder_fill_place(other, s, NULL))
        (void)!file_remove_tree(other, NULL); /* no error: the model's own path is filled already */
    return PROPANE_OK;
}

/* Fills the folder with the donor's net and the weights of `s`. The loader reads net.plist and data. It never reads the
 * weight file, of which data is a copy. */
propane_status ane_folder_patch(const ane_folder *f, const ane_source *s, const ane_folder *donor, propane_error *err) {
    char from[ANE_PATH_BYTES + 60], to[ANE_PATH_BYTES + 60], *net = NULL;
    size_t length = 0;
    snprintf(from, sizeof from, "%s/net.plist", donor->path);
    snprintf(to, sizeof to, "%s/net.plist", f->path);
    PROPANE_TRY(file_read(from, (size_t)1 << 30, &net, &length, err));
    propane_status status = file_write_scratch(to, net, length, err);
    mem_free(net);
    snprintf(to, sizeof to, "%s/data", f->path);
    return status ? status : file_write_scratch(to, s->weights.data, s->weights.length, err);
}
