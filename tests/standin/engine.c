/* SPDX-License-Identifier: MIT
 * Owns the classes of AppleNeuralEngine that the driver uses: descriptor, models, client, request, surface object, device.
 * Compiled programs live in a cache by their three hashes; a loaded program is made of net.plist and data in the model's
 * folder, never of the weight files (so weights that are written over change nothing).
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "standin/standin.h"

static const char compiler_domain[] = "com.apple.appleneuralengine.compiler",
                  engine_domain[] = "com.apple.appleneuralengine";

static pthread_mutex_t engine_mutex = PTHREAD_MUTEX_INITIALIZER; /* one evaluation at a time, and the cache */

/* ---- the system's cache of compiled programs ------------------------------------------------------------------------------ */

typedef struct cached {
    char name[200];
    char *net, *data;
    size_t net_length, data_length;
    struct cached *next;
} cached;

static cached *cache;

/* `part`: how many characters of the name must agree. */
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

/* ---- models: what a memory model and its inner model share ------------------------------------------------------------------ */

typedef struct model {
    int references;
    bool is_client;
    object *text, *weights; /* memory: NSData, NSDictionary */
    object *inner;          /* memory: the _ANEModel, made at its first use */
    char folder[1200], name[200];
    program *loaded;
    object *attributes;
    int loads;     /* tries */
    uint32_t mask; /* of statistics */
} model;

static model *model_of(const object *o) {
    if (standin_is_class(o, "_ANEInMemoryModel") || standin_is_class(o, "_ANEModel")) return o->memory;
    standin_violation("a model is wanted");
    return NULL;
}

static void model_release(model *m) {
    if (__atomic_sub_fetch(&m->references, 1, __ATOMIC_SEQ_CST) > 0) return;
    if (m->loaded) standin_violation("a model is released while its program is loaded");
    standin_program_free(m->loaded);
    standin_release(m->text);
    standin_release(m->weights);
    standin_release(m->attributes);
    free(m);
}

static bool fail(object **error, const char *domain, long code, const char *text) {
    if (error) *error = standin_error(domain, code, text);
    return false;
}

static void hash_hex(const void *bytes, size_t length, char out[65]) {
    sha256 h;
    uint8_t digest[32];
    sha256_init(&h);
    sha256_update(&h, bytes, length);
    sha256_final(&h, digest);
    sha256_hex(digest, out);
}

