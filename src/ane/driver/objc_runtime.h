/* SPDX-License-Identifier: MIT
 * Apple's names, found at run time: libraries by dlopen, functions and data by dlsym, classes and selectors through
 * libobjc. Everything is generated from syms.def. objc_msgSend is never called with its declared type: ANE_SEND casts
 * it to the row's exact function type, because on arm64 a variadic call passes its arguments elsewhere.
 */
#ifndef ANE_DRIVER_OBJC_RUNTIME_H
#define ANE_DRIVER_OBJC_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/base/text.h"

typedef struct ane_object *ane_id;
typedef struct ane_class_object *ane_class;
typedef struct ane_selector *ane_sel;
typedef struct ane_method_object *ane_method;
typedef struct ane_io_surface *ane_surface;
typedef void (*ane_on_exception)(ane_id exception);

#define FUNCTION(symbol, library, need, result, parameters) typedef result(*ane_##symbol##_fn) parameters;
#include "ane/driver/syms.def"
#define LATE(symbol, path, result, parameters) typedef result(*ane_##symbol##_fn) parameters;
#include "ane/driver/syms.def"
#define METHOD(id, class, level, selector, encoding, need, result, parameters)                                         \
    typedef result(*ane_send_##id) parameters;
#include "ane/driver/syms.def"

typedef enum ane_class_index {
#define CLASS(id, name, need) ANE_CLASS_##id,
#include "ane/driver/syms.def"
    ANE_CLASS_COUNT
} ane_class_index;

typedef enum ane_method_index {
#define METHOD(id, class, level, selector, encoding, need, result, parameters) ANE_METHOD_##id,
#include "ane/driver/syms.def"
    ANE_METHOD_COUNT
} ane_method_index;

typedef enum ane_need { ANE_REQUIRED, ANE_MEMORY, ANE_CLIENT, ANE_OPTIONAL } ane_need;

/* What this machine provides. Lives as long as the process, because frameworks cannot be unloaded. */
typedef struct ane_api {
#define FUNCTION(symbol, library, need, result, parameters) ane_##symbol##_fn symbol;
#include "ane/driver/syms.def"
#define DATA(symbol, library, need) const void *symbol;
#include "ane/driver/syms.def"
    ane_class classes[ANE_CLASS_COUNT]; /* NULL if missing */
    ane_sel selectors[ANE_METHOD_COUNT];
    bool has[ANE_METHOD_COUNT]; /* the method exists and has the expected type */
    propane_error route[2];     /* why ANE_MEMORY or ANE_CLIENT is unavailable; status OK if it is available */
    const char *library;        /* the value of PROPANE_ANE_LIBRARY; NULL for the system's libraries */
    ane_id empty;               /* a dictionary without entries */
} ane_api;

/* The last message that this thread has sent, as its ane_method_index plus one. For reporting a raised exception. */
extern _Thread_local int ane_last_call;

/* Send a message without or with arguments; `id` is the row's. */
#define ANE_SEND0(api, id, self)                                                                                       \
    (ane_last_call = 1 + ANE_METHOD_##id,                                                                              \
     ((ane_send_##id)(api)->objc_msgSend)((self), (api)->selectors[ANE_METHOD_##id]))
#define ANE_SEND(api, id, self, ...)                                                                                   \
    (ane_last_call = 1 + ANE_METHOD_##id,                                                                              \
     ((ane_send_##id)(api)->objc_msgSend)((self), (api)->selectors[ANE_METHOD_##id], __VA_ARGS__))
#define ANE_CLASS(api, id) ((ane_id)(api)->classes[ANE_CLASS_##id])
#define ANE_HAS(api, id)   ((api)->has[ANE_METHOD_##id])

/* Loads everything at the first call. With PROPANE_ERR_UNSUPPORTED, the error names what is missing. */
PROPANE_CHECK propane_status ane_api_get(const ane_api **out, propane_error *err);
/* Symbols that are looked up late. */
typedef struct ane_late {
#define LATE(symbol, path, result, parameters) ane_##symbol##_fn symbol; /* NULL if missing */
#include "ane/driver/syms.def"
} ane_late;
/* Loads their libraries at the first call. */
const ane_late *ane_late_get(const ane_api *a);
/* Registers the class of `object`, the first object met of a protocol, as the protocol's class. Returns false if the
 * class or one of its methods is missing or has another type. */
bool ane_meet(const ane_api *a, ane_class_index protocol, ane_id object);
/* Returns true if the object's class has the row's method, with its type; false for NULL. Use it for objects that may be
 * of any class. */
bool ane_answers(const ane_api *a, ane_id object, ane_method_index method);
/* Returns true if a type encoding means the same call as the one in syms.def. */
bool ane_encoding_matches(const char *wanted, const char *found);
/* Prints one line per row of syms.def: found, missing, of another type, or of a protocol not met yet. Works even if the
 * device does not. */
void ane_api_list(text *out);
/* Returns the properties of _ANEDeviceInfo, with "?" and 0 for those it does not have. */
void ane_machine(const ane_api *a, char architecture[60], int64_t *cores, char build[60]);
/* The running system: the machine's or the stand-in's. ane_system returns false and all zeros if it is unknown. */
typedef struct ane_system_version {
    int major, minor, patch; /* 26, 3, 1 */
    char build[24];          /* "25D2128" */
} ane_system_version;
bool ane_system(const ane_api *a, ane_system_version *out);
/* Prints the order in which the inputs of a program of this driver are bound: "k, q". Returns false if the system does
 * not reveal it, or if the program is another driver's. */
bool ane_program_symbols(const propane_program *program, char *out, size_t size);

/* Trials for a separate process, because each may crash or hang it. They remember their findings (remembered.h) and
 * report them in a few words. This one tries the ways to evaluate a request, on one route (0: memory, 1: client). */
PROPANE_CHECK propane_status ane_try_ways(int route, text *answer, propane_error *err);
/* Tries whether surfaces of one request may differ in size. */
PROPANE_CHECK propane_status ane_try_sizes(int route, text *answer, propane_error *err);
/* Tries whether a loaded program works without its descriptor, and without its folder. */
PROPANE_CHECK propane_status ane_try_keeping(int route, text *answer, propane_error *err);
/* Try whether shared events, and chained requests, work on the client route. May crash or hang the process. */
PROPANE_CHECK propane_status ane_try_events(text *answer, propane_error *err);
PROPANE_CHECK propane_status ane_try_chaining(text *answer, propane_error *err);

/* ---- objects: the caller releases results (ane_release accepts NULL); NULL if memory runs out -------------------- */

ane_id ane_string(const ane_api *a, const char *from);
ane_id ane_data(const ane_api *a, const void *bytes, size_t length);
ane_id ane_number(const ane_api *a, int64_t value);
ane_id ane_array(const ane_api *a, const ane_id *values, int count);
ane_id ane_dictionary(const ane_api *a, const void *const *keys, const ane_id *values, int count);
void ane_release(const ane_api *a, ane_id object);

/* ---- reading: objects of an unexpected class count as missing ---------------------------------------------------- */

bool ane_text_of(const ane_api *a, ane_id string, char *out, size_t size);
bool ane_number_of(const ane_api *a, ane_id number, int64_t *out);
int ane_array_count(const ane_api *a, ane_id array); /* 0 if it is not an array */
ane_id ane_array_at(const ane_api *a, ane_id array, int index);
ane_id ane_entry(const ane_api *a, ane_id dictionary, const char *key); /* NULL if there is none */
bool ane_entry_number(const ane_api *a, ane_id dictionary, const char *key, int64_t *out);

#endif
