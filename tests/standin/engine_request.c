/* SPDX-License-Identifier: MIT
 * Owns requests, the surfaces they name, shared events, and evaluation. A malformed request is detected where it is
 * used: at its evaluation.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "standin/engine.h"

static pthread_mutex_t engine_mutex = PTHREAD_MUTEX_INITIALIZER; /* allows one evaluation at a time */

/* ---- requests --------------------------------------------------------------------------------------------------------------------- */

typedef struct request {
    object *lists[4]; /* inputs, their indices, outputs, their indices */
    long procedure;
    object *given;      /* perfStats: from the caller; NULL if there is none */
    object *statistics; /* of the last run; NULL if there is none */
    object *events;     /* NULL if there are none */
    object *handler;    /* a block */
} request;

enum { LISTS = 4 };

/* Checks that every entry has the right class. A set of indices is detected at the evaluation. */
static bool check_list(const object *list, bool indices) {
    if (indices && list && list->kind == KIND_INDEX_SET) return true;
    if (!standin_check(list, KIND_ARRAY, "requestWithInputs:...")) return false;
    for (long i = 0; i < list->count; i++) {
        const object *o = ((object **)list->memory)[i];
        if (indices ? standin_check(o, KIND_NUMBER, "an index") : standin_is_class(o, "_ANEIOSurfaceObject")) continue;
        standin_violation("requestWithInputs:...: entry %ld of the %s is not of the right class", i,
                          indices ? "indices" : "surfaces");
        return false;
    }
    return true;
}

static request *request_fill(object *inputs, object *input_indices, object *outputs, object *output_indices,
                             object *weights, object *stats, object *procedure, object *events) {
    object *lists[LISTS] = {inputs, input_indices, outputs, output_indices};
    if (standin_is("request", "nil")) return NULL;
    for (int k = 0; k < LISTS; k++)
        if (!check_list(lists[k], k % 2)) return NULL;
    if (weights || !standin_check(procedure, KIND_NUMBER, "procedureIndex:")) return NULL;
    if (stats && !standin_check(stats, KIND_NONE, "perfStats:")) return NULL;
    request *r = calloc(1, sizeof *r);
    if (!r) abort();
    for (int k = 0; k < LISTS; k++) r->lists[k] = standin_retain(lists[k]);
    r->procedure = procedure->count;
    r->given = standin_retain(stats);
    r->events = standin_retain(events);
    standin_count("requests", 1);
    return r;
}

static object *request_nine(object *self, const char *selector, object *inputs, object *input_indices, object *outputs,
                            object *output_indices, object *weights, object *stats, object *procedure, object *events,
                            object *handle) {
    request *r = request_fill(inputs, input_indices, outputs, output_indices, weights, stats, procedure, events);
    return r ? standin_autorelease(standin_new("_ANERequest", KIND_OTHER, r, 0)) : NULL;
}

static object *request_events(object *self, const char *selector, object *inputs, object *input_indices,
                              object *outputs, object *output_indices, object *weights, object *stats,
                              object *procedure, object *events) {
    return request_nine(self, selector, inputs, input_indices, outputs, output_indices, weights, stats, procedure,
                        events, NULL);
}

static object *request_make(object *self, const char *selector, object *inputs, object *input_indices, object *outputs,
                            object *output_indices, object *weights, object *stats, object *procedure) {
    return request_nine(self, selector, inputs, input_indices, outputs, output_indices, weights, stats, procedure, NULL,
                        NULL);
}

static object *request_alloc(object *self, const char *selector) {
    return standin_new("_ANERequest", KIND_OTHER, NULL, 0);
}

static object *request_init(object *self, const char *selector, object *inputs, object *input_indices, object *outputs,
                            object *output_indices, object *weights, object *stats, object *procedure, object *events,
                            object *handle) {
    self->memory = request_fill(inputs, input_indices, outputs, output_indices, weights, stats, procedure, events);
    if (self->memory) return self;
    standin_release(self);
    return NULL;
}

