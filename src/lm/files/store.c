/* SPDX-License-Identifier: MIT
 * Owns reading and writing models in each form. The registry (model_tensors.h) has the tensors' names and layouts; this
 * file only moves the numbers.
 */
#include "lm/files/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "lm/arch/stored_weights.h"
#include "lm/files/diagnose_folder.h"
#include "lm/files/gguf.h"
#include "lm/files/llama2c.h"

propane_status model_store_form(const char *path, model_form *out, propane_error *err) {
    if (file_is_dir(path)) {
        *out = MODEL_FORM_DIR;
        return PROPANE_OK;
    }
    file_map map;
    PROPANE_TRY(file_map_open(path, &map, err));
    /* A safetensors file has '{' after its 8-byte length; a llama2.c file has seven small integers. */
    if (map.bytes >= 4 && memcmp(map.data, "GGUF", 4) == 0)
        *out = MODEL_FORM_GGUF;
    else if (map.bytes > 8 && map.data[8] == '{')
        *out = MODEL_FORM_SAFETENSORS;
    else if (map.bytes > 28 && map.data[3] == 0 && map.data[7] == 0)
        *out = MODEL_FORM_LLAMA2C;
    else {
        const char *disguise = map.bytes ? file_disguise(map.data, map.bytes) : ": the file is empty";
        file_map_close(&map);
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: not a model; give a folder with config.json and model.safetensors, a .safetensors or "
                            ".gguf file, or a llama2.c checkpoint%s",
                            path, disguise);
    }
    file_map_close(&map);
    return PROPANE_OK;
}

/* Returns, in the arena, the path of the file `name` in the folder `path` (`inside`) or next to the file `path`. */
static char *store_beside(arena *a, const char *path, const char *name, bool inside) {
    if (inside) return arena_printf(a, "%s/%s", path, name);
    const char *slash = strrchr(path, '/');
    return slash ? arena_printf(a, "%.*s/%s", (int)(slash - path), path, name) : arena_string(a, name);
}

enum { STORE_NAME_ROOM = 200 };

/* Reads the configuration from config.json in a folder. For a file, reads it from the metadata or, if they have none,
 * from config.json next to the file. */
static propane_status store_config_of(const safetensors *s, const char *path, bool is_dir, model_config *out,
                                      propane_error *err) {
    const char *string = safetensors_metadata(s, MODEL_STORE_CONFIG);
    if (string && !is_dir) return model_config_parse(string, strlen(string), safetensors_source(s), out, err);
    arena *a = arena_create();
    char *config = a ? store_beside(a, path, "config.json", is_dir) : NULL;
    propane_status status;
    if (!config)
        status = propane_fail_memory(err, 0);
    else if (!is_dir && !file_exists(config))
        status = propane_fail(err, PROPANE_ERR_NOT_FOUND,
                              "%s: the file contains no configuration, and there is no %s next to it", path, config);
    else
        status = model_config_read(config, out, err);
    arena_free(a);
    return status;
}

static propane_status store_open_tensors(const char *path, bool is_dir, safetensors **out, propane_error *err) {
    if (!is_dir) return safetensors_open(path, out, err);
    arena *a = arena_create();
    char *file = a ? arena_printf(a, "%s/model.safetensors", path) : NULL;
    char *unfinished = file ? arena_printf(a, "%s/checkpoint.safetensors", path) : NULL;
    propane_status status;
    if (!unfinished) {
        status = propane_fail_memory(err, 0);
    } else if (!file_exists(file) && file_exists(unfinished)) { /* an unfinished run */
        status = safetensors_open(unfinished, out, err);
    } else {
        status = safetensors_open(file, out, err);
    }
    arena_free(a);
    return status;
}

/* Returns a tensor's name without the prefix, as in files of the model without a head, or NULL if the name has no such
 * prefix. */
static const char *store_bare_name(const model_weights *w, const char *stored) {
    const char *base = model_arch_of(&w->config)->base;
    size_t n = strlen(base);
    return strncmp(stored, base, n) == 0 ? stored + n : NULL;
}

/* Sets `dim` to a stored tensor's shape in Hugging Face's files, and returns its rank. */
static int store_stored_shape(const model_tensor *t, int64_t dim[2]) {
    dim[0] = t->transposed ? t->dim[1] : t->stored_rows;
    dim[1] = t->transposed ? t->stored_rows : t->dim[1];
    return t->rank;
}

