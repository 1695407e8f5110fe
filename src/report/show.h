/* SPDX-License-Identifier: MIT
 * What the files behind propane_file_show share: each appends to `to` what it finds, also before an error.
 */
#ifndef REPORT_SHOW_H
#define REPORT_SHOW_H

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "propane.h"

PROPANE_CHECK propane_status api_show_examples(const char *path, const propane_show_options *options, text *to,
                                               propane_error *err);
/* `kind` is the file's, or NULL: a tokenizer, a configuration, or nothing that is known. */
PROPANE_CHECK propane_status api_show_contents(const char *path, const char *kind, text *to, propane_error *err);
PROPANE_CHECK propane_status api_show_program(const char *path, text *to, propane_error *err);
/* As one JSON object, whose first keys are "schema", "kind" and "file" (docs/coreml.md). */
PROPANE_CHECK propane_status api_show_json(const char *path, const char *kind, text *to, propane_error *err);

/* Of language models (report/lm; src/without_lm.c where there are none). The kind by the name alone (`map` NULL), or by
 * the content; NULL: none of these. `o` gets the keys of its kind. */
const char *api_show_model_kind(const char *path, const file_map *map);
PROPANE_CHECK propane_status api_show_model_contents(const char *path, const char *kind, text *to, propane_error *err);
PROPANE_CHECK propane_status api_show_model_json(const char *path, const char *kind, json_t *o, propane_error *err);

/* The interface of a program: what a package says of itself, and each function. NULL: no memory. */
json_t *api_show_module_json(const propane_module *m);

#endif
