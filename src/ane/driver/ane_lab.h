/* SPDX-License-Identifier: MIT
 * Declares calls into the engine's framework that only the probe (cli/device_lab) makes. It makes one call at a time,
 * in an order and with arguments that the driver itself would not choose. Use them only for experiments in separate
 * processes, because each call may crash or hang.
 */
#ifndef ANE_DRIVER_ANE_LAB_H
#define ANE_DRIVER_ANE_LAB_H

#include "ane/driver/objc_runtime.h"
#include "core/base/json.h"

/* Sets a function to call with each folder that will contain a program's files, so that the folder can be removed after
 * a crash. NULL means no call. */
void ane_on_folder(void (*made)(const char *path));
/* Sets how long this process's devices wait after a failed compile if pause= is not given, because an experiment has a
 * time limit. */
void ane_pause_at_most(int seconds);

enum { LAB_INPUTS = 4, LAB_VALUES = 32 * 32 };

typedef struct lab_file {
    const char *path; /* relative to the program's folder: weights/a.bin */
    const void *data;
    size_t length;
} lab_file;

typedef enum lab_data { LAB_BYTES, LAB_DIGEST, LAB_NOTHING } lab_data;

typedef struct lab_program {
    int route; /* 0 for memory, 1 for client */
    const char *text;
    const lab_file *files;
    int file_count;
    lab_data data; /* what the memory route's dictionary contains for a file: its bytes, their SHA-256, or no bytes */
    /* The folder in which the program's own folder is made. NULL means the place where the framework looks (memory), or
     * a new folder in TMPDIR (client). */
    const char *folder;
    bool open_modes; /* 0755 and 0644 instead of access for only this user */
    int inputs;      /* number of parameters, with names in alphabetical order; all fp16, in rows of 64 bytes */
    int64_t values[LAB_INPUTS + 1]; /* element counts of each input, then of the output; 0 means LAB_VALUES */
} lab_program;

typedef enum lab_step {
    LAB_EXISTS,
    LAB_WRITE,
    LAB_COMPILE,
    LAB_LOAD,
    LAB_EVALUATE,
    LAB_UNLOAD,
    LAB_PURGE,
    LAB_ATTRIBUTES,         /* reads the inner model's attributes */
    LAB_WRAPPER_ATTRIBUTES, /* reads the attributes of the memory route's own class */
    LAB_DROP_DESCRIPTOR,    /* setDescriptor:nil */
    LAB_REMOVE_FOLDER,
    LAB_STEP_COUNT
} lab_step;

typedef enum lab_statistics { LAB_NO_STATISTICS, LAB_EMPTY_STATISTICS, LAB_ONE_STATISTICS } lab_statistics;

/* Describes how LAB_EVALUATE makes its request. */
typedef struct lab_request {
    lab_statistics statistics;    /* nil, an empty list, or a list with a _ANEPerformanceStats */
    size_t bytes[LAB_INPUTS + 1]; /* sizes of the surfaces; 0 means as large as the values need */
    bool swapped;                 /* exchanges the places of the first two inputs */
} lab_request;

typedef struct lab lab;

/* Makes the model. Adds "hex", "localModelPath", "temporary", "folder" and "perFileHashes" to `out`, as far as they are
 * known. */
PROPANE_CHECK propane_status lab_open(const lab_program *p, json_t *out, lab **l, propane_error *err);
/* Makes one call. Adds {"done", "ms", "error": {"domain", "code", ...}} to `out` under the step's name. Returns false
 * if the call returned NO or could not be made. */
bool lab_do(lab *l, lab_step step, json_t *out);
/* Runs the steps from `first` to `last`. Stops and returns false at the first step that fails, except LAB_EXISTS. */
bool lab_do_all(lab *l, lab_step first, lab_step last, json_t *out);
const char *lab_step_name(lab_step step);
void lab_request_as(lab *l, const lab_request *request);
/* Sets all of an input's values. */
PROPANE_CHECK propane_status lab_put(lab *l, int input, float value, propane_error *err);
/* Returns the first value of the output, and whether all the others are equal to it. */
PROPANE_CHECK propane_status lab_take(lab *l, float *value, bool *uniform, propane_error *err);
const char *lab_folder(const lab *l);
/* Returns the files in the folder as {"PATH": {"bytes", "sha256"}}. */
json_t *lab_list_folder(const lab *l);
void lab_close(lab *l);

/* Converts a string, a number, a dictionary or an array to JSON. An object of any other class becomes "(another
 * class)". */
json_t *lab_json(const ane_api *a, ane_id object);
/* Sets a function to call before each step, with its name. NULL means no call. */
void lab_on_step(void (*begins)(const char *step));

#endif