static void request_handler(object *self, const char *selector, object *handler) {
    request *r = self->memory;
    _Block_release(r->handler);
    r->handler = _Block_copy(handler);
}
static object *request_statistics(object *self, const char *selector) {
    object *one = ((request *)self->memory)->statistics;
    if (!one || !standin_is("statistics", "array")) return one;
    one = standin_retain(one);
    return standin_autorelease(standin_make_array(&one, 1));
}
static uint64_t statistics_time(object *self, const char *selector) { return (uint64_t)self->count; }

/* Keeps the surface in `memory` and the offset of its data in `count`. */
static object *wrap_at(object *self, const char *selector, object *surface_object, uint64_t start) {
    if (standin_is("wrap", "nil") || !standin_check(surface_object, KIND_SURFACE, selector)) return NULL;
    if (start > ((const surface *)surface_object->memory)->size) return NULL;
    return standin_autorelease(
        standin_new("_ANEIOSurfaceObject", KIND_OTHER, standin_retain(surface_object), (long)start));
}
static object *wrap_surface(object *self, const char *selector, object *surface_object) {
    return wrap_at(self, selector, surface_object, 0);
}
static object *wrap_alloc(object *self, const char *selector) {
    return standin_new("_ANEIOSurfaceObject", KIND_OTHER, NULL, 0);
}
static object *wrap_init(object *self, const char *selector, object *surface_object, uint64_t start, bool retain) {
    if (!standin_check(surface_object, KIND_SURFACE, selector) || !retain) return NULL;
    self->memory = standin_retain(surface_object);
    self->count = (long)start;
    return self;
}

/* ---- shared events and chains ------------------------------------------------------------------------------------------ */

/* The value is in `count`. */
static object *event_alloc(object *self, const char *selector) {
    return standin_new("IOSurfaceSharedEvent", KIND_OTHER, NULL, 0);
}
static object *event_init(object *self, const char *selector) { return self; }
static uint64_t event_value(object *self, const char *selector) {
    return (uint64_t)__atomic_load_n(&self->count, __ATOMIC_SEQ_CST);
}
static void event_set_value(object *self, const char *selector, uint64_t value) {
    __atomic_store_n(&self->count, (long)value, __ATOMIC_SEQ_CST);
}

/* The event is in `memory`, its value in `count`. */
static object *signal_make(object *self, const char *selector, uint64_t value, uint32_t symbol, int64_t type,
                           object *event) {
    if (!standin_is_class(event, "IOSurfaceSharedEvent") && !standin_is_class(event, standin_metal_event)) return NULL;
    return standin_autorelease(standin_new("_ANESharedSignalEvent", KIND_OTHER, standin_retain(event), (long)value));
}
static object *wait_make(object *self, const char *selector, uint64_t value, object *event, int64_t type) {
    if (!standin_is_class(event, "IOSurfaceSharedEvent") && !standin_is_class(event, standin_metal_event)) return NULL;
    return standin_autorelease(standin_new("_ANESharedWaitEvent", KIND_OTHER, standin_retain(event), (long)value));
}
/* Returns an array of the two arrays. */
static object *events_make(object *self, const char *selector, object *signals, object *waits) {
    if (!standin_check(signals, KIND_ARRAY, "signalEvents:") || !standin_check(waits, KIND_ARRAY, "waitEvents:"))
        return NULL;
    object *both[] = {standin_retain(signals), standin_retain(waits)};
    return standin_autorelease(standin_new("_ANESharedEvents", KIND_OTHER, standin_make_array(both, 2), 0));
}
static const object *events_of(const request *r, int which) {
    return ((object **)((const object *)r->events->memory)->memory)[which];
}

