/* SPDX-License-Identifier: MIT
 * The ane driver's parts, for this folder alone. Functions become a source (text and a weight file, source.c), a source
 * a model on the engine (model.c), the model's attributes say how its surfaces are laid out (layout.c), surface.c owns
 * the buffers, run.c the requests. What is offered but not certain to work is tried on small kernels first:
 * procedures.c, dispatch_select.c, capability_trials.c, with self_test_program.c beneath them.
 */
#ifndef ANE_DRIVER_ANE_H
#define ANE_DRIVER_ANE_H

#include <pthread.h>
#include <stdatomic.h>

#include "ane/driver/failure.h"
#include "ane/driver/objc_runtime.h"
#include "core/device/driver.h"
#include "core/mil/text/mil_text.h"

enum {
    ANE_MAX_IO = 256,
    ANE_QOS = 21,
    ANE_BUDGET = 119,
    ANE_PAUSE_S = 15,
    ANE_LIMIT_MS = 20000,
    ANE_LITERAL_ELEMENTS = 16, /* what the probe waits, too */
    ANE_PATH_BYTES = 1200,
    ANE_MAX_PROCEDURES = 128 /* of one compiled program: as many have been seen */
};

typedef enum ane_route { ANE_ROUTE_MEMORY, ANE_ROUTE_CLIENT } ane_route;
typedef enum ane_dispatch {
    ANE_STANDARD,
    ANE_DIRECT,
    ANE_REAL_TIME,
    ANE_DISPATCH_COUNT,
    ANE_AUTO = ANE_DISPATCH_COUNT
} ane_dispatch;

typedef enum ane_together { ANE_APART, ANE_TOGETHER, ANE_TOGETHER_IF_PROVED } ane_together;

/* Whether all inputs of a request have surfaces of one size, and all outputs (constraint C11). */
typedef enum ane_sizes { ANE_SIZES_EQUAL, ANE_SIZES_ANY, ANE_SIZES_ANY_IF_PROVED } ane_sizes;

/* Who signals what a run waits for, where its order with a GPU is kept by shared events: the host, or the GPU. */
typedef enum ane_events_use { ANE_EVENTS_OFF, ANE_EVENTS_ON, ANE_EVENTS_GPU } ane_events_use;

/* What becomes, after the load, of what a program was compiled from. */
typedef enum ane_keeping { ANE_KEEP, ANE_DROP, ANE_DROP_IF_PROVED } ane_keeping;

/* What follows ':' in the uri. */
typedef struct ane_options {
    int route;           /* ane_route */
    int dispatch;        /* ane_dispatch */
    int dialect;         /* mil_dialect */
    int own_names;       /* parameters keep their names: only to see in which order an engine binds them */
    int inline_literals; /* likewise, only to see whether a compiler takes them */
    int leave_defaults;  /* likewise: arguments that a program leaves out are not written */
    int part_outputs;    /* an identity in front of outputs that the program reads itself */
    int qos;
    int budget;     /* compiles of the process; 0: any number; -1: what the system is known to take */
    int pause_s;    /* after a compile that failed */
    int procedures; /* ane_together: functions that are compiled at once share one compiled program */
    int statistics; /* the engine's own times are asked for */
    int sizes;      /* ane_sizes */
    int events;     /* ane_events_use */
    int limit_ms;   /* how long a run with shared events may take */
    int descriptor; /* ane_keeping: a second copy of all weights, which the descriptor holds */
    int folder;     /* ane_keeping: text and weights on the disk; kept where a program may be a donor */
} ane_options;

PROPANE_CHECK propane_status ane_options_parse(const char *rest, ane_options *out, propane_error *err);

/* ---- source.c: what is handed to the compiler -------------------------------------------------------------------- */

typedef struct ane_source {
    mil_module *module;
    text program;
    const char *weights_path; /* below the model's folder */
    text weights;             /* the one weight file; empty: the program has none */
} ane_source;

/* A copy of one function called main, or of several called p000, p001, ...: parameters and results named so that their
 * alphabetical order is their declared order (constraint C12), and those of several differ; every literal a named
 * constant (C23), every argument written (C19, C20), all larger constants records of one weight file (C37). */
PROPANE_CHECK propane_status ane_source_create(const mil_function *const *f, int count, const ane_options *o,
                                               ane_source *out, propane_error *err);
void ane_source_deinit(ane_source *s);

/* ---- folder.c: where compiler and loader read -------------------------------------------------------------------- */

typedef struct ane_folder ane_folder;

