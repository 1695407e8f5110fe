/* SPDX-License-Identifier: MIT
 * Owns the probe's own path through the framework. It makes a model from a given text and weight files, and makes each
 * call on the model separately. Each call is timed, and its error is reported as fields. Nothing is repaired, repeated
 * or refused here, so that every answer is the system's.
 */
#include "ane/driver/ane_lab.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "ane/driver/ane.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/sha256.h"
#include "core/base/temporary.h"

enum { PATH_ROOM = 1200, HEX_ROOM = 400, MOST_FILES = 32 };

struct lab {
    const ane_api *a;
    ane_device *device; /* provides the buffers */
    lab_program p;
    lab_request request;
    char folder[PATH_ROOM];
    ane_id object, inner, client, descriptor;
    driver_buffer buffers[LAB_INPUTS + 1]; /* inputs, then the output */
    bool loaded;
};

static void (*step_begins)(const char *step);

void lab_on_step(void (*begins)(const char *step)) { step_begins = begins; }

/* ---- words ------------------------------------------------------------------------------------------------------------------ */

static json_t *lab_failure_json(const ane_api *a, ane_id error) {
    ane_failure f;
    json_t *out = json_object();
    ane_error_read(a, error, &f);
    json_put(out, "domain", json_words(f.domain));
    json_put(out, "code", json_integer(f.code));
    if (f.has_status) json_put(out, "status", json_integer(f.status));
    if (f.has_stage) json_put(out, "stage", json_integer(f.stage));
    if (f.transient) json_put(out, "transient", json_true());
    json_put(out, "description", json_words(f.description));
    if (error && ANE_HAS(a, error_info)) {
        ane_id info = ANE_SEND0(a, error_info, error);
        if (info) json_put(out, "info", lab_json(a, info));
    }
    return out;
}

static json_t *lab_dictionary_json(const ane_api *a, ane_id dictionary) {
    json_t *out = json_object();
    const long count = a->CFDictionaryGetCount ? a->CFDictionaryGetCount(dictionary) : 0;
    const void **pairs = count > 0 ? mem_array((size_t)count * 2, sizeof *pairs) : NULL;
    if (!pairs) return out;
    a->CFDictionaryGetKeysAndValues(dictionary, pairs, pairs + count);
    for (long i = 0; i < count; i++) {
        char key[200];
        if (ane_text_of(a, (ane_id)(uintptr_t)pairs[i], key, sizeof key))
            json_put(out, key, lab_json(a, (ane_id)(uintptr_t)pairs[count + i]));
    }
    mem_free(pairs);
    return out;
}

json_t *lab_json(const ane_api *a, ane_id object) {
    char words[PATH_ROOM];
    int64_t number;
    if (!object) return json_null();
    if (ane_text_of(a, object, words, sizeof words)) return json_words(words);
    if (ane_number_of(a, object, &number)) return json_integer(number);
    const unsigned long type = a->CFGetTypeID(object);
    if (type == a->CFDictionaryGetTypeID() && a->CFDictionaryGetKeysAndValues) return lab_dictionary_json(a, object);
    if (type != a->CFArrayGetTypeID()) return json_string("(another class)");
    json_t *out = json_array();
    for (int i = 0; i < ane_array_count(a, object); i++) json_add(out, lab_json(a, ane_array_at(a, object, i)));
    return out;
}

const char *lab_step_name(lab_step step) {
    static const char *const names[LAB_STEP_COUNT] = {"exists",
                                                      "write",
                                                      "compile",
                                                      "load",
                                                      "evaluate",
                                                      "unload",
                                                      "purge",
                                                      "attributes",
                                                      "wrapper_attributes",
                                                      "drop_descriptor",
                                                      "remove_folder"};
    return names[step];
}

/* ---- the model ---------------------------------------------------------------------------------------------------------------- */

static ane_id lab_dictionary_of(const ane_api *a, ane_id *keys, ane_id *values, int count) {
    ane_id made = NULL;
    bool all = true;
    for (int i = 0; i < count; i++) all = all && keys[i] && values[i];
    if (all) made = ane_dictionary(a, (const void *const *)(const void *)keys, values, count);
    for (int i = 0; i < count; i++) ane_release(a, keys[i]), ane_release(a, values[i]);
    return made;
}

