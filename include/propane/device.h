/* SPDX-License-Identifier: MIT
 * Owns devices, and what runs on them: programs, buffers, events, requests. A request is submitted and waited for; a
 * session (session.h) does that by names. What holds for every call is at the top of propane.h.
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
    size_t size;          /* of what the library filled */
    const char *uri;      /* "cpu", "null", "sim:m4", "ane" */
    const char *summary;  /* one line for people */
    int queue_depth;      /* requests that may be in flight */
    int compile_limit;    /* programs one process may compile; 0: no limit */
    bool simulated;       /* its figures are a model's, not a clock's */
    bool shares_compiles; /* programs that are compiled at once may count as one compile */
    const char *note;     /* what was chosen when it was opened, and why; NULL: nothing was */
    bool unproven;        /* its results have never been verified: check before relying on them */
    bool patches;         /* propane_program_patch works on its programs */
} propane_device_info;

/* The drivers of this build, in the order in which they are listed. `why` (may be NULL): the reason why one cannot be
 * opened here. */
int propane_driver_count(void);
const char *propane_driver_name(int index);
const char *propane_driver_summary(int index);
propane_status propane_driver_probe(int index, propane_error *why);

/* Does a device's uri name that driver? "ane?statistics=on" names "ane". */
bool propane_uri_names(const char *uri, const char *driver);
/* Opens "cpu", "null", ... Unknown names are PROPANE_ERR_NOT_FOUND and name the known ones. */
PROPANE_CHECK propane_status propane_device_open(const char *uri, propane_device **out, propane_error *err);
/* Returns when what was submitted has run; a request that would have to wait for an event ends as
 * PROPANE_ERR_CANCELLED, so it may also be called before requests are freed that would never run. */
void propane_device_close(propane_device *device);
const propane_device_info *propane_device_describe(const propane_device *device);

/* ---- programs ---------------------------------------------------------------------------------------------------- */

typedef enum propane_precision {
    PROPANE_PRECISION_AS_TYPED, /* as the program's types say: fp16 values are rounded to fp16 */
    PROPANE_PRECISION_BF16      /* matrix products may round their fp32 operands to bfloat16; sums stay fp32 */
} propane_precision;

typedef struct propane_compile_options {
    size_t size;          /* sizeof(propane_compile_options) */
    const char *function; /* NULL: "main", or the only function */
    propane_precision precision;
    int threads; /* the most that compute at once; 0: the device's own choice */
    /* A program of the same device and the same text with other constants: its compiled form is used again with the new
     * ones, which is not a compile. NULL: compile. PROPANE_ERR_UNSUPPORTED where a device cannot do that. */
    const propane_program *donor;
    bool reloadable; /* it may become a donor, or has one, or will be patched: constants are laid out for that */
} propane_compile_options;

/* One input or output. Strides are in bytes: element (i0, i1, ...) lies at sum(i_k * stride[k]). Rows may be padded. */
typedef struct propane_io {
    const char *name;
    propane_dtype dtype;
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
    int64_t stride[PROPANE_MAX_RANK];
    size_t bytes; /* the smallest buffer that may be bound to it */
} propane_io;

/* Says whether the device takes the program; `why` explains a no (op, line, reason). */
propane_status propane_program_supported(propane_device *device, const propane_module *module,
                                         const propane_compile_options *options, propane_error *why);
/* `options` may be NULL. The module may be freed afterwards: its constants are the program's own by then. */
PROPANE_CHECK propane_status propane_program_compile(propane_device *device, const propane_module *module,
                                                     const propane_compile_options *options, propane_program **out,
                                                     propane_error *err);

/* One of several programs that are compiled at once; `program` is filled. */
typedef struct propane_compile_item {
    const propane_module *module;
    const char *function; /* as in the options */
    propane_program *program;
} propane_compile_item;

typedef struct propane_compile_report {
    size_t size;    /* sizeof(propane_compile_report), set by the caller */
    int compiles;   /* that count against the device's limit */
    int procedures; /* how many of the programs share a compiled program with others */
    int failed;     /* the item that could not be compiled; negative: not known which */
    char how[300];  /* in words, with the reason where programs do not share */
} propane_compile_report;

/* As many calls of propane_program_compile, but a device that can do so makes the programs procedures of one compiled
 * program. The options' function, donor and reloadable are not looked at. All or none; `report` may be NULL. */
PROPANE_CHECK propane_status propane_program_compile_all(propane_device *device, propane_compile_item *items, int count,
                                                         const propane_compile_options *options,
                                                         propane_compile_report *report, propane_error *err);
/* Overwrites a constant of a compiled program in place, packed as the device wants it: `count` values of fp16 or fp32,
 * dense, in the constant's order; the device reads fp16. The program was compiled with options.reloadable, and none of
 * its requests is in flight. Any thread. PROPANE_ERR_UNSUPPORTED: the device has no such thing
 * (propane_device_info.patches), or the constant has no place of its own; PROPANE_ERR_INVALID: another number of
 * values. After a failure the program is as before. */
PROPANE_CHECK propane_status propane_program_patch(propane_program *program, const char *constant, propane_dtype dtype,
                                                   const void *values, int64_t count, propane_error *err);
void propane_program_free(propane_program *program);
int propane_program_input_count(const propane_program *program);
int propane_program_output_count(const propane_program *program);
const propane_io *propane_program_input(const propane_program *program, int index);
const propane_io *propane_program_output(const propane_program *program, int index);
/* NULL if there is no input or output of that name. */
const propane_io *propane_program_find(const propane_program *program, const char *name);
/* Its elements: the product of its dimensions. */
int64_t propane_io_count(const propane_io *io);