/* The one that equal programs share. */
PROPANE_CHECK propane_status ane_folder_open(const char *path, ane_folder **out, propane_error *err);
/* Writes the source's files, also into `other` ("": none), if they are not there yet. */
PROPANE_CHECK propane_status ane_folder_fill(ane_folder *f, const char *other, const ane_source *s, propane_error *err);
/* The donor's compiled net, with the weights of `s`. */
PROPANE_CHECK propane_status ane_folder_patch(const ane_folder *f, const ane_source *s, const ane_folder *donor,
                                              propane_error *err);
/* Removes the files; not while a program of this folder is being compiled or loaded. */
void ane_folder_empty(ane_folder *f);
/* The last user's removes the files. */
void ane_folder_close(ane_folder *f);
bool ane_folder_shared(const ane_folder *f);
const char *ane_folder_path(const ane_folder *f);
const char *ane_folder_other(const ane_folder *f); /* "": none */

/* ---- model.c: compile, load, unload ------------------------------------------------------------------------------ */

typedef struct ane_model {
    ane_id object;     /* _ANEInMemoryModel or _ANEModel */
    ane_id inner;      /* the _ANEModel that the client's calls take; NULL: none */
    ane_id client;     /* NULL: none */
    ane_id attributes; /* NULL: not known */
    bool counts;       /* the engine keeps the mask that asks for its times */
    ane_folder *folder;
    bool loaded, has_weights;
} ane_model;

/* `text` of `donor` must be that of `s`: its compiled net is loaded with the weights of `s`, and nothing is compiled
 * (NULL: compile). */
PROPANE_CHECK propane_status ane_model_create(const ane_api *a, const ane_options *o, const ane_source *s,
                                              const ane_model *donor, const char *name, ane_model *out,
                                              propane_error *err);
/* Lets go of what the options say, once it is loaded. */
void ane_model_trim(const ane_api *a, const ane_options *o, ane_model *m);
void ane_model_deinit(const ane_api *a, const ane_options *o, ane_model *m);
/* A request that has not ended may still run it: nothing is unloaded or released, only its files go. */
void ane_model_abandon(ane_model *m);
/* Says that a folder is going to hold a program's files (ane_lab.h: ane_on_folder). */
void ane_folder_made(const char *path);
/* Compiles of this process so far, failed ones included. */
int ane_compile_count(void);

/* ---- layout.c: what modelAttributes say -------------------------------------------------------------------------- */

/* The symbols of one function in their order: bound[k] is the input (or output) that symbol[k] of the whole program
 * is. */
typedef struct ane_side {
    int count;
    int bound[ANE_MAX_IO], symbol[ANE_MAX_IO];
} ane_side;

typedef struct ane_order {
    bool told; /* the inputs' by the system */
    int procedure;
    ane_side inputs, outputs;
} ane_order;

/* Fills strides and sizes of p's inputs and outputs, and the order of symbols, for function `index` of the source.
 * Without attributes: alphabetical order and rows of 64 bytes. */
PROPANE_CHECK propane_status ane_layout(const ane_api *a, ane_id attributes, const ane_source *s, int index,
                                        driver_program *p, ane_order *order, propane_error *err);

/* ---- surfaces and requests --------------------------------------------------------------------------------------- */

typedef struct ane_device {
    const ane_api *api;
    const propane_driver *driver; /* whose programs can be donors; NULL: none */
    ane_options options;
    pthread_mutex_t mutex;        /* the requests, the sizes of surfaces, the way; held while the engine works */
    struct ane_request *requests; /* all there are */
    ane_dispatch way;             /* how requests are evaluated */
    bool equal_size;              /* surfaces of one side of a request are made equally large */
    bool cancels;                 /* the system cancels evaluations while the engine changes its power state */
    struct ane_events *events;    /* NULL: none */
    ane_id client;                /* with a real-time task begun; NULL: none */
    char note[600];               /* how the way was chosen, and why */
} ane_device;

typedef struct ane_buffer {
    pthread_mutex_t mutex; /* locks and the base address */
    ane_surface surface;
    ane_id object; /* the _ANEIOSurfaceObject around it */
    size_t allocated;
    int readers, writers; /* the host's locks */
    uint64_t generation;  /* grows when the surface is replaced by a larger one */
} ane_buffer;

/* A compiled program: one function's, or that of several, which are its procedures. */
typedef struct ane_unit {
    ane_model model;
    text text; /* what was compiled: a donor has the same */
    atomic_int users;
    const void *lost; /* the handler of a request that has not ended and may still run it: never unloaded; or NULL */
    struct ane_unit *next_lost;
} ane_unit;

