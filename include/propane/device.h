/* SPDX-License-Identifier: MIT
 * Owns devices and what runs on them: programs, buffers, events and requests. The caller submits a request and waits
 * for it. A session (session.h) does both, and sets and reads inputs and outputs by name. The rules that hold for every
 * call are at the top of propane.h.
 */
#ifndef PROPANE_DEVICE_H
#define PROPANE_DEVICE_H

#include "propane/module.h"

PROPANE_BEGIN

/* ---- devices ----------------------------------------------------------------------------------------------------- */

typedef struct propane_device propane_device;
typedef struct propane_program propane_program;
typedef struct propane_buffer propane_buffer;
typedef struct propane_event propane_event;
typedef struct propane_request propane_request;

typedef struct propane_device_info {
    size_t size;          /* size of the part that the library filled */
    const char *uri;      /* "cpu", "null", "sim:m4", "ane" */
    const char *summary;  /* one line for people */
    int queue_depth;      /* requests that may be in flight */
    int compile_limit;    /* programs that one process may compile; 0 means no limit */
    bool simulated;       /* its times and energies come from a model and are not measured */
    bool shares_compiles; /* programs compiled in one call may count as one compile */
    const char *note;     /* what was chosen when the device was opened, and why; NULL if there was no choice */
    bool unproven;        /* its results have never been verified: check them before you rely on them */
    bool patches;         /* propane_program_patch works on its programs */
} propane_device_info;

/* The drivers of this build, in listing order. propane_driver_probe returns PROPANE_OK if a driver can be opened on
 * this machine; otherwise `why` (may be NULL) receives the reason. */
int propane_driver_count(void);
const char *propane_driver_name(int index);
const char *propane_driver_summary(int index);
propane_status propane_driver_probe(int index, propane_error *why);

/* Returns whether a device's URI names that driver: "ane?statistics=on" names "ane". */
bool propane_uri_names(const char *uri, const char *driver);
/* Opens a device by its URI: "cpu", "null", ... For an unknown name, returns PROPANE_ERR_NOT_FOUND and lists the known
 * names. */
PROPANE_CHECK propane_status propane_device_open(const char *uri, propane_device **out, propane_error *err);
/* Waits until all submitted requests are done, then closes the device. A request that would have to wait for an event
 * gets the status PROPANE_ERR_CANCELLED, so a device may be closed before requests that would never run are freed. */
void propane_device_close(propane_device *device);
const propane_device_info *propane_device_describe(const propane_device *device);

/* Times of three matrix products in fp32 and in bf16 (PROPANE_PRECISION_BF16). The products are the result of a
 * linear layer, the gradient of its input, and the gradient of its weights. Of a very large product, only a part is
 * measured. */
typedef struct propane_product_times {
    size_t size; /* sizeof(propane_product_times), set by the caller */
    /* 0 if the products are too small to measure (below 4 MFLOP), or if a library computes them in both types. */
    double fp32_ms, bf16_ms;
    bool reproduced; /* repeated runs agree, so other work on the machine did not affect the times */
    bool bf16_pays;  /* reproduced, and bf16 takes at least 5 % less time */
    bool bf16_costs; /* reproduced, and fp32 takes at least 5 % less time */
} propane_product_times;

/* Measures the products of a layer with weights [rows, columns] at `positions` positions, with this process's threads.
 * A reproduced result is kept in the user's cache folder, next to the results of --blas auto (docs/blas.md), and is not
 * measured again. Returns PROPANE_ERR_UNSUPPORTED for devices other than cpu. */
PROPANE_CHECK propane_status propane_device_time_products(propane_device *device, int64_t rows, int64_t columns,
                                                          int64_t positions, propane_product_times *out,
                                                          propane_error *err);

/* ---- programs ---------------------------------------------------------------------------------------------------- */

typedef enum propane_precision {
    PROPANE_PRECISION_AS_TYPED, /* the precision of the program's types: fp16 values are rounded to fp16 */
    PROPANE_PRECISION_BF16      /* matrix products may round their fp32 operands to bfloat16; sums stay fp32 */
} propane_precision;

typedef struct propane_compile_options {
    size_t size;          /* sizeof(propane_compile_options) */
    const char *function; /* NULL means "main", or the only function */
    propane_precision precision;
    int threads; /* maximum number of computing threads; 0 lets the device choose */
    /* A program of the same device whose text is the same except for its constants. Its compiled form is loaded again
     * with the new constants, which does not count as a compile. NULL compiles the module. A device that cannot reuse
     * programs returns PROPANE_ERR_UNSUPPORTED. */
    const propane_program *donor;
    bool reloadable; /* lays out the constants for a program that has a donor, may become one, or will be patched */
} propane_compile_options;

/* One input or output. Strides are in bytes: element (i0, i1, ...) is at byte sum(i_k * stride[k]). Rows may be
 * padded. */