static ane_id lab_weight_data(const ane_api *a, const lab_file *f, lab_data how) {
    sha256 h;
    uint8_t digest[32];
    if (how == LAB_BYTES) return ane_data(a, f->data, f->length);
    if (how == LAB_NOTHING) return ane_data(a, "", 0);
    sha256_init(&h);
    sha256_update(&h, f->data, f->length);
    sha256_final(&h, digest);
    return ane_data(a, digest, sizeof digest);
}

static ane_id lab_weights(const ane_api *a, const lab_program *p) {
    ane_id names[MOST_FILES], entries[MOST_FILES];
    int count = 0;
    for (; count < p->file_count && count < MOST_FILES; count++) {
        char path[200];
        snprintf(path, sizeof path, "@model_path/%s", p->files[count].path);
        ane_id key[2] = {ane_string(a, "offset"), ane_string(a, "data")},
               value[2] = {ane_number(a, 0), lab_weight_data(a, &p->files[count], p->data)};
        names[count] = ane_string(a, path);
        entries[count] = lab_dictionary_of(a, key, value, 2);
    }
    return lab_dictionary_of(a, names, entries, count);
}

static propane_status lab_name_folder(lab *l, json_t *out, propane_error *err) {
    const ane_api *a = l->a;
    char hex[HEX_ROOM] = "", temporary[PATH_ROOM - HEX_ROOM] = "", path[PATH_ROOM] = "";
    (void)ane_text_of(a, ANE_SEND0(a, memory_name, l->object), hex, sizeof hex);
    (void)ane_text_of(a, a->NSTemporaryDirectory(), temporary, sizeof temporary);
    if (ANE_HAS(a, memory_path)) (void)ane_text_of(a, ANE_SEND0(a, memory_path, l->object), path, sizeof path);
    json_put(out, "hex", json_words(hex));
    json_put(out, "temporary", json_words(temporary));
    json_put(out, "localModelPath", *path ? json_words(path) : json_null());
    if (ANE_HAS(a, descriptor_hashes))
        json_put(out, "perFileHashes", lab_json(a, ANE_SEND0(a, descriptor_hashes, l->descriptor)));
    if (!*hex || strchr(hex, '/')) return propane_fail(err, PROPANE_ERR_DEVICE, "the model returns no name");
    if (l->p.folder)
        snprintf(l->folder, sizeof l->folder, "%.700s/%s", l->p.folder, hex);
    else if (*path)
        snprintf(l->folder, sizeof l->folder, "%s", path);
    else
        snprintf(l->folder, sizeof l->folder, "%s%s%s", temporary,
                 *temporary && temporary[strlen(temporary) - 1] == '/' ? "" : "/", hex);
    return PROPANE_OK;
}

static propane_status lab_open_memory(lab *l, json_t *out, propane_error *err) {
    const ane_api *a = l->a;
    ane_id program = ane_data(a, l->p.text, strlen(l->p.text)), weights = lab_weights(a, &l->p);
    if (program && weights) l->descriptor = ANE_SEND(a, descriptor, ANE_CLASS(a, descriptor), program, weights, NULL);
    ane_release(a, program);
    ane_release(a, weights);
    if (!l->descriptor) return propane_fail(err, PROPANE_ERR_DEVICE, "the descriptor rejects the program");
    a->objc_retain(l->descriptor);
    l->object = ANE_SEND(a, memory_model, ANE_CLASS(a, memory_model), l->descriptor);
    if (!l->object) return propane_fail(err, PROPANE_ERR_DEVICE, "the model rejects the descriptor");
    a->objc_retain(l->object);
    return lab_name_folder(l, out, err);
}

