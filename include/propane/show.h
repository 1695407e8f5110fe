/* SPDX-License-Identifier: MIT
 * Owns the display of a file's contents to people, as text, JSON or a page for a browser. Programs should read files
 * with module.h. The rules that hold for every call are at the top of propane.h.
 */
#ifndef PROPANE_SHOW_H
#define PROPANE_SHOW_H

#include "propane/module.h"

PROPANE_BEGIN

/* ---- files: their contents -------------------------------------------------------------------------------------- */

/* Returns the kind of a file: "program", "weights" (of programs), "compiled" (registers of an engine), "gguf",
 * "tokens", "examples" (instruction data), "folder" (of a model). Returns NULL if the first bytes of the file do not
 * show its kind, or if it cannot be read. The string is static. */
const char *propane_file_kind(const char *path);
typedef struct propane_show_options {
    size_t size;       /* sizeof(propane_show_options) */
    propane_form form; /* PROPANE_TEXT or PROPANE_JSON (its keys: docs/coreml.md) */
    bool words;        /* for compiled programs: prints every field of every register */
    bool styled;       /* for examples: prints with a terminal's styles */
    const char *model,
        *chat; /* for examples: the model that would learn from them, and its chat format (NULL: the model's own) */
} propane_show_options;
/* Prints the contents of a file of any known kind, as `propane show` does. The text is terminated; free it with
 * propane_free. After an error *out is NULL or the text of the part that could be read. `options` may be NULL. */
PROPANE_CHECK propane_status propane_file_show(const char *path, const propane_show_options *options, char **out,
                                               size_t *length, propane_error *err);

/* ---- pages: a program's graph for a browser ---------------------------------------------------------------------- */

/* Measurements of the value called `name` in the function that is shown first. */
typedef struct propane_page_value {
    size_t size; /* sizeof(propane_page_value), set in the first element; all elements have this size */
    const char *name;
    double us;                   /* microseconds of the operation that makes it; negative if not measured */
    bool compared, broken;       /* the next three members are valid; an element is NaN on one side only */
    double largest, mean, scale; /* largest and mean difference; largest absolute value */
} propane_page_value;
typedef struct propane_page_options {
    size_t size;                    /* sizeof(propane_page_options) */
    const char *title;              /* NULL for the name of the module's file */
    const char *lead;               /* a sentence under the title; NULL for none */
    const char *function;           /* shown first; NULL for the default function or the first */
    const char *target, *os, *path; /* as in propane_check_options; target NULL means "m1,m4" */
    const char *colour;             /* "kind" (NULL), "verdict", "cost", "time", "error" */
    const propane_page_value *values;
    int value_count;
    double tolerance; /* relative differences above it are marked */
} propane_page_options;
/* Prints one HTML page that loads nothing from elsewhere: the graph of each function with shapes, types, work,
 * estimates, the findings of `propane check` for each operation, and the measurements in `values`. Names from the
 * file are data in the page, never markup. The text is terminated; free it with propane_free. `options` may be
 * NULL. */
PROPANE_CHECK propane_status propane_module_page(const propane_module *module, const propane_page_options *options,
                                                 char **out, size_t *length, propane_error *err);

PROPANE_END

#endif
