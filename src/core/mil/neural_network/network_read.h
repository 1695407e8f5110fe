/* SPDX-License-Identifier: MIT
 * Neural networks of Core ML's older format (neuralNetwork, neuralNetworkClassifier, neuralNetworkRegressor) read as
 * MIL.
 */
#ifndef CORE_MIL_NEURAL_NETWORK_NETWORK_READ_H
#define CORE_MIL_NEURAL_NETWORK_NETWORK_READ_H

#include "core/mil/coreml/package.h"

/* Adds the function "main" that the network is. `m` has the description of its inputs and outputs (m->package), which
 * becomes what an ML Program's would be: fp32 or int32 arrays, images, and what a classifier gives. */
PROPANE_CHECK propane_status network_read(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                                          const mil_read_options *options, propane_error *err);

#endif
