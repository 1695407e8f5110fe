/* SPDX-License-Identifier: MIT
 * Declares the reading of the description of a compiled model (.mlmodelc). The allowed shapes of inputs are in
 * model.mil; the rest is in metadata.json, which Core ML's compiler writes next to model.mil.
 */
#ifndef CORE_MIL_COREML_PACKAGE_COMPILED_H
#define CORE_MIL_COREML_PACKAGE_COMPILED_H

#include "core/mil/coreml/package.h"

/* Describes the function, with the allowed shapes that the text's attributes give for its parameters. `features` has
 * one entry per parameter. Adds nothing if no parameter has allowed shapes. */
PROPANE_CHECK propane_status package_compiled_shapes(const mil_function *f, const mil_feature *features,
                                                     propane_error *err);
/* Reads metadata.json from the folder, if the file exists: the model's metadata, images, and the order of inputs and
 * outputs, which model.mil does not preserve. Core ML itself works without that file, so lists that do not match the
 * program are ignored. A file that is not JSON is an error. */
PROPANE_CHECK propane_status package_compiled_metadata(mil_module *m, const char *folder, propane_error *err);

#endif