/* Opens the model from the folder. Creates the folder first, because it must exist. */
static propane_status lab_open_client(lab *l, propane_error *err) {
    const ane_api *a = l->a;
    if (l->p.folder) {
        snprintf(l->folder, sizeof l->folder, "%.1000s/propane-ane-lab", l->p.folder);
    } else {
        char *scratch = NULL;
        PROPANE_TRY(temporary_scratch("propane-ane", &scratch, err));
        snprintf(l->folder, sizeof l->folder, "%s", scratch);
        mem_free(scratch);
    }
    PROPANE_TRY(file_make_dir(l->folder, err));
    ane_id path = ane_string(a, l->folder), url = path ? a->CFURLCreateWithFileSystemPath(NULL, path, 0, 1) : NULL;
    if (url) l->object = ANE_SEND(a, model, ANE_CLASS(a, model), url, path);
    if (l->object) a->objc_retain(l->object);
    ane_release(a, url);
    ane_release(a, path);
    l->client = ANE_SEND0(a, client, ANE_CLASS(a, client));
    if (!l->object || !l->client)
        return propane_fail(err, PROPANE_ERR_DEVICE, "%s",
                            l->object ? "the client returns no connection" : "the model rejects the folder");
    a->objc_retain(l->client);
    return PROPANE_OK;
}

propane_status lab_open(const lab_program *p, json_t *out, lab **l, propane_error *err) {
    const ane_api *a;
    ane_options o;
    PROPANE_TRY(ane_api_get(&a, err));
    if (a->route[p->route].status != PROPANE_OK)
        return propane_fail(err, a->route[p->route].status, "%s", a->route[p->route].text);
    *l = mem_alloc(sizeof **l);
    if (!*l) return propane_fail_memory(err, sizeof **l);
    **l = (lab){.a = a, .p = *p};
    for (int i = 0; i <= p->inputs; i++)
        if (!p->values[i]) (*l)->p.values[i] = LAB_VALUES;
    propane_status status = ane_options_parse("", &o, err);
    if (status == PROPANE_OK) status = ane_device_create(a, &o, &(*l)->device, err);
    void *pool = a->objc_autoreleasePoolPush();
    if (status == PROPANE_OK) status = p->route == 0 ? lab_open_memory(*l, out, err) : lab_open_client(*l, err);
    a->objc_autoreleasePoolPop(pool);
    if (status == PROPANE_OK) json_put(out, "folder", json_words((*l)->folder));
    if (status == PROPANE_OK) return status;
    lab_close(*l);
    *l = NULL;
    return status;
}

/* ---- files -------------------------------------------------------------------------------------------------------------------- */

static propane_status lab_write_file(const lab *l, const char *path, const void *data, size_t length,
                                     propane_error *err) {
    char full[PATH_ROOM + 200];
    snprintf(full, sizeof full, "%s/%s", l->folder, path);
    char *slash = strrchr(full, '/');
    *slash = 0;
    PROPANE_TRY(file_make_dir(full, err));
    if (l->p.open_modes) (void)chmod(full, 0755);
    *slash = '/';
    PROPANE_TRY(file_write_scratch(full, data, length, err));
    if (l->p.open_modes) (void)chmod(full, 0644);
    return PROPANE_OK;
}

static propane_status lab_write(lab *l, propane_error *err) {
    PROPANE_TRY(file_remove_tree(l->folder, err));
    PROPANE_TRY(file_make_private_dir(l->folder, err));
    if (l->p.open_modes) (void)chmod(l->folder, 0755);
    ane_folder_made(l->folder);
    PROPANE_TRY(lab_write_file(l, "model.mil", l->p.text, strlen(l->p.text), err));
    for (int i = 0; i < l->p.file_count; i++)
        PROPANE_TRY(lab_write_file(l, l->p.files[i].path, l->p.files[i].data, l->p.files[i].length, err));
    return PROPANE_OK;
}

static void lab_list_file(const char *path, const char *name, json_t *out) {
    char *data = NULL, hex[65];
    size_t length = 0;
    sha256 h;
    uint8_t digest[32];
    json_t *entry = json_object();
    if (file_read(path, (size_t)1 << 28, &data, &length, NULL) == PROPANE_OK) {
        sha256_init(&h);
        sha256_update(&h, data, length);
        sha256_final(&h, digest);
        sha256_hex(digest, hex);
        json_put(entry, "bytes", json_integer((json_int_t)length));
        json_put(entry, "sha256", json_string(hex));
    }
    mem_free(data);
    json_put(out, name, entry);
}

