/* SPDX-License-Identifier: MIT
 * Owns samples in images. The folders are listed once and sorted, so that the same files give the same run. An image is
 * read on first use and kept in memory as long as all kept images fit into KEPT_BYTES. Images whose size differs from
 * the input's are refused unless they are to be scaled, and so are folders that do not match the program's classes.
 */
#include "train/data/image_folders.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/image.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "train/data/arrays.h"

#define KEPT_BYTES ((int64_t)1 << 30)

typedef struct picture {
    const char *path;
    int label;
    void *data; /* pixels, or NULL if the image is not kept */
} picture;

typedef struct pictures {
    picture *list;
    int64_t count;
} pictures;

struct image_folders {
    const imported_model *model;
    arena *arena;
    const char **classes; /* names, sorted */
    int *labels;          /* class numbers */
    int class_count;
    pictures parts[2];
    bool split;
    int channels;
    int64_t height, width, kept;
    bool bgr, resize;
    double scale, mean[3], std[3];
    sample_source source;
};

const sample_source *image_folders_source(const image_folders *t) { return &t->source; }
int image_folders_classes(const image_folders *t) { return t->class_count; }

/* ---- folders -------------------------------------------------------------------------------------------------------------- */

static int folders_by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Lists the images (or with `folders` the folders) in a folder, sorted, in the arena. Sets *count to -1 if the folder
 * does not exist. */
static propane_status folders_list_folder(arena *a, const char *dir, bool folders, char ***out, int *count,
                                          propane_error *err) {
    DIR *d = opendir(dir);
    *out = NULL;
    *count = d ? 0 : -1;
    propane_status status = PROPANE_OK;
    for (struct dirent *e; d && !status && (e = readdir(d));) {
        char *path = arena_printf(a, "%s/%s", dir, e->d_name);
        if (!path) status = propane_fail_memory(err, 0);
        if (status || e->d_name[0] == '.' || (folders ? !file_is_dir(path) : !picture_is_name(e->d_name))) continue;
        *out = ARENA_MORE(a, *out, *count, NULL);
        char *name = arena_string(a, e->d_name);
        if (*out && name)
            (*out)[(*count)++] = name;
        else
            status = propane_fail_memory(err, 0);
    }
    if (d) closedir(d);
    if (!status && *count > 1) qsort(*out, (size_t)*count, sizeof **out, folders_by_name);
    return status;
}

static propane_status folders_add_picture(pictures *p, const char *path, int label, propane_error *err) {
    picture *larger = ARRAY_MORE(p->list, p->count, err);
    if (!larger) return PROPANE_ERR_MEMORY;
    p->list = larger;
    p->list[p->count++] = (picture){path, label, NULL};
    return PROPANE_OK;
}

static int folders_class_of(const image_folders *t, const char *name) {
    for (int i = 0; i < t->class_count; i++)
        if (strcmp(t->classes[i], name) == 0) return t->labels[i];
    return -1;
}

/* Lists the images of all class folders in `dir`. */
static propane_status folders_read_part(image_folders *t, const char *dir, pictures *p, propane_error *err) {
    char **folders, **files;
    int folder_count, file_count;
    PROPANE_TRY(folders_list_folder(t->arena, dir, true, &folders, &folder_count, err));
    for (int i = 0; i < folder_count; i++) {
        const char *folder = arena_printf(t->arena, "%s/%s", dir, folders[i]);
        const int label = folders_class_of(t, folders[i]);
        if (!folder) return propane_fail_memory(err, 0);
        PROPANE_TRY(folders_list_folder(t->arena, folder, false, &files, &file_count, err));
        if (label < 0)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: this class has no folder in the training data", folder);
        for (int k = 0; k < file_count; k++) {
            const char *path = arena_printf(t->arena, "%s/%s", folder, files[k]);
            if (!path) return propane_fail_memory(err, 0);
            PROPANE_TRY(folders_add_picture(p, path, label, err));
        }
    }
    return PROPANE_OK;
}

/* Numbers folders by the program's labels; returns false if a folder matches no label. */
static bool folders_take_labels(image_folders *t) {
    const mil_const *labels = t->model->labels;
    if (!labels || labels->type.dtype != MIL_string || mil_type_count(&labels->type) != t->model->classes) return false;
    for (int i = 0; i < t->class_count; i++) {
        t->labels[i] = -1;
        for (int64_t k = 0; k < t->model->classes; k++)
            if (strcmp(mil_const_text(labels, k), t->classes[i]) == 0) t->labels[i] = (int)k;
        if (t->labels[i] < 0) return false;
    }
    return true;
}

