/* SPDX-License-Identifier: MIT
 * Owns sessions: a session runs a program by the names of its inputs and outputs. Arrays go in and come out; states
 * are kept between calls. The rules that hold for every call are at the top of propane.h.
 */
#ifndef PROPANE_SESSION_H
#define PROPANE_SESSION_H

#include "propane/device.h"

PROPANE_BEGIN

/* ---- sessions: running a model ----------------------------------------------------------------------------------- */

/* One function of a model on one device, with its buffers: arrays and images go in by name, arrays and labels come
 * out. States keep their contents between runs. Another function of the model needs another session. */
typedef struct propane_session propane_session;

typedef struct propane_session_options {
    size_t size;                 /* sizeof(propane_session_options) */
    const char *function;        /* NULL for the default one */
    const char *device;          /* NULL means "cpu" */
    const char *precision;       /* NULL, "typed", "fp16": as in the program; "fp32": every fp16 becomes fp32; "bf16" */
    int threads;                 /* 0 lets the device choose */
    bool keep;                   /* makes every value that the program computes an output */
    bool resize;                 /* scales images of another size */
    const propane_shape *shapes; /* of inputs that the file leaves open */
    int shape_count;
    /* Another session whose states this one shares if name and type match, as functions of one model share them:
     * each run continues from the last run of either session. Its device is used. It must outlive this session.
     * NULL if there is none. */
    const propane_session *shares;
    /* "NAME=FILE" or "FILE.npz", set as by propane_session_set_file. An input that the model's file leaves open,
     * and that `shapes` does not name, gets its shape from the array (from an image its height and width, unless
     * `resize` is set). */
    const char *const *files;
    int file_count;
    /* A folder for the smallest program that the device refuses. If the device refuses the program, parts of it are
     * compiled until the refused operation is found; the error names the operation and the rule that covers it. The program is
     * written to this folder, or to FOLDER-2, ... if it exists. This takes minutes on a device that waits after a
     * refusal. With NULL, the error is the device's. */
    const char *bisect;
    /* With keep: only these values, so that they can be examined one after the other in little memory. A value that
     * is not kept may be fused with the operation that reads it. 0 means every value. */
    const char *const *keep_names;
    int keep_count;
} propane_session_options;

/* Opens a model in any form that propane_module_read accepts. `options` may be NULL. */
PROPANE_CHECK propane_status propane_session_open(const char *path, const propane_session_options *options,
                                                  propane_session **out, propane_error *err);
/* Opens a session on a module and takes ownership of it, even after a failure: do not free it. The shapes of the
 * module are already chosen; files must fit them. */
PROPANE_CHECK propane_status propane_session_open_module(propane_module *module, const propane_session_options *options,
                                                         propane_session **out, propane_error *err);
void propane_session_close(propane_session *session);
/* Inputs and outputs without states, in the program's order. NULL if the index is out of range. */
int propane_session_input_count(const propane_session *session);
int propane_session_output_count(const propane_session *session);
int propane_session_state_count(const propane_session *session);
const propane_io *propane_session_input(const propane_session *session, int index);
const propane_io *propane_session_output(const propane_session *session, int index);
const propane_io *propane_session_state(const propane_session *session, int index);

/* Copies a dense array into an input or a state, as propane_buffer_write does. It stays set for later runs. */
PROPANE_CHECK propane_status propane_session_set(propane_session *session, const char *name, propane_dtype dtype,
                                                 const void *values, int64_t count, propane_error *err);
/* Places an input or output in the caller's memory of `bytes` bytes, with the layout in its propane_io: nothing is
 * copied from then on. The rules of propane_buffer_wrap apply to the memory, which must stay until other memory is
 * lent. NULL lets the session allocate a buffer again, which is empty. Returns PROPANE_ERR_UNSUPPORTED for a state, and
 * if propane_buffer_wrap does. */
PROPANE_CHECK propane_status propane_session_lend(propane_session *session, const char *name, void *memory,
                                                  size_t bytes, propane_error *err);
/* Clears an input. The next run needs it to be set again, or uses the value that the model's file has for a missing
 * input. NULL clears every input. For states use propane_session_reset. */
PROPANE_CHECK propane_status propane_session_clear(propane_session *session, const char *name, propane_error *err);
/* Writes an image, rows of RGB bytes, into an input [1, 1 or 3, height, width], in the colour order that the model
 * wants. */
PROPANE_CHECK propane_status propane_session_set_image(propane_session *session, const char *name, const uint8_t *rgb,
                                                       int64_t height, int64_t width, propane_error *err);
/* Writes numbers into an input of text or a dictionary (propane_feature), each at the place of its key; the others become
 * 0. keys, values: [count]. An input of text takes one key, and values NULL. Returns PROPANE_ERR_INVALID for an unknown
 * key if the model does not ignore it. */
PROPANE_CHECK propane_status propane_session_set_keys(propane_session *session, const char *name,
                                                      const char *const *keys, const double *values, int64_t count,
                                                      propane_error *err);
