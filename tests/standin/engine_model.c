/* SPDX-License-Identifier: MIT
 * Owns descriptors and models of AppleNeuralEngine: their sources, the system's cache, and the programs that they
 * load. Compiled programs are in a cache by their three hashes. A loaded program is made from net.plist and data in
 * the model's folder, never from the weight files, so overwriting weights changes nothing.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/sha256.h"
#include "standin/engine.h"

static pthread_mutex_t cache_mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- the system's cache of compiled programs ------------------------------------------------------------------------------ */

typedef struct cached {
    char name[200];
    char *net, *data;
    size_t net_length, data_length;
    struct cached *next;
} cached;

static cached *cache;

/* `part` is the number of characters of the name that must match. */
static cached *cache_find(const char *name, size_t part) {
    cached *c = cache;
    while (c && strncmp(c->name, name, part) != 0) c = c->next;
    return c;
}

static void cache_remove(const char *name) {
    for (cached **link = &cache; *link; link = &(*link)->next) {
        cached *c = *link;
        if (strcmp(c->name, name) != 0) continue;
        *link = c->next;
        free(c->net);
        free(c->data);
        free(c);
        return;
    }
}

/* ---- models: the state shared by a memory model and its inner model
 * ---------------------------------------------------------- */

model *standin_model_of(const object *o) {
    if (standin_is_class(o, "_ANEInMemoryModel") || standin_is_class(o, "_ANEModel")) return o->memory;
    standin_violation("a model is wanted");
    return NULL;
}

static void model_release(model *m) {
    if (__atomic_sub_fetch(&m->references, 1, __ATOMIC_SEQ_CST) > 0) return;
    if (m->loaded) standin_violation("a model is released while its program is loaded");
    standin_program_free(m->loaded);
    standin_give_place(m->place);
    standin_release(m->text);
    standin_release(m->weights);
    standin_release(m->attributes);
    free(m);
}

static void hash_hex(const void *bytes, size_t length, char out[65]) {
    sha256 h;
    uint8_t digest[32];
    sha256_init(&h);
    sha256_update(&h, bytes, length);
    sha256_final(&h, digest);
    sha256_hex(digest, out);
}

static long weight_count(const model *m) { return m->weights ? m->weights->count : 0; }
static const char *weight_path(const model *m, long i) { return standin_text(((object **)m->weights->memory)[i]); }
static const object *weight_data(const model *m, long i) {
    return standin_entry(((object **)m->weights->memory)[m->weights->count + i], "data");
}

/* Makes the name from three hashes of text, weights and options, in the system's order
 * (True2456/qwen-ane/docs/MEMORY.md: options last). */
static void name_model(model *m) {
    char text_hash[65], option_hash[65], weight_hash[65];
    sha256 h;
    uint8_t digest[32];
    bool weights_first = standin_is("names", "weights");
    hash_hex(m->text->memory, (size_t)m->text->count, text_hash);
    hash_hex("", 0, option_hash);
    sha256_init(&h);
    for (long i = 0; i < weight_count(m); i++) {
        const object *data = weight_data(m, i);
        sha256_update(&h, weight_path(m, i), strlen(weight_path(m, i)));
        if (data) sha256_update(&h, data->memory, (size_t)data->count);
    }
    sha256_final(&h, digest);
    sha256_hex(digest, weight_hash);
    snprintf(m->name, sizeof m->name, "%s_%s_%s", text_hash, weights_first ? weight_hash : option_hash,
             weights_first ? option_hash : weight_hash);
}

/* ---- compile ------------------------------------------------------------------------------------------------------------------ */

static bool same_file(const char *folder, const char *path, const object *data) {
    char full[1400], *content = NULL;
    size_t length = 0;
    snprintf(full, sizeof full, "%s/%s", folder, path);
    if (file_read(full, (size_t)1 << 30, &content, &length, NULL)) return false;
    bool same = length == (size_t)data->count && memcmp(content, data->memory, length) == 0;
    mem_free(content);
    return same;
}

