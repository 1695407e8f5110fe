/* SPDX-License-Identifier: MIT
 * The object of a propane_model, for the files of this folder.
 */
#ifndef LM_FILES_PUBLIC_MODEL_H
#define LM_FILES_PUBLIC_MODEL_H

#include "lm/arch/model_tensors.h"
#include "propane.h"

struct propane_model {
    model_weights *weights;
    char *path; /* the file or folder it was read from, next to which its chat format is stored */
};

#endif