/* Lists the files of a folder and of the folders directly in it, which is enough. */
static void lab_list_in(const char *folder, const char *below, json_t *out) {
    char path[PATH_ROOM + 600], name[600];
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(path, sizeof path, "%.1200s/%.500s", folder, entry->d_name);
        snprintf(name, sizeof name, "%.80s%.500s", below, entry->d_name);
        if (!file_is_dir(path)) {
            lab_list_file(path, name, out);
        } else if (!*below) {
            snprintf(name, sizeof name, "%.78s/", entry->d_name);
            lab_list_in(path, name, out);
        }
    }
    if (dir) closedir(dir);
}

json_t *lab_list_folder(const lab *l) {
    json_t *out = json_object();
    lab_list_in(l->folder, "", out);
    return out;
}

const char *lab_folder(const lab *l) { return l->folder; }

/* ---- surfaces and the request -------------------------------------------------------------------------------------------------- */

void lab_request_as(lab *l, const lab_request *request) { l->request = *request; }

static propane_status lab_make_buffer(lab *l, int index, propane_error *err) {
    driver_buffer *b = &l->buffers[index];
    const size_t wanted = l->request.bytes[index];
    if (b->impl) return PROPANE_OK;
    b->bytes = wanted ? wanted : 2 * (size_t)l->p.values[index];
    return ane_buffer_create(l->device, b->bytes, b, err);
}

static void lab_drop_buffers(lab *l) {
    for (int i = 0; i <= LAB_INPUTS; i++)
        if (l->buffers[i].impl) ane_buffer_free(l->device, &l->buffers[i]);
}

propane_status lab_put(lab *l, int input, float value, propane_error *err) {
    const uint16_t half = fp16_from_f32(value);
    void *memory = NULL;
    PROPANE_TRY(lab_make_buffer(l, input, err));
    PROPANE_TRY(ane_buffer_lock(l->device, &l->buffers[input], true, &memory, err));
    for (size_t i = 0; i < l->buffers[input].bytes / 2; i++) memcpy((char *)memory + 2 * i, &half, sizeof half);
    ane_buffer_unlock(l->device, &l->buffers[input]);
    return PROPANE_OK;
}

propane_status lab_take(lab *l, float *value, bool *uniform, propane_error *err) {
    driver_buffer *b = &l->buffers[l->p.inputs];
    void *memory = NULL;
    PROPANE_TRY(lab_make_buffer(l, l->p.inputs, err));
    PROPANE_TRY(ane_buffer_lock(l->device, b, false, &memory, err));
    uint16_t first, half;
    memcpy(&first, memory, sizeof first);
    *uniform = true;
    for (size_t i = 1; i < b->bytes / 2; i++) {
        memcpy(&half, (char *)memory + 2 * i, sizeof half);
        *uniform = *uniform && half == first;
    }
    *value = fp16_to_f32(first);
    ane_buffer_unlock(l->device, b);
    return PROPANE_OK;
}

static ane_id lab_list_of(const ane_api *a, ane_id *items, int count, bool owned) {
    bool all = true;
    for (int i = 0; i < count; i++) all = all && items[i];
    ane_id made = all ? ane_array(a, items, count) : NULL;
    for (int i = 0; i < count && owned; i++) ane_release(a, items[i]);
    return made;
}

static ane_id lab_statistics_of(const ane_api *a, lab_statistics how) {
    ane_id one = NULL;
    if (how == LAB_NO_STATISTICS) return NULL;
    if (how == LAB_ONE_STATISTICS && ANE_HAS(a, statistics_alloc) && ANE_HAS(a, statistics_init)) {
        one = ANE_SEND0(a, statistics_alloc, ANE_CLASS(a, statistics));
        if (one) one = ANE_SEND0(a, statistics_init, one);
    }
    return lab_list_of(a, &one, one ? 1 : 0, true);
}