/* Copies the rows of our tensor out of a stored tensor. */
static propane_status store_fill_moved(model_weights *w, const model_tensor *t, const safetensors *s,
                                       const safetensors_tensor *from, propane_error *err) {
    float *all = mem_array((size_t)from->count, sizeof *all), *to = model_weights_data(w, t);
    propane_status status =
        all ? safetensors_f32(s, from, all, err) : propane_fail_memory(err, (size_t)from->count * sizeof *all);
    int64_t width = t->dim[1];
    if (!status && !t->transposed) memcpy(to, all + t->first_row * width, (size_t)t->count * sizeof *to);
    for (int64_t i = 0; !status && t->transposed && i < width; i++)
        for (int64_t r = 0; r < t->dim[0]; r++) to[r * width + i] = all[i * t->stored_rows + t->first_row + r];
    for (int64_t i = 0; !status && t->less_one && i < t->count; i++) to[i] += 1;
    mem_free(all);
    return status;
}

/* Writes the name of an expert's separate tensor. */
static const char *store_expert_name(const model_tensor *t, int64_t expert, char out[STORE_NAME_ROOM]) {
    const int before = (int)strcspn(t->stored, "*");
    snprintf(out, STORE_NAME_ROOM, "%.*s%lld%s", before, t->stored, (long long)expert, t->stored + before + 1);
    return out;
}

/* Reads a tensor that the checkpoint of a run may hold in pieces. Sets *there to whether it does. */
static propane_status store_fill_pieces(model_weights *w, const model_tensor *t, const safetensors *s, bool *there,
                                        propane_error *err) {
    char name[300];
    int64_t rows = 0;
    for (int k = 0; rows < t->dim[0]; k++) {
        const safetensors_tensor *piece;
        snprintf(name, sizeof name, "%s[%d]", t->name, k);
        piece = safetensors_find(s, name);
        *there = piece != NULL;
        if (!piece && k == 0) return PROPANE_OK;
        if (!piece || piece->rank != 2 || piece->dim[1] != t->dim[1] || piece->dim[0] > t->dim[0] - rows)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: the tensor %s is missing or has another shape",
                                safetensors_source(s), name);
        PROPANE_TRY(safetensors_f32(s, piece, model_weights_data(w, t) + rows * t->dim[1], err));
        rows += piece->dim[0];
    }
    return PROPANE_OK;
}

/* Finds a tensor by its name, or by its name in files of the model without a head. */
static const safetensors_tensor *store_find(const model_weights *w, const safetensors *s, const char *stored) {
    const safetensors_tensor *found = safetensors_find(s, stored);
    const char *bare = store_bare_name(w, stored);
    return found || !bare ? found : safetensors_find(s, bare);
}

static propane_status store_fill_expert(model_weights *w, const model_tensor *t, int64_t expert, const safetensors *s,
                                        propane_error *err) {
    char name[STORE_NAME_ROOM];
    const model_expert e = model_tensor_expert(t, expert);
    const int64_t dim[2] = {e.rows, e.columns};
    const safetensors_tensor *found = store_find(w, s, store_expert_name(t, expert, name));
    if (!found)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the tensor %s is missing", safetensors_source(s), name);
    PROPANE_TRY(safetensors_expect(s, found->name, found->dtype, 2, dim, &found, err));
    float *all = mem_array((size_t)found->count, sizeof *all), *to = model_weights_data(w, t) + e.first;
    propane_status status =
        all ? safetensors_f32(s, found, all, err) : propane_fail_memory(err, (size_t)found->count * sizeof *all);
    for (int64_t r = 0; !status && r < e.rows; r++)
        memcpy(to + r * t->dim[1], all + r * e.columns, (size_t)e.columns * sizeof *to);
    mem_free(all);
    return status;
}

/* Returns the form that holds a matrix as the file does, or MODEL_UNPACKED if the file stores it in another layout or
 * in pieces. */
static model_packing store_form_of(const model_weights *w, const model_tensor *t, const safetensors *s) {
    const safetensors_tensor *found = safetensors_find(s, t->name);
    if (!found && (t->experts || t->transposed || t->less_one)) return MODEL_UNPACKED;
    if (!found) found = store_find(w, s, t->stored);
    if (!found || t->rank != 2) return MODEL_UNPACKED;
    return found->dtype == ST_F16 ? MODEL_FP16 : found->dtype == ST_BF16 ? MODEL_BF16 : MODEL_UNPACKED;
}

