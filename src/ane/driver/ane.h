/* SPDX-License-Identifier: MIT
 * Declares the parts of the ane driver, only for this folder. Functions become a source, which is a text and a weight
 * file (source.c). A source becomes a model on the engine (model.c), whose attributes describe the layout of its
 * surfaces (layout.c). surface.c owns the buffers and run.c the requests. Features that may not work are first tried on
 * small programs. procedures.c and dispatch_select.c try them on those of self_test_program.c, capability_trials.c on
 * its own.
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
    ANE_LITERAL_ELEMENTS = 16, /* larger constants are in the weight file; the probe uses this value, too */
    ANE_PATH_BYTES = 1200,
    ANE_MAX_PROCEDURES = 128 /* procedures per compiled program: the largest number seen so far */
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

/* Whether all inputs of a request must have surfaces of the same size, and all outputs as well (constraint C11). */
typedef enum ane_sizes { ANE_SIZES_EQUAL, ANE_SIZES_ANY, ANE_SIZES_ANY_IF_PROVED } ane_sizes;

/* Whether shared events order runs with a GPU, and which side signals the value that a run waits for: the host (ON) or the
 * GPU. */
typedef enum ane_events_use { ANE_EVENTS_OFF, ANE_EVENTS_ON, ANE_EVENTS_GPU } ane_events_use;

/* What happens, after the load, to the files and data that a program was compiled from. */
typedef enum ane_keeping { ANE_KEEP, ANE_DROP, ANE_DROP_IF_PROVED } ane_keeping;

/* The options after ':' in the uri. */
typedef struct ane_options {
    int route;     /* ane_route */
    int dispatch;  /* ane_dispatch */
    int dialect;   /* mil_dialect */
    int own_names; /* parameters keep their names; only for experiments on the order in which an engine binds them */
    int inline_literals; /* only for experiments on whether a compiler accepts inline literals */
    int leave_defaults;  /* omitted arguments are not written; also only for experiments with a compiler */
    int part_outputs;    /* puts an identity before outputs that the program also reads */
    int qos;
    int budget;     /* compiles per process; 0 means any number, -1 the system's known limit */
    int pause_s;    /* seconds to wait after a failed compile; -1 means the default */
    int procedures; /* ane_together: whether functions compiled at once share one compiled program */
    int statistics; /* requests the engine's own times */
    int sizes;      /* ane_sizes */
    int events;     /* ane_events_use */
    int limit_ms;   /* the longest that a run with shared events may take */
    int descriptor; /* ane_keeping of the descriptor, which holds a second copy of all weights */
    int folder;     /* ane_keeping of text and weights on disk; a possible donor keeps both */
} ane_options;

PROPANE_CHECK propane_status ane_options_parse(const char *rest, ane_options *out, propane_error *err);

/* ---- source.c: the input of the compiler ------------------------------------------------------------------------- */

typedef struct ane_source {
    mil_module *module;
    text program;
    const char *weights_path; /* relative to the model's folder */
    text weights;             /* the single weight file; empty if the program has none */
} ane_source;

/* Copies one function as main, or several as p000, p001, .... Renames parameters and results so that their alphabetical
 * order is the declared order (constraint C12), and so that no two functions share a name. Every literal becomes a
 * named constant (C23), every argument is written (C19, C20), and all larger constants become records of one weight
 * file (C37). */
PROPANE_CHECK propane_status ane_source_create(const mil_function *const *f, int count, const ane_options *o,
                                               ane_source *out, propane_error *err);
void ane_source_deinit(ane_source *s);

/* ---- folder.c: where compiler and loader read files -------------------------------------------------------------- */

typedef struct ane_folder ane_folder;

/* Opens the folder at `path`. Equal programs share one folder. */
PROPANE_CHECK propane_status ane_folder_open(const char *path, ane_folder **out, propane_error *err);
/* Writes the source's files if the folder does not contain them yet, and also into the folder `other` unless it is
 * "". */
PROPANE_CHECK propane_status ane_folder_fill(ane_folder *f, const char *other, const ane_source *s, propane_error *err);
/* Fills the folder with the donor's compiled net and the weights of `s`. */
PROPANE_CHECK propane_status ane_folder_patch(const ane_folder *f, const ane_source *s, const ane_folder *donor,
                                              propane_error *err);
