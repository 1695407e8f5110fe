/* SPDX-License-Identifier: MIT
 * Owns what is in a file, as text, JSON or a page for a browser. For people; programs ask module.h. What holds for
 * every call is at the top of propane.h.
 */
#ifndef PROPANE_SHOW_H
#define PROPANE_SHOW_H

#include "propane/module.h"

PROPANE_BEGIN

/* ---- files: what is in them -------------------------------------------------------------------------------------- */

/* "program", "weights" (of programs), "compiled" (registers of an engine), "gguf", "tokens", "examples" (instruction
 * data), "folder" (of a model); NULL: its first bytes do not say, or it cannot be read. Static. */
const char *propane_file_kind(const char *path);
typedef struct propane_show_options {
    size_t size;       /* sizeof(propane_show_options) */
    propane_form form; /* PROPANE_TEXT or PROPANE_JSON (docs/coreml.md has its keys) */
    bool words;        /* of compiled programs every register by field */
    bool styled;       /* of examples: with a terminal's styles */
    const char *model,
        *chat; /* of examples: the model that would learn from them; the chat format, NULL: the model's */
} propane_show_options;
/* What is in a file of any kind that Propane knows, as `propane show` prints it; terminated, propane_free it. After an
 * error *out is what was read before it, or NULL. `options` may be NULL. */
PROPANE_CHECK propane_status propane_file_show(const char *path, const propane_show_options *options, char **out,
                                               size_t *length, propane_error *err);

/* ---- pages: a program's graph for a browser ---------------------------------------------------------------------- */

/* What was measured of the value of that name in the function that is shown. */
typedef struct propane_page_value {
    size_t size; /* sizeof(propane_page_value) of the first; all have the same */
    const char *name;
    double us;                   /* the operation that makes it takes so long; negative: not measured */
    bool compared, broken;       /* the next three hold; not a number on one side only */
    double largest, mean, scale; /* largest and mean difference; the largest value */
} propane_page_value;
typedef struct propane_page_options {
    size_t size;                    /* sizeof(propane_page_options) */
    const char *title;              /* NULL: the module's file */
    const char *lead;               /* a sentence under it; NULL: none */
    const char *function;           /* shown first; NULL: the default function or the first */
    const char *target, *os, *path; /* as in propane_check_options; target NULL: "m1,m4" */
    const char *colour;             /* "kind" (NULL), "verdict", "cost", "time", "error" */
    const propane_page_value *values;
    int value_count;
    double tolerance; /* a larger relative difference is marked */
} propane_page_options;
/* One HTML page that loads nothing from elsewhere: the graph of each function, with shapes, types, work, estimates,
 * what `propane check` says of each operation, and what `values` hold. Names out of the file are data in it, never
 * markup. Terminated, propane_free it. `options` may be NULL. */
PROPANE_CHECK propane_status propane_module_page(const propane_module *module, const propane_page_options *options,
                                                 char **out, size_t *length, propane_error *err);

PROPANE_END

#endif
