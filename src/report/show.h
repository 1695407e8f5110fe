/* SPDX-License-Identifier: MIT
 * Declares the functions that the files of propane_file_show share. Each appends its text to `to`. After an error `to`
 * holds the part that could be read.
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

/* Functions for language models, in report/lm, or in src/without_lm.c for a build without them. api_show_model_kind
 * returns a file's kind by its name alone (if `map` is NULL) or by its content; NULL if it is not a file of language
 * models. api_show_model_json adds the keys of the kind to `o`. */
const char *api_show_model_kind(const char *path, const file_map *map);
PROPANE_CHECK propane_status api_show_model_contents(const char *path, const char *kind, text *to, propane_error *err);
PROPANE_CHECK propane_status api_show_model_json(const char *path, const char *kind, json_t *o, propane_error *err);

/* Returns the description of a program: its package's metadata, and the interface of each function. NULL if memory runs
 * out. */
json_t *api_show_module_json(const propane_module *m);

#endif
