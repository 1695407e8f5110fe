/* SPDX-License-Identifier: MIT
 * The session structure shared by its parts, and the conversion of a function to a program. For the files of this
 * folder.
 */
#ifndef CORE_RUN_SESSION_PROGRAM_H
#define CORE_RUN_SESSION_PROGRAM_H

#include "core/base/map.h"
#include "core/device/runner.h"
#include "core/mil/mil.h"

struct session_late;

/* A state, and its places in the session's runner; a place is -1 if the program does not read or write the state. */
typedef struct session_state {
    char *name;
    int input, output;
} session_state;

typedef struct session {
    mil_module *module;
    mil_function *function;
    propane_device *device;
    bool guest; /* the device belongs to another session */
    propane_program *program;
    runner run;
    int inputs, outputs;
    int own_results;       /* number of the function's own results; later ones exist because of `keep` */
    session_state *states; /* [state_count]: session_states.h */
    int state_count;
    piece_map states_by_name;
    int *state_of;                 /* [outputs]: index of the state whose content it is; -1 if none */
    int removed_results;           /* labels and dictionaries of classifiers, which no device computes */
    const mil_const *classes;      /* a classifier's labels, names or numbers; NULL for other programs */
    char *probabilities;           /* name of the output with the labels' probabilities */
    const char *label;             /* name of the label */
    bool resize;                   /* images of another size are scaled */
    bool wide, keep;               /* wide: fp16 becomes fp32; keep: every value is an output */
    const char *const *keep_names; /* borrowed; only these values are kept; keep_count 0 means all */
    int keep_count;
    bool *keeps; /* [value_count] of the function: true for values to keep; NULL if none are kept */
    propane_precision precision;
    int threads;
    const char *bisect; /* borrowed; folder for refusal_explain */
    /* The stages of a program whose shapes depend on values (session_late.h), whose outputs are known only after a run;
     * NULL for other programs. */
    struct session_late *late;
    int64_t engine_ns; /* duration of the last run by the engine's own clock; negative if unknown */
    double energy_j;   /* energy of the last run in joules; negative if unknown */
    int64_t steps;     /* runs that the given arrays are for; 0 if they hold one value for all */
    void **kept;       /* for each output its values of all steps; NULL if none are kept */
} session;

/* Prepares a function for a device; `f` becomes the session's function. `whole` is false for a stage of a late
 * session. */
PROPANE_CHECK propane_status session_prepare(session *s, mil_function *f, bool whole, propane_error *err);
/* Compiles the session's function, which is in `m`. */
PROPANE_CHECK propane_status session_compile(const session *s, mil_module *m, propane_program **out,
                                             propane_error *err);

#endif
