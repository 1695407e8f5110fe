/* SPDX-License-Identifier: MIT
 * Owns sessions. A session runs a program whose inputs and outputs are set and read by name, as arrays. States are kept
 * between calls. The rules that hold for every call are at the top of propane.h.
 */
#ifndef PROPANE_SESSION_H
#define PROPANE_SESSION_H

#include "propane/device.h"

PROPANE_BEGIN

/* ---- sessions: running a model ----------------------------------------------------------------------------------- */

/* One function of a model on one device, with its buffers. Inputs are set by name from arrays and images; the
 * results are arrays and labels. States keep their contents between runs. Another function of the model needs
 * another session. */
typedef struct propane_session propane_session;

typedef struct propane_session_options {
    size_t size;                 /* sizeof(propane_session_options) */
    const char *function;        /* NULL for the default one */
    const char *device;          /* NULL means "cpu" */
    const char *precision;       /* NULL, "typed", "fp16": as in the program; "fp32": every fp16 becomes fp32; "bf16" */
    int threads;                 /* 0 lets the device choose */
    bool keep;                   /* makes every value that the program computes an output */
    bool resize;                 /* scales images whose size differs from the input's */
    const propane_shape *shapes; /* of inputs that the file leaves open */
    int shape_count;
    /* Another session. The two sessions share each state whose name and type match, as the functions of one model do,
     * so that each run continues from the last run of either session. The other session's device is used, and it must
     * outlive this session. NULL shares nothing. */
    const propane_session *shares;
    /* "NAME=FILE" or "FILE.npz", which are set as by propane_session_set_file. An input whose shape the model's file
     * leaves open, and that `shapes` does not name, gets the shape of its array. From an image it gets the height and
     * the width, unless `resize` is set. */
    const char *const *files;
    int file_count;
    /* The folder for the smallest program that the device refuses. If the device refuses the model's program, parts of
     * that program are compiled until the refused operation is found. The error names this operation and the rule that
     * covers it. The smallest program is written to the folder, or to FOLDER-2, ... if the folder exists. The search
     * takes minutes on a device that waits after a refusal. With NULL, nothing is searched, and the error is the
     * device's. */
    const char *bisect;
    /* If `keep` is set, only these values become outputs, so that the values of a large program can be examined in
     * several sessions with little memory. A value that is not kept may be fused with the operation that reads it. A
     * keep_count of 0 means every value. */
    const char *const *keep_names;
    int keep_count;
} propane_session_options;

/* Opens a model in any form that propane_module_read accepts. `options` may be NULL. */
PROPANE_CHECK propane_status propane_session_open(const char *path, const propane_session_options *options,
                                                  propane_session **out, propane_error *err);
/* Opens a session on a module. The session owns the module from now on, and a call that fails frees it, so the caller
 * must not free it. The module's shapes are already chosen, and `files` must fit them. */
PROPANE_CHECK propane_status propane_session_open_module(propane_module *module, const propane_session_options *options,
                                                         propane_session **out, propane_error *err);
void propane_session_close(propane_session *session);
/* Inputs, outputs and states in the program's order. States are not counted as inputs or outputs. The descriptions are
 * NULL if the index is out of range. */
int propane_session_input_count(const propane_session *session);
int propane_session_output_count(const propane_session *session);
int propane_session_state_count(const propane_session *session);
const propane_io *propane_session_input(const propane_session *session, int index);
const propane_io *propane_session_output(const propane_session *session, int index);
const propane_io *propane_session_state(const propane_session *session, int index);

/* Copies a dense array into an input or a state, as propane_buffer_write does. The input stays set for later runs. */
PROPANE_CHECK propane_status propane_session_set(propane_session *session, const char *name, propane_dtype dtype,
                                                 const void *values, int64_t count, propane_error *err);
/* Places an input or output in the caller's memory of `bytes` bytes, with the layout in its propane_io, so that nothing
 * is copied any more. The rules of propane_buffer_wrap apply to the memory. It must stay valid until other memory is
 * lent or the session is closed. NULL lets the session allocate a zeroed buffer again. Returns PROPANE_ERR_UNSUPPORTED
 * for a state, and if propane_buffer_wrap does. */
PROPANE_CHECK propane_status propane_session_lend(propane_session *session, const char *name, void *memory,
                                                  size_t bytes, propane_error *err);
/* Clears an input. Before the next run the input must be set again, unless the model's file has a default value for it.
 * NULL clears every input. For states use propane_session_reset. */
PROPANE_CHECK propane_status propane_session_clear(propane_session *session, const char *name, propane_error *err);
/* Writes an image, rows of RGB bytes, into an input [1, 1 or 3, height, width], in the colour order that the model
 * wants. */
PROPANE_CHECK propane_status propane_session_set_image(propane_session *session, const char *name, const uint8_t *rgb,
                                                       int64_t height, int64_t width, propane_error *err);