typedef struct ane_program {
    ane_unit *unit;
    ane_order order;
} ane_program;

/* ---- ane_driver.c, procedures.c: compiling ----------------------------------------------------------------------- */

/* Without measuring anything. */
PROPANE_CHECK propane_status ane_device_create(const ane_api *a, const ane_options *o, ane_device **out,
                                               propane_error *err);
void ane_device_free(ane_device *d);
/* One compiled program for all of them; out[k] is filled for f[k]. */
PROPANE_CHECK propane_status ane_compile_together(ane_device *d, const mil_function *const *f, int count,
                                                  const propane_compile_options *options, driver_program *const *out,
                                                  propane_error *err);
PROPANE_CHECK propane_status ane_compile(void *impl, const mil_function *f, const propane_compile_options *options,
                                         driver_program *out, propane_error *err);
void ane_program_free(void *impl, driver_program *program);
PROPANE_CHECK propane_status ane_compile_all(void *impl, const mil_function *const *f, int count,
                                             const propane_compile_options *options, driver_program *const *out,
                                             propane_compile_report *report, propane_error *err);

/* ---- self_test_program.c: a small program with buffers, for trials ----------------------------------------------- */

enum { ANE_RIG_FUNCTIONS = 3, ANE_RIG_INPUTS = 2 };

typedef struct ane_rig {
    ane_device *device;
    mil_module *module;
    int count;
    driver_program programs[ANE_RIG_FUNCTIONS];
    bool compiled[ANE_RIG_FUNCTIONS];
    driver_buffer buffers[ANE_RIG_FUNCTIONS][ANE_RIG_INPUTS + 1]; /* inputs, then the output */
    driver_buffer *bound[ANE_RIG_FUNCTIONS][ANE_RIG_INPUTS + 1];
    driver_execution executions[ANE_RIG_FUNCTIONS];
} ane_rig;

/* y = x + c, with c different in the first two functions, and y = a - b of another shape in the third one. */
PROPANE_CHECK propane_status ane_rig_open(const ane_api *a, const ane_options *o, int count, ane_rig *out,
                                          propane_error *err);
void ane_rig_close(ane_rig *r);
/* Writes the inputs (`round` changes them), runs function k and looks at every number. */
PROPANE_CHECK propane_status ane_rig_run(ane_rig *r, int k, int round, propane_completion *out, propane_error *err);

/* ---- dispatch.c, dispatch_select.c ------------------------------------------------------------------------------- */

/* Whether this process may evaluate like that at all. */
bool ane_way_offered(const ane_api *a, const ane_model *m, ane_dispatch way);
const char *ane_way_name(ane_dispatch way);
/* The one that is asked for, or remembered to hold on this system (remembered.h); nothing is tried. */
void ane_ways_choose(ane_device *d);
/* Begins a real-time task where `way` needs one. False: there is none. */
bool ane_way_begin(ane_device *d, ane_dispatch way);
void ane_way_end(ane_device *d);
/* The devices that this process and later ones open from now on do not choose it. */
void ane_way_failed(const ane_device *d, ane_dispatch way, const char *why);

/* ---- events.c ---------------------------------------------------------------------------------------------------- */

typedef struct ane_events ane_events;

/* As the device's options say; closed whether it succeeds or not. */
PROPANE_CHECK propane_status ane_events_open(ane_device *d, propane_error *err);
void ane_events_close(ane_device *d);
void *ane_events_native(const ane_device *d); /* id<MTLSharedEvent>; NULL: none */
/* Around a run: its number is counted; whatever happens, its value is signalled in the end. */
PROPANE_CHECK propane_status ane_events_begin(ane_events *e, propane_error *err);
void ane_events_end(ane_events *e, bool done);
/* For one request of the run, autoreleased; NULL: the system makes none. */
ane_id ane_events_make(const ane_events *e);
/* Queues the request and waits until it has ended; *error is borrowed. Fails where that is not known. */
PROPANE_CHECK propane_status ane_events_evaluate(ane_events *e, ane_unit *unit, uint32_t qos, ane_id request,
                                                 bool *done, ane_id *error, propane_error *err);

/* ---- run.c ------------------------------------------------------------------------------------------------------- */

PROPANE_CHECK propane_status ane_buffer_create(void *impl, size_t bytes, driver_buffer *out, propane_error *err);
void ane_buffer_free(void *impl, driver_buffer *buffer);
bool ane_buffer_native(void *impl, const driver_buffer *buffer, propane_native *out);
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