static bool has_file(const model *m, const char *path) {
    char full[1400];
    snprintf(full, sizeof full, "%s/%s", m->folder, path);
    return file_exists(full);
}

/* Compares one entry of the dictionary with the folder. */
static bool check_weight(const model *m, long i) {
    static const char prefix[] = "@model_path/";
    const char *path = weight_path(m, i);
    const object *data = weight_data(m, i),
                 *offset = standin_entry(((object **)m->weights->memory)[m->weights->count + i], "offset");
    if (strncmp(path, prefix, sizeof prefix - 1) != 0 || !standin_check(data, KIND_DATA, "a weight's data") ||
        !standin_check(offset, KIND_NUMBER, "a weight's offset") || offset->count != 0)
        return false;
    path += sizeof prefix - 1;
    return standin_is("contents", "equal") ? same_file(m->folder, path, data) : has_file(m, path);
}

/* Returns whether TMPDIR is foreign. According to one client of macOS 27.0.1, TMPDIR must be unset or the user's folder
 * (rule F5). */
static bool tmpdir_is_foreign(void) {
    const char *set = getenv("TMPDIR"), *own = standin_temporary();
    if (!set || !standin_is("tmpdir", "own")) return false;
    const size_t length = strlen(own);
    return strncmp(set, own, length) != 0 || (set[length] && strcmp(set + length, "/") != 0);
}

/* Checks that the text and the weights are where the compiler reads them. On the memory route that is the model's
 * folder, which since 27 may hold at most one weight file. */
static bool check_files(const model *m, char why[600]) {
    snprintf(why, 600, "_ANECompiler : ANECCompile() FAILED err=(): ");
    size_t said = strlen(why);
    if (m->is_client) return true;
    if (!m->text)
        snprintf(why + said, 600 - said, "the model has no descriptor any more");
    else if (m->elsewhere && weight_count(m) && standin_is("bundle", "checked"))
        snprintf(why + said, 600 - said, "setModelURL: with weights");
    else if (tmpdir_is_foreign())
        snprintf(why + said, 600 - said, "the folder of the program");
    else if (weight_count(m) > 1 && standin_is("files", "one"))
        snprintf(why + said, 600 - said, "%ld weight files", weight_count(m));
    else if (!same_file(m->folder, "model.mil", m->text))
        snprintf(why, 600, "_ANECompiler : ANECCompile() FAILED err=(InvalidMILProgram): model.mil is not in %.300s",
                 m->folder);
    else {
        for (long i = 0; i < weight_count(m); i++)
            if (!check_weight(m, i)) {
                snprintf(why + said, 600 - said, "weights %.100s", weight_path(m, i));
                return false;
            }
        why[0] = 0;
        return true;
    }
    return false;
}

/* Checks that the dictionary names every file that the program reads. */
static bool check_named_files(const model *m, const program *p) {
    const char *files[16];
    int count = standin_program_files(p, files, 16);
    long most = standin_counted("weight_files"); /* largest number in one program so far */
    if (count > most) standin_count("weight_files", count - most);
    if (m->is_client || !standin_is("bundle", "checked")) return true;
    for (int i = 0; i < count && i < 16; i++) {
        bool there = false;
        for (long k = 0; k < weight_count(m) && !there; k++) there = strcmp(weight_path(m, k), files[i]) == 0;
        if (!there) return false;
    }
    return true;
}

static bool switched_off(long count, object **error) {
    const char *how = standin_switch("compile");
    if (!how || (standin_switch("compile_at") && standin_number("compile_at", 0) != count)) return false;
    if (strcmp(how, "crash") == 0) raise(SIGSEGV);
    if (strcmp(how, "silent") != 0)
        standin_fail(error, FAIL_TEXT, "",
                     strcmp(how, "invalid") == 0 ? "_ANECompiler : ANECCompile() FAILED err=(InvalidMILProgram)"
                                                 : "_ANECompiler : ANECCompile() FAILED err=(CompilationFailure)");
    return true;
}

static bool read_text(const model *m, char **content, size_t *length) {
    char path[1300];
    snprintf(path, sizeof path, "%s/model.mil", m->folder);
    return file_read(path, (size_t)1 << 30, content, length, NULL) == PROPANE_OK;
}

