/* SPDX-License-Identifier: MIT
 * Owns the display of a file's contents as text, JSON or a page for a browser. It is for people; programs use
 * module.h. The rules that hold for every call are at the top of propane.h.
 */
#ifndef PROPANE_SHOW_H
#define PROPANE_SHOW_H

#include "propane/module.h"

PROPANE_BEGIN

/* ---- files: their contents -------------------------------------------------------------------------------------- */

/* Returns the kind of a file: "program", "weights" (of programs), "compiled" (registers of an engine), "gguf",
 * "tokens", "examples" (instruction data), "folder" (of a model). NULL if its first bytes do not show the kind, or
 * if it cannot be read. Static. */
const char *propane_file_kind(const char *path);
typedef struct propane_show_options {
    size_t size;       /* sizeof(propane_show_options) */
    propane_form form; /* PROPANE_TEXT or PROPANE_JSON (its keys: docs/coreml.md) */
    bool words;        /* of compiled programs: every register by field */
    bool styled;       /* of examples: with a terminal's styles */
    const char *model,
        *chat; /* of examples: the model that would learn from them; the chat format, or NULL for the model's */
} propane_show_options;
/* Prints the contents of a file of any known kind, as `propane show` does. The text is terminated; free it with
 * propane_free. After an error *out is the text of the part that was read, or NULL. `options` may be NULL. */
PROPANE_CHECK propane_status propane_file_show(const char *path, const propane_show_options *options, char **out,
                                               size_t *length, propane_error *err);

/* ---- pages: a program's graph for a browser ---------------------------------------------------------------------- */

/* Measurements of the value of that name in the shown function. */
typedef struct propane_page_value {
    size_t size; /* sizeof(propane_page_value), set in the first; all have the same size */
    const char *name;
    double us;                   /* time of the operation that makes it; negative if not measured */
    bool compared, broken;       /* compared: the next three are valid; broken: not a number on one side only */
    double largest, mean, scale; /* largest and mean difference; the largest value */
} propane_page_value;
typedef struct propane_page_options {
    size_t size;                    /* sizeof(propane_page_options) */
    const char *title;              /* NULL for the module's file */
    const char *lead;               /* a sentence under it; NULL for none */
    const char *function;           /* shown first; NULL for the default function or the first */
    const char *target, *os, *path; /* as in propane_check_options; target NULL means "m1,m4" */
    const char *colour;             /* "kind" (NULL), "verdict", "cost", "time", "error" */
    const propane_page_value *values;
    int value_count;
    double tolerance; /* larger relative differences are marked */
} propane_page_options;
/* Prints one HTML page that loads nothing from elsewhere: the graph of each function with shapes, types, work,
 * estimates, the findings of `propane check` for each operation, and the measurements in `values`. Names from the
 * file are data in the page, never markup. The text is terminated; free it with propane_free. `options` may be
 * NULL. */
PROPANE_CHECK propane_status propane_module_page(const propane_module *module, const propane_page_options *options,
                                                 char **out, size_t *length, propane_error *err);

PROPANE_END

#endif
