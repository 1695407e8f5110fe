/* SPDX-License-Identifier: MIT
 * Owns sessions: a program run by the names of its inputs and outputs. Arrays in, arrays out; states are kept
 * between calls. What holds for every call is at the top of propane.h.
 */
#ifndef PROPANE_SESSION_H
#define PROPANE_SESSION_H

#include "propane/device.h"

PROPANE_BEGIN

/* ---- sessions: running a model ----------------------------------------------------------------------------------- */

/* One function of a model on one device, with its buffers: arrays and images in by name, arrays and labels out. States
 * keep what they hold from one run to the next. Another function of the model is another session. */
typedef struct propane_session propane_session;

typedef struct propane_session_options {
    size_t size;           /* sizeof(propane_session_options) */
    const char *function;  /* NULL: the default one */
    const char *device;    /* NULL: "cpu" */
    const char *precision; /* NULL, "typed", "fp16": as the program says; "fp32": every fp16 becomes fp32; "bf16" */
    int threads;           /* 0: the device's own choice */
    bool keep;             /* every value that the program computes becomes an output */
    bool resize;           /* images of another size are scaled */
    const propane_shape *shapes; /* of inputs that the file leaves open */
    int shape_count;
    /* Another session, whose states of the same name and type are this one's, too, as functions of one model share
     * them: each run goes on from the last one's, whichever it was. Its device is used. It outlives this one. NULL:
     * none. */
    const propane_session *shares;
    /* "NAME=FILE" or "FILE.npz", set as propane_session_set_file does it. An input that the model's file leaves open,
     * and that `shapes` does not name, takes its shape from the array (of an image, its height and width, unless
     * `resize`). */
    const char *const *files;
    int file_count;
    /* Where the device refuses the program: parts of it are compiled until the operation is known, which the error
     * names with the rule that covers it. The smallest program that is refused becomes this folder (FOLDER-2, ... where
     * there is one). A device that waits after a refusal takes minutes. NULL: the error is the device's own. */
    const char *bisect;
    /* With keep: of all values these alone, so that one after the other can be looked at in little memory. A value that
     * no part keeps may be fused with the operation that reads it. 0: every value. */
    const char *const *keep_names;
    int keep_count;
} propane_session_options;

/* `options` may be NULL. A model in any form that propane_module_read takes. */
PROPANE_CHECK propane_status propane_session_open(const char *path, const propane_session_options *options,
                                                  propane_session **out, propane_error *err);
/* The module becomes the session's, also after a failure: do not free it. Its shapes are chosen already; files must fit
 * them. */
PROPANE_CHECK propane_status propane_session_open_module(propane_module *module, const propane_session_options *options,
                                                         propane_session **out, propane_error *err);
void propane_session_close(propane_session *session);
/* Inputs and outputs without states, in the program's order. NULL: the index is out of range. */
int propane_session_input_count(const propane_session *session);
int propane_session_output_count(const propane_session *session);
int propane_session_state_count(const propane_session *session);
const propane_io *propane_session_input(const propane_session *session, int index);
const propane_io *propane_session_output(const propane_session *session, int index);
const propane_io *propane_session_state(const propane_session *session, int index);

/* A dense array into an input or a state, as propane_buffer_write does; it stays for later runs. */
PROPANE_CHECK propane_status propane_session_set(propane_session *session, const char *name, propane_dtype dtype,
                                                 const void *values, int64_t count, propane_error *err);
/* An input or output lies in the caller's memory of `bytes` bytes, laid out as its propane_io says, from now on:
 * nothing is copied. The memory is propane_buffer_wrap's and must stay until another is lent; NULL: the session has its
 * own again, with nothing in it. PROPANE_ERR_UNSUPPORTED: for a state, and where propane_buffer_wrap is. */
PROPANE_CHECK propane_status propane_session_lend(propane_session *session, const char *name, void *memory,
                                                  size_t bytes, propane_error *err);
/* An input holds nothing again: a run asks for it, or takes the value that the model's file has for it when it is left
 * out. NULL: every input. States are propane_session_reset's. */
PROPANE_CHECK propane_status propane_session_clear(propane_session *session, const char *name, propane_error *err);
/* An image, rows of RGB bytes, into an input [1, 1 or 3, height, width], in the order of colours that the model
 * wants. */
PROPANE_CHECK propane_status propane_session_set_image(propane_session *session, const char *name, const uint8_t *rgb,
                                                       int64_t height, int64_t width, propane_error *err);