/* Reads a tensor in our layout, which checkpoints of runs have, or in Hugging Face's. */
static propane_status store_fill_one(model_weights *w, const model_tensor *t, const safetensors *s,
                                     propane_error *err) {
    const safetensors_tensor *found = safetensors_find(s, t->name);
    bool plain = found || model_tensor_plain(t);
    int64_t dim[2] = {t->dim[0], t->dim[1]};
    if (!found && t->experts) {
        for (int64_t e = 0; e < t->experts; e++) PROPANE_TRY(store_fill_expert(w, t, e, s, err));
        return PROPANE_OK;
    }
    if (!found) found = store_find(w, s, t->stored);
    if (!found && t->rank == 2) {
        bool there = false;
        PROPANE_TRY(store_fill_pieces(w, t, s, &there, err));
        if (there) return PROPANE_OK;
    }
    if (!found)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the tensor %s is missing", safetensors_source(s), t->stored);
    if (!plain) store_stored_shape(t, dim);
    PROPANE_TRY(safetensors_expect(s, found->name, found->dtype, t->rank, dim, &found, err));
    if (t->form != MODEL_UNPACKED) {
        const int64_t before = plain ? 0 : t->first_row * t->dim[1];
        memcpy(stored_weights_at(w, t, NULL), found->data + 2 * before, 2 * (size_t)t->count);
        return PROPANE_OK;
    }
    return plain ? safetensors_f32(s, found, model_weights_data(w, t), err) : store_fill_moved(w, t, s, found, err);
}

/* ---- weights in several files -------------------------------------------------------------------------------------- */

enum { SHARDS_MAX = 1024 };

typedef struct shards {
    const char *names[SHARDS_MAX]; /* in the index */
    safetensors *files[SHARDS_MAX];
    int count;
} shards;

/* Opens a file that the index names. The name must be a plain file name, without a folder. */
static propane_status store_open_shard(shards *s, const char *folder, const char *name, arena *a, safetensors **out,
                                       propane_error *err) {
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->names[i], name) == 0) {
            *out = s->files[i];
            return PROPANE_OK;
        }
    if (strchr(name, '/') || name[0] == '.' || s->count == SHARDS_MAX)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s/model.safetensors.index.json: '%.80s' is not one of at most %d file names of this folder", folder, name,
            SHARDS_MAX);
    char *path = arena_printf(a, "%s/%s", folder, name);
    if (!path) return propane_fail_memory(err, strlen(name));
    PROPANE_TRY(safetensors_open(path, out, err));
    s->names[s->count] = name;
    s->files[s->count++] = *out;
    return safetensors_verify_model(*out, err);
}

typedef struct shard_search {
    shards *open;
    const json_t *map; /* the index's weight_map */
    const char *folder;
    arena *a;
} shard_search;

/* Opens the file that holds a tensor. */
static propane_status store_find_shard(const model_weights *w, const shard_search *search, const char *stored,
                                       safetensors **out, propane_error *err) {
    const char *bare = store_bare_name(w, stored), *name = json_string_value(json_object_get(search->map, stored));
    if (!name && bare) name = json_string_value(json_object_get(search->map, bare));
    if (name) return store_open_shard(search->open, search->folder, name, search->a, out, err);
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s/model.safetensors.index.json: the tensor %s is missing in 'weight_map'", search->folder,
                        stored);
}

static propane_status store_fill_sharded(model_weights *w, const model_tensor *t, const shard_search *search,
                                         propane_error *err) {
    safetensors *file = NULL;
    char name[STORE_NAME_ROOM];
    for (int64_t e = 0; e < t->experts; e++) {
        PROPANE_TRY(store_find_shard(w, search, store_expert_name(t, e, name), &file, err));
        PROPANE_TRY(store_fill_expert(w, t, e, file, err));
    }
    if (t->experts) return PROPANE_OK;
    PROPANE_TRY(store_find_shard(w, search, t->stored, &file, err));
    return store_fill_one(w, t, file, err);
}

