/* SPDX-License-Identifier: MIT
 * Declarations shared by the files that implement propane_file_show. Each function appends to `to` what it finds, even
 * before an error.
 */
#ifndef REPORT_SHOW_H
#define REPORT_SHOW_H

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "propane.h"

PROPANE_CHECK propane_status api_show_examples(const char *path, const propane_show_options *options, text *to,
                                               propane_error *err);
/* `kind` is the file's kind, or NULL for a tokenizer, a configuration, or an unknown file. */
PROPANE_CHECK propane_status api_show_contents(const char *path, const char *kind, text *to, propane_error *err);
PROPANE_CHECK propane_status api_show_program(const char *path, text *to, propane_error *err);
/* Writes one JSON object, whose first keys are "schema", "kind" and "file" (docs/coreml.md). */
PROPANE_CHECK propane_status api_show_json(const char *path, const char *kind, text *to, propane_error *err);

/* For language models (report/lm, or src/without_lm.c in a build without them). Returns the kind from the name only
 * (if `map` is NULL) or from the content; NULL if it is none of these. `o` receives the keys of its kind. */
const char *api_show_model_kind(const char *path, const file_map *map);
PROPANE_CHECK propane_status api_show_model_contents(const char *path, const char *kind, text *to, propane_error *err);
PROPANE_CHECK propane_status api_show_model_json(const char *path, const char *kind, json_t *o, propane_error *err);

/* Returns a program's interface: its package's description, and each function. NULL if memory runs out. */
json_t *api_show_module_json(const propane_module *m);

#endif
