/* SPDX-License-Identifier: MIT
 * The driver contract. A driver describes itself, compiles programs, makes buffers and executes requests one at a time.
 * Queueing, events, chains, checks of bindings and waiting are the same for every driver, so this folder contains them.
 * queue.c calls execute from the device's own thread or from a thread that waits for a request, never from two threads
 * at once.
 *
 * Submit and wait are not part of a driver, because all known engines execute requests in order, and every driver would
 * need a copy of the same queue. If an engine accepts several requests at once, queue.c may later overlap them.
 */
#ifndef CORE_DEVICE_DRIVER_H
#define CORE_DEVICE_DRIVER_H

#include "core/base/arena.h"
#include "core/mil/mil.h"

typedef struct propane_driver propane_driver;

/* Output `output` may share the buffer of input `input`: each part of the output is written only after the same part of
 * the input has been read for the last time. */
typedef struct driver_share {
    int output, input;
} driver_share;

/* The part of a compiled program that its driver fills in. The device layer owns the structure. */
typedef struct driver_program {
    arena *arena; /* the program's memory (io arrays, names, plan); created before compile, freed after the program */
    int input_count, output_count;
    propane_io *inputs, *outputs;
    driver_share *shares; /* [share_count], in ascending order of outputs, then inputs */
    int share_count;
    void *impl; /* the driver's data */
} driver_program;

typedef struct driver_buffer {
    size_t bytes;
    void *memory; /* what the host sees between lock and unlock; set by buffer_lock if the driver has that function */
    void *impl;
} driver_buffer;

/* Buffers in the order of driver_program's inputs and outputs. */
typedef struct driver_execution {
    driver_program *program;
    driver_buffer *const *inputs;
    driver_buffer *const *outputs;
    void *impl; /* what request_prepare stores for this request */
} driver_execution;

/* Threads: execute is called by one thread at a time per device. All other functions may be called at any time, even
 * while execute runs, and lock what they share. A function that fails releases what it acquired itself: program_free
 * and buffer_free are called only after a successful compile or buffer_create. */
struct propane_driver {
    const char *name; /* the part of a uri before ':' */
    const char *summary;
    bool reloads; /* compile accepts a donor */
    /* The driver's programs also accept buffers of other devices that have `memory` or can be locked, because the
     * device is the host. */
    bool host_memory;
    /* Returns another driver that serves this uri, or NULL if this driver serves it. (optional) */
    const propane_driver *(*other)(const char *rest);
    /* Returns PROPANE_OK, or an error that explains why this driver cannot work on this machine. */
    propane_status (*probe)(propane_error *why); /* (optional) NULL means that the driver always works */
    /* `rest` is the part of the uri after ':', or "". */
    propane_status (*open)(const char *rest, void **impl, propane_error *err);
    void (*close)(void *impl);
    /* `out` already holds the uri, the summary and a queue depth of 127. */
    void (*describe)(const void *impl, propane_device_info *out);
    propane_status (*supports)(void *impl, const mil_function *f, const propane_compile_options *options,
                               propane_error *why);
    /* Describes the known rule behind the refusal of a program. (optional) NULL means that the driver has no rules. */
    propane_status (*refusing_rule)(const mil_module *m, char *out, size_t room, propane_error *err);
    propane_status (*compile)(void *impl, const mil_function *f, const propane_compile_options *options,
                              driver_program *out, propane_error *err);
    /* Compiles several functions at once, so that they can share the work; `options` apply to all. Fills `report`,
     * which is initially empty; report->failed is the index of a function that could not be compiled. (optional) NULL
     * means that functions are compiled one after the other. */
    propane_status (*compile_all)(void *impl, const mil_function *const *f, int count,
                                  const propane_compile_options *options, driver_program *const *out,
                                  propane_compile_report *report, propane_error *err);
    /* Overwrites an fp16 constant of a program that was compiled with options->reloadable. (optional) */
    propane_status (*patch)(void *impl, driver_program *program, const char *constant, const uint16_t *values,
                            int64_t count, propane_error *err);
    void (*program_free)(void *impl, driver_program *program);
    propane_status (*buffer_create)(void *impl, size_t bytes, driver_buffer *out, propane_error *err);
    void (*buffer_free)(void *impl, driver_buffer *buffer);
    propane_status (*buffer_lock)(void *impl, driver_buffer *buffer, bool for_writing, void **out,
                                  propane_error *err);        /* (optional) NULL if `memory` is always valid */
    void (*buffer_unlock)(void *impl, driver_buffer *buffer); /* (optional) */
    /* Called when a request is created and when it is freed. A request's bindings never change. (optional) */
    propane_status (*request_prepare)(void *impl, driver_execution *e, propane_error *err);
    void (*request_free)(void *impl, driver_execution *e);
    /* All measurements in `out` are initially negative, which means unknown. If device_ns stays unknown, the caller
     * measures it. */
    propane_status (*execute)(void *impl, const driver_execution *e, propane_completion *out, propane_error *err);
    /* Profiles a program, with one row per step. Profiling is initially off; turning it on resets the counts.
     * (optional; all or none) */
    void (*profile)(driver_program *program, bool on);
    int (*profile_count)(const driver_program *program);
    void (*profile_row)(const driver_program *program, int step, propane_profile_row *out);
    const char *(*profile_fusion)(const driver_program *program, int index, int *count);
    /* Fills in what propane_device_time_products returns. (optional) NULL means that the device does not choose between
     * fp32 and bf16. */
    void (*time_products)(void *impl, int64_t rows, int64_t columns, int64_t positions, propane_product_times *out);
    /* Sets *out to the operating system's native object behind a buffer, for use with the system's other libraries.
     * Returns false if there is none. (optional) */
    bool (*buffer_native)(void *impl, const driver_buffer *buffer, propane_native *out);
};

int driver_share_compare(const void *a, const void *b); /* for qsort */
bool driver_may_share(const driver_share *shares, int count, int output, int input);

/* Returns the program behind options->donor for a driver's compile, or NULL if it is another driver's program. */
const driver_program *driver_program_of(const propane_program *p, const propane_driver *driver);

/* Fills p's inputs and outputs (names, types, strides, sizes) for a driver whose tensors are dense and in the order of
 * the function's parameters and results. Returns PROPANE_ERR_UNSUPPORTED for a type that no buffer can hold (int64, a
 * string). */
PROPANE_CHECK propane_status driver_dense_io(driver_program *p, const mil_function *f, propane_error *err);

/* The drivers in this build. The array is in src/ane/driver_list.c, because this layer must not depend on the
 * drivers. */
extern const propane_driver *const propane_drivers[];
extern const int propane_drivers_count;

#endif