static propane_status store_fill_from_shards(model_weights *w, bool stored, const json_t *map, const char *folder,
                                             arena *a, propane_error *err) {
    shards *s = mem_alloc(sizeof *s);
    propane_status status = s ? PROPANE_OK : propane_fail_memory(err, sizeof *s);
    shard_search search = {s, map, folder, a};
    for (int i = 0; !status && stored && i < w->count; i++) {
        safetensors *file = NULL;
        if (!w->tensors[i].experts) status = store_find_shard(w, &search, w->tensors[i].stored, &file, err);
        if (file) w->tensors[i].form = store_form_of(w, &w->tensors[i], file);
    }
    if (!status && stored) status = stored_weights_reserve(w, err);
    for (int i = 0; !status && i < w->count; i++) status = store_fill_sharded(w, &w->tensors[i], &search, err);
    for (int i = 0; s && i < s->count; i++) safetensors_close(s->files[i]);
    mem_free(s);
    return status;
}

/* Reads only the configuration if `out` is NULL. */
static propane_status store_read_shards(const char *folder, bool stored, model_config *config, model_weights **out,
                                        propane_error *err) {
    arena *a = arena_create();
    json_t *index = NULL;
    char *path = a ? arena_printf(a, "%s/config.json", folder) : NULL,
         *list = path ? arena_printf(a, "%s/model.safetensors.index.json", folder) : NULL;
    propane_status status = list ? model_config_read(path, config, err) : propane_fail_memory(err, 0);
    if (!status && out) status = json_read(list, 64 << 20, &index, err);
    if (!status && out)
        status = stored ? model_weights_declare(config, out, err) : model_weights_create(config, out, err);
    if (!status && out)
        status = store_fill_from_shards(*out, stored, json_object_get(index, "weight_map"), folder, a, err);
    if (status && out) {
        model_weights_free(*out);
        *out = NULL;
    }
    json_decref(index);
    arena_free(a);
    return status;
}

static bool store_is_sharded(const char *folder) {
    char whole[4096], index[4096], unfinished[4096];
    int n = snprintf(whole, sizeof whole, "%s/model.safetensors", folder);
    snprintf(index, sizeof index, "%s/model.safetensors.index.json", folder);
    snprintf(unfinished, sizeof unfinished, "%s/checkpoint.safetensors", folder);
    return n < 4000 && !file_exists(whole) && !file_exists(unfinished) && file_exists(index);
}

static propane_status store_declare(const model_config *c, const safetensors *s, bool stored, model_weights **out,
                                    propane_error *err) {
    if (!stored) return model_weights_create(c, out, err);
    PROPANE_TRY(model_weights_declare(c, out, err));
    for (int i = 0; i < (*out)->count; i++) (*out)->tensors[i].form = store_form_of(*out, &(*out)->tensors[i], s);
    return stored_weights_reserve(*out, err);
}

/* Reads only the configuration if `out` is NULL. */
static propane_status store_read_tensors(const char *path, bool is_dir, bool stored, model_config *config,
                                         model_weights **out, propane_error *err) {
    safetensors *s = NULL;
    if (is_dir) PROPANE_TRY(folder_check(path, err));
    if (is_dir && store_is_sharded(path)) return store_read_shards(path, stored, config, out, err);
    PROPANE_TRY(store_open_tensors(path, is_dir, &s, err));
    propane_status status = store_config_of(s, path, is_dir, config, err);
    if (status == PROPANE_OK && out) status = store_declare(config, s, stored, out, err);
    if (status == PROPANE_OK && out) status = safetensors_verify_model(s, err);
    if (status == PROPANE_OK && out) status = model_store_fill(*out, s, err);
    if (status != PROPANE_OK && out) {
        model_weights_free(*out);
        *out = NULL;
    }
    safetensors_close(s);
    return status;
}

propane_status model_store_fill(model_weights *w, const safetensors *s, propane_error *err) {
    for (int i = 0; i < w->count; i++) PROPANE_TRY(store_fill_one(w, &w->tensors[i], s, err));
    return PROPANE_OK;
}

propane_status model_store_read(const char *path, bool stored, model_weights **out, propane_error *err) {
    model_form form;
    model_config config;
    *out = NULL;
    PROPANE_TRY(model_store_form(path, &form, err));
    if (form == MODEL_FORM_LLAMA2C) return llama2c_read(path, out, err);
    if (form == MODEL_FORM_GGUF) return gguf_read_model(path, stored, out, err);
    return store_read_tensors(path, form == MODEL_FORM_DIR, stored, &config, out, err);
}

static propane_status store_config_of_gguf(const char *path, model_config *out, propane_error *err) {
    gguf *g;
    PROPANE_TRY(gguf_open(path, &g, err));
    propane_status status = gguf_config(g, out, err);
    gguf_close(g);
    return status;
}

