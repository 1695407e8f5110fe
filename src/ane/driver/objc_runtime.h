/* SPDX-License-Identifier: MIT
 * Finds Apple's names at run time: libraries by dlopen, functions and data by dlsym, classes and selectors through
 * libobjc. The declarations are generated from syms.def. objc_msgSend is never called with its declared type. ANE_SEND
 * casts it to the row's exact function type, because a variadic call on arm64 passes its arguments in other places.
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

/* The names that this machine provides. They stay valid until the process exits, because frameworks cannot be
 * unloaded. */
typedef struct ane_api {
#define FUNCTION(symbol, library, need, result, parameters) ane_##symbol##_fn symbol;
#include "ane/driver/syms.def"
#define DATA(symbol, library, need) const void *symbol;
#include "ane/driver/syms.def"
    ane_class classes[ANE_CLASS_COUNT]; /* NULL if missing */
    ane_sel selectors[ANE_METHOD_COUNT];
    bool has[ANE_METHOD_COUNT]; /* the method exists and has the expected type */
    propane_error route[2];     /* why ANE_MEMORY or ANE_CLIENT is unavailable; status OK if it is available */
    const char *library;        /* the value of PROPANE_ANE_LIBRARY; NULL if the system's libraries are used */
    ane_id empty;               /* a dictionary without entries */
} ane_api;

/* The last message that this thread has sent, as its ane_method_index plus one; 0 if there is none. Reports of a raised
 * exception name this message. */
extern _Thread_local int ane_last_call;

/* ANE_SEND0 sends a message without arguments, ANE_SEND a message with arguments. `id` is the id of the METHOD row. */
#define ANE_SEND0(api, id, self)                                                                                       \
    (ane_last_call = 1 + ANE_METHOD_##id,                                                                              \
     ((ane_send_##id)(api)->objc_msgSend)((self), (api)->selectors[ANE_METHOD_##id]))
#define ANE_SEND(api, id, self, ...)                                                                                   \
    (ane_last_call = 1 + ANE_METHOD_##id,                                                                              \
     ((ane_send_##id)(api)->objc_msgSend)((self), (api)->selectors[ANE_METHOD_##id], __VA_ARGS__))
#define ANE_CLASS(api, id) ((ane_id)(api)->classes[ANE_CLASS_##id])
#define ANE_HAS(api, id)   ((api)->has[ANE_METHOD_##id])

/* Looks up all names at the first call. With PROPANE_ERR_UNSUPPORTED, the error names what is missing. */
PROPANE_CHECK propane_status ane_api_get(const ane_api **out, propane_error *err);
/* Symbols that are looked up only when ane_late_get is first called. */
typedef struct ane_late {
#define LATE(symbol, path, result, parameters) ane_##symbol##_fn symbol; /* NULL if missing */
#include "ane/driver/syms.def"
} ane_late;
/* Loads the libraries of the late symbols at the first call. */
const ane_late *ane_late_get(const ane_api *a);
/* Registers the class of `object` as the protocol's class if no class is registered yet. Returns false if `object` is
 * NULL, or if a method of the protocol is missing or has another type. */
bool ane_meet(const ane_api *a, ane_class_index protocol, ane_id object);
/* Returns true if the object's class has the row's method with the row's type. Returns false for NULL. Use it for
 * objects that may be of any class. */
bool ane_answers(const ane_api *a, ane_id object, ane_method_index method);
/* Returns true if the type encoding `found` means the same call as `wanted`, the encoding in syms.def. */
bool ane_encoding_matches(const char *wanted, const char *found);
/* Prints one line per row of syms.def: found, missing, of another type, or of a protocol not met yet. Works even if the
 * device does not. */
void ane_api_list(text *out);
/* Reads the properties of _ANEDeviceInfo. A missing property becomes "?" or 0. */
void ane_machine(const ane_api *a, char architecture[60], int64_t *cores, char build[60]);
/* The version of the running system, or of the stand-in. If the version is unknown, ane_system returns false and sets
 * all fields to zero. */
typedef struct ane_system_version {
    int major, minor, patch; /* 26, 3, 1 */
    char build[24];          /* "25D2128" */
} ane_system_version;
bool ane_system(const ane_api *a, ane_system_version *out);
/* Prints the order in which the inputs of a program of this driver are bound, such as "k, q". Returns false if the
 * system does not report this order, or if the program is another driver's. */
bool ane_program_symbols(const propane_program *program, char *out, size_t size);

/* Run trials. Call each in a separate process, which it may crash or hang. They report their findings in a few words,
 * and all but ane_try_chaining remember them (remembered.h). ane_try_ways tries the ways to evaluate a request, on one
 * route (0: memory, 1: client). */
PROPANE_CHECK propane_status ane_try_ways(int route, text *answer, propane_error *err);
/* Tries whether surfaces of one request may differ in size. */
PROPANE_CHECK propane_status ane_try_sizes(int route, text *answer, propane_error *err);
/* Tries whether a loaded program works without its descriptor, and without its folder. */
PROPANE_CHECK propane_status ane_try_keeping(int route, text *answer, propane_error *err);
/* Try whether shared events and chained requests work on the client route. */
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
