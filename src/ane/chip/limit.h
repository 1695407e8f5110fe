/* SPDX-License-Identifier: MIT
 * Declares the rows of limits.def as data, and the input of a row's check. A check receives the program, file, request
 * or process, but no chip. A column lists the chips that the row is about.
 */
#ifndef ANE_CHIP_LIMIT_H
#define ANE_CHIP_LIMIT_H

#include <stddef.h>
#include <stdint.h>

#include "ane/chip/chip.h"
#include "core/mil/mil.h"

#define CHIP_TEXT_BYTES 400 /* size of a check's message */

typedef enum chip_site { /* the kind of thing that a row is checked on */
                         CHIP_SITE_MODULE,
                         CHIP_SITE_FUNCTION,
                         CHIP_SITE_TENSOR,    /* every parameter and every result that is not an attribute */
                         CHIP_SITE_OP,        /* the ops that the row names; if it names none, all but constants */
                         CHIP_SITE_TEXT,      /* a program that the reader refuses */
                         CHIP_SITE_BLOB,      /* a weight file */
                         CHIP_SITE_RECORD,    /* one record of a weight file */
                         CHIP_SITE_REFERENCE, /* a BLOBFILE(...) in a program's text */
                         CHIP_SITE_REQUEST,   /* the surfaces bound for one run */
                         CHIP_SITE_PROCESS,   /* what a process does over time */
                         CHIP_SITE_FACT       /* cannot be violated; only documented in docs/constraints.md */
} chip_site;

typedef enum chip_severity {
    CHIP_SILENT = -1, /* reports nothing on this path; no finding has this severity */
    CHIP_NOTE,        /* of interest, but no problem */
    CHIP_WARN,        /* may fail: reported, disputed, slow, or seen on another chip */
    CHIP_FALL,        /* runs, but on the CPU or GPU: measured or documented; on the Core ML path only */
    CHIP_CRASH,       /* ends the process or its load outside the engine: measured; on the Core ML path only */
    CHIP_REFUSE       /* fails, or computes something other than the program states: measured or documented */
} chip_severity;

typedef enum chip_path {                   /* how a program reaches the engine */
                         CHIP_PATH_DIRECT, /* MIL text passed to the engine's compiler, as in Propane */
                         /* through Core ML, which moves operations that an engine refuses to the CPU or GPU */
                         CHIP_PATH_COREML,
                         CHIP_PATH_COUNT
} chip_path;

typedef struct chip_surface {
    const char *name; /* of the parameter or result bound here */
    size_t bytes;     /* allocated */
    size_t offset;    /* where the data begins */
} chip_surface;

/* A request's surfaces, in the order of the request. */
typedef struct chip_request {
    const mil_function *function;
    const chip_surface *inputs, *outputs;
    int input_count, output_count;
    int procedure, procedure_count; /* index of the function in its program, and the number of functions */
    size_t row_bytes;               /* alignment of rows; 0 means that of rule C13 */
} chip_request;

/* What a process has done so far, including the present call. All fields are zero if it has done nothing yet. */
typedef struct chip_process {
    int64_t compiles; /* compiles that the cache did not serve */
    int64_t loaded;   /* programs that are loaded at the same time */
    int64_t budget;   /* replaces the limit of rows that limit a count, such as compiles; 0 means the row's own */
    int64_t evaluations;
    int in_flight;                 /* requests that are waiting or running */
    int same_model_in_flight;      /* the largest number of these requests for one loaded program */
    double since_failed_compile_s; /* 0 if no compile failed */
    bool forked;                   /* after the framework was opened */
    bool weights_nil;              /* passed weights: nil for a program without weights */
    bool text_as_string;           /* passed the program as NSString */
    bool weights_overwritten;      /* rewrote a weight file and loaded the program again without a compile */
    bool compiles_while_running;   /* ran a compile and an evaluation at the same time */
    bool compiles_through_mlmodel; /* called [MLModel compileModelAtURL:] */
} chip_process;

typedef struct chip_record { /* a record of a weight file, from its bytes */
    uint64_t offset;
    uint32_t sentinel, code;
    uint64_t bytes, data, padding;
} chip_record;

typedef struct chip_blob {
    const char *path;
    const uint8_t *data;
    size_t bytes;
    int record_count; /* records found, which may differ from the header's count */
    bool unaligned;   /* true if a record is not at a multiple of 64 */
} chip_blob;

struct chip_limit;

typedef struct chip_view {
    const struct chip_limit *limit;
    const mil_module *module;
    const mil_function *function;
    const mil_op *op;
    const mil_value *value;
    const int *uses;      /* [value id] of the function: number of reads */
    const int *op_counts; /* [mil_opcode] of the function: number of operations */
    const chip_blob *blob;
    const chip_record *record; /* for RECORD; for REFERENCE what is at `offset`, a record only if `sentinel` is right */
    uint64_t offset;           /* for REFERENCE */
    const chip_request *request;
    const chip_process *process;
    const char *text; /* for TEXT: the reader's message */
} chip_view;

typedef struct chip_limit {
    const char *id; /* "C27a", numbered as in docs/constraints.md */
    chip_site site;
    const char *ops; /* for OP: names separated by spaces; "" means all */
    /* Returns true if the row is violated. `out` then describes what was found ("the last axis of 'x' is 17920"). */
    bool (*check)(const chip_view *view, char out[CHIP_TEXT_BYTES]);
    chip_severity on[CHIP_PATH_COUNT]; /* [path]: severity on `chips` */
    bool harm[CHIP_PATH_COUNT];        /* [path]: a warning is about wrong results, a crash or a failed load */
    const char *seen;                  /* words: direct, e5rt, coreml, coreai; "any": the engine itself or a format */
    const char *chips;  /* a list for chip_listed: where it was seen, or where it holds according to the source */
    const char *also;   /* chips on which the row at most warns, because nobody has shown otherwise */
    int os_min, os_max; /* macOS versions times 100 (26.3 is 2603), both inclusive; 0 means no bound */
    double value;       /* the number in the rule, 0 if there is none */
    chip_evidence evidence;
    const char *sentence, *source, *fix;
} chip_limit;

int chip_limit_count(void);
const chip_limit *chip_limit_get(int index);
const chip_limit *chip_limit_find(const char *id);      /* NULL if there is none */
double chip_limit_value(const char *id);                /* the row must exist */
const char *chip_limit_scope(const chip_limit *l);      /* "program", "blob", "request", "process", "fact" */
const char *chip_severity_name(chip_severity severity); /* "note", ..., "crashes elsewhere", "refused" */
/* Returns the rank (check.h) of a finding with this severity. `harm` means that a warning is about harm. */
int chip_rank_of(chip_severity severity, bool harm);
const char *chip_path_name(chip_path path); /* "direct", "coreml" */
/* Returns true if the row applies to the chip on this path under macOS version `os` (times 100; 0 if not known), and
 * sets *out to its severity. If the version is not known, a row about certain versions at most warns. Refusals by older
 * versions, and rows about versions from one to another, then do not apply. */
bool chip_limit_on(const chip_limit *l, const chip *c, int os, chip_path path, chip_severity *out);

#endif