/* Three hashes: text, options, weights. */
static void name_model(model *m) {
    char text_hash[65], option_hash[65], weight_hash[65];
    sha256 h;
    uint8_t digest[32];
    hash_hex(m->text->memory, (size_t)m->text->count, text_hash);
    hash_hex("", 0, option_hash);
    sha256_init(&h);
    object **list = m->weights->memory;
    for (long i = 0; i < m->weights->count; i++) {
        const object *data = standin_entry(list[m->weights->count + i], "data");
        sha256_update(&h, list[i]->memory, (size_t)list[i]->count);
        if (data) sha256_update(&h, data->memory, (size_t)data->count);
    }
    sha256_final(&h, digest);
    sha256_hex(digest, weight_hash);
    snprintf(m->name, sizeof m->name, "%s_%s_%s", text_hash, option_hash, weight_hash);
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

/* The caller must have written the text and the weights where the compiler reads them. */
static bool check_files(const model *m, char why[600]) {
    static const char prefix[] = "@model_path/";
    object **list = m->weights ? m->weights->memory : NULL;
    if (m->is_client) return true;
    if (!same_file(m->folder, "model.mil", m->text)) {
        snprintf(why, 600, "_ANECompiler : ANECCompile() FAILED err=(InvalidMILProgram): model.mil is not in %.300s",
                 m->folder);
        return false;
    }
    for (long i = 0; i < m->weights->count; i++) {
        const char *key = standin_text(list[i]);
        const object *data = standin_entry(list[m->weights->count + i], "data"),
                     *offset = standin_entry(list[m->weights->count + i], "offset");
        if (strncmp(key, prefix, sizeof prefix - 1) == 0 && standin_check(data, KIND_DATA, "a weight's data") &&
            standin_check(offset, KIND_NUMBER, "a weight's offset") && offset->count == 0 &&
            same_file(m->folder, key + sizeof prefix - 1, data))
            continue;
        snprintf(why, 600, "_ANECompiler : ANECCompile() FAILED err=(): weights %.100s", key);
        return false;
    }
    return true;
}

static bool switched_off(long count, object **error) {
    const char *how = standin_switch("compile");
    if (!how || (standin_switch("compile_at") && standin_number("compile_at", 0) != count)) return false;
    if (strcmp(how, "crash") == 0) raise(SIGSEGV);
    if (strcmp(how, "silent") != 0)
        fail(error, compiler_domain, 1,
             strcmp(how, "invalid") == 0 ? "_ANECompiler : ANECCompile() FAILED err=(InvalidMILProgram)"
                                         : "_ANECompiler : ANECCompile() FAILED err=(CompilationFailure)");
    return true;
}

static bool read_text(const model *m, char **content, size_t *length) {
    char path[1300];
    snprintf(path, sizeof path, "%s/model.mil", m->folder);
    return file_read(path, (size_t)1 << 30, content, length, NULL) == PROPANE_OK;
}

static bool write_net(const model *m, const cached *c) {
    char path[1300];
    snprintf(path, sizeof path, "%s/net.plist", m->folder);
    if (file_make_dir(m->folder, NULL) || file_write_scratch(path, c->net, c->net_length, NULL)) return false;
    snprintf(path, sizeof path, "%s/data", m->folder);
    return file_write_scratch(path, c->data, c->data_length, NULL) == PROPANE_OK;
}

static bool compile(model *m, object **error) {
    char why[600] = "", *content = NULL;
    size_t length = 0;
    standin_count("compiles", 1);
    long count = standin_get("compiles"), limit = standin_number("limit", 119);
    if (limit && count > limit) {
        standin_violation("compile %ld of a process that may make %ld", count, limit);
        return false; /* without a reason */
    }
    if (switched_off(count, error)) return false;
    if (!check_files(m, why) || !read_text(m, &content, &length))
        return fail(error, compiler_domain, 1, *why ? why : "_ANECompiler : ANECCompile() FAILED err=()");
    program *p = standin_program_check(content, length, m->folder, why);
    mem_free(content);
    if (!p) return fail(error, compiler_domain, 1, why);
    cached *c = calloc(1, sizeof *c);
    if (!c || !standin_program_pack(p, &c->net, &c->net_length, &c->data, &c->data_length)) abort();
    snprintf(c->name, sizeof c->name, "%s", m->name);
    standin_program_free(p);
    pthread_mutex_lock(&engine_mutex);
    cache_remove(c->name);
    c->next = cache;
    cache = c;
    bool written = write_net(m, c);
    pthread_mutex_unlock(&engine_mutex);
    return written || fail(error, compiler_domain, 1, "the compiled program cannot be written");
}

/* ---- attributes --------------------------------------------------------------------------------------------------------------- */

static object *make_entry(const port *p, bool output) {
    static const char *const names[] = {"Batches",     "Channels",    "Depth",       "Height",   "Width",
                                        "BatchStride", "PlaneStride", "DepthStride", "RowStride"};
    object *keys[11], *values[11];
    char symbol[220];
    snprintf(symbol, sizeof symbol, "%s%s", p->name, output ? "@output" : "");
    bool strange = standin_is("attributes", "shapes");
    for (int k = 0; k < 9; k++) {
        keys[k] = standin_string(names[k]);
        values[k] = standin_integer((long)(k < 5 ? p->size[k] + (strange && k == 4) : p->stride[k - 5]));
        if (standin_is("attributes", "rows") && k == 8) values[k]->count = p->size[4] * p->element / 2;
    }
    keys[9] = standin_string("Name"), values[9] = standin_string(p->name);
    keys[10] = standin_string("Symbol"), values[10] = standin_string(symbol);
    return standin_make_dictionary(keys, values, 11);
}

/* Names to numbers. */
static object *make_map(const program *p) {
    object *keys[128], *values[128];
    int count = standin_program_procedures(p);
    for (int k = 0; k < count; k++) {
        keys[k] = standin_string(standin_program_name(p, k));
        values[k] = standin_integer(k);
    }
    return standin_make_dictionary(keys, values, count);
}

/* LiveInputList and LiveOutputList of one procedure. */
static object *make_network(const program *p, int procedure) {
    static const char *const live[] = {"LiveInputList", "LiveOutputList"};
    object *lists[2], *keys[2], *list[256];
    for (int side = 0; side < 2; side++) {
        const port *ports;
        int count = standin_program_ports(p, side, &ports), own = 0;
        for (int k = 0; k < count; k++)
            if (ports[k].procedure == procedure) list[own++] = make_entry(&ports[k], side);
        lists[side] = standin_make_array(list, own);
        keys[side] = standin_string(live[side]);
    }
    return standin_make_dictionary(keys, lists, 2);
}

static object *make_symbols(const program *p, int side) {
    const port *ports;
    int count = standin_program_ports(p, side, &ports);
    object **list = calloc((size_t)count + 1, sizeof *list);
    if (!list) abort();
    for (int k = 0; k < count; k++) {
        char symbol[240];
        snprintf(symbol, sizeof symbol, "%s%s%s", ports[k].name, standin_is("attributes", "strange") ? "_x" : "",
                 side ? "@output" : "");
        list[k] = standin_string(symbol);
    }
    object *made = standin_make_array(list, count);
    free(list);
    return made;
}

static object *make_attributes(const program *p) {
    static const char *const order[] = {"kANEFModelInputSymbolsArrayKey", "kANEFModelOutputSymbolsArrayKey",
                                        "kANEFModelProcedureNameToIDMapKey"};
    object *keys[3], *values[3], *networks[128];
    int count = standin_program_procedures(p);
    for (int k = 0; k < count; k++) networks[k] = make_network(p, k);
    for (int k = 0; k < 3; k++) {
        keys[k] = standin_string(order[k]);
        values[k] = k < 2 ? make_symbols(p, k) : make_map(p);
    }
    object *both[2] = {standin_make_array(networks, count), standin_make_dictionary(keys, values, 3)};
    keys[0] = standin_string("NetworkStatusList"), keys[1] = standin_string("ANEFModelDescription");
    return standin_make_dictionary(keys, both, 2);
}

/* ---- load and unload ------------------------------------------------------------------------------------------------------------ */

static bool read_net(const model *m, char **content, size_t *length) {
    char path[1300];
    snprintf(path, sizeof path, "%s/net.plist", m->folder);
    pthread_mutex_lock(&engine_mutex);
    const cached *own = cache_find(m->name, strlen(m->name)),
                 *like = standin_is("reload", "baked") ? cache_find(m->name, 64) : NULL;
    bool there = true;
    if (like || (own && !file_exists(path))) there = write_net(m, own ? own : like);
    pthread_mutex_unlock(&engine_mutex);
    return there && file_read(path, (size_t)1 << 30, content, length, NULL) == PROPANE_OK;
}

static bool load(model *m, object **error) {
    char why[600] = "Program load failure (0x20001)", *content = NULL;
    size_t length = 0;
    m->loads++;
    if (standin_is("load", "always") || (standin_is("load", "once") && m->loads == 1))
        return fail(error, engine_domain, 6, why);
    if (standin_is("load", "large")) return fail(error, engine_domain, 6, "Program load failure (0x20004)");
    if (m->loaded) {
        standin_violation("a model is loaded twice");
        return false;
    }
    if (!read_net(m, &content, &length)) return fail(error, engine_domain, 6, why);
    m->loaded = standin_program_check(content, length, m->folder, why);
    mem_free(content);
    if (m->loaded && !standin_program_load(m->loaded, why)) {
        standin_program_free(m->loaded);
        m->loaded = NULL;
    }
    if (!m->loaded) return fail(error, engine_domain, 6, why);
    if (!standin_switch("statistics")) m->mask = 0; /* gated: what was set does not stay */
    if (!standin_is("attributes", "nil") && !m->attributes) m->attributes = make_attributes(m->loaded);
    return true;
}

static bool unload(model *m, object **error) {
    if (!m->loaded) return fail(error, engine_domain, 7, "the program is not loaded");
    standin_program_free(m->loaded);
    m->loaded = NULL;
    return true;
}

/* ---- requests --------------------------------------------------------------------------------------------------------------------- */

typedef struct request {
    object *lists[4]; /* inputs, their indices, outputs, their indices */
    long procedure;
    object *statistics; /* of the last run; NULL: none */
    object *events;     /* NULL: none */
    object *handler;    /* a block */
} request;

static object *request_events(object *self, const char *selector, object *inputs, object *input_indices,
                              object *outputs, object *output_indices, object *weights, object *stats,
                              object *procedure, object *events) {
    object *lists[4] = {inputs, input_indices, outputs, output_indices};
    if (standin_is("request", "nil")) return NULL;
    for (int k = 0; k < 4; k++) {
        if (!standin_check(lists[k], KIND_ARRAY, "requestWithInputs:...")) return NULL;
        for (long i = 0; i < lists[k]->count; i++) {
            const object *o = ((object **)lists[k]->memory)[i];
            if (k % 2 ? !standin_check(o, KIND_NUMBER, "an index") : !standin_is_class(o, "_ANEIOSurfaceObject")) {
                standin_violation("requestWithInputs:...: entry %ld of list %d is not of the right class", i, k);
                return NULL;
            }
        }
    }
    if (weights || stats || !standin_check(procedure, KIND_NUMBER, "procedureIndex:")) return NULL;
    request *r = calloc(1, sizeof *r);
    if (!r) abort();
    for (int k = 0; k < 4; k++) r->lists[k] = standin_retain(lists[k]);
    r->procedure = procedure->count;
    r->events = standin_retain(events);
    standin_count("requests", 1);
    return standin_autorelease(standin_new("_ANERequest", KIND_OTHER, r, 0));
}

static object *request_make(object *self, const char *selector, object *inputs, object *input_indices, object *outputs,
                            object *output_indices, object *weights, object *stats, object *procedure) {
    return request_events(self, selector, inputs, input_indices, outputs, output_indices, weights, stats, procedure,
                          NULL);
}

static void request_handler(object *self, const char *selector, object *handler) {
    request *r = self->memory;
    r->handler = handler;
}

static object *wrap_surface(object *self, const char *selector, object *surface_object) {
    if (standin_is("wrap", "nil") || !standin_check(surface_object, KIND_SURFACE, "objectWithIOSurface:")) return NULL;
    return standin_autorelease(standin_new("_ANEIOSurfaceObject", KIND_OTHER, standin_retain(surface_object), 0));
}

/* ---- shared events and chains ------------------------------------------------------------------------------------------ */

/* The value in `count`. */
static object *event_alloc(object *self, const char *selector) {
    return standin_new("IOSurfaceSharedEvent", KIND_OTHER, NULL, 0);
}
static object *event_init(object *self, const char *selector) { return self; }
static uint64_t event_value(object *self, const char *selector) { return (uint64_t)self->count; }

/* The event to signal in `memory`, its value in `count`. */
static object *signal_make(object *self, const char *selector, uint64_t value, uint32_t symbol, int64_t type,
                           object *event) {
    if (!standin_is_class(event, "IOSurfaceSharedEvent")) return NULL;
    return standin_autorelease(standin_new("_ANESharedSignalEvent", KIND_OTHER, standin_retain(event), (long)value));
}
static object *events_make(object *self, const char *selector, object *signals, object *waits) {
    if (!standin_check(signals, KIND_ARRAY, "signalEvents:") || !standin_check(waits, KIND_ARRAY, "waitEvents:"))
        return NULL;
    return standin_autorelease(standin_new("_ANESharedEvents", KIND_OTHER, standin_retain(signals), 0));
}

static void signal_events(const request *r) {
    if (!r->events || standin_is("events", "ignored")) return;
    const object *signals = r->events->memory;
    for (long i = 0; i < signals->count; i++) {
        const object *signal_object = ((object **)signals->memory)[i];
        ((object *)signal_object->memory)->count = signal_object->count;
    }
    if (!r->handler) {
        standin_violation("a request with shared events has no completion handler");
        return;
    }
    void (*invoke)(object *, bool, object *);
    memcpy(&invoke, (const char *)r->handler + 16, sizeof invoke); /* behind isa, flags and a reserved word */
    invoke(r->handler, true, NULL);
}

static object *buffer_make(object *self, const char *selector, object *surface_object, object *symbol, int64_t source) {
    if (!standin_is_class(surface_object, "_ANEIOSurfaceObject") || !standin_check(symbol, KIND_NUMBER, "symbolIndex:"))
        return NULL;
    return standin_autorelease(standin_new("_ANEBuffer", KIND_OTHER, standin_retain(surface_object), (long)source));
}
static object *sets_make(object *self, const char *selector, object *stats, object *buffers) {
    if (!standin_check(stats, KIND_SURFACE, "statsSurRef") || !standin_check(buffers, KIND_ARRAY, "outputBuffer:"))
        return NULL;
    return standin_autorelease(standin_new("_ANEIOSurfaceOutputSets", KIND_OTHER, standin_retain(buffers), 0));
}
static object *chain_make(object *self, const char *selector, object *inputs, object *sets, object *in, object *out,
                          object *procedure, object *signals, object *handle, object *delay, object *pool) {
    if (!standin_check(sets, KIND_ARRAY, "outputSets:") || !standin_check(pool, KIND_NUMBER, "memoryPoolId:"))
        return NULL;
    return standin_autorelease(standin_new("_ANEChainingRequest", KIND_OTHER, standin_retain(inputs), 0));
}
/* Nobody is known to have got further. */
static bool client_chain(object *self, const char *selector, object *o, object *options, object *chain, uint32_t qos,
                         object **error) {
    return fail(error, engine_domain, 15, "ANEProgramChainingPrepare() Failed");
}

/* ---- evaluation -------------------------------------------------------------------------------------------------------------------- */

static bool fail_status(object **error, const char *status) {
    char text[200];
    snprintf(text, sizeof text,
             "ANEProgramProcessRequestDirect() Failed with status=%s : statusType=0x9: Program Inference error",
             status);
    return fail(error, engine_domain, 8, text);
}

/* The surfaces of one side by symbol; NULL: well. Otherwise the status: 0x2 for a symbol that is not the procedure's. */
static const char *gather(const request *r, const model *m, bool outputs, unsigned char **out) {
    const port *ports;
    int count = standin_program_ports(m->loaded, outputs, &ports), own = 0;
    const object *list = r->lists[2 * outputs], *indices = r->lists[2 * outputs + 1];
    size_t first = 0;
    for (int k = 0; k < count; k++) own += ports[k].procedure == r->procedure;
    if (list->count != own || indices->count != own) return "0x1d";
    memset(out, 0, (size_t)count * sizeof *out);
    for (int i = 0; i < own; i++) {
        long index = ((object **)indices->memory)[i]->count;
        const object *surface_object = ((object **)list->memory)[i]->memory;
        if (index < 0 || index >= count || ports[index].procedure != r->procedure) return "0x2";
        if (out[index]) return "0x1d";
        const surface *s = surface_object->memory;
        if (!first) first = s->size;
        if (s->size != first && !standin_is("sizes", "any")) return "0x1d";
        if ((int64_t)s->size < ports[index].bytes) return "0x1d";
        if (s->writers || (outputs && s->readers))
            standin_violation("the engine works on a surface that the host has locked (%s '%s')",
                              outputs ? "output" : "input", ports[index].name);
        out[index] = s->memory;
    }
    return NULL;
}

/* How the first procedure's symbols would lie: for an engine that runs it whichever is asked for. */
static void shift(const model *m, bool outputs, long from, unsigned char **out) {
    const port *ports;
    int count = standin_program_ports(m->loaded, outputs, &ports);
    for (int k = 0; k < count; k++)
        for (int i = 0; i < count; i++)
            if (ports[k].procedure == 0 && ports[i].procedure == from && ports[i].place == ports[k].place)
                out[k] = out[i];
    for (int k = 0; k < count; k++)
        if (ports[k].procedure == 0 && !out[k]) out[k] = out[0];
}

static uint64_t host_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool run_procedure(model *m, request *r, unsigned char **inputs, unsigned char **outputs, object **error) {
    char why[600];
    long index = r->procedure;
    if (index > 0 && standin_is("procedures", "fail")) return fail_status(error, "0x2");
    if (index == 1 && standin_is("procedures", "first")) { /* it has the shape of the first one in the driver's proof */
        shift(m, false, index, inputs);
        shift(m, true, index, outputs);
        index = 0;
    }
    uint64_t begin = host_ns();
    if (!standin_program_run(m->loaded, (int)index, inputs, outputs, why)) return fail(error, engine_domain, 8, why);
    standin_release(r->statistics);
    r->statistics = NULL;
    if (m->mask && standin_is("statistics", "gives"))
        r->statistics = standin_new("_ANEPerformanceStats", KIND_OTHER, NULL, (long)(host_ns() - begin));
    return true;
}

static bool evaluate_locked(model *m, request *r, object **error) {
    unsigned char *inputs[STANDIN_MAX_SYMBOLS], *outputs[STANDIN_MAX_SYMBOLS];
    long count = standin_get("evaluations");
    const char *how = standin_switch("evaluate");
    if (how && (!standin_switch("evaluate_at") || standin_number("evaluate_at", 0) == count))
        return strcmp(how, "silent") == 0 ? false : fail_status(error, how);
    if (!m->loaded) return fail(error, engine_domain, 7, "the program is not loaded");
    if (r->procedure < 0 || r->procedure >= standin_program_procedures(m->loaded)) return fail_status(error, "0x2");
    const char *status = gather(r, m, false, inputs);
    if (!status) status = gather(r, m, true, outputs);
    return status ? fail_status(error, status) : run_procedure(m, r, inputs, outputs, error);
}

static void wait_for(const char *key) {
    struct timespec span = {.tv_nsec = standin_number(key, 0)};
    if (span.tv_nsec) nanosleep(&span, NULL);
}

static bool evaluate(model *m, object *request_object, object **error) {
    if (!m || !standin_is_class(request_object, "_ANERequest")) {
        standin_violation("evaluate: a request is wanted");
        return false;
    }
    pthread_mutex_lock(&engine_mutex);
    standin_count("evaluations", 1);
    bool done = evaluate_locked(m, request_object->memory, error);
    if (done) signal_events(request_object->memory);
    pthread_mutex_unlock(&engine_mutex);
    wait_for("slow_ns");
    return done;
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

static object *memory_make(object *self, const char *selector, object *from) {
    if (!standin_is_class(from, "_ANEInMemoryModelDescriptor") || standin_is("model", "nil")) return NULL;
    const descriptor *d = from->memory;
    model *m = calloc(1, sizeof *m);
    const char *temporary = getenv("TMPDIR");
    if (!m) abort();
    *m = (model){.references = 1, .text = standin_retain(d->text), .weights = standin_retain(d->weights)};
    name_model(m);
    snprintf(m->folder, sizeof m->folder, "%.900s/%s", temporary && *temporary ? temporary : "/tmp", m->name);
    return standin_autorelease(standin_new("_ANEInMemoryModel", KIND_OTHER, m, 0));
}

static object *memory_name(object *self, const char *selector) {
    return standin_autorelease(standin_string(model_of(self)->name));
}
static object *memory_path(object *self, const char *selector) {
    return standin_is("path", "nil") ? NULL : standin_autorelease(standin_string(model_of(self)->folder));
}
static bool memory_exists(object *self, const char *selector) {
    pthread_mutex_lock(&engine_mutex);
    const char *name = model_of(self)->name;
    bool there = cache_find(name, strlen(name)) != NULL;
    pthread_mutex_unlock(&engine_mutex);
    return there;
}
static void memory_purge(object *self, const char *selector) {
    pthread_mutex_lock(&engine_mutex);
    cache_remove(model_of(self)->name);
    pthread_mutex_unlock(&engine_mutex);
}
static object *memory_inner(object *self, const char *selector) {
    model *m = model_of(self);
    __atomic_add_fetch(&m->references, 1, __ATOMIC_SEQ_CST);
    return standin_autorelease(standin_new("_ANEModel", KIND_OTHER, m, 0));
}
static object *attributes_of(object *self, const char *selector) { return model_of(self)->attributes; }

static bool memory_compile(object *self, const char *selector, uint32_t qos, object *options, object **error) {
    return standin_check(options, KIND_DICTIONARY, "options:") && qos <= 63 && compile(model_of(self), error);
}
static bool memory_load(object *self, const char *selector, uint32_t qos, object *options, object **error) {
    return standin_check(options, KIND_DICTIONARY, "options:") && load(model_of(self), error);
}
static bool memory_evaluate(object *self, const char *selector, uint32_t qos, object *options, object *r,
                            object **error) {
    wait_for("standard_ns");
    return standin_check(options, KIND_DICTIONARY, "options:") && evaluate(model_of(self), r, error);
}
static bool memory_unload(object *self, const char *selector, uint32_t qos, object **error) {
    return unload(model_of(self), error);
}

/* ---- _ANEModel, _ANEClient ---------------------------------------------------------------------------------------------------------- */

static object *model_make(object *self, const char *selector, object *url, object *key) {
    if (!standin_check(url, KIND_URL, "modelAtURL:") || !standin_check(key, KIND_STRING, "key:")) return NULL;
    if (standin_is("model", "nil")) return NULL;
    model *m = calloc(1, sizeof *m);
    if (!m) abort();
    m->references = 1;
    m->is_client = true;
    snprintf(m->folder, sizeof m->folder, "%s", (const char *)url->memory);
    snprintf(m->name, sizeof m->name, "folder %.180s", (const char *)url->memory);
    return standin_autorelease(standin_new("_ANEModel", KIND_OTHER, m, 0));
}

static object *client_shared(object *self, const char *selector) {
    static object *shared;
    if (standin_is("client", "nil")) return NULL;
    if (!shared) {
        shared = standin_new("_ANEClient", KIND_OTHER, NULL, 0);
        standin_count("objects", -1); /* it lives as long as the process */
    }
    return shared;
}

static bool client_compile(object *self, const char *selector, object *o, object *options, uint32_t qos,
                           object **error) {
    const object *type = standin_entry(options, "kANEFModelType"),
                 *file = standin_entry(options, "kANEFNetPlistFilenameKey");
    if (!type || strcmp(standin_text(type), "kANEFModelMIL") != 0 || !file ||
        strcmp(standin_text(file), "model.mil") != 0)
        return fail(error, compiler_domain, 1, "_ANECompiler : ANECCompile() FAILED err=()");
    return compile(model_of(o), error);
}
static bool client_load(object *self, const char *selector, object *o, object *options, uint32_t qos, object **error) {
    return standin_check(options, KIND_DICTIONARY, "options:") && load(model_of(o), error);
}
static bool client_unload(object *self, const char *selector, object *o, object *options, uint32_t qos,
                          object **error) {
    return unload(model_of(o), error);
}
static bool client_evaluate(object *self, const char *selector, object *o, object *options, object *r, uint32_t qos,
                            object **error) {
    wait_for("standard_ns");
    return standin_check(options, KIND_DICTIONARY, "options:") && evaluate(model_of(o), r, error);
}
static bool client_direct(object *self, const char *selector, object *o, object *options, object *r, uint32_t qos,
                          object **error) {
    if (standin_is("direct", "fail")) return fail(error, engine_domain, 8, "direct evaluation is not allowed");
    wait_for("direct_ns");
    if (standin_is("direct", "wrong")) return true;
    return evaluate(model_of(o), r, error);
}
static int tasks;

static bool client_begin_task(object *self, const char *selector) {
    if (standin_is("realtime", "fail") || standin_is("realtime", "task")) return false;
    __atomic_add_fetch(&tasks, 1, __ATOMIC_SEQ_CST);
    standin_count("tasks", 1);
    return true;
}
static bool client_end_task(object *self, const char *selector) {
    if (__atomic_sub_fetch(&tasks, 1, __ATOMIC_SEQ_CST) < 0) standin_violation("endRealTimeTask without a beginning");
    standin_count("tasks", -1);
    return true;
}
static bool client_real_time(object *self, const char *selector, object *o, object *options, object *r,
                             object **error) {
    if (standin_is("realtime", "fail")) return fail(error, engine_domain, 8, "real-time evaluation is not allowed");
    wait_for("realtime_ns");
    if (standin_is("realtime", "wrong")) return true;
    if (!tasks) return fail(error, engine_domain, 8, "no real-time task is begun");
    return evaluate(model_of(o), r, error);
}
static void client_purge(object *self, const char *selector, object *o) {
    pthread_mutex_lock(&engine_mutex);
    cache_remove(model_of(o)->name);
    pthread_mutex_unlock(&engine_mutex);
}
static bool client_exists(object *self, const char *selector, object *o) { return memory_exists(o, selector); }

/* ---- statistics ---------------------------------------------------------------------------------------------------------- */

static uint32_t mask(object *self, const char *selector) { return model_of(self)->mask; }
static void set_mask(object *self, const char *selector, uint32_t value) { model_of(self)->mask = value; }
static object *request_statistics(object *self, const char *selector) { return ((request *)self->memory)->statistics; }
static uint64_t statistics_time(object *self, const char *selector) { return (uint64_t)self->count; }

/* ---- _ANEDeviceInfo ------------------------------------------------------------------------------------------------------------------ */

static bool has_engine(object *self, const char *selector) { return !standin_is("engine", "no"); }
static object *architecture(object *self, const char *selector) { return standin_autorelease(standin_string("h16g")); }
static uint32_t cores(object *self, const char *selector) { return 16; }
static object *build(object *self, const char *selector) { return standin_autorelease(standin_string("stand-in")); }

/* Classes whose objects keep one other object in `memory`. */
static bool holds_one(const char *name) {
    static const char *const names[] = {"_ANEIOSurfaceObject", "_ANESharedSignalEvent",   "_ANESharedEvents",
                                        "_ANEBuffer",          "_ANEIOSurfaceOutputSets", "_ANEChainingRequest"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

void standin_destroy_engine(object *o);
void standin_destroy_engine(object *o) {
    if (strcmp(o->isa->name, "_ANERequest") == 0) {
        request *r = o->memory;
        for (int k = 0; k < 4; k++) standin_release(r->lists[k]);
        standin_release(r->events);
        standin_release(r->statistics);
        free(r);
    } else if (holds_one(o->isa->name)) {
        standin_release(o->memory);
    } else if (strcmp(o->isa->name, "_ANEInMemoryModelDescriptor") == 0) {
        descriptor *d = o->memory;
        standin_release(d->text);
        standin_release(d->weights);
        free(d);
    } else if (strcmp(o->isa->name, "_ANEInMemoryModel") == 0 || strcmp(o->isa->name, "_ANEModel") == 0) {
        model_release(o->memory);
    }
}

#define CODE(function) ((void (*)(void))(function))

const method standin_engine_methods[] = {
    {"_ANEDeviceInfo", '+', "hasANE", "B16@0:8", CODE(has_engine)},
    {"_ANEDeviceInfo", '+', "aneArchitectureType", "@16@0:8", CODE(architecture)},
    {"_ANEDeviceInfo", '+', "numANECores", "I16@0:8", CODE(cores)},
    {"_ANEDeviceInfo", '+', "buildVersion", "@16@0:8", CODE(build)},
    {"_ANEIOSurfaceObject", '+', "objectWithIOSurface:", "@24@0:8^{__IOSurface=}16", CODE(wrap_surface)},
    {"_ANERequest", '+', "requestWithInputs:inputIndices:outputs:outputIndices:weightsBuffer:perfStats:procedureIndex:",
     "@72@0:8@16@24@32@40@48@56@64", CODE(request_make)},
    {"_ANEInMemoryModelDescriptor", '+', "modelWithMILText:weights:optionsPlist:", "@40@0:8@16@24@32",
     CODE(descriptor_make)},
    {"_ANEInMemoryModel", '+', "inMemoryModelWithDescriptor:", "@24@0:8@16", CODE(memory_make)},
    {"_ANEInMemoryModel", '-', "hexStringIdentifier", "@16@0:8", CODE(memory_name)},
    {"_ANEInMemoryModel", '-', "localModelPath", "@16@0:8", CODE(memory_path)},
    {"_ANEInMemoryModel", '-', "compiledModelExists", "B16@0:8", CODE(memory_exists)},
    {"_ANEInMemoryModel", '-', "purgeCompiledModel", "v16@0:8", CODE(memory_purge)},
    {"_ANEInMemoryModel", '-', "model", "@16@0:8", CODE(memory_inner)},
    {"_ANEInMemoryModel", '-', "modelAttributes", "@16@0:8", CODE(attributes_of)},
    {"_ANEInMemoryModel", '-', "compileWithQoS:options:error:", "B36@0:8I16@20^@28", CODE(memory_compile)},
    {"_ANEInMemoryModel", '-', "loadWithQoS:options:error:", "B36@0:8I16@20^@28", CODE(memory_load)},
    {"_ANEInMemoryModel", '-', "evaluateWithQoS:options:request:error:", "B44@0:8I16@20@28^@36", CODE(memory_evaluate)},
    {"_ANEInMemoryModel", '-', "unloadWithQoS:error:", "B28@0:8I16^@20", CODE(memory_unload)},
    {"_ANEInMemoryModel", '-', "perfStatsMask", "I16@0:8", CODE(mask)},
    {"_ANEInMemoryModel", '-', "setPerfStatsMask:", "v20@0:8I16", CODE(set_mask)},
    {"_ANEModel", '-', "perfStatsMask", "I16@0:8", CODE(mask)},
    {"_ANEModel", '-', "setPerfStatsMask:", "v20@0:8I16", CODE(set_mask)},
    {"_ANERequest", '-', "perfStats", "@16@0:8", CODE(request_statistics)},
    {"_ANEPerformanceStats", '-', "hwExecutionTime", "Q16@0:8", CODE(statistics_time)},
    {"_ANEModel", '+', "modelAtURL:key:", "@32@0:8@16@24", CODE(model_make)},
    {"_ANEModel", '-', "modelAttributes", "@16@0:8", CODE(attributes_of)},
    {"_ANEClient", '+', "sharedConnection", "@16@0:8", CODE(client_shared)},
    {"_ANEClient", '-', "compileModel:options:qos:error:", "B44@0:8@16@24I32^@36", CODE(client_compile)},
    {"_ANEClient", '-', "loadModel:options:qos:error:", "B44@0:8@16@24I32^@36", CODE(client_load)},
    {"_ANEClient", '-', "unloadModel:options:qos:error:", "B44@0:8@16@24I32^@36", CODE(client_unload)},
    {"_ANEClient", '-', "evaluateWithModel:options:request:qos:error:", "B52@0:8@16@24@32I40^@44",
     CODE(client_evaluate)},
    {"_ANEClient", '-', "doEvaluateDirectWithModel:options:request:qos:error:", "B52@0:8@16@24@32I40^@44",
     CODE(client_direct)},
    {"_ANEClient", '-', "evaluateRealTimeWithModel:options:request:error:", "B48@0:8@16@24@32^@40",
     CODE(client_real_time)},
    {"_ANEClient", '-', "beginRealTimeTask", "B16@0:8", CODE(client_begin_task)},
    {"_ANEClient", '-', "endRealTimeTask", "B16@0:8", CODE(client_end_task)},
    {"_ANEClient", '-', "compiledModelExistsFor:", "B24@0:8@16", CODE(client_exists)},
    {"_ANEClient", '-', "purgeCompiledModel:", "v24@0:8@16", CODE(client_purge)},
    {"_ANERequest", '+',
     "requestWithInputs:inputIndices:outputs:outputIndices:weightsBuffer:perfStats:procedureIndex:sharedEvents:",
     "@80@0:8@16@24@32@40@48@56@64@72", CODE(request_events)},
    {"_ANERequest", '-', "setCompletionHandler:", "v24@0:8@?16", CODE(request_handler)},
    {"IOSurfaceSharedEvent", '+', "alloc", "@16@0:8", CODE(event_alloc)},
    {"IOSurfaceSharedEvent", '-', "init", "@16@0:8", CODE(event_init)},
    {"IOSurfaceSharedEvent", '-', "signaledValue", "Q16@0:8", CODE(event_value)},
    {"_ANESharedSignalEvent", '+', "signalEventWithValue:symbolIndex:eventType:sharedEvent:", "@44@0:8Q16I24q28@36",
     CODE(signal_make)},
    {"_ANESharedEvents", '+', "sharedEventsWithSignalEvents:waitEvents:", "@32@0:8@16@24", CODE(events_make)},
    {"_ANEBuffer", '+', "bufferWithIOSurfaceObject:symbolIndex:source:", "@40@0:8@16@24q32", CODE(buffer_make)},
    {"_ANEIOSurfaceOutputSets", '+', "objectWithstatsSurRef:outputBuffer:", "@32@0:8^{__IOSurface=}16@24",
     CODE(sets_make)},
    {"_ANEChainingRequest", '+',
     "chainingRequestWithInputs:outputSets:lbInputSymbolId:lbOutputSymbolId:procedureIndex:signalEvents:"
     "transactionHandle:"
     "fwEnqueueDelay:memoryPoolId:",
     "@88@0:8@16@24@32@40@48@56@64@72@80", CODE(chain_make)},
    {"_ANEClient", '-', "prepareChainingWithModel:options:chainingReq:qos:error:", "B52@0:8@16@24@32I40^@44",
     CODE(client_chain)},
    {NULL, 0, NULL, NULL, NULL},
};