static ane_id lab_make_request(lab *l) {
    const ane_api *a = l->a;
    ane_id surfaces[LAB_INPUTS + 1], indices[LAB_INPUTS + 1], zero = ane_number(a, 0), request = NULL;
    const int n = l->p.inputs;
    for (int i = 0; i <= n; i++) {
        const int from = l->request.swapped && i < 2 ? 1 - i : i;
        surfaces[i] = ((const ane_buffer *)l->buffers[from].impl)->object;
        indices[i] = ane_number(a, i < n ? i : 0);
    }
    ane_id inputs = lab_list_of(a, surfaces, n, false), at = lab_list_of(a, indices, n, true),
           outputs = lab_list_of(a, surfaces + n, 1, false), out_at = lab_list_of(a, indices + n, 1, true),
           statistics = lab_statistics_of(a, l->request.statistics);
    if (inputs && at && outputs && out_at && zero)
        request = ANE_SEND(a, request, ANE_CLASS(a, request), inputs, at, outputs, out_at, NULL, statistics, zero);
    ane_release(a, inputs), ane_release(a, at), ane_release(a, outputs), ane_release(a, out_at);
    ane_release(a, statistics), ane_release(a, zero);
    return request;
}

static bool lab_evaluate(lab *l, ane_id *error, propane_error *err) {
    const ane_api *a = l->a;
    for (int i = 0; i <= l->p.inputs; i++)
        if (lab_make_buffer(l, i, err) != PROPANE_OK) return false;
    ane_id request = lab_make_request(l);
    if (!request) {
        (void)propane_fail(err, PROPANE_ERR_DEVICE, "_ANERequest rejects the surfaces");
        return false;
    }
    return l->p.route == 0 ? ANE_SEND(a, memory_evaluate, l->object, ANE_QOS, a->empty, request, error)
                           : ANE_SEND(a, client_evaluate, l->client, l->object, a->empty, request, ANE_QOS, error);
}

/* ---- one call ----------------------------------------------------------------------------------------------------------------- */

static bool lab_exists(lab *l) {
    const ane_api *a = l->a;
    if (l->p.route == 0) return ANE_HAS(a, memory_exists) && ANE_SEND0(a, memory_exists, l->object);
    return ANE_HAS(a, client_exists) && ANE_SEND(a, client_exists, l->client, l->object);
}

static bool lab_compile(lab *l, ane_id *error) {
    const ane_api *a = l->a;
    if (l->p.route == 0) return ANE_SEND(a, memory_compile, l->object, ANE_QOS, a->empty, error);
    ane_id key[2] = {ane_string(a, "kANEFModelType"), ane_string(a, "kANEFNetPlistFilenameKey")},
           value[2] = {ane_string(a, "kANEFModelMIL"), ane_string(a, "model.mil")},
           options = lab_dictionary_of(a, key, value, 2);
    const bool done = options && ANE_SEND(a, client_compile, l->client, l->object, options, ANE_QOS, error);
    ane_release(a, options);
    return done;
}

static bool lab_load(lab *l, ane_id *error) {
    const ane_api *a = l->a;
    l->loaded = l->p.route == 0 ? ANE_SEND(a, memory_load, l->object, ANE_QOS, a->empty, error)
                                : ANE_SEND(a, client_load, l->client, l->object, a->empty, ANE_QOS, error);
    return l->loaded;
}

static bool lab_unload(lab *l, ane_id *error) {
    const ane_api *a = l->a;
    const bool done = l->p.route == 0 ? ANE_SEND(a, memory_unload, l->object, ANE_QOS, error)
                                      : ANE_SEND(a, client_unload, l->client, l->object, a->empty, ANE_QOS, error);
    if (done) l->loaded = false;
    return done;
}

static bool lab_purge(lab *l) {
    const ane_api *a = l->a;
    const bool there = l->p.route == 0 ? ANE_HAS(a, memory_purge) : ANE_HAS(a, client_purge);
    if (there && l->p.route == 0) ANE_SEND0(a, memory_purge, l->object);
    if (there && l->p.route == 1) ANE_SEND(a, client_purge, l->client, l->object);
    return there;
}

