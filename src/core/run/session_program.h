/* SPDX-License-Identifier: MIT
 * A session as all its parts see it, and the way from a function to a program: for the files of this folder.
 */
#ifndef CORE_RUN_SESSION_PROGRAM_H
#define CORE_RUN_SESSION_PROGRAM_H

#include "core/base/map.h"
#include "core/device/runner.h"
#include "core/mil/mil.h"

struct session_late;

/* Its places in the session's runner; -1: the program does not read it, or write it. */
typedef struct session_state {
    char *name;
    int input, output;
} session_state;

typedef struct session {
    mil_module *module;
    mil_function *function;
    propane_device *device;
    bool guest; /* the device is another session's */
    propane_program *program;
    runner run;
    int inputs, outputs;
    int own_results;       /* of the function's; those after them are there by `keep` */
    session_state *states; /* [state_count]: session_states.h */
    int state_count;
    piece_map states_by_name;
    int *state_of;                 /* [outputs]: the state whose content it is; -1: none's */
    int removed_results;           /* labels and dictionaries of classifiers, which no device makes */
    const mil_const *classes;      /* of a classifier: names or numbers; NULL: it is none */
    char *probabilities;           /* the output that they belong to */
    const char *label;             /* what the label is called */
    bool resize;                   /* images of another size are scaled */
    bool wide, keep;               /* fp16 becomes fp32; every value is an output */
    const char *const *keep_names; /* borrowed; of all values these alone; keep_count 0: every one */
    int keep_count;
    bool *keeps; /* [value_count] of the function: it is a result because it was asked for; NULL: none is */
    propane_precision precision;
    int threads;
    const char *bisect;        /* borrowed; of refusal_explain */
    struct session_late *late; /* of a program whose shapes follow from values (session_late.h): outputs are known, and
                                  those of `program`, after a run; NULL: all is known */
    int64_t engine_ns;         /* of the last run, by the engine's own clock; negative: not given */
    double energy_j;           /* likewise */
    int64_t steps;             /* runs that the given arrays are for; 0: they hold one value for all */
    void **kept;               /* of each output its values of all steps; NULL: none */
} session;

/* From a function to what a device gets; the session's function is then `f`. `whole`: its results are the program's. */
PROPANE_CHECK propane_status session_prepare(session *s, mil_function *f, bool whole, propane_error *err);
/* Of the session's function, in its module. */
PROPANE_CHECK propane_status session_compile(const session *s, mil_module *m, propane_program **out,
                                             propane_error *err);

#endif
