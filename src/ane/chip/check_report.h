/* SPDX-License-Identifier: MIT
 * Declares the inside of a report. It is shared by check.c, which fills the report, and the files that print it:
 * check_text.c for people, check_report.c as JSON, check_exchange.c for other tools.
 */
#ifndef ANE_CHIP_CHECK_REPORT_H
#define ANE_CHIP_CHECK_REPORT_H

#include "ane/chip/check.h"
#include "core/base/arena.h"
#include "core/mil/ops.h"

/* Rows of the table: one per kind of op, and one for anything larger than an op. */
enum { CHIP_ROW_WHOLE = MIL_OP_COUNT, CHIP_ROWS };

typedef struct chip_mask {        /* state of one limit */
    uint64_t by[CHIP_REFUSE + 1]; /* [severity]: bits of the targets, on the report's path */
    bool any;
    int found;
} chip_mask;

typedef struct chip_cell { /* [rank]: number of findings, and the index of the first one's limit */
    int count[CHIP_RANKS], limit[CHIP_RANKS];
} chip_cell;

struct chip_report {
    arena *arena;
    const chip *targets[CHIP_COUNT];
    int target_count, os, per_limit;
    chip_path path;
    bool by_file;
    /* bits of the targets on which ops are moved: [0] for all ops of the checked function, then one entry per op */
    uint64_t *fallen;
    /* [op] of the function being checked, for one target: whether the operation is moved; NULL if not wanted */
    bool *moved;
    int fallen_at; /* the entry of `fallen` for what is being checked; -1 for none */
    chip_segments segments[CHIP_COUNT];
    chip_mask *masks;
    int *op_rows;
    chip_cell *cells; /* [CHIP_ROWS][CHIP_COUNT] */
    int op_counts[MIL_OP_COUNT];
    int totals[CHIP_COUNT][CHIP_REFUSE + 1];
    int harms[CHIP_COUNT]; /* warnings about harm */
    bool checked_program;
    chip_finding *findings;
    int count, suppressed;
};

/* segment.c: counts the segments of a function whose operations have been checked (r->fallen). */
PROPANE_CHECK propane_status chip_report_segment(chip_report *r, const mil_function *f, propane_error *err);

void chip_report_set_text(json_t *object, const char *key, const char *value); /* adds nothing if value is NULL */
json_t *chip_report_chips_json(const chip_report *r, uint64_t bits);           /* names of targets */

#endif
