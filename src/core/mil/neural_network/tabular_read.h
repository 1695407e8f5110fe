/* SPDX-License-Identifier: MIT
 * Reads tabular models as programs: linear models, trees, and models that prepare their columns. Each function adds
 * "main" to `m`. m->package holds the description of inputs and outputs, which becomes the description of an ML
 * Program.
 */
#ifndef CORE_MIL_NEURAL_NETWORK_TABULAR_READ_H
#define CORE_MIL_NEURAL_NETWORK_TABULAR_READ_H

#include "core/mil/coreml/package.h"

#define TABULAR_READ(kind)                                                                                             \
    PROPANE_CHECK propane_status tabular_read_##kind(mil_module *m, const uint8_t *data, size_t bytes,                 \
                                                     mil_opset opset, const mil_read_options *options,                 \
                                                     propane_error *err)
TABULAR_READ(glm_regressor);
TABULAR_READ(glm_classifier);
TABULAR_READ(tree_regressor);
TABULAR_READ(tree_classifier);
TABULAR_READ(one_hot);
TABULAR_READ(dictionary);
TABULAR_READ(mapping);
TABULAR_READ(imputer);
TABULAR_READ(vectorizer);
TABULAR_READ(scaler);
TABULAR_READ(normalizer);
TABULAR_READ(extractor);
TABULAR_READ(identity);

#endif
