/* SPDX-License-Identifier: MIT
 * The driver contract. A driver says what it is, compiles programs, makes buffers and executes requests one at a time;
 * queueing, events, chains, checks of bindings and waiting are the same for every driver and live in
 * core/device/queue.c, which calls execute from the device's own thread (or from a waiter's, never from two at once).
 *
 * Submit and wait are not in the driver but here: all known engines execute in order, and five copies of
 * one queue would be a defect. A driver whose engine takes several requests at once may overlap inside execute's caller
 * later, through `depth`.
 */
#ifndef CORE_DEVICE_DRIVER_H
#define CORE_DEVICE_DRIVER_H

#include "core/base/arena.h"
#include "core/mil/mil.h"

typedef struct propane_driver propane_driver;

/* Output `output` may have the buffer of input `input`: it is written where that has been read for the last time. */
typedef struct driver_share {
    int output, input;
} driver_share;

/* What a driver fills in for a compiled program; the device layer owns it. */
typedef struct driver_program {
    arena *arena; /* the program's memory: io arrays, names, plan; there before compile, freed after it */
    int input_count, output_count;
    propane_io *inputs, *outputs;
    driver_share *shares; /* [share_count], in ascending order of outputs, then inputs */
    int share_count;
    void *impl; /* the driver's own */
} driver_program;

typedef struct driver_buffer {
    size_t bytes;
    void *memory; /* what the host sees between lock and unlock; where buffer_lock is given, lock fills it */
    void *impl;
} driver_buffer;

/* Buffers in the order of driver_program's inputs and outputs. */
typedef struct driver_execution {
    driver_program *program;
    driver_buffer *const *inputs;
    driver_buffer *const *outputs;
    void *impl; /* what request_prepare keeps for it */
} driver_execution;

/* Threads: execute is called by one thread at a time for one device; everything else may be called at any time, also
 * while it runs, and locks what it shares. Whoever fails after it took something gives it back itself: program_free and
 * buffer_free are called for what compile and buffer_create finished only. */
struct propane_driver {
    const char *name; /* what precedes ':' in a uri */
    const char *summary;
    bool reloads;     /* compile takes a donor */
    bool host_memory; /* its programs also take buffers of other devices that have `memory`: it is the host itself */
    /* The driver that serves this uri in its place; NULL: itself. (optional) */
    const propane_driver *(*other)(const char *rest);
    /* Why this driver cannot work on this machine; OK if it can. */
    propane_status (*probe)(propane_error *why); /* (optional) NULL: it always can */
    /* `rest` is what follows ':' in the uri, "" if nothing does. */
    propane_status (*open)(const char *rest, void **impl, propane_error *err);
    void (*close)(void *impl);
    /* `out` holds the uri, the summary and a queue of 127 already. */
    void (*describe)(const void *impl, propane_device_info *out);
    propane_status (*supports)(void *impl, const mil_function *f, const propane_compile_options *options,
                               propane_error *why);
    /* The known rule that covers a program which compile refused, in words. (optional) NULL: the driver has no
     * rules. */
    propane_status (*refusing_rule)(const mil_module *m, char *out, size_t room, propane_error *err);
    propane_status (*compile)(void *impl, const mil_function *f, const propane_compile_options *options,
                              driver_program *out, propane_error *err);
    /* Several functions at once, so that they can share what a compile takes; `options` are for all. Fills `report` (it
     * is empty; failed: the function that could not be compiled). (optional) NULL: one after the other. */
    propane_status (*compile_all)(void *impl, const mil_function *const *f, int count,
                                  const propane_compile_options *options, driver_program *const *out,
                                  propane_compile_report *report, propane_error *err);
    /* Overwrites a constant of a program that was compiled with options->reloadable; fp16. (optional) */
    propane_status (*patch)(void *impl, driver_program *program, const char *constant, const uint16_t *values,
                            int64_t count, propane_error *err);
    void (*program_free)(void *impl, driver_program *program);
    propane_status (*buffer_create)(void *impl, size_t bytes, driver_buffer *out, propane_error *err);
    void (*buffer_free)(void *impl, driver_buffer *buffer);
    propane_status (*buffer_lock)(void *impl, driver_buffer *buffer, bool for_writing, void **out,
                                  propane_error *err);        /* (optional) NULL: `memory` is always there */
    void (*buffer_unlock)(void *impl, driver_buffer *buffer); /* (optional) */
    /* A request was made, or ends: the bindings stay the same all its life. (optional) */
    propane_status (*request_prepare)(void *impl, driver_execution *e, propane_error *err);
    void (*request_free)(void *impl, driver_execution *e);
    /* `out` is filled with "not known": what stays so is measured by the caller. */
    propane_status (*execute)(void *impl, const driver_execution *e, propane_completion *out, propane_error *err);
    /* Where the time of a program goes, a row a step: off at first; on sets the counts to nothing. (optional, all or
     * none) */
    void (*profile)(driver_program *program, bool on);
    int (*profile_count)(const driver_program *program);
    void (*profile_row)(const driver_program *program, int step, propane_profile_row *out);
    const char *(*profile_fusion)(const driver_program *program, int index, int *count);
    /* The native object of the operating system behind a buffer, for use by its other libraries. (optional) */
    bool (*buffer_native)(void *impl, const driver_buffer *buffer, propane_native *out);
};

int driver_share_compare(const void *a, const void *b); /* for qsort */
bool driver_may_share(const driver_share *shares, int count, int output, int input);

/* What a driver's compile finds behind options->donor; NULL: another driver's program. */
const driver_program *driver_program_of(const propane_program *p, const propane_driver *driver);

/* Fills p's inputs and outputs for a driver whose tensors are dense and in the order of the function's parameters and
 * results: names, types, strides, sizes. A type that no buffer can hold (int64, a string) is
 * PROPANE_ERR_UNSUPPORTED. */
PROPANE_CHECK propane_status driver_dense_io(driver_program *p, const mil_function *f, propane_error *err);

/* The visible array of drivers. It is in src/ane/driver_list.c, because this layer does not see them. */
extern const propane_driver *const propane_drivers[];
extern const int propane_drivers_count;

#endif