propane_status model_store_config(const char *path, model_config *out, propane_error *err) {
    model_form form;
    PROPANE_TRY(model_store_form(path, &form, err));
    if (form == MODEL_FORM_GGUF) return store_config_of_gguf(path, out, err);
    if (form != MODEL_FORM_LLAMA2C) return store_read_tensors(path, form == MODEL_FORM_DIR, false, out, NULL, err);
    model_weights *w = NULL;
    PROPANE_TRY(llama2c_read(path, &w, err));
    *out = w->config;
    model_weights_free(w);
    return PROPANE_OK;
}

propane_status model_store_describe(const model_config *c, safetensors_writer *writer, propane_error *err) {
    json_t *object = model_config_to_json(c);
    char *printed = NULL;
    propane_status status = json_print(object, JSON_COMPACT, &printed, NULL, err);
    json_decref(object);
    if (!status) status = safetensors_writer_metadata(writer, MODEL_STORE_CONFIG, printed, err);
    mem_free(printed);
    return status;
}

/* Declares all tensors in Hugging Face's layout. model_store_data writes them. */
static propane_status model_store_declare(const model_weights *w, safetensors_writer *writer, safetensors_dtype dtype,
                                          propane_error *err) {
    for (int i = 0; i < w->count; i++) {
        const model_tensor *t = &w->tensors[i];
        int64_t dim[2];
        if (t->first_row > 0) continue; /* part of a tensor that has been declared */
        for (int64_t e = 0; e < t->experts; e++) {
            char name[STORE_NAME_ROOM];
            const model_expert one = model_tensor_expert(t, e);
            dim[0] = one.rows, dim[1] = one.columns;
            PROPANE_TRY(safetensors_writer_declare(writer, store_expert_name(t, e, name), dtype, 2, dim, err));
        }
        if (t->experts) continue;
        int rank = store_stored_shape(t, dim);
        PROPANE_TRY(safetensors_writer_declare(writer, t->stored, dtype, rank, dim, err));
    }
    return PROPANE_OK;
}

enum { PIECE = 4096 };

/* Writes a tensor as 16-bit numbers, converted piece by piece. */
static propane_status store_write_narrow(safetensors_writer *writer, const float *data, int64_t count, bool bf16,
                                         propane_error *err) {
    uint16_t piece[PIECE];
    for (int64_t at = 0; at < count; at += PIECE) {
        size_t n = (size_t)(count - at < PIECE ? count - at : PIECE);
        if (bf16)
            bf16_from_f32_array(piece, data + at, n);
        else
            fp16_from_f32_array(piece, data + at, n);
        PROPANE_TRY(safetensors_writer_data(writer, piece, n * sizeof piece[0], err));
    }
    return PROPANE_OK;
}

/* Assembles a stored tensor from our tensors. */
static void store_gather(const model_weights *w, const model_tensor *first, float *all) {
    const model_tensor *t;
    for (int k = 0; (t = model_weights_piece(w, first, k)); k++) {
        const float *from = model_weights_data(w, t);
        int64_t width = t->dim[1];
        if (!t->transposed) memcpy(all + t->first_row * width, from, (size_t)t->count * sizeof *all);
        for (int64_t i = 0; t->less_one && !w->gradients && i < t->count; i++) all[t->first_row * width + i] -= 1;
        for (int64_t i = 0; t->transposed && i < width; i++)
            for (int64_t r = 0; r < t->dim[0]; r++) all[i * t->stored_rows + t->first_row + r] = from[r * width + i];
    }
}

static propane_status store_write_floats(safetensors_writer *writer, const float *data, int64_t count,
                                         safetensors_dtype dtype, propane_error *err) {
    if (dtype == ST_F32) return safetensors_writer_data(writer, data, (size_t)count * sizeof *data, err);
    return store_write_narrow(writer, data, count, dtype == ST_BF16, err);
}

static propane_status store_write_experts(const model_weights *w, const model_tensor *t, safetensors_writer *writer,
                                          safetensors_dtype dtype, propane_error *err) {
    for (int64_t i = 0; i < t->experts; i++) {
        const model_expert e = model_tensor_expert(t, i);
        const float *from = model_weights_data(w, t) + e.first;
        for (int64_t r = 0; r < e.rows; r++)
            PROPANE_TRY(store_write_floats(writer, from + r * t->dim[1], e.columns, dtype, err));
    }
    return PROPANE_OK;
}

