/* SPDX-License-Identifier: MIT
 * Declares the checker. It compares programs, weight files, requests and processes with all rows of limits.def, and
 * collects violations for the requested chips. It can report that a known rule refuses something, but never that
 * something runs. Several calls may fill one report.
 */
#ifndef ANE_CHIP_CHECK_H
#define ANE_CHIP_CHECK_H

#include "ane/chip/limit.h"
#include "core/base/json.h"
#include "core/base/text.h"

typedef struct chip_check_options {
    const chip *const *targets;
    int target_count;
    int os;        /* macOS version times 100: 26.3 is 2603; 0 if not known */
    int per_limit; /* findings kept per row; further ones are only counted; 0 means 20 */
    chip_path path;
    bool by_file; /* chip_check_file chooses the path by the file: Core ML for packages, model files and compiled
                   * models, direct for MIL text */
} chip_check_options;

typedef struct chip_finding {
    const chip_limit *limit;
    chip_severity severity;                         /* the worst among the targets */
    bool harm;                                      /* a warning about wrong results, a crash or a failed load */
    uint64_t refused, crashed, fell, warned, noted; /* targets with each severity: bit chip_id */
    const char *source;                             /* the file, or the name of the module */
    int line, column;                               /* 0 if the finding is not about a place in a text */
    const char *function, *op, *name; /* NULL if about something larger; name: the op's first result, or an input */
    const char *message;
} chip_finding;

typedef struct chip_report chip_report;

/* Copies the targets. Returns NULL if memory runs out. */
chip_report *chip_report_create(const chip_check_options *options);
void chip_report_free(chip_report *r);
/* Errors concern only the checker's own work: no memory, or a file that cannot be read. What a chip refuses is a
 * finding, not an error. The program must have passed the verifier. */
PROPANE_CHECK propane_status chip_check_module(chip_report *r, const mil_module *m, propane_error *err);
PROPANE_CHECK propane_status chip_check_function(chip_report *r, const mil_function *f, propane_error *err);
PROPANE_CHECK propane_status chip_check_blob_data(chip_report *r, const char *name, const uint8_t *data, size_t bytes,
                                                  propane_error *err);
PROPANE_CHECK propane_status chip_check_request(chip_report *r, const chip_request *request, propane_error *err);
PROPANE_CHECK propane_status chip_check_process(chip_report *r, const chip_process *process, propane_error *err);
/* Checks a .mil file with the weight files that it names, a weight file, a folder that contains model.mil, a package or
 * a model file. Files are recognised by content, except .mil and .mlmodel files. */
PROPANE_CHECK propane_status chip_check_file(chip_report *r, const char *path, propane_error *err);

int chip_report_count(const chip_report *r);
const chip_finding *chip_report_get(const chip_report *r, int index);
/* Returns the rank of a finding, from 0 to CHIP_RANKS - 1. Reports print findings of a higher rank first. A warning of
 * harm ranks above a fallback, which costs only time. */
enum { CHIP_RANKS = 6 };
int chip_finding_rank(const chip_finding *f);
/* Returns the number of findings of that severity on a target, including those that were not kept. */
int chip_report_total(const chip_report *r, const chip *target, chip_severity severity);
/* Returns the worst severity on any target, or CHIP_NOTE if nothing was found. */
chip_severity chip_report_worst(const chip_report *r);
chip_severity chip_report_worst_on(const chip_report *r, const chip *c); /* the same for one chip */
chip_path chip_report_path(const chip_report *r);
int chip_report_os(const chip_report *r);
/* Appends the verdict on a chip, such as "refused by C13, C21; 2 warnings". Every output for people ends with
 * verdicts. */
void chip_report_put_verdict(const chip_report *r, const chip *c, text *out);
/* How Core ML would divide the program between the engine and the CPU; all 0 on the direct path. */
typedef struct chip_segments {
    int engine, cpu;  /* runs of operations on one side */
    int switches;     /* changes of side, in both directions */
    int moved;        /* operations that are not on the engine */
    double ms;        /* estimated cost of the switches, not measured */
    char places[200]; /* the first operations at which the side changes, as in "topk 'v', conv 'y'" */
} chip_segments;
const chip_segments *chip_report_segments(const chip_report *r, const chip *target);
typedef struct chip_print {
    bool styled; /* uses a terminal's colours */
    int width;   /* widest line, in columns, for text and tables; 0 means no limit */
} chip_print;
/* Prints the path, the findings by rule, the table of operations by chip, and one line per group of chips with the
 * same verdict. Control characters from files are escaped. */
void chip_report_print(const chip_report *r, const chip_print *how, text *out);
/* Returns NULL if memory runs out. */
json_t *chip_report_json(const chip_report *r);
/* Returns a log in the Static Analysis Results Interchange Format, 2.1.0, or NULL if memory runs out. */
json_t *chip_report_sarif(const chip_report *r);
/* Prints a GitHub workflow command per finding ("::error file=...,line=...::"), then one line per chip. */
void chip_report_github(const chip_report *r, text *out);

/* Checks one function for one chip. Returns PROPANE_ERR_UNSUPPORTED with place, rule, message and fix if a known rule
 * refuses the function. */
PROPANE_CHECK propane_status chip_check_refusal(const mil_function *f, const chip *c, int os, propane_error *err);
/* Does the same for the path through Core ML, which moves operations that the engine refuses to the CPU. Marks these
 * operations in moved [op_count], in the function's order. Fills *cut with the resulting segments, even if the function
 * is refused. */
PROPANE_CHECK propane_status chip_check_placement(const mil_function *f, const chip *c, int os, bool *moved,
                                                  chip_segments *cut, propane_error *err);

/* Print limits.def as the reference page, and return its rows as JSON. */
void chip_limits_markdown(text *out);
json_t *chip_limits_json(void);

/* Check a request before it runs, and a process before its next call. If a row refuses the request or the call on the
 * chip, return PROPANE_ERR_DEVICE or PROPANE_ERR_LIMIT with rule, message and fix. `chosen` lists the ids, separated by
 * blanks, of rows that refuse in this call although their sources disagree. */
PROPANE_CHECK propane_status chip_request_refusal(const chip_request *request, const chip *c, int os,
                                                  const char *chosen, propane_error *err);
PROPANE_CHECK propane_status chip_process_refusal(const chip_process *process, const chip *c, int os,
                                                  const char *chosen, propane_error *err);

size_t chip_row_bytes(void); /* alignment of the rows of surfaces in bytes, from C13 */
/* Returns the bytes that a surface for the tensor needs. A row_bytes of 0 means the alignment of rule C13. */
size_t chip_surface_bytes(const mil_type *type, size_t row_bytes);

#endif