static bool write_net(const char *folder, const cached *c) {
    char path[1300];
    snprintf(path, sizeof path, "%s/net.plist", folder);
    if (file_make_dir(folder, NULL) || file_write_scratch(path, c->net, c->net_length, NULL)) return false;
    snprintf(path, sizeof path, "%s/data", folder);
    return file_write_scratch(path, c->data, c->data_length, NULL) == PROPANE_OK;
}

/* Stores the compiled program in the cache and the folder. */
static bool keep_compiled(const model *m, program *p) {
    cached *c = calloc(1, sizeof *c);
    if (!c || !standin_program_pack(p, &c->net, &c->net_length, &c->data, &c->data_length)) abort();
    snprintf(c->name, sizeof c->name, "%s", m->name);
    pthread_mutex_lock(&cache_mutex);
    cache_remove(c->name);
    c->next = cache;
    cache = c;
    bool written = write_net(m->folder, c);
    pthread_mutex_unlock(&cache_mutex);
    return written;
}

bool standin_compile(model *m, const char *selector, object **error) {
    char why[600] = "", *content = NULL;
    size_t length = 0;
    standin_count("compiles", 1);
    long count = standin_counted("compiles"), limit = standin_number("limit", 0);
    if (limit && count > limit) {
        standin_violation("compile %ld of a process that may make %ld", count, limit);
        return false; /* fails without giving a reason */
    }
    if (switched_off(count, error)) return false;
    if (!check_files(m, why)) return standin_fail(error, FAIL_BUNDLE, "verifyBundleAtPath", why);
    if (!read_text(m, &content, &length))
        return standin_fail(error, FAIL_TEXT, selector, "_ANECompiler : ANECCompile() FAILED err=()");
    program *p = standin_program_check(content, length, m->folder, why);
    mem_free(content);
    if (!p) return standin_fail(error, FAIL_TEXT, selector, why);
    bool known = check_named_files(m, p), kept = known && keep_compiled(m, p);
    standin_program_free(p);
    if (!known) return standin_fail(error, FAIL_BUNDLE, "verifyBundleAtPath", "a file is not in the dictionary");
    return kept || standin_fail(error, FAIL_TEXT, selector, "the compiled program cannot be written");
}

bool standin_cached(const model *m) {
    pthread_mutex_lock(&cache_mutex);
    bool there = cache_find(m->name, strlen(m->name)) != NULL;
    pthread_mutex_unlock(&cache_mutex);
    return there;
}

void standin_purge(const model *m) {
    pthread_mutex_lock(&cache_mutex);
    cache_remove(m->name);
    pthread_mutex_unlock(&cache_mutex);
}

/* ---- load and unload ------------------------------------------------------------------------------------------------------------ */

/* Finds the files that a load reads: in the model's folder, or if that is gone, in a folder for this load only. */
static bool find_net(const model *m, char folder[1300], bool *scratch) {
    char path[1300];
    snprintf(path, sizeof path, "%s/net.plist", m->folder);
    snprintf(folder, 1300, "%s", m->folder);
    pthread_mutex_lock(&cache_mutex);
    const cached *own = cache_find(m->name, strlen(m->name)),
                 *like = standin_is("reload", "baked") ? cache_find(m->name, 64) : NULL;
    bool there = true;
    *scratch = own && !file_exists(m->folder);
    if (*scratch) {
        snprintf(folder, 1300, "%s/.standin-XXXXXX", standin_temporary());
        there = mkdtemp(folder) && write_net(folder, own);
    } else if (like || (own && !file_exists(path))) {
        there = write_net(m->folder, own ? own : like);
    }
    pthread_mutex_unlock(&cache_mutex);
    return there;
}

