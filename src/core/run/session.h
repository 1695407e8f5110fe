/* SPDX-License-Identifier: MIT
 * One program on one device with its buffers: the base of propane_session. Makes states inputs and outputs, changes
 * the precision, finds the inputs that the user gives. Programs whose shapes follow from values are planned when they
 * run (session_late.h).
 */
#ifndef CORE_RUN_SESSION_H
#define CORE_RUN_SESSION_H

#include "core/base/npy.h"
#include "core/base/text.h"
#include "core/mil/coreml/package.h"
#include "core/run/session_program.h"

typedef struct session_options {
    const char *function;          /* NULL: the default */
    const char *device;            /* "cpu" */
    const char *precision;         /* "typed", "fp32", "fp16" (as typed), "bf16" */
    bool keep;                     /* every value becomes an output */
    const char *const *keep_names; /* of all values these alone; keep_count 0: all */
    int keep_count;
    int threads;
    /* the folder for the smallest program that the device refuses, if it refuses this; NULL: not asked for */
    const char *bisect;
    const struct session *shares; /* whose states and device it shares; NULL: its own */
} session_options;

/* An array that the user gave, under the name of an input. */
typedef struct session_input {
    const char *name;
    npy array;
    bool image; /* of bytes, [height, width, channels] */
} session_input;

typedef struct session_inputs {
    session_input *list;
    int count;
} session_inputs;

/* "NAME=FILE" (.npy, .png, .jpg) or "FILE.npz". */
PROPANE_CHECK propane_status session_inputs_add(session_inputs *in, const char *given, propane_error *err);
void session_inputs_free(session_inputs *in);
/* The array becomes one of `in`; `from` is left without one. */
PROPANE_CHECK propane_status session_inputs_move(session_inputs *in, session_input *from, propane_error *err);
/* Without those of that name. */
void session_inputs_drop(session_inputs *in, const char *name);
/* "NAME=1,3,224,224"; `name` must live as long as the choice. */
PROPANE_CHECK propane_status session_shape(const char *given, mil_shape_choice *out, char **name, propane_error *err);

/* The module becomes the session's, also after a failure. */
PROPANE_CHECK propane_status session_open_module(session *s, mil_module *m, const session_options *options,
                                                 propane_error *err);
int session_find_input(const session *s, const char *name);  /* -1: there is none */
int session_find_output(const session *s, const char *name); /* counted after the inputs; likewise */
/* One array or image into its input, by name. */
PROPANE_CHECK propane_status session_put(session *s, const session_input *in, propane_error *err);
/* What nothing is given for: random numbers if `seed` is not negative; else an error that names all of them, with
 * `advice` behind. given: [inputs]. */
PROPANE_CHECK propane_status session_fill_rest(session *s, const bool *given, int64_t seed, const char *advice,
                                               propane_error *err);
/* Does the array hold, with one more dimension in front, a value for each of several runs? */
bool session_has_steps(const propane_io *io, const npy *array);
/* Sets `steps` to the runs that the arrays are for; arrays for different numbers of runs are an error. */
PROPANE_CHECK propane_status session_count_steps(session *s, const session_inputs *in, propane_error *err);
/* The inputs whose arrays hold a value for each step, at that one. */
PROPANE_CHECK propane_status session_step(session *s, const session_inputs *in, int64_t step, propane_error *err);
/* Keeps what this step gave, for session_write; states are written as they are at the end. */
PROPANE_CHECK propane_status session_keep(session *s, int64_t step, propane_error *err);
/* Runs once; *ns is the time from submitting to the end. States go on from what the last run left. */
PROPANE_CHECK propane_status session_run(session *s, int64_t *ns, propane_error *err);
/* Writes DIR/NAME.npy for each output in its own element type; states under their own names. */
PROPANE_CHECK propane_status session_write(session *s, const char *dir, propane_error *err);
void session_close(session *s);

#endif