static void signal_events(const request *r, bool done, object *error) {
    const object *signals = events_of(r, 0);
    for (long i = 0; done && i < signals->count; i++) {
        const object *signal_object = ((object **)signals->memory)[i];
        event_set_value(signal_object->memory, "", (uint64_t)signal_object->count);
    }
    if (!r->handler) {
        standin_violation("a request with shared events has no completion handler");
        return;
    }
    void (*invoke)(object *, bool, object *);
    object *handler = _Block_copy(r->handler);                  /* the request may be gone after the call */
    memcpy(&invoke, (const char *)handler + 16, sizeof invoke); /* follows isa, flags and a reserved word */
    invoke(handler, done, error);
    if (standin_is("handler", "twice")) invoke(handler, !done, NULL);
    _Block_release(handler);
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
/* ---- evaluation -------------------------------------------------------------------------------------------------------------------- */

typedef enum status { STATUS_GOOD, STATUS_SURFACES, STATUS_INDEX } status;

/* Collects the surfaces of one side by symbol. */
static status gather(const request *r, const model *m, bool outputs, unsigned char **out) {
    const port *ports;
    int count = standin_program_ports(m->loaded, outputs, &ports), own = 0;
    const object *list = r->lists[2 * outputs], *indices = r->lists[2 * outputs + 1];
    size_t first = 0;
    for (int k = 0; k < count; k++) own += ports[k].procedure == r->procedure;
    if (list->count != own || indices->count != own) return STATUS_SURFACES;
    memset(out, 0, (size_t)count * sizeof *out);
    for (int i = 0; i < own; i++) {
        long index = ((object **)indices->memory)[i]->count;
        const object *wrapped = ((object **)list->memory)[i], *surface_object = wrapped->memory;
        if (index < 0 || index >= count || ports[index].procedure != r->procedure) return STATUS_INDEX;
        if (out[index]) return STATUS_SURFACES;
        const surface *s = surface_object->memory;
        if (!first) first = s->size;
        if (s->size != first && !standin_is("sizes", "any")) return STATUS_SURFACES;
        if ((int64_t)s->size - wrapped->count < ports[index].bytes) return STATUS_SURFACES;
        if (s->writers || (outputs && s->readers))
            standin_violation("the engine works on a surface that the host has locked (%s '%s')",
                              outputs ? "output" : "input", ports[index].name);
        out[index] = s->memory + wrapped->count;
    }
    return STATUS_GOOD;
}

/* Places the procedure's symbols like those of the first one, for an engine that always runs the first procedure. */
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

static bool run_procedure(model *m, request *r, unsigned char **inputs, unsigned char **outputs, const char *selector,
                          object **error) {
    char why[600];
    long index = r->procedure;
    if (index > 0 && standin_is("procedures", "fail")) return standin_fail(error, FAIL_INDEX, selector, "");
    if (index == 1 &&
        standin_is("procedures", "first")) { /* it has the same shape as the first one in the driver's test */
        shift(m, false, index, inputs);
        shift(m, true, index, outputs);
        index = 0;
    }
    uint64_t begin = host_ns();
    if (!standin_program_run(m->loaded, (int)index, inputs, outputs, why))
        return standin_fail(error, FAIL_RUN, selector, why);
    standin_release(r->statistics);
    r->statistics = NULL;
    if (m->mask && (standin_is("statistics", "gives") || standin_is("statistics", "array")))
        r->statistics = standin_new("_ANEPerformanceStats", KIND_OTHER, NULL, (long)(host_ns() - begin));
    if (m->mask && standin_is("statistics", "strange")) r->statistics = standin_string("none of its kind");
    return true;
}

/* Makes the checks that the system makes on a request (True2456/qwen-ane/runtime/ane_c_bridge.m;
 * Epistates/pmetal/crates/pmetal-metal/src/ane/runtime.rs). */
static void validate(const request *r) {
    for (int k = 1; k < LISTS; k += 2)
        if (r->lists[k]->kind != KIND_ARRAY)
            standin_raise("NSInvalidArgumentException",
                          "-[%s objectAtIndexedSubscript:]: unrecognized selector sent to instance %p",
                          r->lists[k]->isa->name, (void *)r->lists[k]);
    if (r->given && r->given->kind != KIND_ARRAY && standin_is("statistics_object", "array"))
        standin_raise("NSInvalidArgumentException", "-[%s count]: unrecognized selector sent to instance %p",
                      r->given->isa->name, (void *)r->given);
}

static bool fails_by_switch(const char *selector, object **error) {
    const char *how = standin_switch("evaluate");
    if (!how || (standin_switch("evaluate_at") && standin_number("evaluate_at", 0) != standin_counted("evaluations")))
        return false;
    if (strcmp(how, "raises") == 0) standin_raise("NSGenericException", "the engine's queue is gone");
    if (strcmp(how, "silent") != 0)
        standin_fail(error,
                     strcmp(how, "0x2") == 0    ? FAIL_INDEX
                     : strcmp(how, "0x12") == 0 ? FAIL_POWER
                                                : FAIL_SURFACES,
                     selector, "");
    return true;
}

static bool evaluate_locked(model *m, request *r, const char *selector, object **error) {
    unsigned char *inputs[STANDIN_MAX_SYMBOLS], *outputs[STANDIN_MAX_SYMBOLS];
    if (fails_by_switch(selector, error)) return false;
    if (!m->loaded) return standin_fail(error, FAIL_NOT_LOADED, selector, "");
    if (r->procedure < 0 || r->procedure >= standin_program_procedures(m->loaded))
        return standin_fail(error, FAIL_INDEX, selector, "");
    status found = gather(r, m, false, inputs);
    if (found == STATUS_GOOD) found = gather(r, m, true, outputs);
    if (found != STATUS_GOOD)
        return standin_fail(error, found == STATUS_INDEX ? FAIL_INDEX : FAIL_SURFACES, selector, "");
    return run_procedure(m, r, inputs, outputs, selector, error);
}

void standin_wait_for(const char *key) {
    const long ns = standin_number(key, 0);
    struct timespec span = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    if (ns) nanosleep(&span, NULL);
}

static bool evaluate_now(model *m, request *r, const char *selector, object **error) {
    pthread_mutex_lock(&engine_mutex);
    bool done = standin_engine_is_up();
    if (!done) {
        standin_fail(error, FAIL_POWER, selector, "");
    } else {
        standin_count("evaluations", 1);
        done = evaluate_locked(m, r, selector, error);
        standin_engine_worked();
    }
    pthread_mutex_unlock(&engine_mutex);
    standin_wait_for("slow_ns");
    return done;
}

/* A request that waits for events is queued: the call returns, and the handler reports the end. */
typedef struct queued {
    model *m;
    request *r;
    const char *selector;
} queued;

static bool has_come(const request *r) {
    const object *waits = events_of(r, 1);
    for (long i = 0; i < waits->count; i++) {
        const object *wait = ((object **)waits->memory)[i];
        if (event_value(wait->memory, "") < (uint64_t)wait->count) return false;
    }
    return true;
}

static void *run_queued(void *from) {
    queued *q = from;
    object *error = NULL;
    const struct timespec span = {.tv_nsec = 200000};
    while (!has_come(q->r)) nanosleep(&span, NULL);
    standin_settle(1);
    void *pool = objc_autoreleasePoolPush();
    bool done = evaluate_now(q->m, q->r, q->selector, &error);
    signal_events(q->r, done, error);
    objc_autoreleasePoolPop(pool);
    free(q);
    standin_settle(-1);
    return NULL;
}

/* Events work on the client route; on the memory route of 27 an event is never signalled (QA). */
static bool evaluate_with_events(model *m, request *r, const char *selector, object **error) {
    bool deaf = standin_is("events", "ignored") || (!m->is_client && standin_is("events", "client"));
    if (!deaf && events_of(r, 1)->count) {
        pthread_t thread;
        queued *q = malloc(sizeof *q);
        if (!q) abort();
        *q = (queued){m, r, selector};
        if (pthread_create(&thread, NULL, run_queued, q) != 0) abort();
        pthread_detach(thread);
        return true;
    }
    bool done = evaluate_now(m, r, selector, error);
    if (done && !deaf) signal_events(r, true, NULL);
    return done;
}

bool standin_evaluate(model *m, object *request_object, const char *selector, object **error) {
    if (!m || !standin_is_class(request_object, "_ANERequest")) {
        standin_violation("evaluate: a request is wanted");
        return false;
    }
    request *r = request_object->memory;
    validate(r);
    return r->events ? evaluate_with_events(m, r, selector, error) : evaluate_now(m, r, selector, error);
}

/* Returns whether objects of this class keep one other object in `memory`. */
static bool holds_one(const char *name) {
    static const char *const names[] = {
        "_ANEIOSurfaceObject", "_ANESharedSignalEvent",   "_ANESharedWaitEvent", "_ANESharedEvents",
        "_ANEBuffer",          "_ANEIOSurfaceOutputSets", "_ANEChainingRequest"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

bool standin_destroy_request(object *o) {
    if (strcmp(o->isa->name, "_ANERequest") == 0) {
        request *r = o->memory;
        for (int k = 0; r && k < LISTS; k++) standin_release(r->lists[k]);
        standin_release(r ? r->given : NULL);
        standin_release(r ? r->events : NULL);
        _Block_release(r ? r->handler : NULL);
        standin_release(r ? r->statistics : NULL);
        free(r);
        return true;
    }
    if (!holds_one(o->isa->name)) return false;
    standin_release(o->memory);
    return true;
}

#define CODE(function) ((void (*)(void))(function))
#define SEVEN          "requestWithInputs:inputIndices:outputs:outputIndices:weightsBuffer:perfStats:procedureIndex:"

const method standin_request_methods[] = {
    {"_ANEIOSurfaceObject", '+', "objectWithIOSurface:", "@24@0:8^{__IOSurface=}16", CODE(wrap_surface)},
    {"_ANEIOSurfaceObject", '+', "objectWithIOSurface:startOffset:", "@32@0:8^{__IOSurface=}16Q24", CODE(wrap_at)},
    {"_ANEIOSurfaceObject", '+', "alloc", "@16@0:8", CODE(wrap_alloc)},
    {"_ANEIOSurfaceObject", '-', "initWithIOSurface:startOffset:shouldRetain:", "@36@0:8^{__IOSurface=}16Q24B32",
     CODE(wrap_init)},
    {"_ANERequest", '+', SEVEN, "@72@0:8@16@24@32@40@48@56@64", CODE(request_make)},
    {"_ANERequest", '+', SEVEN "sharedEvents:", "@80@0:8@16@24@32@40@48@56@64@72", CODE(request_events)},
    {"_ANERequest", '+', SEVEN "sharedEvents:transactionHandle:", "@88@0:8@16@24@32@40@48@56@64@72@80",
     CODE(request_nine)},
    {"_ANERequest", '+', "alloc", "@16@0:8", CODE(request_alloc)},
    {"_ANERequest", '-',
     "initWithInputs:inputIndices:outputs:outputIndices:weightsBuffer:perfStats:procedureIndex:sharedEvents:"
     "transactionHandle:",
     "@88@0:8@16@24@32@40@48@56@64@72@80", CODE(request_init)},
    {"_ANERequest", '-', "perfStats", "@16@0:8", CODE(request_statistics)},
    {"_ANERequest", '-', "setCompletionHandler:", "v24@0:8@?16", CODE(request_handler)},
    {"_ANEPerformanceStats", '-', "hwExecutionTime", "Q16@0:8", CODE(statistics_time)},
    {"IOSurfaceSharedEvent", '+', "alloc", "@16@0:8", CODE(event_alloc)},
    {"IOSurfaceSharedEvent", '-', "init", "@16@0:8", CODE(event_init)},
    {"IOSurfaceSharedEvent", '-', "signaledValue", "Q16@0:8", CODE(event_value)},
    {"IOSurfaceSharedEvent", '-', "setSignaledValue:", "v24@0:8Q16", CODE(event_set_value)},
    {"_ANESharedSignalEvent", '+', "signalEventWithValue:symbolIndex:eventType:sharedEvent:", "@44@0:8Q16I24q28@36",
     CODE(signal_make)},
    {"_ANESharedWaitEvent", '+', "waitEventWithValue:sharedEvent:eventType:", "@40@0:8Q16@24q32", CODE(wait_make)},
    {"_ANESharedEvents", '+', "sharedEventsWithSignalEvents:waitEvents:", "@32@0:8@16@24", CODE(events_make)},
    {"_ANEBuffer", '+', "bufferWithIOSurfaceObject:symbolIndex:source:", "@40@0:8@16@24q32", CODE(buffer_make)},
    {"_ANEIOSurfaceOutputSets", '+', "objectWithstatsSurRef:outputBuffer:", "@32@0:8^{__IOSurface=}16@24",
     CODE(sets_make)},
    {"_ANEChainingRequest", '+',
     "chainingRequestWithInputs:outputSets:lbInputSymbolId:lbOutputSymbolId:procedureIndex:signalEvents:"
     "transactionHandle:fwEnqueueDelay:memoryPoolId:",
     "@88@0:8@16@24@32@40@48@56@64@72@80", CODE(chain_make)},
    {NULL, 0, NULL, NULL, NULL},
};
