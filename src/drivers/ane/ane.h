/* SPDX-License-Identifier: MIT
 * The ane driver's parts, for this folder alone. A function becomes a source (text and weight files, source.c), a source a
 * model on the engine (model.c), the model's attributes say how its surfaces are laid out (layout.c), surface.c owns the
 * buffers, run.c the requests.
 */
#ifndef DRIVERS_ANE_ANE_H
#define DRIVERS_ANE_ANE_H

#include <pthread.h>

#include "device/driver.h"
#include "drivers/ane/objc.h"
#include "mil/text.h"

enum {
    ANE_MAX_IO = 256,
    ANE_QOS = 21,
    ANE_BUDGET = 119,
    ANE_PAUSE_S = 15,
    ANE_LITERAL_ELEMENTS = 16 /* what the probe waits, too */
};

typedef enum ane_route { ANE_ROUTE_MEMORY, ANE_ROUTE_CLIENT } ane_route;
typedef enum ane_dispatch {
    ANE_STANDARD,
    ANE_DIRECT,
    ANE_REAL_TIME,
    ANE_DISPATCH_COUNT,
    ANE_AUTO = ANE_DISPATCH_COUNT
} ane_dispatch;

/* What stands behind ':' in the uri. */
typedef struct ane_options {
    int route;           /* ane_route */
    int dispatch;        /* ane_dispatch */
    int dialect;         /* mil_dialect */
    int own_names;       /* parameters keep their names: only to see in which order an engine binds them */
    int inline_literals; /* likewise, only to see whether a compiler takes them */
    int leave_defaults;  /* likewise: arguments that a program leaves out are not written */
    int qos;
    int budget;     /* compiles of the process; 0: any number */
    int pause_s;    /* after a compile that failed */
    int equal_size; /* all inputs of a request have surfaces of one size, and all outputs (constraint C11) */
} ane_options;

PROPANE_CHECK propane_status ane_options_parse(const char *rest, ane_options *out, propane_error *err);

/* ---- source.c: what is handed to the compiler ---------------------------------------------------------------------------- */

typedef struct ane_weight {
    char path[40]; /* below the model's folder: weights/w000.bin */
    text bytes;
} ane_weight;

typedef struct ane_source {
    mil_module *module;
    text program;
    int weight_count;
    ane_weight *weights;
} ane_source;

/* A copy of `f` called main: parameters and results named so that their alphabetical order is their declared order
 * (constraint C12), every literal a named constant (C23), every argument written (C19, C20), larger constants in a weight
 * file each (C37). */
/* `merged`: all larger constants in one file (merge.c). */
PROPANE_CHECK propane_status ane_source_create(const mil_function *f, const ane_options *o, bool merged,
                                               ane_source *out, propane_error *err);
void ane_source_deinit(ane_source *s);
PROPANE_CHECK propane_status ane_merge_constants(mil_function *f, propane_error *err);

/* ---- model.c: compile, load, unload ------------------------------------------------------------------------------------------ */

typedef struct ane_model {
    ane_id object;     /* _ANEInMemoryModel or _ANEModel */
    ane_id inner;      /* the _ANEModel that the client's calls take; NULL: none */
    ane_id client;     /* NULL: none */
    ane_id attributes; /* NULL: not told */
    struct ane_folder *folder;
    bool loaded, has_weights;
} ane_model;

/* `text` of `donor` must be that of `s`: its compiled net is loaded with the weights of `s`, and nothing is compiled
 * (NULL: compile). */
PROPANE_CHECK propane_status ane_model_create(const ane_api *a, const ane_options *o, const ane_source *s,
                                              const ane_model *donor, const char *name, ane_model *out,
                                              propane_error *err);
void ane_model_deinit(const ane_api *a, const ane_options *o, ane_model *m);
/* Compiles of this process so far, failed ones included. */
int ane_compile_count(void);

/* ---- layout.c: what modelAttributes say ------------------------------------------------------------------------------------ */

/* Fills strides and sizes of p's inputs and outputs, and the order of symbols: order[k] is the input (or output) that is
 * symbol k of `count`. Without attributes: alphabetical order and rows of 64 bytes. */
typedef struct ane_order {
    bool told; /* the inputs' by the system */
    int input_count, output_count;
    int inputs[ANE_MAX_IO], outputs[ANE_MAX_IO];
} ane_order;

PROPANE_CHECK propane_status ane_layout(const ane_api *a, ane_id attributes, const ane_source *s, driver_program *p,
                                        ane_order *order, propane_error *err);

/* ---- surfaces and requests ------------------------------------------------------------------------------------------------- */

typedef struct ane_device {
    const ane_api *api;
    ane_options options;
    pthread_mutex_t mutex;        /* the requests and the sizes of surfaces; held while the engine works */
    struct ane_request *requests; /* all there are */
} ane_device;

typedef struct ane_buffer {
    pthread_mutex_t mutex; /* locks and the base address */
    ane_surface surface;
    ane_id object; /* the _ANEIOSurfaceObject around it */
    size_t allocated;
    int readers, writers; /* the host's locks */
    uint64_t generation;  /* grows when the surface is replaced by a larger one */
} ane_buffer;

typedef struct ane_program {
    ane_model model;
    ane_order order;
    text text; /* what was compiled: a donor has the same */
    struct {
        bool failed;
        int runs;
        int64_t best_ns;
        char why[200];
    } ways[ANE_DISPATCH_COUNT]; /* what dispatch=auto has measured */
} ane_program;

PROPANE_CHECK propane_status ane_buffer_create(void *impl, size_t bytes, driver_buffer *out, propane_error *err);
void ane_buffer_free(void *impl, driver_buffer *buffer);
PROPANE_CHECK propane_status ane_buffer_lock(void *impl, driver_buffer *buffer, bool for_writing, void **out,
                                             propane_error *err);
void ane_buffer_unlock(void *impl, driver_buffer *buffer);
/* A surface of at least `bytes` in place of the smaller one, with its content. */
PROPANE_CHECK propane_status ane_buffer_grow(ane_device *d, driver_buffer *buffer, size_t bytes, propane_error *err);

PROPANE_CHECK propane_status ane_request_prepare(void *impl, driver_execution *e, propane_error *err);
void ane_request_free(void *impl, driver_execution *e);
PROPANE_CHECK propane_status ane_execute(void *impl, const driver_execution *e, propane_completion *out,
                                         propane_error *err);

#endif
