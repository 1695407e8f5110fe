/* SPDX-License-Identifier: MIT
 * Diagnoses folders that should be models but are not: what is missing, what the folder holds instead, and what the
 * user can do.
 */
#ifndef LM_FILES_DIAGNOSE_FOLDER_H
#define LM_FILES_DIAGNOSE_FOLDER_H

#include "core/base/status.h"

typedef enum folder_part { FOLDER_WEIGHTS, FOLDER_CONFIG, FOLDER_TOKENIZER } folder_part;

/* Always returns an error, which explains why the part cannot be read from the folder. If the weights are missing, too,
 * the error is about them. */
PROPANE_CHECK propane_status folder_explain(const char *dir, folder_part missing, propane_error *err);
/* Returns an error if the folder has no weights or no configuration. The checkpoint of an unfinished run counts as
 * weights. */
PROPANE_CHECK propane_status folder_check(const char *dir, propane_error *err);

#endif
