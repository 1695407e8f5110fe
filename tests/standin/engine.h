/* SPDX-License-Identifier: MIT
 * What the files of the stand-in's AppleNeuralEngine share: models, errors by system, and the machine.
 */
#ifndef TESTS_STANDIN_ENGINE_H
#define TESTS_STANDIN_ENGINE_H

#include "standin/standin.h"

/* ---- machine.c --------------------------------------------------------------------------------------------------- */

/* It exists, and stays as long as the switch is not set again. */
const char *standin_temporary(void);
/* For a loaded program; 0: none is left; negative: none is needed. */
int standin_take_place(void);
void standin_give_place(int place);
/* False: it comes up, and this evaluation is refused. */
bool standin_engine_is_up(void);
void standin_engine_worked(void);

/* ---- engine_model.c ---------------------------------------------------------------------------------------------- */

/* What a memory model and its inner model share. */
typedef struct model {
    int references;
    bool is_client;
    bool elsewhere;         /* setModelURL: was called */
    object *text, *weights; /* memory: NSData, NSDictionary; NULL: the descriptor was taken away */
    char folder[1200], name[200];
    program *loaded;
    object *attributes;
    int loads; /* tries */
    int place;
    uint32_t mask; /* of statistics */
} model;

/* Of a memory model or an inner one; NULL, and a violation: it is neither. */
model *standin_model_of(const object *o);
object *standin_model_object(const char *class_name, model *m); /* autoreleased; takes over a reference */
bool standin_compile(model *m, const char *selector, object **error);
bool standin_load(model *m, const char *selector, object **error);
bool standin_unload(model *m, object **error);
bool standin_cached(const model *m);
void standin_purge(const model *m);
bool standin_destroy_model(object *o); /* false: it is none of this file's, as the following one */

/* What fails has a code and a text of each system's. */
typedef enum failure {
    FAIL_TEXT,   /* the compiler refuses the program: `detail` */
    FAIL_BUNDLE, /* the files are not what the dictionary says, or not where it says */
    FAIL_LOAD,
    FAIL_LARGE,
    FAIL_PLACES,
    FAIL_NOT_LOADED,
    FAIL_SURFACES,
    FAIL_INDEX,
    FAIL_POWER,
    FAIL_WAY, /* this way to evaluate is not offered */
    FAIL_RUN,
    FAIL_CHAIN
} failure;
bool standin_fail(object **error, failure what, const char *selector, const char *detail); /* false */

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
