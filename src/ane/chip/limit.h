/* SPDX-License-Identifier: MIT
 * The rows of limits.def as data, and what a row's check looks at. A check knows the program, file, request or process
 * in front of it and nothing of chips; which chips a row is about is a column.
 */
#ifndef ANE_CHIP_LIMIT_H
#define ANE_CHIP_LIMIT_H

#include <stddef.h>
#include <stdint.h>

#include "ane/chip/chip.h"
#include "core/mil/mil.h"

#define CHIP_TEXT_BYTES 400 /* of a check's message */

typedef enum chip_site { /* what a row is checked on */
                         CHIP_SITE_MODULE,
                         CHIP_SITE_FUNCTION,
                         CHIP_SITE_TENSOR,    /* every parameter and every result that is not an attribute */
                         CHIP_SITE_OP,        /* the ops that the row names; none: all but constants */
                         CHIP_SITE_TEXT,      /* a program that the reader refuses */
                         CHIP_SITE_BLOB,      /* a weight file */
                         CHIP_SITE_RECORD,    /* one record of it */
                         CHIP_SITE_REFERENCE, /* a BLOBFILE(...) in a program's text */
                         CHIP_SITE_REQUEST,   /* surfaces bound for one run */
                         CHIP_SITE_PROCESS,   /* what a process does over time */
                         CHIP_SITE_FACT       /* nothing that can be violated: documented in docs/constraints.md only */
} chip_site;

typedef enum chip_severity {
    CHIP_SILENT = -1, /* says nothing on this path; never of a finding */
    CHIP_NOTE,        /* worth knowing */
    CHIP_WARN,        /* may fail: reported, disputed, slow, or seen on another chip */
    CHIP_FALL,        /* runs, but on the CPU or GPU: measured or documented; on the Core ML path only */
    CHIP_REFUSE       /* fails, or computes something else than the program says: measured or documented */
} chip_severity;

typedef enum chip_path {                   /* how a program reaches the engine */
                         CHIP_PATH_DIRECT, /* MIL text given to the engine's compiler, as Propane does */
                         /* through Core ML, which gives what an engine does not take to CPU and GPU */
                         CHIP_PATH_COREML,
                         CHIP_PATH_COUNT
} chip_path;

typedef struct chip_surface {
    const char *name; /* of the parameter or result that is bound here */
    size_t bytes;     /* allocated */
    size_t offset;    /* at which the data begins */
} chip_surface;

/* Surfaces in the order in which they stand in the request. */
typedef struct chip_request {
    const mil_function *function;
    const chip_surface *inputs, *outputs;
    int input_count, output_count;
    int procedure, procedure_count; /* index of the function in its program; how many there are */
    size_t row_bytes;               /* rows begin at multiples of it; 0: what rule C13 says */
} chip_request;

/* What a process has done so far, the present call included. All zero: nothing. */
typedef struct chip_process {
    int64_t compiles; /* that were not served from the cache */
    int64_t loaded;   /* programs loaded at the same time */
    int64_t budget;   /* of compiles or of loaded programs; 0: what the rows say */
    int64_t evaluations;
    int in_flight;                 /* requests that wait or run */
    int same_model_in_flight;      /* of those, the most for one loaded program */
    double since_failed_compile_s; /* 0: no compile failed */
    bool forked;                   /* after the framework was opened */
    bool weights_nil;              /* weights: nil for a program without weights */
    bool text_as_string;           /* the program given as NSString */
    bool weights_overwritten;      /* a weight file was rewritten and the program loaded again without a compile */
    bool compiles_while_running;   /* a compile and an evaluate overlap */
    bool compiles_through_mlmodel; /* [MLModel compileModelAtURL:] */
} chip_process;

typedef struct chip_record { /* of a weight file, as its bytes say */
    uint64_t offset;
    uint32_t sentinel, code;
    uint64_t bytes, data, padding;
} chip_record;

typedef struct chip_blob {
    const char *path;
    const uint8_t *data;
    size_t bytes;
    int record_count; /* that were found; the header's count is in the file */
    bool unaligned;   /* one of them not at a multiple of 64 */
} chip_blob;

struct chip_limit;

typedef struct chip_view {
    const struct chip_limit *limit;
    const mil_module *module;
    const mil_function *function;
    const mil_op *op;
    const mil_value *value;
    const int *uses;      /* [value id] of the function: how often it is read */
    const int *op_counts; /* [mil_opcode] of the function */
    const chip_blob *blob;
    const chip_record *record; /* RECORD; REFERENCE: the record at `offset`, sentinel 0 if there is none */
    uint64_t offset;           /* REFERENCE */
    const chip_request *request;
    const chip_process *process;
    const char *text; /* TEXT: the reader's message */
} chip_view;

typedef struct chip_limit {
    const char *id; /* "C27a": numbers are those of docs/constraints.md */
    chip_site site;
    const char *ops; /* OP: names separated by spaces; "": all */
    /* Is the row violated? Then `out` says what was found ("the last axis of 'x' is 17920"). */
    bool (*check)(const chip_view *view, char out[CHIP_TEXT_BYTES]);
    chip_severity on[CHIP_PATH_COUNT]; /* [path]: on `chips` */
    const char *seen;                  /* words: direct, e5rt, coreml, coreai; "any": the engine itself or a format */
    const char *chips;  /* as chip_listed takes it: where it was seen, or what the source says it holds for */
    const char *also;   /* chips on which it warns because the contrary has not been shown */
    int os_min, os_max; /* macOS times 100 (26.3 is 2603), both inclusive; 0: no bound */
    double value;       /* the number in the rule, 0 if there is none */
    chip_evidence evidence;
    const char *sentence, *source, *fix;
} chip_limit;

int chip_limit_count(void);
const chip_limit *chip_limit_get(int index);
const chip_limit *chip_limit_find(const char *id);      /* NULL: there is none */
double chip_limit_value(const char *id);                /* of a row that there is */
const char *chip_limit_scope(const chip_limit *l);      /* "program", "blob", "request", "process", "fact" */
const char *chip_severity_name(chip_severity severity); /* "refused", "falls back", "warning", "note" */
const char *chip_path_name(chip_path path);             /* "direct", "coreml" */
/* Does the row speak about this chip under this macOS (times 100; 0: not known) on this path? Then how. Where the
 * version is not known, a row about some versions only warns; what older versions refuse, and what one version alone
 * does, is not said at all. */
bool chip_limit_on(const chip_limit *l, const chip *c, int os, chip_path path, chip_severity *out);

#endif
