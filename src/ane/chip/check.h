/* SPDX-License-Identifier: MIT
 * The checker: goes over programs, weight files, requests and processes with all rows of limits.def and collects what
 * is violated on the chips that were asked for. It can say that a known rule refuses something; it can never say that
 * something runs. A report may be filled by several calls.
 */
#ifndef ANE_CHIP_CHECK_H
#define ANE_CHIP_CHECK_H

#include "ane/chip/limit.h"
#include "core/base/json.h"
#include "core/base/text.h"

typedef struct chip_check_options {
    const chip *const *targets;
    int target_count;
    int os;        /* macOS times 100: 26.3 is 2603; 0: not known */
    int per_limit; /* findings kept for each row, 0: 20; further ones are counted only */
    chip_path path;
    bool by_file; /* chip_check_file takes the path from the file's form instead: Core ML for packages, model files and
                     compiled models, direct for MIL text */
} chip_check_options;

typedef struct chip_finding {
    const chip_limit *limit;
    chip_severity severity;                /* the worst of the targets */
    uint64_t refused, fell, warned, noted; /* bit chip_id: on which */
    const char *source;                    /* the file, or what the module is called */
    int line, column;                      /* 0: not from text */
    const char *function, *op, *name;      /* NULL where it is about something larger; name: of the op's first result */
    const char *message;
} chip_finding;

typedef struct chip_report chip_report;

/* NULL: no memory. The targets are copied. */
chip_report *chip_report_create(const chip_check_options *options);
void chip_report_free(chip_report *r);
/* Errors are about the checker's own work (no memory, a file that cannot be read); what a chip does not take is a
 * finding. The program must have passed the verifier. */
PROPANE_CHECK propane_status chip_check_module(chip_report *r, const mil_module *m, propane_error *err);
PROPANE_CHECK propane_status chip_check_function(chip_report *r, const mil_function *f, propane_error *err);
PROPANE_CHECK propane_status chip_check_blob(chip_report *r, const char *path, propane_error *err);
PROPANE_CHECK propane_status chip_check_blob_data(chip_report *r, const char *name, const uint8_t *data, size_t bytes,
                                                  propane_error *err);
PROPANE_CHECK propane_status chip_check_request(chip_report *r, const chip_request *request, propane_error *err);
PROPANE_CHECK propane_status chip_check_process(chip_report *r, const chip_process *process, propane_error *err);
/* A .mil file, with the weight files it names, a folder that holds model.mil, or a weight file: recognised by content. */
PROPANE_CHECK propane_status chip_check_file(chip_report *r, const char *path, propane_error *err);

int chip_report_count(const chip_report *r);
const chip_finding *chip_report_get(const chip_report *r, int index);
/* How many findings there were on a target of that severity, the ones not kept included. */
int chip_report_total(const chip_report *r, const chip *target, chip_severity severity);
/* The worst of all targets; CHIP_NOTE also where nothing was found. */
chip_severity chip_report_worst(const chip_report *r);
chip_severity chip_report_worst_on(const chip_report *r, const chip *c); /* the same on one chip */
chip_path chip_report_path(const chip_report *r);
int chip_report_os(const chip_report *r);
/* "refused by C13, C21; 2 warnings": the last lines of every form that people read. */
void chip_report_put_verdict(const chip_report *r, const chip *c, text *out);
/* How Core ML would cut the program between the engine and the CPU; all 0 on the direct path. */
typedef struct chip_segments {
    int engine, cpu;  /* runs of operations on one side */
    int switches;     /* between them, in both directions */
    int moved;        /* operations that are not on the engine */
    double ms;        /* what the switches cost: estimated, not measured */
    char places[200]; /* the first operations at which it switches, "topk 'v', conv 'y'" */
} chip_segments;
const chip_segments *chip_report_segments(const chip_report *r, const chip *target);
typedef struct chip_print {
    bool styled; /* with a terminal's colours */
    int width;   /* columns that lines and tables keep to; 0: any */
} chip_print;
/* The path, findings by rule, then the table op by chip, then a line for all chips of which the same is said. Control
 * characters out of files are shown, not written. */
void chip_report_print(const chip_report *r, const chip_print *how, text *out);
/* NULL: no memory. */
json_t *chip_report_json(const chip_report *r);
/* A log in the Static Analysis Results Interchange Format, 2.1.0. NULL: no memory. */
json_t *chip_report_sarif(const chip_report *r);
/* A workflow command of GitHub for each finding ("::error file=...,line=...::"), then the line of each chip. */
void chip_report_github(const chip_report *r, text *out);

/* One function, one chip: PROPANE_ERR_UNSUPPORTED with place, rule, message and fix if a known rule refuses it. */
PROPANE_CHECK propane_status chip_check_refusal(const mil_function *f, const chip *c, int os, propane_error *err);
/* The same through Core ML, which gives what the engine does not take to the CPU. moved [op_count]: those operations,
 * in the function's order. *cut: the sides that this makes; filled where the function is refused, too. */
PROPANE_CHECK propane_status chip_check_placement(const mil_function *f, const chip *c, int os, bool *moved,
                                                  chip_segments *cut, propane_error *err);

/* The reference page made of limits.def, and the rows as JSON. */
void chip_limits_markdown(text *out);
json_t *chip_limits_json(void);

/* A request that is about to run, and what a process is about to do: PROPANE_ERR_DEVICE and PROPANE_ERR_LIMIT with
 * rule, message and fix if a row refuses it on the chip. `chosen`: ids, separated by blanks, of rows that refuse here
 * although their sources disagree. */
PROPANE_CHECK propane_status chip_request_refusal(const chip_request *request, const chip *c, int os,
                                                  const char *chosen, propane_error *err);
PROPANE_CHECK propane_status chip_process_refusal(const chip_process *process, const chip *c, int os,
                                                  const char *chosen, propane_error *err);

size_t chip_row_bytes(void); /* rows of surfaces begin at multiples of it: C13 */
/* What a surface for the tensor must have; row_bytes 0: as rule C13 says. */
size_t chip_surface_bytes(const mil_type *type, size_t row_bytes);

#endif
