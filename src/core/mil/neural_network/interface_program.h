/* SPDX-License-Identifier: MIT
 * The inputs and outputs of an older model as those of an ML Program. Private to src/core/mil.
 */
#ifndef CORE_MIL_NEURAL_NETWORK_INTERFACE_PROGRAM_H
#define CORE_MIL_NEURAL_NETWORK_INTERFACE_PROGRAM_H

#include "core/mil/build.h"
#include "core/mil/coreml/package.h"
#include "core/mil/neural_network/wire_view.h"

/* A name that MIL allows: other bytes become '_'. NULL: no memory. */
const char *interface_name(arena *a, const char *name);
/* The parameter of an array, number or image, of the shape that is chosen for it; a number is an array of one
 * element. */
mil_value *interface_param(mil_builder *b, mil_feature *f, const mil_read_options *options);
/* `v` becomes a result and has the feature's name; the description follows it. */
void interface_result(mil_builder *b, mil_feature *f, mil_value *v);
/* What a classifier gives, of the probabilities and the labels (string or int64, a constant). Fills the two features
 * that the interface names. */
void interface_classify(mil_builder *b, mil_interface *seen, mil_value *probabilities, mil_value *labels);
/* The constant of a message with `strings` (repeated text, field 1) or integers. NULL: none, or an error. */

mil_value *interface_labels(mil_builder *b, wire_view strings, wire_view numbers);

#endif