/* Where the time of a program goes: a row for each step that the device runs, in their order. */
typedef struct propane_profile_row {
    size_t size;         /* sizeof(propane_profile_row), set by the caller; strings belong to the program */
    const char *kind;    /* the kernel: "gemm", "tile", "copy", ... */
    const char *name;    /* of the value that the step makes */
    const char *stage;   /* NULL: none */
    double flops, bytes; /* of one run; bytes: operands and results once */
    int64_t runs, ns;    /* since it was switched on, all together */
    int64_t engine_ns;   /* likewise by the engine's own clock; negative: not given */
    int64_t repeats;     /* runs that the device cancelled and got again (propane_completion) */
} propane_profile_row;

/* Switches the record on, with all counts at 0, or off, as it is at first. PROPANE_ERR_UNSUPPORTED: the device keeps
 * none. Not while a request of the program is in flight. */
PROPANE_CHECK propane_status propane_program_profile(propane_program *program, bool on, propane_error *err);
int propane_program_profile_count(const propane_program *program);
bool propane_program_profile_get(const propane_program *program, int index, propane_profile_row *out);
/* What the device made one step of when it compiled: the rule's name and how often it was applied; NULL after the last.
 * Static. */
const char *propane_program_fusion(const propane_program *program, int index, int *count);

/* ---- buffers: memory that the host and the device share ---------------------------------------------------------- */

/* Zeroed. May be bound to several programs at once, without a copy. */
PROPANE_CHECK propane_status propane_buffer_create(propane_device *device, size_t bytes, propane_buffer **out,
                                                   propane_error *err);
/* A buffer over the caller's memory, which must be aligned to 16 bytes and outlive it. Only on devices that are the
 * host itself (cpu); elsewhere PROPANE_ERR_UNSUPPORTED. */
PROPANE_CHECK propane_status propane_buffer_wrap(propane_device *device, void *memory, size_t bytes,
                                                 propane_buffer **out, propane_error *err);
void propane_buffer_free(propane_buffer *buffer);
size_t propane_buffer_bytes(const propane_buffer *buffer);
/* The host may touch the memory between lock and unlock only, and the device must not be using it then. */
PROPANE_CHECK propane_status propane_buffer_lock(propane_buffer *buffer, bool for_writing, void **out,
                                                 propane_error *err);
void propane_buffer_unlock(propane_buffer *buffer);

/* The system's own object behind a buffer, for other libraries of that system: a Metal program can use an IOSurface
 * without a copy. It lives as long as the buffer. False: there is none. */
typedef struct propane_native {
    size_t size;     /* sizeof(propane_native), set by the caller */
    void *iosurface; /* an IOSurfaceRef; NULL: none */
    int fd;          /* a file descriptor of the memory; -1: none */
    /* Of the device: an id<MTLSharedEvent> that orders its runs with a GPU (docs/apple.md: events=); NULL: none. It
     * lives as long as the device. */
    void *shared_event;
} propane_native;
bool propane_buffer_native(const propane_buffer *buffer, propane_native *out);

/* Copies a dense array in or out of a buffer that is laid out as `io` says, converting between `dtype` and io->dtype
 * (round to nearest even; float to integer conversions are refused). `count` must be the product of io->dim. */
PROPANE_CHECK propane_status propane_buffer_write(propane_buffer *buffer, const propane_io *io, propane_dtype dtype,
                                                  const void *source, int64_t count, propane_error *err);
PROPANE_CHECK propane_status propane_buffer_read(propane_buffer *buffer, const propane_io *io, propane_dtype dtype,
                                                 void *target, int64_t count, propane_error *err);

/* ---- events: counters that only grow ----------------------------------------------------------------------------- */

PROPANE_CHECK propane_status propane_event_create(propane_device *device, propane_event **out, propane_error *err);
void propane_event_free(propane_event *event);
uint64_t propane_event_value(const propane_event *event);
/* From the host. A value that is not larger than the present one changes nothing. */
void propane_event_signal(propane_event *event, uint64_t value);
/* timeout_ms < 0: for ever; PROPANE_ERR_LIMIT when the time is over. */
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
    int64_t device_ns; /* time on the device, by the host's clock around the call */
    int64_t engine_ns; /* by the engine's own clock; negative: it was not asked for or is not given */
    double energy_j;   /* negative: not known */
    bool simulated;    /* device_ns and energy_j come from a model */
    int repeats;       /* the device cancelled it so often before it began, and it was given to it again */
} propane_completion;

/* Checks the bindings once (every input and output exactly once, sizes); may then be submitted any number of times, but
 * not while it is in flight. An output may be bound to an input's buffer only where the program says that it reads that
 * input before it writes that output (the cpu driver allows it for same-shaped accumulation inputs). */
PROPANE_CHECK propane_status propane_request_create(propane_program *program, const propane_binding *bindings,
                                                    int count, propane_request **out, propane_error *err);
void propane_request_free(propane_request *request); /* waits if it is in flight */
/* Replaces what the request waits for before it starts and what it signals when it is done (also when it failed). Does
 * not allocate where the events stay the same and only their values are new. */
PROPANE_CHECK propane_status propane_request_events(propane_request *request, const propane_event_point *waits,
                                                    int wait_count, const propane_event_point *signals,
                                                    int signal_count, propane_error *err);
/* Queues a chain in one call; it runs in the given order, and in order with what was queued before. All or nothing:
 * PROPANE_ERR_LIMIT if fewer than `count` places of the queue are free. Does not allocate. */
PROPANE_CHECK propane_status propane_submit(propane_request *const *requests, int count, propane_error *err);
/* Waits for one request, which was submitted; `out` may be NULL. The status returned is the request's own. */
PROPANE_CHECK propane_status propane_wait(propane_request *request, propane_completion *out, propane_error *err);

PROPANE_END

#endif