/* Removes the files. Must not be called while a program of this folder is being compiled or loaded. */
void ane_folder_empty(ane_folder *f);
/* Closes the folder. The files are removed when its last user closes it. */
void ane_folder_close(ane_folder *f);
bool ane_folder_shared(const ane_folder *f);
const char *ane_folder_path(const ane_folder *f);
const char *ane_folder_other(const ane_folder *f); /* "" if there is none */

/* ---- model.c: compile, load, unload ------------------------------------------------------------------------------ */

typedef struct ane_model {
    ane_id object;     /* _ANEInMemoryModel or _ANEModel */
    ane_id inner;      /* the _ANEModel for calls of the client; NULL if there is none */
    ane_id client;     /* NULL if there is none */
    ane_id attributes; /* NULL if unknown */
    bool counts;       /* the engine keeps the mask that requests its times */
    ane_folder *folder;
    bool loaded, has_weights;
} ane_model;

/* Compiles and loads a model. With a `donor`, whose program text must equal that of `s`, nothing is compiled. Instead,
 * the donor's compiled net is loaded with the weights of `s`. */
PROPANE_CHECK propane_status ane_model_create(const ane_api *a, const ane_options *o, const ane_source *s,
                                              const ane_model *donor, const char *name, ane_model *out,
                                              propane_error *err);
/* Releases the descriptor and the files of a loaded model, as far as the options allow. */
void ane_model_trim(const ane_api *a, const ane_options *o, ane_model *m);
void ane_model_deinit(const ane_api *a, const ane_options *o, ane_model *m);
/* Abandons a model that an unfinished request may still run. Closes its folder, but unloads and releases nothing. */
void ane_model_abandon(ane_model *m);
/* Calls the function set by ane_on_folder (ane_lab.h) with a folder that will contain a program's files. */
void ane_folder_made(const char *path);
/* Returns the number of compiles by this process so far, including failed ones. */
int ane_compile_count(void);

/* ---- layout.c: contents of modelAttributes ----------------------------------------------------------------------- */

/* The symbols of one function's inputs, or of its outputs, in the engine's order. symbol[k] is an index into the
 * symbols of the whole program, and bound[k] is the index of that input or output in the function. */
typedef struct ane_side {
    int count;
    int bound[ANE_MAX_IO], symbol[ANE_MAX_IO];
} ane_side;

typedef struct ane_order {
    bool reported; /* the system reported the order of the inputs */
    int procedure;
    ane_side inputs, outputs;
} ane_order;

/* Fills strides and sizes of p's inputs and outputs, and the order of symbols, for function `index` of the source.
 * Without attributes, the order is alphabetical and rows are multiples of 64 bytes. */
PROPANE_CHECK propane_status ane_layout(const ane_api *a, ane_id attributes, const ane_source *s, int index,
                                        driver_program *p, ane_order *order, propane_error *err);

/* ---- surfaces and requests --------------------------------------------------------------------------------------- */

typedef struct ane_device {
    const ane_api *api;
    const propane_driver *driver; /* the driver whose programs can be donors; NULL if none can */
    ane_options options;
    pthread_mutex_t mutex; /* guards the requests, the sizes of surfaces and `way`; held while the engine works */
    struct ane_request *requests; /* list of all requests */
    ane_dispatch way;             /* how requests are evaluated */
    bool equal_size;              /* all input surfaces of a request are made the same size, and all output surfaces */
    bool cancels;                 /* the system cancels evaluations while the engine changes its power state */
    struct ane_events *events;    /* NULL if there are none */
    ane_id client;                /* client with an active real-time task, or NULL */
    char note[600];               /* how `way` was chosen, and why */
} ane_device;

typedef struct ane_buffer {
    pthread_mutex_t mutex; /* guards the surface and the lock counts */
    ane_surface surface;
    ane_id object; /* the surface's _ANEIOSurfaceObject */
    size_t allocated;
    int readers, writers; /* numbers of host locks */
    uint64_t generation;  /* incremented when a larger surface replaces this one */
} ane_buffer;

/* A compiled program of one function, or of several functions, which are its procedures. */
typedef struct ane_unit {
    ane_model model;
    text text; /* the compiled text; a donor's text is equal */
    atomic_int users;
    /* The handler of an unfinished request that may still run the unit, or NULL. Such a unit is never unloaded. */
    const void *lost;
    struct ane_unit *next_lost;
} ane_unit;

