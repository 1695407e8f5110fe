/* SPDX-License-Identifier: MIT
 * Owns writing a program as a folder: DIR/model.mil and DIR/weights/weight.bin. Constants get their new path and offset
 * only after the weight file has been written safely.
 */
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/map.h"
#include "core/base/memory.h"
#include "core/mil/coreml/blob.h"
#include "core/mil/ir_edit.h"
#include "core/mil/text/mil_text.h"

enum { LITERAL_ELEMENTS = 16 }; /* constants with more elements are written to the weight file */

/* The constants of a weight file in the order of their first use. A constant that functions share occurs once. */
typedef struct weights {
    mil_const **list;
    uint64_t *offsets;
    int count;
    id_map index; /* by address */
} weights;

static bool write_folder_weights_add(weights *w, const mil_const *c) {
    const int32_t *at = id_map_enter(&w->index, (uintptr_t)c, w->count);
    mil_const **list = at ? ARRAY_MORE(w->list, w->count, NULL) : NULL;
    if (!list) return false;
    w->list = list;
    if (*at < w->count) return true;
    w->list[w->count++] = (mil_const *)(uintptr_t)c; /* the constant is in the module's arena, which may be changed */
    return true;
}

/* Collects the constants of literals, which include those of const statements. */
static bool write_folder_collect_op(weights *w, const mil_op *op) {
    for (int i = 0; i < op->info->param_count; i++)
        for (int k = 0; k < op->operands[i].count; k++) {
            const mil_value *v = op->operands[i].values[k];
            if (!v->is_inline || !v->constant) continue;
            if (mil_type_count(&v->type) <= LITERAL_ELEMENTS && !v->constant->blob_path) continue;
            if (!mil_dtype_get(v->type.dtype)->blob_code || !v->constant->data) continue;
            if (!write_folder_weights_add(w, v->constant)) return false;
        }
    return true;
}

static bool write_folder_collect_function(weights *w, const mil_function *f) {
    for (const mil_op *op = f->first; op; op = op->next) {
        if (!write_folder_collect_op(w, op)) return false;
        for (int i = 0; i < op->block_count; i++)
            if (!write_folder_collect_function(w, op->blocks[i])) return false;
    }
    return true;
}

static bool write_folder_weights_collect(weights *w, const mil_module *m) {
    for (const mil_function *f = m->functions; f; f = f->next)
        if (!write_folder_collect_function(w, f)) return false;
    return true;
}

/* Hashes the length and some of the bytes, enough to find constants that may be equal. */
static uint64_t write_folder_look(const mil_const *c) {
    const uint8_t *data = c->data;
    const int64_t step = c->bytes / 256 + 1;
    uint64_t hash = (uint64_t)c->bytes * 31 + (uint64_t)c->type.dtype;
    for (int64_t i = 0; i < c->bytes; i += step) hash = (hash ^ data[i]) * 0x100000001b3U;
    return hash;
}

/* Returns the index of the first constant with the content of constant `at`, possibly `at` itself. An embedding that is
 * also the output head is thus stored once. */
static int write_folder_first_equal(const weights *w, const uint64_t *looks, int at) {
    const mil_const *c = w->list[at];
    for (int i = 0; i < at; i++)
        if (looks[i] == looks[at] && w->list[i]->bytes == c->bytes && w->list[i]->type.dtype == c->type.dtype &&
            memcmp(w->list[i]->data, c->data, (size_t)c->bytes) == 0)
            return i;
    return at;
}

static propane_status write_folder_weights_write(weights *w, const char *path, propane_error *err) {
    mil_blob_writer *writer;
    uint64_t *looks = mem_array((size_t)w->count, sizeof *looks);
    w->offsets = looks ? mem_array((size_t)w->count, sizeof *w->offsets) : NULL;
    if (!w->offsets) {
        mem_free(looks);
        return propane_fail_memory(err, (size_t)w->count * sizeof *looks);
    }
    propane_status status = mil_blob_writer_open(path, &writer, err);
    for (int i = 0; i < w->count && !status; i++) {
        const mil_const *c = w->list[i];
        looks[i] = write_folder_look(c);
        const int same = write_folder_first_equal(w, looks, i);
        w->offsets[i] = w->offsets[same];
        if (same == i)
            status = mil_blob_writer_add(writer, c->type.dtype, mil_type_count(&c->type), c->data, &w->offsets[i], err);
        if (status) mil_blob_writer_abort(writer);
    }
    mem_free(looks);
    return status ? status : mil_blob_writer_commit(writer, err);
}

static propane_status write_weights(mil_module *m, weights *w, const char *dir, const char *name, propane_error *err) {
    if (!write_folder_weights_collect(w, m)) return propane_fail_memory(err, sizeof(mil_const *));
    if (!w->count) return PROPANE_OK;
    const char *folder = arena_printf(m->arena, "%s/weights", dir),
               *path = arena_printf(m->arena, "%s/weights/%s.bin", dir, name);
    const char *written = arena_printf(m->arena, "@model_path/weights/%s.bin", name),
               *own = arena_string(m->arena, dir);
    if (!folder || !path || !written || !own) return propane_fail_memory(err, strlen(dir));
    PROPANE_TRY(file_make_dir(folder, err));
    PROPANE_TRY(write_folder_weights_write(w, path, err));
    for (int i = 0; i < w->count; i++) {
        w->list[i]->blob_path = written;
        w->list[i]->blob_offset = w->offsets[i];
    }
    mil_blob_maps_retire(m->blobs);
    m->model_dir = own;
    return PROPANE_OK;
}

static void write_folder_weights_free(weights *w) {
    mem_free(w->list);
    mem_free(w->offsets);
    id_map_deinit(&w->index);
}

propane_status mil_write_weights(mil_module *m, const char *dir, const char *name, propane_error *err) {
    weights w = {0};
    propane_status status = write_weights(m, &w, dir, name, err);
    write_folder_weights_free(&w);
    return status;
}

propane_status mil_write_dir(mil_module *m, const char *dir, mil_dialect dialect, propane_error *err) {
    weights w = {0};
    text program = {0};
    PROPANE_TRY(file_make_dir(dir, err));
    propane_status status = write_weights(m, &w, dir, "weight", err);
    char *path = arena_printf(m->arena, "%s/model.mil", dir);
    if (!status) {
        mil_print(&program, m, &(mil_print_options){.dialect = dialect});
        if (program.failed || !path) status = propane_fail_memory(err, program.length);
    }
    if (!status) status = file_write(path, program.data, program.length, err);
    text_deinit(&program);
    write_folder_weights_free(&w);
    return status;
}
