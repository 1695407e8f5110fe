/* SPDX-License-Identifier: MIT
 * Folders of models as people have them: where something is missing, what is there instead and what to do about it.
 */
#ifndef LM_FILES_DIAGNOSE_FOLDER_H
#define LM_FILES_DIAGNOSE_FOLDER_H

#include "core/base/status.h"

typedef enum folder_part { FOLDER_WEIGHTS, FOLDER_CONFIG, FOLDER_TOKENIZER } folder_part;

/* Always fails, with the reason why the part cannot be read from the folder. Where there are no weights either, they
 * are reported. */
PROPANE_CHECK propane_status folder_explain(const char *dir, folder_part missing, propane_error *err);
/* Fails if weights or configuration cannot be there. Of a run that is not done, the checkpoint is the weights. */
PROPANE_CHECK propane_status folder_check(const char *dir, propane_error *err);

#endif
