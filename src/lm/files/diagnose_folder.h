/* SPDX-License-Identifier: MIT
 * Diagnoses folders that should be models: what is missing, what is there instead, and what to do about it.
 */
#ifndef LM_FILES_DIAGNOSE_FOLDER_H
#define LM_FILES_DIAGNOSE_FOLDER_H

#include "core/base/status.h"

typedef enum folder_part { FOLDER_WEIGHTS, FOLDER_CONFIG, FOLDER_TOKENIZER } folder_part;

/* Always fails, with the reason why the part cannot be read from the folder. If the weights are missing too, reports
 * those. */
PROPANE_CHECK propane_status folder_explain(const char *dir, folder_part missing, propane_error *err);
/* Fails if weights or configuration cannot be there. The checkpoint of an unfinished run counts as weights. */
PROPANE_CHECK propane_status folder_check(const char *dir, propane_error *err);

#endif
