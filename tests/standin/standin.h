/* SPDX-License-Identifier: MIT
 * A library that replaces Apple's in tests: the parts of the Objective-C runtime, CoreFoundation, IOSurface and
 * AppleNeuralEngine that the ane driver uses, in plain C. It accepts MIL text, refuses everything that is known to be
 * refused, and computes the rest with Propane's cpu driver. It is strict: it reports objects that are used after their
 * release, released twice or never released, surfaces that are accessed while they are locked, and arguments of the
 * wrong class.
 *
 * Its behaviour follows public notes on the real library, not the library itself: passing here shows that the driver
 * respects the known facts.
 *
 * It behaves as macOS 15, 26 or 27 (system=), each with what is known to work and to fail there. If reports disagree,
 * a separate switch decides. Switches (rules and faults) are set by standin_set, or by the environment variables
 * PROPANE_STANDIN_MACHINE, for all programs of a test, and PROPANE_STANDIN, "key=value,key=value"; standin.c lists
 * them. Counters are read with standin_get.
 */
#ifndef TESTS_STANDIN_STANDIN_H
#define TESTS_STANDIN_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct class class;
typedef struct object object;

/* The value that CFGetTypeID returns. */
typedef enum object_kind {
    KIND_NONE,
    KIND_STRING,
    KIND_NUMBER,
    KIND_DATA,
    KIND_ARRAY,
    KIND_DICTIONARY,
    KIND_URL,
    KIND_SURFACE,
    KIND_INDEX_SET,
    KIND_OTHER
} object_kind;

struct object {
    const class *isa;
    uint32_t magic;
    int references;
    object_kind kind;
    void *memory; /* string, data: bytes; array, dictionary: objects; others: a struct of that kind */
    long count;   /* bytes, elements, pairs; a number's value */
    object *next; /* all objects ever created: the memory of dead ones is kept, so that their use is detected */
};

struct class {
    const class *isa; /* the meta class: distinguishes objects from classes */
    uint32_t magic;
    const char *name;
};

#define EXPORT __attribute__((visibility("default")))

/* ---- standin.c --------------------------------------------------------------------------------------------------- */

/* NULL if not set. */
const char *standin_switch(const char *key);
long standin_number(const char *key, long standard);
bool standin_is(const char *key, const char *value);
void standin_count(const char *counter, long by);
long standin_counted(const char *counter);
/* Records something that would crash or corrupt memory: counts it, prints it, and keeps the last one. */
void standin_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

EXPORT void standin_set(const char *key, const char *value);
/* Records that a thread of the stand-in is working (+1), or has released everything (-1). Counters are read when no
 * thread is working. */
void standin_settle(int by);
EXPORT long standin_get(const char *counter);
EXPORT const char *standin_last_violation(void);

/* ---- runtime.c --------------------------------------------------------------------------------------------------- */

object *standin_new(const char *class_name, object_kind kind, void *memory, long count);
object *standin_retain(object *o);
void standin_release(object *o);
object *standin_autorelease(object *o);
EXPORT void *objc_autoreleasePoolPush(void);
EXPORT void objc_autoreleasePoolPop(void *mark);
/* Returns whether the object is alive and, unless `kind` is KIND_NONE, of that kind. Otherwise records a violation
 * that names `what`. */
bool standin_check(const object *o, object_kind kind, const char *what);
bool standin_is_class(const object *o, const char *class_name);
/* Raises an Objective-C exception that nobody catches: the handler that was set is called, and the process ends. */
void standin_raise(const char *name, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* Called when the last reference of an object is gone, only for KIND_OTHER and KIND_SURFACE. */
void standin_destroy(object *o);

typedef struct method {
    const char *class_name;
    char level;
    const char *selector, *encoding;
    void (*code)(void);
} method;

/* The methods of each file; the lists end with class_name NULL. */
extern const method standin_foundation_methods[], standin_model_methods[], standin_client_methods[],
    standin_request_methods[], standin_metal_methods[];

/* ---- foundation.c ------------------------------------------------------------------------------------------------ */

object *standin_string(const char *text); /* owned by the caller, like those below */
object *standin_integer(long value);
/* Autoreleased. `underlying` and `stage` go into the user info; negative values are left out. */
EXPORT object *standin_error(const char *domain, long code, const char *text, long underlying, long stage);
const char *standin_text(const object *string);
/* Borrowed; NULL if there is no such key. */
object *standin_entry(const object *dictionary, const char *key);
object *standin_make_dictionary(object *const *keys, object *const *values, long count); /* takes ownership of both */
object *standin_make_array(object *const *values, long count); /* takes ownership of the values */

typedef struct surface {
    unsigned char *memory;
    size_t size;
    int readers, writers;
} surface;

/* ---- program.c --------------------------------------------------------------------------------------------------- */

typedef struct program program;

enum { STANDIN_MAX_SYMBOLS = 4096 };

/* One input or output in the engine's five dimensions. */
typedef struct port {
    char name[200];
    int procedure;
    int place;                  /* its position in the function */
    int64_t size[5], stride[5]; /* N C D H W; strides in bytes */
    int64_t bytes, element;
} port;

/* Parses and checks a program. Returns NULL with the compiler's message in `why` if it is refused. `folder`
 * replaces @model_path. */
program *standin_program_check(const char *text, size_t length, const char *folder, char why[600]);
/* Returns the number of files that the program's constants name, each once, and stores the first `most` of them. */
int standin_program_files(const program *p, const char **out, int most);
/* Makes the results of a compile: the text with all weights in one file, and that file's bytes. The caller frees
 * them. */
bool standin_program_pack(program *p, char **net, size_t *net_length, char **data, size_t *data_length);
/* Makes the program ready to run. */
bool standin_program_load(program *p, char why[600]);
void standin_program_free(program *p);
int standin_program_ports(const program *p, bool outputs, const port **out); /* of all procedures, in symbol order */
int standin_program_procedures(const program *p);
const char *standin_program_name(const program *p, int procedure);
/* `inputs` and `outputs` are by symbol; only the procedure's are used. */
bool standin_program_run(program *p, int procedure, unsigned char *const *inputs, unsigned char *const *outputs,
                         char why[600]);

#endif
