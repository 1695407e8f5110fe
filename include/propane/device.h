/* SPDX-License-Identifier: MIT
 * Owns devices and what runs on them: programs, buffers, events and requests. A request is submitted and waited for;
 * a session (session.h) does both, by the names of inputs and outputs. The rules that hold for every call are at the
 * top of propane.h.
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
    size_t size;          /* of the part that the library filled */
    const char *uri;      /* "cpu", "null", "sim:m4", "ane" */
    const char *summary;  /* one line for people */
    int queue_depth;      /* requests that may be in flight */
    int compile_limit;    /* programs that one process may compile; 0 means no limit */
    bool simulated;       /* its figures come from a model, not from a clock */
    bool shares_compiles; /* programs compiled in one call may count as one compile */
    const char *note;     /* what was chosen when it was opened, and why; NULL if nothing was */
    bool unproven;        /* its results have never been verified: check before relying on them */
    bool patches;         /* propane_program_patch works on its programs */
} propane_device_info;

/* The drivers of this build, in listing order. `why` (may be NULL) receives the reason why a driver cannot be
 * opened here. */
int propane_driver_count(void);
const char *propane_driver_name(int index);
const char *propane_driver_summary(int index);
propane_status propane_driver_probe(int index, propane_error *why);

/* Returns whether a device's URI names that driver: "ane?statistics=on" names "ane". */
bool propane_uri_names(const char *uri, const char *driver);
/* Opens "cpu", "null", ... For an unknown name it returns PROPANE_ERR_NOT_FOUND and lists the known ones. */
PROPANE_CHECK propane_status propane_device_open(const char *uri, propane_device **out, propane_error *err);
/* Closes the device after everything submitted has run. A request that would have to wait for an event ends as
 * PROPANE_ERR_CANCELLED, so this may also be called before freeing requests that would never run. */
void propane_device_close(propane_device *device);
const propane_device_info *propane_device_describe(const propane_device *device);

/* Times of three matrix products in fp32 and in bf16 (PROPANE_PRECISION_BF16): the result of a linear layer, and the
 * gradients of its input and of its weights. Of very large products, a part is measured. */
typedef struct propane_product_times {
    size_t size; /* sizeof(propane_product_times), set by the caller */
    /* 0 if the products are too small to measure (4 MFLOP), or if a library computes them in both types. */
    double fp32_ms, bf16_ms;
    bool reproduced; /* repeated runs agree: other work on the machine did not affect the times */
    bool bf16_pays;  /* reproduced, and bf16 takes at least 5 % less time */
} propane_product_times;

/* Times the products of a layer with weights [rows, columns] at that many positions, with this process's threads. A
 * result that is reproduced is kept in the user's cache folder with those of --blas auto (docs/blas.md), and is not
 * measured again. Returns PROPANE_ERR_UNSUPPORTED for devices other than cpu. */
PROPANE_CHECK propane_status propane_device_time_products(propane_device *device, int64_t rows, int64_t columns,
                                                          int64_t positions, propane_product_times *out,
                                                          propane_error *err);

/* ---- programs ---------------------------------------------------------------------------------------------------- */

typedef enum propane_precision {
    PROPANE_PRECISION_AS_TYPED, /* as the program's types are: fp16 values are rounded to fp16 */
    PROPANE_PRECISION_BF16      /* matrix products may round their fp32 operands to bfloat16; sums stay fp32 */
} propane_precision;

typedef struct propane_compile_options {
    size_t size;          /* sizeof(propane_compile_options) */
    const char *function; /* NULL means "main", or the only function */
    propane_precision precision;
    int threads; /* maximum number of computing threads; 0 lets the device choose */
    /* A program of the same device and the same text with other constants. Its compiled form is reused with the new
     * constants, which does not count as a compile. NULL to compile. PROPANE_ERR_UNSUPPORTED if a device cannot do
     * that. */
    const propane_program *donor;
    bool reloadable; /* It may become a donor, has one, or will be patched: constants are laid out for that. */
} propane_compile_options;