/* "NAME=FILE" (.npy, .png, .jpg) or "FILE.npz", as propane run's --input. An array with one more dimension in front
 * holds a value for each of several runs; the first is set, and the session keeps the array for
 * propane_session_step. */
PROPANE_CHECK propane_status propane_session_set_file(propane_session *session, const char *given, propane_error *err);
/* How many runs such arrays are for; 0: there are none. */
int64_t propane_session_steps(const propane_session *session);
/* Sets the inputs that have such an array to its value for run `step`, from 0. */
PROPANE_CHECK propane_status propane_session_step(propane_session *session, int64_t step, propane_error *err);
/* Remembers what that run gave: propane_session_write puts the values of all steps into one array, in front. */
PROPANE_CHECK propane_status propane_session_keep(propane_session *session, int64_t step, propane_error *err);
/* PROPANE_ERR_INVALID names the inputs that nothing was set for, with `advice` (NULL: "set them first") behind. */
PROPANE_CHECK propane_status propane_session_ready(propane_session *session, const char *advice, propane_error *err);
/* Random numbers, the same for the same seed, into every input that was not set. */
PROPANE_CHECK propane_status propane_session_randomize(propane_session *session, uint64_t seed, propane_error *err);
/* Every input must have been set. `out` may be NULL. Where shapes follow from the inputs' values (the end of a slice,
 * the count of a range), the program is planned here, and again when those values change; such a session has outputs
 * after its first run, and what propane_session_output gave is valid until the next. */
PROPANE_CHECK propane_status propane_session_run(propane_session *session, propane_completion *out, propane_error *err);
/* The same, and counts NaN and infinities in the outputs and states. In a session that keeps every value, the
 * operation that makes the first of them is named. `out` may be NULL. Only those that reach an output count: a mask's infinity that a softmax
 * absorbs does not. */
typedef struct propane_nonfinite {
    size_t size; /* sizeof(propane_nonfinite), set by the caller */
    int64_t numbers, nan, infinite;
    /* By an operation, or held by a constant; false: they come from the inputs alone, or were not looked for. */
    bool made;
    const char
        *from;      /* "operation", "constant" or "input": what the first of them come from; NULL: not known. Static */
    const char *op; /* the operation's kind; NULL for constants and inputs. Static */
    char name[200]; /* its name, cut where it is longer; "": not known */
    char text[500]; /* a sentence; "" where all is finite */
} propane_nonfinite;
PROPANE_CHECK propane_status propane_session_run_counted(propane_session *session, propane_nonfinite *out,
                                                         propane_error *err);
/* Whether an output is one only because the session keeps every value. */
bool propane_session_keeps(const propane_session *session, const char *output);
/* An output or a state as a dense array; count is the product of its dimensions. */
PROPANE_CHECK propane_status propane_session_get(propane_session *session, const char *name, propane_dtype dtype,
                                                 void *values, int64_t count, propane_error *err);
/* `batch` runs one after the other: inputs hold `batch` values of an input each, one after the other; so will outputs.
 * States go on from run to run. What was in `inputs` holds nothing after it; what was set before stays. */
typedef struct propane_array {
    const char *name;
    propane_dtype dtype;
    void *values;
} propane_array;
PROPANE_CHECK propane_status propane_session_run_batch(propane_session *session, const propane_array *inputs,
                                                       int input_count, const propane_array *outputs, int output_count,
                                                       int64_t batch, propane_error *err);
/* States hold zeros again. */
PROPANE_CHECK propane_status propane_session_reset(propane_session *session, propane_error *err);
/* Of a classifier's last run: the class at `rank` (0: the likeliest) and its probability (may be NULL); the label as
 * snprintf writes it (NULL: not at all). PROPANE_ERR_UNSUPPORTED: it is no classifier. */
PROPANE_CHECK propane_status propane_session_label(propane_session *session, int rank, char *label, size_t room,
                                                   double *probability, propane_error *err);
/* The name of the label; NULL: it is not a classifier. */
const char *propane_session_label_name(const propane_session *session);
/* The output that holds a classifier's probabilities in the order of its labels; NULL: it is not a classifier. */
const char *propane_session_probabilities(const propane_session *session);
/* Each output as DIR/NAME.npy in its own element type; states under their own names. */
PROPANE_CHECK propane_status propane_session_write(propane_session *session, const char *dir, propane_error *err);
/* What it runs, for its profile and its device; the session's own. */
propane_program *propane_session_program(propane_session *session);
propane_device *propane_session_device(propane_session *session);
const propane_module *propane_session_module(const propane_session *session);

PROPANE_END

#endif