static propane_status model_store_data(const model_weights *w, safetensors_writer *writer, safetensors_dtype dtype,
                                       propane_error *err) {
    for (int i = 0; i < w->count; i++) {
        const model_tensor *t = &w->tensors[i];
        int64_t count = t->stored_rows * t->dim[1];
        if (t->first_row > 0) continue;
        if (t->experts) {
            PROPANE_TRY(store_write_experts(w, t, writer, dtype, err));
            continue;
        }
        if (model_tensor_plain(t)) {
            PROPANE_TRY(store_write_floats(writer, model_weights_data(w, t), count, dtype, err));
            continue;
        }
        float *all = mem_array((size_t)count, sizeof *all);
        if (!all) return propane_fail_memory(err, (size_t)count * sizeof *all);
        store_gather(w, t, all);
        propane_status status = store_write_floats(writer, all, count, dtype, err);
        mem_free(all);
        PROPANE_TRY(status);
    }
    return PROPANE_OK;
}

static propane_status store_write_file(const model_weights *w, const char *path, safetensors_dtype dtype,
                                       propane_error *err) {
    safetensors_writer *writer = NULL;
    PROPANE_TRY(safetensors_writer_open(path, &writer, err));
    propane_status status = safetensors_writer_metadata(writer, "format", "pt", err); /* transformers requires it */
    if (!status && w->gradients) status = safetensors_writer_metadata(writer, "propane.gradients", "true", err);
    if (status == PROPANE_OK) status = model_store_describe(&w->config, writer, err);
    if (status == PROPANE_OK) status = model_store_declare(w, writer, dtype, err);
    if (status == PROPANE_OK) status = model_store_data(w, writer, dtype, err);
    if (status == PROPANE_OK) return safetensors_writer_commit(writer, err);
    safetensors_writer_abort(writer);
    return status;
}

/* Writes generation_config.json with the ids that begin and end a text; transformers' generate requires it. */
static propane_status store_write_generation(const model_config *c, const char *path, propane_error *err) {
    json_t *o = json_pack("{s:b}", "_from_model_config", 1);
    if (o && c->bos_token_id >= 0) json_put(o, "bos_token_id", json_integer(c->bos_token_id));
    if (o && c->eos_token_id >= 0) json_put(o, "eos_token_id", json_integer(c->eos_token_id));
    propane_status status = json_write(path, o, JSON_INDENT(2), err);
    json_decref(o);
    return status;
}

safetensors_dtype model_store_dtype(int type) {
    return type == GGUF_TYPE_F16 ? ST_F16 : type == GGUF_TYPE_BF16 ? ST_BF16 : ST_F32;
}

propane_status model_store_write(const model_weights *w, const char *path, model_form form, safetensors_dtype dtype,
                                 propane_error *err) {
    if (dtype != ST_F32 && dtype != ST_F16 && dtype != ST_BF16)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: weights can be written as F32, F16 or BF16, not %s",
                            path, safetensors_dtype_name(dtype));
    if (form == MODEL_FORM_LLAMA2C) {
        if (dtype != ST_F32)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: llama2.c checkpoints can hold only F32", path);
        return llama2c_write(w, path, err);
    }
    if (form == MODEL_FORM_GGUF)
        return gguf_write_model(w, NULL, path,
                                dtype == ST_F32   ? GGUF_TYPE_F32
                                : dtype == ST_F16 ? GGUF_TYPE_F16
                                                  : GGUF_TYPE_BF16,
                                err);
    if (form == MODEL_FORM_SAFETENSORS) return store_write_file(w, path, dtype, err);
    if (text_ends_with(path, ".safetensors") || text_ends_with(path, ".bin"))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: a folder was requested, but the name is that of a file",
                            path);
    arena *a = arena_create();
    char *config = a ? arena_printf(a, "%s/config.json", path) : NULL;
    char *generation = config ? arena_printf(a, "%s/generation_config.json", path) : NULL;
    char *tensors = generation ? arena_printf(a, "%s/model.safetensors", path) : NULL;
    propane_status status = tensors ? file_make_dir(path, err) : propane_fail_memory(err, 0);
    if (status == PROPANE_OK) status = store_write_file(w, tensors, dtype, err);
    if (status == PROPANE_OK) status = model_config_write(&w->config, config, err);
    if (status == PROPANE_OK) status = store_write_generation(&w->config, generation, err);
    arena_free(a);
    return status;
}