/* One input or output. Strides are in bytes: element (i0, i1, ...) is at sum(i_k * stride[k]). Rows may be padded. */
typedef struct propane_io {
    const char *name;
    propane_dtype dtype;
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
    int64_t stride[PROPANE_MAX_RANK];
    size_t bytes; /* size of the smallest buffer that may be bound to it */
} propane_io;

/* Returns whether the device accepts the program; `why` explains a refusal (op, line, reason). */
propane_status propane_program_supported(propane_device *device, const propane_module *module,
                                         const propane_compile_options *options, propane_error *why);
/* Compiles a program. `options` may be NULL. The module may be freed afterwards, because the program has copied its
 * constants. */
PROPANE_CHECK propane_status propane_program_compile(propane_device *device, const propane_module *module,
                                                     const propane_compile_options *options, propane_program **out,
                                                     propane_error *err);

/* One of several programs that are compiled in one call, which fills `program`. */
typedef struct propane_compile_item {
    const propane_module *module;
    const char *function; /* as in the options */
    propane_program *program;
} propane_compile_item;

typedef struct propane_compile_report {
    size_t size;    /* sizeof(propane_compile_report), set by the caller */
    int compiles;   /* compiles that count against the device's limit */
    int procedures; /* number of programs that share a compiled program with others */
    int failed;     /* the item that could not be compiled; negative if not known */
    char how[300];  /* in words, with the reason if programs do not share */
} propane_compile_report;

/* Does the same as one propane_program_compile call per item, but a device that can do so makes the programs
 * procedures of one compiled program. The options' function, donor and reloadable are ignored. Compiles all items
 * or none. `report` may be NULL. */
PROPANE_CHECK propane_status propane_program_compile_all(propane_device *device, propane_compile_item *items, int count,
                                                         const propane_compile_options *options,
                                                         propane_compile_report *report, propane_error *err);
/* Overwrites a constant of a compiled program in place, packed as the device wants it: `count` values of fp16 or
 * fp32, dense, in the constant's order; the device reads fp16. The program must have been compiled with
 * options.reloadable, and none of its requests may be in flight. Any thread may call it. Returns
 * PROPANE_ERR_UNSUPPORTED if the device cannot patch (propane_device_info.patches) or the constant has no separate
 * place, and PROPANE_ERR_INVALID for another number of values. After a failure the program is unchanged. */
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

/* Where a program's time goes: one row per step that the device runs, in order. */
typedef struct propane_profile_row {
    size_t size;         /* sizeof(propane_profile_row), set by the caller; strings belong to the program */
    const char *kind;    /* the kernel: "gemm", "tile", "copy", ... */
    const char *name;    /* of the value that the step computes */
    const char *stage;   /* NULL if there is none */
    double flops, bytes; /* per run; `bytes` counts operands and results once */
    int64_t runs, ns;    /* totals since the profile was switched on */
    int64_t engine_ns;   /* the same total by the engine's clock; negative if not available */
    int64_t repeats;     /* runs that the device cancelled and that were submitted again (propane_completion) */
} propane_profile_row;

/* Switches the profile on, with all counts at 0, or off, which is the initial state. Returns PROPANE_ERR_UNSUPPORTED
 * if the device keeps none. Must not be called while a request of the program is in flight. */
PROPANE_CHECK propane_status propane_program_profile(propane_program *program, bool on, propane_error *err);
int propane_program_profile_count(const propane_program *program);
bool propane_program_profile_get(const propane_program *program, int index, propane_profile_row *out);
/* Returns the name of a rule by which the device fused operations into one step when it compiled, and sets *count
 * to how often it was applied. Returns NULL after the last one. The string is static. */
const char *propane_program_fusion(const propane_program *program, int index, int *count);

/* ---- buffers: memory of the host and the device ----------------------------------------------------------------- */

/* Creates a zeroed buffer. It may be bound to several programs at once, without a copy. */
PROPANE_CHECK propane_status propane_buffer_create(propane_device *device, size_t bytes, propane_buffer **out,
                                                   propane_error *err);
/* Makes a buffer over the caller's memory, which must be aligned to 16 bytes and outlive the buffer. Works only on
 * devices that are the host itself (cpu); others return PROPANE_ERR_UNSUPPORTED. */
