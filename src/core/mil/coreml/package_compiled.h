/* SPDX-License-Identifier: MIT
 * The description that accompanies the program of a compiled model (.mlmodelc): the allowed shapes of inputs, which are
 * in model.mil, and metadata.json, which Core ML's compiler writes next to it.
 */
#ifndef CORE_MIL_COREML_PACKAGE_COMPILED_H
#define CORE_MIL_COREML_PACKAGE_COMPILED_H

#include "core/mil/coreml/package.h"

/* Describes the function by the text's attributes of its parameters; `features` has one entry per parameter. Adds
 * nothing if all shapes are fixed. */
PROPANE_CHECK propane_status package_compiled_shapes(const mil_function *f, const mil_feature *features,
                                                     propane_error *err);
/* Reads the folder's metadata.json, if there is one: the model's metadata, images, and the order of inputs and outputs,
 * which model.mil does not preserve. Core ML itself works without that file, so lists that do not match the program are
 * ignored. A file that is not JSON is an error. */
PROPANE_CHECK propane_status package_compiled_metadata(mil_module *m, const char *folder, propane_error *err);

#endif