static bool load_net(model *m) {
    char folder[1300], path[1400], why[600], *content = NULL;
    size_t length = 0;
    bool scratch = false;
    if (find_net(m, folder, &scratch)) {
        snprintf(path, sizeof path, "%s/net.plist", folder);
        if (file_read(path, (size_t)1 << 30, &content, &length, NULL) == PROPANE_OK)
            m->loaded = standin_program_check(content, length, folder, why);
        mem_free(content);
    }
    if (scratch) (void)!file_remove_tree(folder, NULL);
    if (m->loaded && !standin_program_load(m->loaded, why)) {
        standin_program_free(m->loaded);
        m->loaded = NULL;
    }
    return m->loaded != NULL;
}

bool standin_load(model *m, const char *selector, object **error) {
    m->loads++;
    if (standin_is("load", "always") || (standin_is("load", "once") && m->loads == 1))
        return standin_fail(error, FAIL_LOAD, selector, "");
    if (standin_is("load", "large")) return standin_fail(error, FAIL_LARGE, selector, "");
    if (m->loaded) {
        standin_violation("a model is loaded twice");
        return false;
    }
    m->place = standin_take_place();
    if (!m->place) {
        standin_count("refused_loads", 1);
        return standin_fail(error, FAIL_PLACES, selector, "");
    }
    if (!load_net(m)) {
        standin_give_place(m->place);
        m->place = 0;
        return standin_fail(error, FAIL_LOAD, selector, "");
    }
    if (!standin_switch("statistics")) m->mask = 0; /* gated: the mask is not kept */
    if (!standin_is("attributes", "nil") && !m->attributes) m->attributes = standin_make_attributes(m->loaded);
    return true;
}

bool standin_unload(model *m, object **error) {
    if (!m->loaded) return standin_fail(error, FAIL_NOT_LOADED, "", "");
    standin_program_free(m->loaded);
    m->loaded = NULL;
    standin_give_place(m->place);
    m->place = 0;
    return true;
}

/* ---- _ANEInMemoryModelDescriptor, _ANEInMemoryModel ------------------------------------------------------------------------------- */

typedef struct descriptor {
    object *text, *weights;
} descriptor;

static object *descriptor_make(object *self, const char *selector, object *text, object *weights, object *options) {
    if (!text || text->kind != KIND_DATA || !standin_check(weights, KIND_DICTIONARY, "weights:")) return NULL;
    if (options || standin_is("descriptor", "nil")) return NULL;
    descriptor *d = calloc(1, sizeof *d);
    if (!d) abort();
    *d = (descriptor){standin_retain(text), standin_retain(weights)};
    return standin_autorelease(standin_new("_ANEInMemoryModelDescriptor", KIND_OTHER, d, 0));
}

/* Returns the paths and hashes of the dictionary's data. */
static object *descriptor_hashes(object *self, const char *selector) {
    const descriptor *d = self->memory;
    const model m = {.weights = d->weights};
    object *keys[64], *values[64];
    long count = weight_count(&m) < 64 ? weight_count(&m) : 64;
    for (long i = 0; i < count; i++) {
        char hash[65];
        const object *data = weight_data(&m, i);
        hash_hex(data ? data->memory : "", data ? (size_t)data->count : 0, hash);
        keys[i] = standin_string(weight_path(&m, i));
        values[i] = standin_string(hash);
    }
    return standin_autorelease(standin_make_dictionary(keys, values, count));
}

object *standin_model_object(const char *class_name, model *m) {
    return standin_autorelease(standin_new(class_name, KIND_OTHER, m, 0));
}

static object *memory_make(object *self, const char *selector, object *from) {
    if (!standin_is_class(from, "_ANEInMemoryModelDescriptor") || standin_is("model", "nil")) return NULL;
    const descriptor *d = from->memory;
    model *m = calloc(1, sizeof *m);
    if (!m) abort();
    *m = (model){.references = 1, .text = standin_retain(d->text), .weights = standin_retain(d->weights)};
    name_model(m);
    snprintf(m->folder, sizeof m->folder, "%.900s/%s", standin_temporary(), m->name);
    return standin_model_object("_ANEInMemoryModel", m);
}