PROPANE_CHECK propane_status propane_buffer_wrap(propane_device *device, void *memory, size_t bytes,
                                                 propane_buffer **out, propane_error *err);
void propane_buffer_free(propane_buffer *buffer);
size_t propane_buffer_bytes(const propane_buffer *buffer);
/* The host may access the memory only between lock and unlock, and the device must not be using it then. */
PROPANE_CHECK propane_status propane_buffer_lock(propane_buffer *buffer, bool for_writing, void **out,
                                                 propane_error *err);
void propane_buffer_unlock(propane_buffer *buffer);

/* The system's object behind a buffer, for other libraries of that system: a Metal program can use an IOSurface
 * without a copy. The object lives as long as the buffer. The call returns false if there is none. */
typedef struct propane_native {
    size_t size;     /* sizeof(propane_native), set by the caller */
    void *iosurface; /* an IOSurfaceRef; NULL if there is none */
    int fd;          /* a file descriptor of the memory; -1 if there is none */
    /* The device's id<MTLSharedEvent>, which orders its runs with a GPU (docs/apple.md: events=); NULL if there is
     * none. It lives as long as the device. */
    void *shared_event;
} propane_native;
bool propane_buffer_native(const propane_buffer *buffer, propane_native *out);

/* Copies a dense array into or out of a buffer with the layout that `io` describes, converting between `dtype` and
 * io->dtype. Rounds to nearest even; conversions from float to integer are refused. `count` must be the product of
 * io->dim. */
PROPANE_CHECK propane_status propane_buffer_write(propane_buffer *buffer, const propane_io *io, propane_dtype dtype,
                                                  const void *source, int64_t count, propane_error *err);
PROPANE_CHECK propane_status propane_buffer_read(propane_buffer *buffer, const propane_io *io, propane_dtype dtype,
                                                 void *target, int64_t count, propane_error *err);

/* ---- events: counters that only grow ----------------------------------------------------------------------------- */

PROPANE_CHECK propane_status propane_event_create(propane_device *device, propane_event **out, propane_error *err);
void propane_event_free(propane_event *event);
uint64_t propane_event_value(const propane_event *event);
/* Signals from the host. A value that is not larger than the current one changes nothing. */
void propane_event_signal(propane_event *event, uint64_t value);
/* Waits for ever if timeout_ms < 0; returns PROPANE_ERR_LIMIT on timeout. */
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
    int64_t engine_ns; /* by the engine's clock; negative if not requested or not available */
    double energy_j;   /* negative if not known */
    bool simulated;    /* device_ns and energy_j come from a model */
    int repeats;       /* how often the device cancelled it before it began, so that it was submitted again */
} propane_completion;

/* Creates a request and checks its bindings once: every input and output exactly once, and sizes. The request may
 * then be submitted any number of times, but not while it is in flight. An output may share an input's buffer only
 * if the program guarantees that it reads that input before it writes that output. The cpu driver allows this for
 * accumulation inputs of the same shape. */
PROPANE_CHECK propane_status propane_request_create(propane_program *program, const propane_binding *bindings,
                                                    int count, propane_request **out, propane_error *err);
void propane_request_free(propane_request *request); /* waits if the request is in flight */
/* Replaces the events that the request waits for before it starts and those that it signals when it ends, including
 * after a failure. Does not allocate if the events stay the same and only their values change. */
PROPANE_CHECK propane_status propane_request_events(propane_request *request, const propane_event_point *waits,
                                                    int wait_count, const propane_event_point *signals,
                                                    int signal_count, propane_error *err);
/* Queues a chain in one call. It runs in the given order, after what was queued before. Queues all requests or
 * none: returns PROPANE_ERR_LIMIT if fewer than `count` places of the queue are free. Does not allocate. */
PROPANE_CHECK propane_status propane_submit(propane_request *const *requests, int count, propane_error *err);
/* Waits for one submitted request; `out` may be NULL. Returns the request's status. */
PROPANE_CHECK propane_status propane_wait(propane_request *request, propane_completion *out, propane_error *err);

PROPANE_END

#endif