typedef struct propane_io {
    const char *name;
    propane_dtype dtype;
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
    int64_t stride[PROPANE_MAX_RANK];
    size_t bytes; /* size of the smallest buffer that may be bound to it */
} propane_io;

/* Returns PROPANE_OK if the device accepts the program. Otherwise `why` explains the refusal (operation, line,
 * reason). */
propane_status propane_program_supported(propane_device *device, const propane_module *module,
                                         const propane_compile_options *options, propane_error *why);
/* Compiles a function of the module to a program. `options` may be NULL. The program copies the constants, so the
 * module may be freed afterwards. */
PROPANE_CHECK propane_status propane_program_compile(propane_device *device, const propane_module *module,
                                                     const propane_compile_options *options, propane_program **out,
                                                     propane_error *err);

/* One of several programs that propane_program_compile_all compiles. The call sets `program`. */
typedef struct propane_compile_item {
    const propane_module *module;
    const char *function; /* as in propane_compile_options */
    propane_program *program;
} propane_compile_item;

typedef struct propane_compile_report {
    size_t size;    /* sizeof(propane_compile_report), set by the caller */
    int compiles;   /* compiles that count against the device's limit */
    int procedures; /* number of programs that share a compiled program with others */
    int failed;     /* index of the item that could not be compiled; negative if not known */
    char how[300];  /* a description, with the reason if the programs do not share one compiled program */
} propane_compile_report;

/* Compiles several programs as propane_program_compile does, except that a device that can do so makes them procedures
 * of one compiled program. The options' function, donor and reloadable are ignored. Compiles all items or none.
 * `report` may be NULL. */
PROPANE_CHECK propane_status propane_program_compile_all(propane_device *device, propane_compile_item *items, int count,
                                                         const propane_compile_options *options,
                                                         propane_compile_report *report, propane_error *err);
/* Overwrites a constant of a compiled program in place. `values` holds `count` fp16 or fp32 values, dense and in the
 * constant's order. The call packs them as the device wants them; the device reads fp16. The program must have been
 * compiled with options.reloadable, and none of its requests may be in flight. Any thread may call this function.
 * Returns PROPANE_ERR_UNSUPPORTED if the device cannot patch (propane_device_info.patches) or if the constant has no
 * place of its own, and PROPANE_ERR_INVALID if the constant has another number of values. After a failure the program
 * is unchanged. */
PROPANE_CHECK propane_status propane_program_patch(propane_program *program, const char *constant, propane_dtype dtype,
                                                   const void *values, int64_t count, propane_error *err);
void propane_program_free(propane_program *program);
int propane_program_input_count(const propane_program *program);
int propane_program_output_count(const propane_program *program);
const propane_io *propane_program_input(const propane_program *program, int index);
const propane_io *propane_program_output(const propane_program *program, int index);
/* Returns NULL if no input or output has that name. */
const propane_io *propane_program_find(const propane_program *program, const char *name);
/* Returns the number of elements: the product of the dimensions. */
int64_t propane_io_count(const propane_io *io);

/* A row of a program's profile. There is one per step that the device runs, in order. */
typedef struct propane_profile_row {
    size_t size;         /* sizeof(propane_profile_row), set by the caller; strings belong to the program */
    const char *kind;    /* the kernel: "gemm", "tile", "copy", ... */
    const char *name;    /* name of the value that the step computes */
    const char *stage;   /* NULL if there is none */
    double flops, bytes; /* per run; `bytes` counts each operand and result once */
    int64_t runs, ns;    /* totals since the profile was switched on */
    int64_t engine_ns;   /* total time by the engine's clock; negative if not available */
    int64_t repeats;     /* total of propane_completion.repeats */
} propane_profile_row;

/* Switches the profile on, with all counts at 0, or off, which is the initial state. Returns PROPANE_ERR_UNSUPPORTED
 * if the device keeps no profile. Must not be called while a request of the program is in flight. */
PROPANE_CHECK propane_status propane_program_profile(propane_program *program, bool on, propane_error *err);
int propane_program_profile_count(const propane_program *program);
bool propane_program_profile_get(const propane_program *program, int index, propane_profile_row *out);
/* Returns the name of fusion rule `index` that the device applied when it compiled the program, and sets *count to the
 * number of times. Returns NULL after the last rule. The string is static. */
const char *propane_program_fusion(const propane_program *program, int index, int *count);

/* ---- buffers: memory of the host and the device ----------------------------------------------------------------- */

/* Creates a zeroed buffer. It may be bound to several programs at once, without a copy. */
PROPANE_CHECK propane_status propane_buffer_create(propane_device *device, size_t bytes, propane_buffer **out,
                                                   propane_error *err);
/* Creates a buffer that uses the caller's memory, which must be aligned to 16 bytes and outlive the buffer. Only
 * devices that are the host itself (cpu) can do this; others return PROPANE_ERR_UNSUPPORTED. */
