/* SPDX-License-Identifier: MIT
 * Owns statuses, errors, and what holds for the whole process: threads, logs, interrupts, memory. What every other
 * header needs. What holds for every call is at the top of propane.h.
 */
#ifndef PROPANE_STATUS_H
#define PROPANE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Around the declarations of each header. The library is compiled with everything else hidden. */
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
    PROPANE_ERR_INVALID,     /* the input is wrong: a flag, a shape, a malformed file */
    PROPANE_ERR_UNSUPPORTED, /* the input is right, but this cannot be done here (op, gradient, driver) */
    PROPANE_ERR_NOT_FOUND,   /* a file, a name or a device does not exist */
    PROPANE_ERR_IO,          /* the system refused to read or write */
    PROPANE_ERR_MEMORY,      /* no memory */
    PROPANE_ERR_LIMIT,       /* a budget or a size limit is used up (compiles, queue depth) */
    PROPANE_ERR_DEVICE,      /* the device failed while it worked */
    PROPANE_ERR_CANCELLED    /* stopped on request */
} propane_status;

/* Lives on the caller's stack; the text is always terminated. */
typedef struct propane_error {
    propane_status status;
    char text[1000];
} propane_error;

const char *propane_version(void); /* of the library that is linked, which may be newer than this header */
int propane_version_number(void);  /* the same: 10000 * major + 100 * minor + patch */
const char *propane_status_name(propane_status status); /* "invalid", "unsupported", ... */

/* Memory that a call gives as a text or an array. Takes NULL. */
void propane_free(void *memory);

/* The format of a call that prints: for people, for programs, for a page. */
typedef enum propane_form { PROPANE_TEXT, PROPANE_JSON, PROPANE_MARKDOWN, PROPANE_SARIF, PROPANE_GITHUB } propane_form;
/* The layout of a text for people. NULL: plain lines of any length. */
typedef struct propane_look {
    size_t size; /* sizeof(propane_look) */
    bool styled; /* with a terminal's colours */
    int width;   /* columns that lines and tables keep to; 0: any */
} propane_look;

/* ---- the process ------------------------------------------------------------------------------------------------- */

/* Threads that computations share, one pool a process; 0 sets as many as there are usable cores. PROPANE_ERR_INVALID
 * outside 0..256, and when it works with another number already: set it before anything is computed. */
PROPANE_CHECK propane_status propane_set_threads(int threads, propane_error *err);
int propane_threads(void);

/* Whether the weights of models and adapters in safetensors files are compared with the checksums that Propane writes
 * into these files, when a model or an adapter is opened from now on; true at first. Other programs' files have none
 * and are taken as they are. Checkpoints are compared always when a run is resumed. */
void propane_set_verify(bool verify);

/* The library for large products of cpu devices that are opened from now on: "off", "auto", "auto:LIBRARY" or LIBRARY,
 * a CBLAS that is loaded at run time (docs/blas.md). NULL: the value of PROPANE_BLAS, else "auto" on Apple's systems
 * and "off" elsewhere. A library that cannot be used is reported when a device is opened. */
PROPANE_CHECK propane_status propane_set_blas(const char *how, propane_error *err);

/* Large products run so far in this process, and their arithmetic. They are counted where a library was asked for. */
typedef struct propane_products {
    size_t size; /* sizeof(propane_products), set by the caller */
    /* The library that a device opened now would use; NULL: our own kernels alone. Lives as long as the process. */
    const char *library;
    bool measured; /* the library does what it was measured to do faster */
    int64_t own_calls, library_calls;
    double own_flops, library_flops;
} propane_products;
/* Fails as opening a cpu device would. */
PROPANE_CHECK propane_status propane_products_get(propane_products *out, propane_error *err);

/* Notes that are not errors: one sentence, without an end of line. Called from any thread, also from several at once.
 * NULL (the default): notes are dropped. Set it before anything else is called. */
typedef void (*propane_log)(void *context, const char *sentence);
void propane_set_log(propane_log log, void *context);

/* Whether long work should end, as after Ctrl-C in an interpreter. Asked at most every 50 ms, in the thread that made
 * the call, while a session runs, a generator reads ids or a trainer works. True: that call ends with
 * PROPANE_ERR_CANCELLED, between two steps of a plan on cpu and sim devices; states, what a generator has read, weights
 * and moments are as before the run, the chunk, the training step. It must not call the library. NULL (the default):
 * nothing is asked. Set it before anything else is called. */
typedef bool (*propane_asked)(void *context);
void propane_set_interrupt(propane_asked asked, void *context);

/* The memory that the library asks for, but for tensors (pages of the system) and what other libraries ask for. `size`
 * is sizeof(propane_allocator). `allocate` need not clear; what `resize` gets is its own or NULL. From any thread.
 * NULL: the system's, as at first. PROPANE_ERR_INVALID when something of the library's is alive. */
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