/* Sets an input from "NAME=FILE" (.npy, .png, .jpg) or "FILE.npz", like propane run's --input. An input of text takes
 * "NAME=TEXT", and a dictionary "NAME={"key": 1}" or "NAME=FILE.json". An array with one
 * more dimension in front holds one value per run; the first is set, and the session keeps the array for
 * propane_session_step. */
PROPANE_CHECK propane_status propane_session_set_file(propane_session *session, const char *given, propane_error *err);
/* Returns the number of runs that such arrays cover; 0 if there are none. */
int64_t propane_session_steps(const propane_session *session);
/* Sets each input that has such an array to its value for run `step`, counted from 0. */
PROPANE_CHECK propane_status propane_session_step(propane_session *session, int64_t step, propane_error *err);
/* Remembers the results of that run. propane_session_write puts the values of all steps into one array, with the
 * step as the first dimension. */
PROPANE_CHECK propane_status propane_session_keep(propane_session *session, int64_t step, propane_error *err);
/* Returns PROPANE_ERR_INVALID with the names of the inputs that were not set, followed by `advice` (NULL means "set
 * them first"). */
PROPANE_CHECK propane_status propane_session_ready(propane_session *session, const char *advice, propane_error *err);
/* Fills every input that was not set with random numbers, the same for the same seed. */
PROPANE_CHECK propane_status propane_session_randomize(propane_session *session, uint64_t seed, propane_error *err);
/* Runs the program. Every input must have been set. `out` may be NULL. If shapes depend on the inputs' values (the
 * end of a slice, the count of a range), the program is planned here, and again when those values change. Such a
 * session has outputs only after its first run, and a result of propane_session_output is valid until the next run. */
PROPANE_CHECK propane_status propane_session_run(propane_session *session, propane_completion *out, propane_error *err);
/* Does the same and counts NaN and infinities in the outputs and states. In a session that keeps every value, the
 * operation that makes the first of them is named. `out` may be NULL. Only those that reach an output count: a
 * mask's infinity that a softmax absorbs does not. */
typedef struct propane_nonfinite {
    size_t size; /* sizeof(propane_nonfinite), set by the caller */
    int64_t numbers, nan, infinite;
    /* True if an operation makes them or a constant holds them; false if they come only from the inputs, or were
     * not searched for. */
    bool made;
    const char *from; /* source of the first: "operation", "constant" or "input"; NULL if not known. Static */
    const char *op;   /* the operation's kind; NULL for constants and inputs. Static */
    char name[200];   /* its name, cut if it is longer; "" if not known */
    char text[500];   /* a sentence; "" if all values are finite */
} propane_nonfinite;
PROPANE_CHECK propane_status propane_session_run_counted(propane_session *session, propane_nonfinite *out,
                                                         propane_error *err);
/* Returns whether a value is an output only because the session keeps every value. */
bool propane_session_keeps(const propane_session *session, const char *output);
/* Copies an output or a state into a dense array. `count` is the product of its dimensions. */
PROPANE_CHECK propane_status propane_session_get(propane_session *session, const char *name, propane_dtype dtype,
                                                 void *values, int64_t count, propane_error *err);
/* Runs `batch` times in sequence. Each input array holds `batch` values one after the other, and so will each
 * output array. States continue from run to run. Inputs named in `inputs` are cleared afterwards; states and other
 * inputs keep their values. */
typedef struct propane_array {
    const char *name;
    propane_dtype dtype;
    void *values;
} propane_array;
PROPANE_CHECK propane_status propane_session_run_batch(propane_session *session, const propane_array *inputs,
                                                       int input_count, const propane_array *outputs, int output_count,
                                                       int64_t batch, propane_error *err);
/* Sets the states to zero again. */
PROPANE_CHECK propane_status propane_session_reset(propane_session *session, propane_error *err);
/* Returns the class at `rank` (0 is the likeliest) of a classifier's last run, with its probability (may be NULL).
 * Writes the label as snprintf does (NULL to omit it). Returns PROPANE_ERR_UNSUPPORTED if the model is
 * not a classifier. */
PROPANE_CHECK propane_status propane_session_label(propane_session *session, int rank, char *label, size_t room,
                                                   double *probability, propane_error *err);
/* Returns the name of the label, or NULL if the model is not a classifier. */
const char *propane_session_label_name(const propane_session *session);
/* Returns the output that holds a classifier's probabilities in the order of its labels, or NULL if the model is
 * not a classifier. */
const char *propane_session_probabilities(const propane_session *session);
/* Writes each output to DIR/NAME.npy in its element type, and the states under their names. */
PROPANE_CHECK propane_status propane_session_write(propane_session *session, const char *dir, propane_error *err);
/* The program that the session runs, for its profile and its device. The session owns it. */
propane_program *propane_session_program(propane_session *session);
propane_device *propane_session_device(propane_session *session);
const propane_module *propane_session_module(const propane_session *session);

PROPANE_END

#endif
