/* SPDX-License-Identifier: MIT
 * A session: one program on one device, with its buffers. propane_session is based on it. Opening a session turns
 * states into inputs and outputs and changes the precision. Programs whose shapes depend on values are planned when
 * they run (session_late.h).
 */
#ifndef CORE_RUN_SESSION_H
#define CORE_RUN_SESSION_H

#include "core/base/npy.h"
#include "core/base/text.h"
#include "core/mil/coreml/package.h"
#include "core/run/session_program.h"

typedef struct session_options {
    const char *function;          /* NULL for the default */
    const char *device;            /* "cpu" */
    const char *precision;         /* "typed", "fp32", "fp16" (as typed), "bf16" */
    bool keep;                     /* every value becomes an output */
    const char *const *keep_names; /* the values to keep; keep_count 0 means all */
    int keep_count;
    int threads;
    /* The folder for the smallest refused program, if the device refuses this one. NULL if not requested. */
    const char *bisect;
    const struct session *shares; /* the session whose states and device are shared; NULL for none */
} session_options;

/* An array supplied by the user, under the name of an input. */
typedef struct session_input {
    const char *name;
    npy array;
    bool image; /* the array is an image of bytes, [height, width, channels] */
    /* Instead of an array: text whose meaning depends on the input (session_keys.h); NULL if there is none. */
    char *words;
} session_input;

typedef struct session_inputs {
    session_input *list;
    int count;
} session_inputs;

/* Adds "NAME=FILE" (.npy, .png, .jpg), "FILE.npz", or "NAME=WORDS" for text and dictionaries. */
PROPANE_CHECK propane_status session_inputs_add(session_inputs *in, const char *given, propane_error *err);
void session_inputs_free(session_inputs *in);
/* Moves the array to `in`, leaving `from` without one. */
PROPANE_CHECK propane_status session_inputs_move(session_inputs *in, session_input *from, propane_error *err);
/* Drops the inputs of that name. */
void session_inputs_drop(session_inputs *in, const char *name);
/* Parses "NAME=1,3,224,224". *name, which the caller frees with mem_free, must live as long as the choice. */
PROPANE_CHECK propane_status session_shape(const char *given, mil_shape_choice *out, char **name, propane_error *err);

/* Opens a session, which owns the module even after a failure. */
PROPANE_CHECK propane_status session_open_module(session *s, mil_module *m, const session_options *options,
                                                 propane_error *err);
int session_find_input(const session *s, const char *name);  /* -1 if there is none */
int session_find_output(const session *s, const char *name); /* counted after the inputs; -1 if there is none */
/* Puts one array or image into the input of its name. */
PROPANE_CHECK propane_status session_put(session *s, const session_input *in, propane_error *err);
/* Fills the inputs that were not set according to `given` [inputs]: with the file's default if there is one, else with
 * random numbers if `seed` is not negative. Otherwise returns an error that names these inputs, followed by `advice`.
 * States are not filled. */
PROPANE_CHECK propane_status session_fill_rest(session *s, const bool *given, int64_t seed, const char *advice,
                                               propane_error *err);
/* Returns true if the array has one extra leading dimension, with a value for each of several runs. */
bool session_has_steps(const propane_io *io, const npy *array);
/* Sets `steps` to the number of runs that the arrays are for. Arrays for different numbers of runs are an error. */
PROPANE_CHECK propane_status session_count_steps(session *s, const session_inputs *in, propane_error *err);
/* Sets the inputs whose arrays have a value per step to the values of `step`. */
PROPANE_CHECK propane_status session_step(session *s, const session_inputs *in, int64_t step, propane_error *err);
/* Keeps the outputs of this step for session_write. States are written only with their final content. */
PROPANE_CHECK propane_status session_keep(session *s, int64_t step, propane_error *err);
/* Runs once. Sets *ns to the duration, which is the device's own on a simulated device. States continue from the last
 * run. */
PROPANE_CHECK propane_status session_run(session *s, int64_t *ns, propane_error *err);
/* Writes DIR/NAME.npy for each output in its own element type. States are written under their own names. */
PROPANE_CHECK propane_status session_write(session *s, const char *dir, propane_error *err);
void session_close(session *s);

#endif
