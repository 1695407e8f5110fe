/* SPDX-License-Identifier: MIT
 * Owns the checks and estimates for each Neural Engine: a program's findings, its time and energy, and its registers.
 * These calls never run a program on an engine. The rules that hold for every call are at the top of propane.h.
 */
#ifndef PROPANE_CHECK_H
#define PROPANE_CHECK_H

#include "propane/module.h"

PROPANE_BEGIN

/* ---- chips ------------------------------------------------------------------------------------------------------- */

/* Writes the names of the chips in a list ("m1,m4-max", "all", "all-a") to `names`, at most `room` of them, and sets
 * *count to the number of all. The names are static. */
#define PROPANE_MAX_CHIPS 64
PROPANE_CHECK propane_status propane_chips(const char *target, const char **names, int room, int *count,
                                           propane_error *err);

/* ---- checking: which known rules of the Neural Engines a program violates ---------------------------------------- */

/* Severities in ascending order, so that they can be compared. PROPANE_FALLBACK means that Core ML runs the operation,
 * but not on the engine. PROPANE_CRASH means that the operation is known to crash the process when it runs outside the
 * engine. */
typedef enum propane_severity {
    PROPANE_NOTE,
    PROPANE_WARNING,
    PROPANE_FALLBACK,
    PROPANE_CRASH,
    PROPANE_REFUSED
} propane_severity;
typedef struct propane_check_options {
    size_t size;        /* sizeof(propane_check_options) */
    const char *target; /* "m1,m4-max", "all" (NULL), "all-a" (phones) */
    /* The version of macOS ("26.3") or iOS ("ios17"). Of a list ("ios17,macos14"), the oldest one counts. With NULL the
     * version is not known, and rules about versions only warn. */
    const char *os;
    int per_rule; /* findings kept per rule; 0 means 20 */
    /* How the program reaches the engine: "direct" or "coreml". NULL means "coreml" for Core ML's files and modules
     * read from them, otherwise "direct". */
    const char *path;
    /* A file with the plan that Core ML made on a device with the target chip: an MLComputePlan as JSON, or a report
     * from Xcode. The target must be a single chip. The result shows where the plan and the rules differ. NULL for no
     * plan. */
    const char *plan;
} propane_check_options;

typedef struct propane_finding {
    size_t size;      /* sizeof(propane_finding), set by the caller; strings belong to the report */
    const char *rule; /* "C13" */
    propane_severity severity;
    const char *file;
    int line, column;                 /* 0 if the program is not text */
    const char *function, *op, *name; /* NULL if it is about something larger; `name`: of the op's first result */
    const char *message, *sentence;   /* the problem in this program; the rule itself */
    const char *evidence, *source;    /* "measured", ...; who found the rule */
    const char *fix;
} propane_finding;

typedef struct propane_verdict { /* the result on one chip */
    size_t size;                 /* sizeof(propane_verdict), set by the caller */
    const char *chip;
    int refusals, warnings, notes;
    int fallbacks;           /* findings of operations that leave the engine */
    int crashes;             /* findings of operations that are known to crash the process outside the engine */
    int segments, switches;  /* parts on the engine or the CPU, and switches between them; 0 unless path is "coreml" */
    double switch_ms;        /* cost of the switches, estimated, not measured */
    const char *switches_at; /* the operations at the first switches: "topk 'v', conv 'y'"; belongs to the report */
} propane_verdict;

typedef struct propane_report propane_report;

/* Checks a program in any form, a folder with model.mil, or a weight file; the content decides which it is. A program
 * that no known rule refuses may still fail to run. `options` may be NULL. Returns an error only if the check itself
 * fails, for example if the file cannot be read. */
PROPANE_CHECK propane_status propane_check_file(const char *path, const propane_check_options *options,
                                                propane_report **out, propane_error *err);
/* Checks that the options are valid (NULL means all defaults). An error message begins with the member's name. */
PROPANE_CHECK propane_status propane_check_options_test(const propane_check_options *options, propane_error *err);
PROPANE_CHECK propane_status propane_check_module(const propane_module *module, const propane_check_options *options,
                                                  propane_report **out, propane_error *err);
void propane_report_free(propane_report *report);
int propane_report_count(const propane_report *report);
bool propane_report_get(const propane_report *report, int index,
                        propane_finding *out); /* false if there is no such row */
int propane_report_chips(const propane_report *report);
bool propane_report_verdict(const propane_report *report, int index, propane_verdict *out);
/* Returns the worst severity on any chip; PROPANE_NOTE also if nothing was found. */
propane_severity propane_report_worst(const propane_report *report);
const char *propane_report_path(const propane_report *report); /* "direct", "coreml" */
/* Prints the report as `propane check` does: PROPANE_TEXT, PROPANE_JSON, PROPANE_SARIF (a SARIF 2.1.0 log) or
 * PROPANE_GITHUB (workflow commands, which become annotations). The text is terminated; free it with propane_free. */
PROPANE_CHECK propane_status propane_report_print(const propane_report *report, propane_form form, char **out,
                                                  propane_error *err);
/* Prints the report as PROPANE_TEXT for a terminal. `look` may be NULL. */
PROPANE_CHECK propane_status propane_report_print_look(const propane_report *report, const propane_look *look,
                                                       char **out, propane_error *err);