/* Writes numbers into an input that is a text or a dictionary (PROPANE_CATEGORY, PROPANE_DICTIONARY). Each number is
 * written to the place of its key; the other places become 0. keys, values: [count]. For a text, pass its word as
 * the only key, and NULL for `values`. Returns PROPANE_ERR_INVALID for an unknown key, unless the model ignores such
 * keys. */
PROPANE_CHECK propane_status propane_session_set_keys(propane_session *session, const char *name,
                                                      const char *const *keys, const double *values, int64_t count,
                                                      propane_error *err);
/* Sets an input from "NAME=FILE" (.npy, .png, .jpg) or several from "FILE.npz", like propane run's --input. For a text
 * pass "NAME=TEXT", for a dictionary "NAME={"key": 1}" or "NAME=FILE.json". An array with one more dimension in front
 * holds one value per run. The first value is set, and the session keeps the array for propane_session_step. */
PROPANE_CHECK propane_status propane_session_set_file(propane_session *session, const char *given, propane_error *err);
/* Returns the number of runs for which the kept arrays have values; 0 if there are no such arrays. */
int64_t propane_session_steps(const propane_session *session);
/* Sets each input that has a kept array to the array's value for run `step`, counted from 0. */
PROPANE_CHECK propane_status propane_session_step(propane_session *session, int64_t step, propane_error *err);
/* Copies the results of run `step`. propane_session_write then writes one array per output with the values of all
 * steps; its first dimension is the step. */
PROPANE_CHECK propane_status propane_session_keep(propane_session *session, int64_t step, propane_error *err);
/* Returns PROPANE_ERR_INVALID with the names of the inputs that were not set, followed by `advice` (NULL means "set
 * them first"). */
PROPANE_CHECK propane_status propane_session_ready(propane_session *session, const char *advice, propane_error *err);
/* Fills every input that was not set with random numbers, the same for the same seed. */
PROPANE_CHECK propane_status propane_session_randomize(propane_session *session, uint64_t seed, propane_error *err);
/* Runs the program. Every input must have been set. `out` may be NULL. Shapes may depend on the values of inputs (the
 * end of a slice, the count of a range). The program is then compiled by its first run, and again by each run for which
 * those values have changed. Such a session has outputs only after its first run, and a result of
 * propane_session_output is valid until the next run. */
PROPANE_CHECK propane_status propane_session_run(propane_session *session, propane_completion *out, propane_error *err);
/* Runs the program and counts NaN and infinities in the outputs and states. In a session that keeps every value, the
 * result names the operation that makes the first of them. Values that do not reach an output or a state are not
 * counted, for example the infinity of a mask that a softmax absorbs. `out` may be NULL. */
typedef struct propane_nonfinite {
    size_t size; /* sizeof(propane_nonfinite), set by the caller */
    int64_t numbers, nan, infinite;
    /* True if an operation makes NaN or infinity, or a constant holds one; false if they come only from the inputs, or
     * if their source was not searched for. */
    bool made;
    const char *from; /* source of the first one: "operation", "constant" or "input"; NULL if not known. Static */
    const char *op;   /* the operation's kind; NULL for constants and inputs. Static */
    char name[200];   /* name of the source, cut if it is longer; "" if not known */
    char text[500];   /* a sentence; "" if all values are finite */
} propane_nonfinite;
PROPANE_CHECK propane_status propane_session_run_counted(propane_session *session, propane_nonfinite *out,
                                                         propane_error *err);
/* Returns whether a value is an output only because the session keeps every value. */
bool propane_session_keeps(const propane_session *session, const char *output);
/* Copies an output or a state into a dense array. `count` is the product of its dimensions. */
PROPANE_CHECK propane_status propane_session_get(propane_session *session, const char *name, propane_dtype dtype,
                                                 void *values, int64_t count, propane_error *err);
/* Runs the program `batch` times in sequence. Each input array holds `batch` values one after the other, and each
 * output array receives as many. States continue from run to run. Afterwards the inputs named in `inputs` are cleared;
 * states and other inputs keep their values. */
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
/* Writes the label of the class at `rank` (0 is the most likely) of a classifier's last run, as snprintf does, and the
 * class's probability. `label` and `probability` may be NULL. Returns PROPANE_ERR_UNSUPPORTED if the model is not a
 * classifier. */
PROPANE_CHECK propane_status propane_session_label(propane_session *session, int rank, char *label, size_t room,
                                                   double *probability, propane_error *err);
/* Returns the name of the output that holds the label, or NULL if the model is not a classifier. */
const char *propane_session_label_name(const propane_session *session);
/* Returns the name of the output that holds a classifier's probabilities in the order of its labels, or NULL if the
 * model is not a classifier. */
const char *propane_session_probabilities(const propane_session *session);
/* Writes each output and each state to DIR/NAME.npy in its element type. */
PROPANE_CHECK propane_status propane_session_write(propane_session *session, const char *dir, propane_error *err);
/* Return the program that the session runs (for its profile), its device and its module. The session owns them. */
propane_program *propane_session_program(propane_session *session);
propane_device *propane_session_device(propane_session *session);
const propane_module *propane_session_module(const propane_session *session);

PROPANE_END

#endif
