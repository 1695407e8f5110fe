/* SPDX-License-Identifier: MIT
 * A library that stands in for Apple's: as much of the Objective-C runtime, CoreFoundation, IOSurface and
 * AppleNeuralEngine as the ane driver uses, in plain C. It takes MIL text, refuses what is known to be refused,
 * computes the rest with Propane's cpu driver, and is strict: objects that are used after their release, doubly
 * released or never released, surfaces that are touched while they are locked, arguments of the wrong class all show.
 *
 * What it does follows public notes on the real thing, not the real thing: passing here says that the driver keeps to
 * what is known.
 *
 * It is macOS 15, 26 or 27 (system=), each with what is known to work and to fail there. Where reports disagree a
 * switch of its own decides. Switches (rules and faults) are set by the environment variables PROPANE_STANDIN_MACHINE,
 * for all programs of a test, and PROPANE_STANDIN, "key=value,key=value", or by standin_set; standin.c lists them.
 * Counters are read with standin_get.
 */
#ifndef TESTS_STANDIN_STANDIN_H
#define TESTS_STANDIN_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct class class;
typedef struct object object;

/* What CFGetTypeID gives. */
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
    void *memory; /* string, data: bytes; array, dictionary: objects; others: their own struct */
    long count;   /* bytes, elements, pairs; a number's value */
    object *next; /* all that ever were: memory of dead ones is kept, so that their use shows */
};

struct class {
    const class *isa; /* the meta class: tells objects from classes */
    uint32_t magic;
    const char *name;
};

#define EXPORT __attribute__((visibility("default")))

/* ---- standin.c --------------------------------------------------------------------------------------------------- */

/* NULL: not set. */
const char *standin_switch(const char *key);
long standin_number(const char *key, long standard);
bool standin_is(const char *key, const char *value);
void standin_count(const char *counter, long by);
long standin_counted(const char *counter);
/* Something that would crash or spoil memory: counted, printed, the last one kept. */
void standin_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

EXPORT void standin_set(const char *key, const char *value);
/* A thread of the stand-in works (+1), or has given back all that it had (-1): counters are read when none works. */
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
/* Is it alive, and (kind other than KIND_NONE) of that kind? Otherwise a violation that names `what`. */
bool standin_check(const object *o, object_kind kind, const char *what);
bool standin_is_class(const object *o, const char *class_name);
/* An Objective-C exception that nobody catches: the handler that was set is called, and the process ends. */
void standin_raise(const char *name, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* Called when the last reference of an object is gone; kind KIND_OTHER and KIND_SURFACE only. */
void standin_destroy(object *o);

typedef struct method {
    const char *class_name;
    char level;
    const char *selector, *encoding;
    void (*code)(void);
} method;

/* Each file's own; end with class_name NULL. */
extern const method standin_foundation_methods[], standin_model_methods[], standin_client_methods[],
    standin_request_methods[], standin_metal_methods[];

/* ---- foundation.c ------------------------------------------------------------------------------------------------ */

object *standin_string(const char *text); /* owned by the caller, as the following ones */
object *standin_integer(long value);
/* Autoreleased. `underlying` and `stage` go into the user info; negative: not there. */
EXPORT object *standin_error(const char *domain, long code, const char *text, long underlying, long stage);
const char *standin_text(const object *string);
/* Borrowed; NULL: no such key. */
object *standin_entry(const object *dictionary, const char *key);
object *standin_make_dictionary(object *const *keys, object *const *values, long count); /* takes over both */
object *standin_make_array(object *const *values, long count);                           /* takes them over */

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
    int place;                  /* among the function's own */
    int64_t size[5], stride[5]; /* N C D H W; bytes */
    int64_t bytes, element;
} port;

/* Parses and checks; NULL: `why` is the compiler's word for it. `folder` is what @model_path means. */
program *standin_program_check(const char *text, size_t length, const char *folder, char why[600]);
/* The files of constants that it names, each once: how many, and the first `most` of them. */
int standin_program_files(const program *p, const char **out, int most);
/* What a compile leaves behind: the text with all weights in one file, and that file's bytes. The caller frees. */
bool standin_program_pack(program *p, char **net, size_t *net_length, char **data, size_t *data_length);
/* Makes it ready to run. */
bool standin_program_load(program *p, char why[600]);
void standin_program_free(program *p);
int standin_program_ports(const program *p, bool outputs, const port **out); /* of all procedures, in symbol order */
int standin_program_procedures(const program *p);
const char *standin_program_name(const program *p, int procedure);
/* `inputs` and `outputs` by symbol; only the procedure's own are looked at. */
bool standin_program_run(program *p, int procedure, unsigned char *const *inputs, unsigned char *const *outputs,
                         char why[600]);

#endif