/* Prints all rules as PROPANE_TEXT, PROPANE_JSON or PROPANE_MARKDOWN. Free the text with propane_free. */
PROPANE_CHECK propane_status propane_rules_print(propane_form form, char **out, propane_error *err);

/* Rewrites the module into operations that the engines accept, as the rules' fixes suggest. Afterwards softplus and
 * logsumexp do not overflow, masks have no infinity, matrix products and transposes have four axes, and linear layers
 * are 1 x 1 convolutions. The names of inputs and outputs stay. `count` (may be NULL) receives the number of
 * rewritten operations. `report` (may be NULL) receives one line per kind of rewrite, or "" if there was none; free
 * it with propane_free. */
PROPANE_CHECK propane_status propane_module_for_engine(propane_module *module, int *count, char **report,
                                                       propane_error *err);

/* ---- estimating: time and energy on a Neural Engine -------------------------------------------------------------- */

typedef struct propane_estimate_options {
    size_t size;        /* sizeof(propane_estimate_options) */
    const char *target; /* as above; NULL means "m4" */
    /* How the engine is called: "direct", "e5rt", "coreml" or "linux". NULL means "coreml" for Core ML's packages,
     * otherwise "direct". */
    const char *path;
} propane_estimate_options;

/* The estimate for one function on one chip. It comes from a model fitted to published measurements; nothing is
 * measured. */
typedef struct propane_estimate_row {
    size_t size; /* sizeof(propane_estimate_row), set by the caller; strings belong to the estimate */
    const char *chip, *function;
    double ms, low_ms, high_ms;        /* nine of ten published times are within such a range around their estimate */
    double fixed_ms, io_ms;            /* the parts of `ms` for the call itself, and for inputs and outputs */
    double flops, bytes, weight_bytes; /* per call */
    double utilisation;                /* `flops` as a fraction of the engine's peak during the whole call, 0 to 1 */
    double energy_mj, compile_ms;
    int op_count;
    int moved, switches; /* through Core ML: operations on the CPU, and switches between CPU and engine */
    double cpu_ms, switch_ms;
} propane_estimate_row;

typedef struct propane_estimate_op {
    size_t size;           /* sizeof(propane_estimate_op), set by the caller */
    const char *op, *name; /* `name` is that of the first result; NULL if there is none */
    const char *bound;     /* what limits the speed: "arithmetic", "weights", "memory", "overhead", ... */
    double ms, flops, bytes, energy_mj;
} propane_estimate_op;

typedef struct propane_estimate propane_estimate;

/* Estimates each function on each chip. There is one row per chip and function, and the rows are ordered by chip first.
 * The module must outlive the estimate. `options` may be NULL. */
PROPANE_CHECK propane_status propane_estimate_module(const propane_module *module,
                                                     const propane_estimate_options *options, propane_estimate **out,
                                                     propane_error *err);
void propane_estimate_free(propane_estimate *estimate);
int propane_estimate_count(const propane_estimate *estimate);
bool propane_estimate_get(const propane_estimate *estimate, int index, propane_estimate_row *out);
bool propane_estimate_get_op(const propane_estimate *estimate, int index, int op, propane_estimate_op *out);
/* Prints PROPANE_JSON, or PROPANE_TEXT with one row per operation if `ops` is set. The text is terminated; free it
 * with propane_free. */
PROPANE_CHECK propane_status propane_estimate_print(const propane_estimate *estimate, propane_form form, bool ops,
                                                    char **out, propane_error *err);

/* ---- registers: a program as an engine executes it ------------------------------------------------------------------ */

/* A program as an engine's registers (.hwx, .anec). No output of Propane's compiler has run on a device yet. */
typedef struct propane_object propane_object;
typedef struct propane_object_info {
    size_t size; /* sizeof(propane_object_info), set by the caller */
    int tasks;
    uint64_t constant_bytes, scratch_bytes;
} propane_object_info;
/* Compiles a function for `target`: "m1" (also NULL) or "m2". Simplifies the module on the way. `report` (may be
 * NULL) receives one line per operation, and one per value that comes from memory with the reason; free it with
 * propane_free. */
PROPANE_CHECK propane_status propane_object_compile(propane_module *module, const char *function, const char *target,
                                                    char **report, propane_object **out, propane_error *err);
/* Opens a compiled program, NAME.hwx or NAME.anec. Free the object with propane_object_free. */
PROPANE_CHECK propane_status propane_object_open(const char *path, propane_object **out, propane_error *err);
void propane_object_free(propane_object *object);
bool propane_object_describe(const propane_object *object, propane_object_info *out);
/* Writes the object. The file name decides the format: NAME.anec (Linux) or NAME.hwx. */
PROPANE_CHECK propane_status propane_object_write(const propane_object *object, const char *path, propane_error *err);
/* Lists the fields that differ (free the text with propane_free), and counts the words of tasks and constants that
 * differ. A difference in the generation is counted as one more. */
PROPANE_CHECK propane_status propane_object_compare(const propane_object *a, const propane_object *b, int *differences,
                                                    char **out, propane_error *err);

PROPANE_END

#endif