static object *memory_name(object *self, const char *selector) {
    return standin_autorelease(standin_string(standin_model_of(self)->name));
}
static object *memory_path(object *self, const char *selector) {
    char path[1300];
    const model *m = standin_model_of(self);
    snprintf(path, sizeof path, "%.1250s%s", m->folder, standin_is("path", "other") ? "-other" : "");
    return standin_is("path", "nil") ? NULL : standin_autorelease(standin_string(path));
}
static bool memory_exists(object *self, const char *selector) { return standin_cached(standin_model_of(self)); }
static void memory_purge(object *self, const char *selector) { standin_purge(standin_model_of(self)); }
static object *memory_inner(object *self, const char *selector) {
    model *m = standin_model_of(self);
    __atomic_add_fetch(&m->references, 1, __ATOMIC_SEQ_CST);
    return standin_model_object("_ANEModel", m);
}
static object *attributes_of(object *self, const char *selector) { return standin_model_of(self)->attributes; }

/* Epistates/pmetal/crates/pmetal-metal/src/ane/runtime.rs reports this for one Mac; others call it without trouble. */
static object *memory_attributes(object *self, const char *selector) {
    if (standin_is("wrapper", "attributes"))
        standin_raise("NSInvalidArgumentException",
                      "-[_ANEInMemoryModel externConstants]: unrecognized selector sent to instance %p", (void *)self);
    return attributes_of(self, selector);
}

static void memory_set_url(object *self, const char *selector, object *url) {
    model *m = standin_model_of(self);
    if (!standin_check(url, KIND_URL, "setModelURL:")) return;
    m->elsewhere = true;
    snprintf(m->folder, sizeof m->folder, "%s", (const char *)url->memory);
}

/* Only nil is known to work: text and weights are not needed after the program is loaded. */
static void memory_set_descriptor(object *self, const char *selector, object *to) {
    model *m = standin_model_of(self);
    if (to) standin_violation("setDescriptor: another one");
    standin_release(m->text);
    standin_release(m->weights);
    m->text = m->weights = NULL;
}

static bool memory_compile(object *self, const char *selector, uint32_t qos, object *options, object **error) {
    return standin_check(options, KIND_DICTIONARY, "options:") && qos <= 63 &&
           standin_compile(standin_model_of(self), selector, error);
}
static bool memory_load(object *self, const char *selector, uint32_t qos, object *options, object **error) {
    return standin_check(options, KIND_DICTIONARY, "options:") && standin_load(standin_model_of(self), selector, error);
}
static bool memory_evaluate(object *self, const char *selector, uint32_t qos, object *options, object *r,
                            object **error) {
    standin_wait_for("standard_ns");
    return standin_check(options, KIND_DICTIONARY, "options:") &&
           standin_evaluate(standin_model_of(self), r, selector, error);
}
static bool memory_unload(object *self, const char *selector, uint32_t qos, object **error) {
    return standin_unload(standin_model_of(self), error);
}
static uint32_t mask(object *self, const char *selector) { return standin_model_of(self)->mask; }
static void set_mask(object *self, const char *selector, uint32_t value) { standin_model_of(self)->mask = value; }

/* ---- _ANEModel ----------------------------------------------------------------------------------------------------------------------- */

static object *model_make(object *self, const char *selector, object *url, object *key) {
    if (!standin_check(url, KIND_URL, "modelAtURL:") || !standin_check(key, KIND_STRING, "key:")) return NULL;
    if (standin_is("model", "nil")) return NULL;
    model *m = calloc(1, sizeof *m);
    if (!m) abort();
    m->references = 1;
    m->is_client = true;
    snprintf(m->folder, sizeof m->folder, "%s", (const char *)url->memory);
    snprintf(m->name, sizeof m->name, "folder %.180s", (const char *)url->memory);
    return standin_model_object("_ANEModel", m);
}

