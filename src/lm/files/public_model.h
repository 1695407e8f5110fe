/* SPDX-License-Identifier: MIT
 * The definition of propane_model.
 */
#ifndef LM_FILES_PUBLIC_MODEL_H
#define LM_FILES_PUBLIC_MODEL_H

#include "lm/arch/model_tensors.h"
#include "propane.h"

struct propane_model {
    model_weights *weights;
    /* the file or folder from which the model was read, with the files of its chat format in the same place */
    char *path;
};

#endif
