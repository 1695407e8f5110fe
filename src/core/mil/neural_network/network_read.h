/* SPDX-License-Identifier: MIT
 * Reads neural networks of Core ML's older format (neuralNetwork, neuralNetworkClassifier, neuralNetworkRegressor) as
 * MIL.
 */
#ifndef CORE_MIL_NEURAL_NETWORK_NETWORK_READ_H
#define CORE_MIL_NEURAL_NETWORK_NETWORK_READ_H

#include "core/mil/coreml/package.h"

/* Adds the network as the function "main". m->package holds the description of inputs and outputs, which becomes the
 * description of an ML Program: fp32 or int32 arrays, images, and the outputs of a classifier. */
PROPANE_CHECK propane_status network_read(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                                          const mil_read_options *options, propane_error *err);

#endif