static propane_status folders_find_classes(image_folders *t, const char *dir, propane_error *err) {
    char **names;
    PROPANE_TRY(folders_list_folder(t->arena, dir, true, &names, &t->class_count, err));
    if (t->class_count < 0)
        return propane_fail(err, PROPANE_ERR_NOT_FOUND, "cannot open %s: there is no such folder", dir);
    if (t->class_count == 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: it has nothing to train on: neither arrays (x.npy and y.npy, train.npz) nor folders "
                            "of images, one per class",
                            dir);
    t->classes = (const char **)names;
    t->labels = ARENA_ARRAY(t->arena, t->class_count, int);
    if (!t->labels) return propane_fail_memory(err, 0);
    if (folders_take_labels(t)) return PROPANE_OK;
    for (int i = 0; i < t->class_count; i++) t->labels[i] = i;
    if (t->class_count == t->model->classes) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s has %d class folders (%.40s ... %.40s), but the program's output has %lld classes", dir,
                        t->class_count, t->classes[0], t->classes[t->class_count - 1], (long long)t->model->classes);
}

/* ---- the input ------------------------------------------------------------------------------------------------------------ */

static propane_status folders_read_numbers(const char *flag, const char *given, double otherwise, int channels,
                                           double out[3], propane_error *err) {
    int count = 0;
    for (int i = 0; i < 3; i++) out[i] = otherwise;
    if (!given) return PROPANE_OK;
    for (const char *at = given; count < 4;) {
        double v = 0;
        const char *end = text_read_real(at, &v);
        if (!end || (*end && *end != ',')) {
            count = 4;
            break;
        }
        if (count < 3) out[count] = v;
        count++;
        if (!*end) break;
        at = end + 1;
    }
    for (int i = 1; count == 1 && i < 3; i++) out[i] = out[0];
    for (int i = 0; i < 3; i++)
        if (otherwise > 0 && out[i] <= 0) count = 4;
    if (count == 1 || count == channels) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s is '%.60s'; give one number%s, or one for each of the %d channels", flag, given,
                        otherwise > 0 ? " above 0" : "", channels);
}

static propane_status folders_take_input(image_folders *t, const image_folders_options *o, propane_error *err) {
    const imported_model *m = t->model;
    const mil_function *f = m->base;
    if (m->loss != IMPORTED_CROSS_ENTROPY)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "class folders need --loss cross_entropy; for mse give arrays: DIR/x.npy and DIR/y.npy");
    const mil_type *type = f->param_count ? &f->params[0]->type : NULL;
    if (f->param_count != 1 || type->rank != 4 || type->dim[0] != 1 || (type->dim[1] != 1 && type->dim[1] != 3) ||
        !mil_dtype_is_float(type->dtype))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: images need a program with one input [1, 1 or 3, height, width]; for other programs "
                            "give arrays: DIR/NAME.npy for each input, and DIR/y.npy",
                            m->module->source);
    if (mil_type_count(&f->results[0]->type) != m->classes)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: its output has a class at each of several positions, but class folders have one class "
                            "per image: give arrays",
                            m->module->source);
    const mil_feature *seen = mil_feature_find(m->seen, PROPANE_INPUT, f->params[0]->name);
    const bool image = seen && seen->kind == MIL_FEATURE_IMAGE;
    t->channels = (int)type->dim[1];
    t->resize = o->resize;
    t->height = type->dim[2];
    t->width = type->dim[3];
    t->bgr = image && seen->colour == MIL_BGR;
    t->scale = image ? 1 : 1.0 / 255;
    if (image && (o->mean || o->std))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: its input is an image, which the program scales itself; leave out --mean and --std",
                            m->module->source);
    PROPANE_TRY(folders_read_numbers("--mean", o->mean, 0, t->channels, t->mean, err));
    return folders_read_numbers("--std", o->std, 1, t->channels, t->std, err);
}

/* ---- samples -------------------------------------------------------------------------------------------------------------- */

