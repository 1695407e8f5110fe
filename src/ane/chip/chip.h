/* SPDX-License-Identifier: MIT
 * Declares public knowledge about each Neural Engine as data: one row per chip and one figure per quantity, each with
 * its evidence and its source. Propane measured none of these figures. The constants of the time model are in
 * cost_constants.def, because they are fitted.
 */
#ifndef ANE_CHIP_CHIP_H
#define ANE_CHIP_CHIP_H

#include <stdbool.h>

#include "core/base/status.h"

/* How well a figure or a rule is established, the strongest evidence first. */
typedef enum chip_evidence {
    CHIP_MEASURED,   /* the source ran it and reports the result */
    CHIP_DOCUMENTED, /* from an official source, or from the running system's own descriptions */
    CHIP_REPORTED,   /* claimed without visible evidence */
    CHIP_INFERRED,   /* follows from other facts; never run */
    CHIP_DISPUTED    /* sources contradict each other; the text gives both */
} chip_evidence;

const char *chip_evidence_name(chip_evidence evidence); /* "measured" */

/* A generation consists of engines of one design. Most rules are about one generation. */
typedef enum chip_generation {
    CHIP_H12, /* A13 */
    CHIP_H13, /* A14, M1 family */
    CHIP_H14, /* A15, M2 family */
    CHIP_H15, /* A16, M3 family */
    CHIP_H16, /* A17 Pro, M4 family */
    CHIP_H17, /* A18, M5 family */
    CHIP_H18, /* A19, M6 */
    CHIP_H19  /* A20 */
} chip_generation;

typedef enum chip_field {
#define FIELD(id, unit, text) CHIP_##id,
#include "ane/chip/chips.def"
    CHIP_FIELD_COUNT
} chip_field;

typedef struct chip_figure {
    double value; /* 0 if not known; `source` is then NULL */
    chip_evidence evidence;
    const char *source;
} chip_figure;

typedef enum chip_id {
#define CHIP(id, name, title, arch, generation, kind) CHIP_##id,
#include "ane/chip/chips.def"
    CHIP_COUNT
} chip_id;

typedef struct chip {
    chip_id id;
    const char *name;  /* "m4-max": the name that --target and sim:CHIP accept */
    const char *title; /* "M4 Max" */
    const char *arch;  /* "h16g": the system's name for the engine; "" if no source has it */
    chip_generation generation;
    bool is_phone; /* A-series */
} chip;

const chip *chip_get(chip_id id);
/* Returns a figure of a chip, never NULL. Its value is 0 if nothing is known. */
const chip_figure *chip_know(const chip *c, chip_field field);
const char *chip_field_name(chip_field field); /* "dram_gbs" */
const char *chip_field_unit(chip_field field);
const char *chip_generation_name(chip_generation generation); /* "h16" */

/* Finds a chip by a name such as "m4", "M4 Max" or "m4_max", or by an architecture such as "h16g", which finds the base
 * chip with it. The error for an unknown name lists the known ones. */
PROPANE_CHECK propane_status chip_find(const char *name, const chip **out, propane_error *err);
/* Reads "m1,m4-max", "all" (every M chip) or "all-a" (every A chip) into up to CHIP_COUNT different chips. */
PROPANE_CHECK propane_status chip_find_list(const char *names, const chip *out[CHIP_COUNT], int *count,
                                            propane_error *err);
/* Returns true if the chip is in a list of generations and names such as "h13 h14 m3-ultra". "all" lists every chip,
 * "macs" every M chip, "phones" every A chip. */
bool chip_listed(const char *list, const chip *c);

#endif