/* Returns an NSIndexSet, which must be made into an array before a request accepts it. */
static object *symbol_indices(const model *m, bool outputs, unsigned long procedure) {
    const port *ports = NULL;
    int count = m->loaded ? standin_program_ports(m->loaded, outputs, &ports) : 0, own = 0;
    unsigned long *list = calloc((size_t)count + 1, sizeof *list);
    if (!list) abort();
    for (int i = 0; i < count; i++)
        if (ports[i].procedure == (int)procedure) list[own++] = (unsigned long)i;
    return standin_autorelease(standin_new("NSIndexSet", KIND_INDEX_SET, list, own));
}
static object *input_indices(object *self, const char *selector, unsigned long procedure) {
    return symbol_indices(standin_model_of(self), false, procedure);
}
static object *output_indices(object *self, const char *selector, unsigned long procedure) {
    return symbol_indices(standin_model_of(self), true, procedure);
}

bool standin_destroy_model(object *o) {
    if (strcmp(o->isa->name, "_ANEInMemoryModelDescriptor") == 0) {
        descriptor *d = o->memory;
        standin_release(d->text);
        standin_release(d->weights);
        free(d);
        return true;
    }
    if (strcmp(o->isa->name, "_ANEInMemoryModel") != 0 && strcmp(o->isa->name, "_ANEModel") != 0) return false;
    model_release(o->memory);
    return true;
}

#define CODE(function) ((void (*)(void))(function))

const method standin_model_methods[] = {
    {"_ANEInMemoryModelDescriptor", '+', "modelWithMILText:weights:optionsPlist:", "@40@0:8@16@24@32",
     CODE(descriptor_make)},
    {"_ANEInMemoryModelDescriptor", '-', "perFileHashes", "@16@0:8", CODE(descriptor_hashes)},
    {"_ANEInMemoryModel", '+', "inMemoryModelWithDescriptor:", "@24@0:8@16", CODE(memory_make)},
    {"_ANEInMemoryModel", '-', "hexStringIdentifier", "@16@0:8", CODE(memory_name)},
    {"_ANEInMemoryModel", '-', "localModelPath", "@16@0:8", CODE(memory_path)},
    {"_ANEInMemoryModel", '-', "compiledModelExists", "B16@0:8", CODE(memory_exists)},
    {"_ANEInMemoryModel", '-', "purgeCompiledModel", "v16@0:8", CODE(memory_purge)},
    {"_ANEInMemoryModel", '-', "model", "@16@0:8", CODE(memory_inner)},
    {"_ANEInMemoryModel", '-', "modelAttributes", "@16@0:8", CODE(memory_attributes)},
    {"_ANEInMemoryModel", '-', "setModelURL:", "v24@0:8@16", CODE(memory_set_url)},
    {"_ANEInMemoryModel", '-', "setDescriptor:", "v24@0:8@16", CODE(memory_set_descriptor)},
    {"_ANEInMemoryModel", '-', "compileWithQoS:options:error:", "B36@0:8I16@20^@28", CODE(memory_compile)},
    {"_ANEInMemoryModel", '-', "loadWithQoS:options:error:", "B36@0:8I16@20^@28", CODE(memory_load)},
    {"_ANEInMemoryModel", '-', "evaluateWithQoS:options:request:error:", "B44@0:8I16@20@28^@36", CODE(memory_evaluate)},
    {"_ANEInMemoryModel", '-', "unloadWithQoS:error:", "B28@0:8I16^@20", CODE(memory_unload)},
    {"_ANEInMemoryModel", '-', "perfStatsMask", "I16@0:8", CODE(mask)},
    {"_ANEInMemoryModel", '-', "setPerfStatsMask:", "v20@0:8I16", CODE(set_mask)},
    {"_ANEModel", '+', "modelAtURL:key:", "@32@0:8@16@24", CODE(model_make)},
    {"_ANEModel", '-', "modelAttributes", "@16@0:8", CODE(attributes_of)},
    {"_ANEModel", '-', "inputSymbolIndicesForProcedureIndex:", "@24@0:8Q16", CODE(input_indices)},
    {"_ANEModel", '-', "outputSymbolIndicesForProcedureIndex:", "@24@0:8Q16", CODE(output_indices)},
    {"_ANEModel", '-', "perfStatsMask", "I16@0:8", CODE(mask)},
    {"_ANEModel", '-', "setPerfStatsMask:", "v20@0:8I16", CODE(set_mask)},
    {NULL, 0, NULL, NULL, NULL},
};