typedef struct ane_program {
    ane_unit *unit;
    ane_order order;
} ane_program;

/* ---- ane_driver.c, procedures.c: compiling ----------------------------------------------------------------------- */

/* Creates a device from its options and remembered answers, without a trial. */
PROPANE_CHECK propane_status ane_device_create(const ane_api *a, const ane_options *o, ane_device **out,
                                               propane_error *err);
void ane_device_free(ane_device *d);
/* Compiles all functions into one program. Fills out[k] for f[k]. */
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

/* Opens a program of `count` functions. The first two compute y = x + c with different c; the third computes y = x - a
 * with another shape. If `count` is 1, the only function is of the third kind. */
PROPANE_CHECK propane_status ane_rig_open(const ane_api *a, const ane_options *o, int count, ane_rig *out,
                                          propane_error *err);
void ane_rig_close(ane_rig *r);
/* Writes the inputs, which depend on `round`, runs function k and checks every number of the result. */
PROPANE_CHECK propane_status ane_rig_run(ane_rig *r, int k, int round, propane_completion *out, propane_error *err);

/* ---- dispatch.c, dispatch_select.c ------------------------------------------------------------------------------- */

/* Returns true if the system and the model offer this way to evaluate. */
bool ane_way_offered(const ane_api *a, const ane_model *m, ane_dispatch way);
const char *ane_way_name(ane_dispatch way);
/* Chooses the requested way or, with dispatch=auto, the way that is remembered to work on this system (remembered.h).
 * Runs no trial. */
void ane_ways_choose(ane_device *d);
/* Begins a real-time task if `way` needs one. Returns false if no task can be begun. */
bool ane_way_begin(ane_device *d, ane_dispatch way);
void ane_way_end(ane_device *d);
/* Records that `way` failed, so that devices opened later, in this process or another one, do not choose it. */
void ane_way_failed(const ane_device *d, ane_dispatch way, const char *why);

/* ---- events.c ---------------------------------------------------------------------------------------------------- */

typedef struct ane_events ane_events;

/* Opens shared events if the device's options request them. Call ane_events_close even after a failure. */
PROPANE_CHECK propane_status ane_events_open(ane_device *d, propane_error *err);
void ane_events_close(ane_device *d);
void *ane_events_native(const ane_device *d); /* id<MTLSharedEvent>, or NULL if there is none */
/* Enclose a run. ane_events_begin numbers the run. If `done` is false, ane_events_end sets the event to the value that
 * the run would have signalled. */
PROPANE_CHECK propane_status ane_events_begin(ane_events *e, propane_error *err);
void ane_events_end(ane_events *e, bool done);
/* Makes the events for one request of the run, autoreleased. Returns NULL if the system makes none. */
ane_id ane_events_make(const ane_events *e);
/* Queues the request and waits until it has finished. *error is borrowed from `e`. Fails if the request does not finish
 * in time. */
PROPANE_CHECK propane_status ane_events_evaluate(ane_events *e, ane_unit *unit, uint32_t qos, ane_id request,
                                                 bool *done, ane_id *error, propane_error *err);

/* ---- run.c ------------------------------------------------------------------------------------------------------- */

PROPANE_CHECK propane_status ane_buffer_create(void *impl, size_t bytes, driver_buffer *out, propane_error *err);
void ane_buffer_free(void *impl, driver_buffer *buffer);
bool ane_buffer_native(void *impl, const driver_buffer *buffer, propane_native *out);
PROPANE_CHECK propane_status ane_buffer_lock(void *impl, driver_buffer *buffer, bool for_writing, void **out,
                                             propane_error *err);
void ane_buffer_unlock(void *impl, driver_buffer *buffer);
/* Replaces a surface of fewer than `bytes` by a larger one with the same content. Fails if the buffer is locked. */
PROPANE_CHECK propane_status ane_buffer_grow(ane_device *d, driver_buffer *buffer, size_t bytes, propane_error *err);

PROPANE_CHECK propane_status ane_request_prepare(void *impl, driver_execution *e, propane_error *err);
void ane_request_free(void *impl, driver_execution *e);
PROPANE_CHECK propane_status ane_execute(void *impl, const driver_execution *e, propane_completion *out,
                                         propane_error *err);

#endif
