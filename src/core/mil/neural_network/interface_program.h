/* SPDX-License-Identifier: MIT
 * Expresses the inputs and outputs of an older model as those of an ML Program. Private to src/core/mil.
 */
#ifndef CORE_MIL_NEURAL_NETWORK_INTERFACE_PROGRAM_H
#define CORE_MIL_NEURAL_NETWORK_INTERFACE_PROGRAM_H

#include "core/mil/build.h"
#include "core/mil/coreml/package.h"
#include "core/mil/neural_network/wire_view.h"

/* Returns `name` with '_' for every byte that MIL does not allow, or NULL if memory runs out. A digit at the beginning,
 * or an empty name, gets a '_' in front. */
const char *interface_name(arena *a, const char *name);
/* Adds the parameter for an array, number or image, with the shape chosen for it. A number is an array of one
 * element. */
mil_value *interface_param(mil_builder *b, mil_feature *f, const mil_read_options *options);
/* Makes `v` a result with the feature's name; the description is updated to match. */
void interface_result(mil_builder *b, mil_feature *f, mil_value *v);
/* Adds the outputs of a classifier, given the probabilities and the labels (string or int64, a constant). Updates the
 * two features that the interface names (predicted, probabilities). */
void interface_classify(mil_builder *b, mil_interface *seen, mil_value *probabilities, mil_value *labels);
/* Makes a constant of the labels in `strings` (repeated text, field 1) or, if there are none, of the integers in
 * `numbers`. Returns NULL if there are no labels or on an error. */

mil_value *interface_labels(mil_builder *b, wire_view strings, wire_view numbers);

#endif
