/* SPDX-License-Identifier: MIT
 * Declarations shared by the files of the stand-in's AppleNeuralEngine: models, errors by system, and the machine.
 */
#ifndef TESTS_STANDIN_ENGINE_H
#define TESTS_STANDIN_ENGINE_H

#include "standin/standin.h"

/* ---- machine.c --------------------------------------------------------------------------------------------------- */

/* Returns a folder that exists, and that stays the same until the switch is set again. */
const char *standin_temporary(void);
/* Takes a slot for a loaded program. Returns 0 if none is left, and a negative number if none is needed. */
int standin_take_place(void);
void standin_give_place(int place);
/* Returns false if the engine is coming up; this evaluation is then refused. */
bool standin_engine_is_up(void);
void standin_engine_worked(void);

/* ---- engine_model.c ---------------------------------------------------------------------------------------------- */

/* The state that a memory model and its inner model share. */
typedef struct model {
    int references;
    bool is_client;
    bool elsewhere;         /* setModelURL: was called */
    object *text, *weights; /* memory: NSData, NSDictionary; NULL after the descriptor was removed */
    char folder[1200], name[200];
    program *loaded;
    object *attributes;
    int loads; /* attempts */
    int place;
    uint32_t mask; /* of the statistics */
} model;

/* Returns the model of a memory model or an inner one. For any other object it returns NULL and records a
 * violation. */
model *standin_model_of(const object *o);
object *standin_model_object(const char *class_name, model *m); /* autoreleased; takes over a reference */
bool standin_compile(model *m, const char *selector, object **error);
bool standin_load(model *m, const char *selector, object **error);
bool standin_unload(model *m, object **error);
bool standin_cached(const model *m);
void standin_purge(const model *m);
bool standin_destroy_model(object *o); /* false if the object is not this file's, like the next function */

/* Kinds of failure. Each has a code and a text per system. */
typedef enum failure {
    FAIL_TEXT,   /* the compiler refuses the program: `detail` */
    FAIL_BUNDLE, /* the files differ from the dictionary, or are elsewhere */
    FAIL_LOAD,
    FAIL_LARGE,
    FAIL_PLACES,
    FAIL_NOT_LOADED,
    FAIL_SURFACES,
    FAIL_INDEX,
    FAIL_POWER,
    FAIL_WAY, /* this kind of evaluation is not offered */
    FAIL_RUN,
    FAIL_CHAIN
} failure;
bool standin_fail(object **error, failure what, const char *selector, const char *detail); /* returns false */

/* ---- engine_attributes.c ----------------------------------------------------------------------------------------- */

object *standin_make_attributes(const program *p);

/* ---- engine_request.c -------------------------------------------------------------------------------------------- */

bool standin_evaluate(model *m, object *request_object, const char *selector, object **error);
void standin_wait_for(const char *key);
bool standin_destroy_request(object *o);

/* ---- events.c ---------------------------------------------------------------------------------------------------- */

extern const char standin_metal_event[]; /* the class of Metal's shared events */
EXPORT void *_Block_copy(void *block);
EXPORT void _Block_release(const void *block);

#endif