PROPANE_CHECK propane_status propane_buffer_wrap(propane_device *device, void *memory, size_t bytes,
                                                 propane_buffer **out, propane_error *err);
void propane_buffer_free(propane_buffer *buffer);
size_t propane_buffer_bytes(const propane_buffer *buffer);
/* propane_buffer_lock sets *out to the buffer's memory. The host may access the memory only between lock and unlock,
 * and the device must not use it during that time. */
PROPANE_CHECK propane_status propane_buffer_lock(propane_buffer *buffer, bool for_writing, void **out,
                                                 propane_error *err);
void propane_buffer_unlock(propane_buffer *buffer);

/* The system's object behind a buffer, for other libraries of the system. A Metal program, for example, can use an
 * IOSurface without a copy. The object lives as long as the buffer. propane_buffer_native returns false if there is no
 * such object. */
typedef struct propane_native {
    size_t size;     /* sizeof(propane_native), set by the caller */
    void *iosurface; /* an IOSurfaceRef; NULL if there is none */
    int fd;          /* a file descriptor of the memory; -1 if there is none */
    /* The device's id<MTLSharedEvent>, which orders the device's runs with those of a GPU (docs/apple.md: events=).
     * NULL if there is none. The event lives as long as the device. */
    void *shared_event;
} propane_native;
bool propane_buffer_native(const propane_buffer *buffer, propane_native *out);

/* Copy a dense array of `dtype` into or out of a buffer with the type and layout that `io` describes. Conversions round
 * to nearest even; a conversion from float to integer is refused. `count` must be the product of io->dim. */
PROPANE_CHECK propane_status propane_buffer_write(propane_buffer *buffer, const propane_io *io, propane_dtype dtype,
                                                  const void *source, int64_t count, propane_error *err);
PROPANE_CHECK propane_status propane_buffer_read(propane_buffer *buffer, const propane_io *io, propane_dtype dtype,
                                                 void *target, int64_t count, propane_error *err);

/* ---- events: counters that only grow ----------------------------------------------------------------------------- */

PROPANE_CHECK propane_status propane_event_create(propane_device *device, propane_event **out, propane_error *err);
void propane_event_free(propane_event *event);
uint64_t propane_event_value(const propane_event *event);
/* Sets the event's value from the host. A value that is not larger than the current one changes nothing. */
void propane_event_signal(propane_event *event, uint64_t value);
/* Waits until the event's value is at least `value`, without a limit if timeout_ms < 0. Returns PROPANE_ERR_LIMIT after
 * a timeout. */
PROPANE_CHECK propane_status propane_event_wait(propane_event *event, uint64_t value, int timeout_ms,
                                                propane_error *err);

/* ---- requests ---------------------------------------------------------------------------------------------------- */

typedef struct propane_binding {
    const char *name;
    propane_buffer *buffer;
} propane_binding;

typedef struct propane_event_point {
    propane_event *event;
    uint64_t value;
} propane_event_point;

typedef struct propane_completion {
    size_t size; /* sizeof(propane_completion), set by the caller */
    propane_status status;
    int64_t device_ns; /* time on the device, measured by the host's clock around the call */
    int64_t engine_ns; /* time by the engine's clock; negative if not requested or not available */
    double energy_j;   /* negative if not known */
    bool simulated;    /* device_ns and energy_j come from a model */
    int repeats;       /* times that the device cancelled the run before it began and Propane submitted it again */
} propane_completion;

/* Creates a request and checks its bindings: each input and output must be bound exactly once, to a buffer that is
 * large enough. The request may then be submitted any number of times, but not while it is in flight. An output may
 * share an input's buffer only if the program is guaranteed to read that input before it writes that output. The cpu
 * driver allows this for accumulation inputs of the same shape. */
PROPANE_CHECK propane_status propane_request_create(propane_program *program, const propane_binding *bindings,
                                                    int count, propane_request **out, propane_error *err);
void propane_request_free(propane_request *request); /* waits if the request is in flight */
/* Replaces the events that the request waits for before it starts, and the events that it signals when it has ended,
 * also after a failure. Does not allocate if the events stay the same and only their values change. */
PROPANE_CHECK propane_status propane_request_events(propane_request *request, const propane_event_point *waits,
                                                    int wait_count, const propane_event_point *signals,
                                                    int signal_count, propane_error *err);
/* Queues several requests in one call. They run in the given order, after all requests that were queued before.
 * Queues all of them or none. Returns PROPANE_ERR_LIMIT if fewer than `count` places of the queue are free. Does not
 * allocate. */
PROPANE_CHECK propane_status propane_submit(propane_request *const *requests, int count, propane_error *err);
/* Waits for one submitted request; `out` may be NULL. Returns the request's status. */
PROPANE_CHECK propane_status propane_wait(propane_request *request, propane_completion *out, propane_error *err);

PROPANE_END

#endif