static propane_status folders_load(const image_folders *t, const picture *p, npy *out, propane_error *err) {
    npy whole;
    PROPANE_TRY(picture_read(p->path, t->channels, &whole, err));
    propane_status status = PROPANE_OK;
    if (whole.dim[0] == t->height && whole.dim[1] == t->width) {
        *out = whole;
        return PROPANE_OK;
    }
    if (t->resize)
        status = picture_resize(&whole, t->height, t->width, out, err);
    else
        status = propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s has %lld x %lld pixels, but the program's input has %lld x %lld: scale the images, or use --resize",
            p->path, (long long)whole.dim[1], (long long)whole.dim[0], (long long)t->width, (long long)t->height);
    npy_free(&whole);
    return status;
}

static propane_status folders_get(void *context, int which, int64_t index, const sample_room *out, propane_error *err) {
    image_folders *t = context;
    pictures *list = &t->parts[t->split ? 0 : which];
    if (t->split && t->source.count[1]) index = sample_split(index + (which ? t->source.count[0] : 0), list->count);
    picture *p = &list->list[index];
    npy read = {.data = NULL};
    if (!p->data) PROPANE_TRY(folders_load(t, p, &read, err));
    const uint8_t *from = p->data ? p->data : read.data;
    const int64_t pixels = t->height * t->width;
    float *to = out->inputs[0];
    for (int c = 0; c < t->channels; c++) {
        const int source = t->bgr ? t->channels - 1 - c : c;
        for (int64_t i = 0; i < pixels; i++)
            to[c * pixels + i] = (float)((from[i * t->channels + source] * t->scale - t->mean[c]) / t->std[c]);
    }
    out->labels[0] = p->label;
    if (read.data && t->kept + read.count <= KEPT_BYTES) {
        p->data = read.data;
        t->kept += read.count;
    } else {
        npy_free(&read);
    }
    return PROPANE_OK;
}

static uint64_t folders_sum_of(const image_folders *t) {
    uint64_t sum = 1;
    for (int64_t i = 0; i < t->parts[0].count; i++) {
        const char *name = strrchr(t->parts[0].list[i].path, '/');
        for (; *name; name++) sum = ((sum ^ (unsigned char)*name) * 0x9e3779b97f4a7c15u) ^ sum >> 32;
        sum = (sum ^ (uint64_t)t->parts[0].list[i].label) * 0x9e3779b97f4a7c15u;
    }
    return sum;
}

/* ---- opening -------------------------------------------------------------------------------------------------------------- */

static propane_status folders_open_all(image_folders *t, const char *dir, const image_folders_options *o,
                                       propane_error *err) {
    const char *train = arena_printf(t->arena, "%s/train", dir), *val = arena_printf(t->arena, "%s/val", dir);
    if (!train || !val) return propane_fail_memory(err, strlen(dir));
    t->split = !file_is_dir(train);
    if (t->split) train = dir;
    if (!file_is_dir(train))
        return propane_fail(err, PROPANE_ERR_NOT_FOUND, "cannot open %s: there is no such folder", dir);
    PROPANE_TRY(folders_take_input(t, o, err));
    PROPANE_TRY(folders_find_classes(t, train, err));
    PROPANE_TRY(folders_read_part(t, train, &t->parts[0], err));
    if (!t->split && file_is_dir(val)) PROPANE_TRY(folders_read_part(t, val, &t->parts[1], err));
    if (!t->parts[0].count)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: its %d class folders hold no images (.png, .jpg)", train,
                            t->class_count);
    t->source.count[1] = t->split ? sample_held_count(o->held_out, t->parts[0].count) : t->parts[1].count;
    t->source.count[0] = t->parts[0].count - (t->split ? t->source.count[1] : 0);
    t->source.sum = folders_sum_of(t);
    return PROPANE_OK;
}

propane_status image_folders_open(const char *dir, const imported_model *m, const image_folders_options *o,
                                  image_folders **out, propane_error *err) {
    image_folders *t = mem_alloc(sizeof *t);
    *out = NULL;
    if (!t) return propane_fail_memory(err, sizeof *t);
    t->model = m;
    t->source = (sample_source){.context = t, .get = folders_get};
    t->arena = arena_create();
    propane_status status = t->arena ? folders_open_all(t, dir, o, err) : propane_fail_memory(err, 0);
    if (status)
        image_folders_close(t);
    else
        *out = t;
    return status;
}

void image_folders_close(image_folders *t) {
    if (!t) return;
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < t->parts[k].count; i++) mem_free(t->parts[k].list[i].data);
        mem_free(t->parts[k].list);
    }
    arena_free(t->arena);
    mem_free(t);
}
