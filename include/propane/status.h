/* SPDX-License-Identifier: MIT
 * Owns statuses, errors, and the settings of the whole process: threads, logs, interrupts and memory. Every other
 * header includes this one. The rules that hold for every call are at the top of propane.h.
 */
#ifndef PROPANE_STATUS_H
#define PROPANE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* PROPANE_BEGIN and PROPANE_END surround the declarations of each header and make them visible to users of the library.
 * All other symbols are hidden. */
#if defined(__GNUC__)
#define PROPANE_VISIBLE _Pragma("GCC visibility push(default)")
#define PROPANE_HIDDEN  _Pragma("GCC visibility pop")
#else
#define PROPANE_VISIBLE
#define PROPANE_HIDDEN
#endif
#ifdef __cplusplus
#define PROPANE_BEGIN                                                                                                  \
    extern "C" {                                                                                                       \
    PROPANE_VISIBLE
#define PROPANE_END                                                                                                    \
    PROPANE_HIDDEN                                                                                                     \
    }
#else
#define PROPANE_BEGIN PROPANE_VISIBLE
#define PROPANE_END   PROPANE_HIDDEN
#endif

#define PROPANE_VERSION       "0.2.0"
#define PROPANE_VERSION_MAJOR 0
#define PROPANE_VERSION_MINOR 2
#define PROPANE_VERSION_PATCH 0

#if defined(__GNUC__)
#define PROPANE_CHECK __attribute__((warn_unused_result))
#else
#define PROPANE_CHECK
#endif

PROPANE_BEGIN

/* ---- status and error -------------------------------------------------------------------------------------------- */

typedef enum propane_status {
    PROPANE_OK = 0,
    PROPANE_ERR_INVALID,     /* the input is wrong: an argument, a shape, a malformed file */
    PROPANE_ERR_UNSUPPORTED, /* the input is valid, but an operation, a gradient or a driver does not support it */
    PROPANE_ERR_NOT_FOUND,   /* a file, a name or a device does not exist */
    PROPANE_ERR_IO,          /* the system refused to read or write */
    PROPANE_ERR_MEMORY,      /* memory ran out */
    PROPANE_ERR_LIMIT,       /* a budget or a size limit is used up (compiles, queue depth) */
    PROPANE_ERR_DEVICE,      /* the device failed while it worked */
    PROPANE_ERR_CANCELLED    /* stopped on request */
} propane_status;

/* An error, usually on the caller's stack. The text is always terminated. */
typedef struct propane_error {
    propane_status status;
    char text[1000];
} propane_error;

const char *propane_version(void); /* version of the linked library; may be newer than this header */
int propane_version_number(void);  /* the same as 10000 * major + 100 * minor + patch */
const char *propane_status_name(propane_status status); /* "invalid", "unsupported", ... */

/* Frees a text or an array that a call returned. Accepts NULL. */
void propane_free(void *memory);

/* The format of a printed text. Each call lists the formats that it accepts. */
typedef enum propane_form { PROPANE_TEXT, PROPANE_JSON, PROPANE_MARKDOWN, PROPANE_SARIF, PROPANE_GITHUB } propane_form;
/* The layout of a text for people. NULL means plain lines of any length. */
typedef struct propane_look {
    size_t size; /* sizeof(propane_look) */
    bool styled; /* with a terminal's colours */
    int width;   /* widest line or table, in columns; 0 means no limit */
} propane_look;

/* ---- the process ------------------------------------------------------------------------------------------------- */

/* Sets the number of threads in the process's pool, which all computations share. 0 means one thread per usable core.
 * Call it before anything is computed. Returns PROPANE_ERR_INVALID if `threads` is outside 0..256, or if the pool
 * already works with another number. */
PROPANE_CHECK propane_status propane_set_threads(int threads, propane_error *err);
int propane_threads(void);

/* Sets whether the model and adapter weights in safetensors files are compared with the checksums that Propane wrote
 * into those files. The setting applies to files opened from now on and is initially true. Files that other programs
 * wrote have no checksums and are accepted as they are. The checksums of checkpoints are always compared when a run is
 * resumed. */
void propane_set_verify(bool verify);

/* Sets the library for large matrix products of cpu devices that are opened from now on: "off", "auto",
 * "auto:LIBRARY" or LIBRARY, a CBLAS that is loaded at run time (docs/blas.md). NULL means the value of
 * PROPANE_BLAS, or else "auto" on Apple's systems and "off" elsewhere. A library that cannot be used is reported
 * when a device is opened. */
PROPANE_CHECK propane_status propane_set_blas(const char *how, propane_error *err);

/* The number of large matrix products that have run in this process, and their floating-point operations. They are
 * counted only if a library was requested. */
typedef struct propane_products {
    size_t size; /* sizeof(propane_products), set by the caller */
    /* The name of the library that a device opened now would use; NULL if only Propane's kernels are used. The string
     * lives as long as the process. */
    const char *library;
    bool measured; /* the library is used only for products for which it was measured to be faster */
    int64_t own_calls, library_calls;
    double own_flops, library_flops;
} propane_products;
/* Fails whenever opening a cpu device would fail. */
PROPANE_CHECK propane_status propane_products_get(propane_products *out, propane_error *err);

/* Sets the callback for notes that are not errors. Each note is one sentence without a line end. Any thread may call
 * the callback, also several threads at once. NULL (the default) drops the notes. Set it before any other call. */
typedef void (*propane_log)(void *context, const char *sentence);
void propane_set_log(propane_log log, void *context);

/* Sets the callback that decides whether long work should end, as after Ctrl-C in an interpreter. While a session runs,
 * a generator reads ids or a trainer works, the thread that made the call also calls the callback, at most every 50 ms.
 * If the callback returns true, the call returns PROPANE_ERR_CANCELLED; cpu and sim devices stop between two steps of a
 * plan. States, the ids that a generator has read, weights and moments are then as they were before the run, the chunk
 * or the training step. The callback must not call the library. NULL (the default) means no callback. Set it before any
 * other call. */
typedef bool (*propane_asked)(void *context);
void propane_set_interrupt(propane_asked asked, void *context);

/* Sets the functions that allocate the library's memory. Tensors (pages of the system) and the memory of other
 * libraries are not allocated with them. `size` is sizeof(propane_allocator). `allocate` need not clear the memory.
 * `resize` gets a pointer that one of these functions returned, or NULL. Any thread may call them. NULL restores the
 * system's functions, which are the default. Returns PROPANE_ERR_INVALID while any object of the library is alive. */
typedef struct propane_allocator {
    size_t size;
    void *context;
    void *(*allocate)(void *context, size_t bytes);
    void *(*resize)(void *context, void *memory, size_t bytes);
    void (*release)(void *context, void *memory);
} propane_allocator;
PROPANE_CHECK propane_status propane_set_allocator(const propane_allocator *allocator, propane_error *err);

PROPANE_END

#endif