static bool lab_attributes(lab *l, bool wrapper, json_t *out) {
    const ane_api *a = l->a;
    ane_id answer = NULL, inner = l->object;
    if (wrapper) {
        if (l->p.route == 0 && ANE_HAS(a, memory_attributes)) answer = ANE_SEND0(a, memory_attributes, l->object);
    } else {
        if (l->p.route == 0) inner = ANE_HAS(a, memory_inner) ? ANE_SEND0(a, memory_inner, l->object) : NULL;
        if (inner && ANE_HAS(a, model_attributes)) answer = ANE_SEND0(a, model_attributes, inner);
    }
    json_put(out, "told", lab_json(a, answer));
    return answer != NULL;
}

static bool lab_drop_descriptor(lab *l) {
    const ane_api *a = l->a;
    if (l->p.route != 0 || !ANE_HAS(a, memory_set_descriptor)) return false;
    ANE_SEND(a, memory_set_descriptor, l->object, NULL);
    ane_release(a, l->descriptor);
    l->descriptor = NULL;
    return true;
}

static bool lab_call(lab *l, lab_step step, json_t *out, ane_id *error, propane_error *err) {
    switch (step) {
    case LAB_EXISTS: return lab_exists(l);
    case LAB_WRITE: return lab_write(l, err) == PROPANE_OK;
    case LAB_COMPILE: return lab_compile(l, error);
    case LAB_LOAD: return lab_load(l, error);
    case LAB_EVALUATE: return lab_evaluate(l, error, err);
    case LAB_UNLOAD: return lab_unload(l, error);
    case LAB_PURGE: return lab_purge(l);
    case LAB_ATTRIBUTES: return lab_attributes(l, false, out);
    case LAB_WRAPPER_ATTRIBUTES: return lab_attributes(l, true, out);
    case LAB_DROP_DESCRIPTOR: return lab_drop_descriptor(l);
    case LAB_REMOVE_FOLDER: return file_remove_tree(l->folder, err) == PROPANE_OK;
    case LAB_STEP_COUNT: break;
    }
    return false;
}

bool lab_do(lab *l, lab_step step, json_t *out) {
    static ane_id error; /* static, because a late answer may still write to this variable */
    propane_error err = {0};
    json_t *said = json_object();
    if (step_begins) step_begins(lab_step_name(step));
    void *pool = l->a->objc_autoreleasePoolPush();
    const int64_t begin = clock_ns();
    error = NULL;
    const bool done = lab_call(l, step, said, &error, &err);
    json_put(said, "done", json_boolean(done));
    json_put(said, "ms", json_real((double)(clock_ns() - begin) / 1e6));
    if (!done && (step == LAB_COMPILE || step == LAB_LOAD || step == LAB_EVALUATE || step == LAB_UNLOAD) && !err.status)
        json_put(said, "error", lab_failure_json(l->a, error));
    if (err.status) json_put(said, "why", json_words(err.text));
    l->a->objc_autoreleasePoolPop(pool);
    json_put(out, lab_step_name(step), said);
    return done;
}

bool lab_do_all(lab *l, lab_step first, lab_step last, json_t *out) {
    for (int step = (int)first; step <= (int)last; step++)
        if (!lab_do(l, (lab_step)step, out) && step != LAB_EXISTS) return false;
    return true;
}

void lab_close(lab *l) {
    if (!l) return;
    const ane_api *a = l->a;
    void *pool = a->objc_autoreleasePoolPush();
    ane_id error = NULL;
    if (l->loaded) (void)lab_unload(l, &error);
    if (l->object && l->p.file_count) (void)lab_purge(l);
    lab_drop_buffers(l);
    ane_release(a, l->client);
    ane_release(a, l->object);
    ane_release(a, l->descriptor);
    a->objc_autoreleasePoolPop(pool);
    if (l->folder[0]) (void)!file_remove_tree(l->folder, NULL);
    ane_device_free(l->device);
    mem_free(l);
}
