/* SPDX-License-Identifier: MIT
 * What compiled models (.mlmodelc) say around their program: the shapes that inputs may have, which stand in model.mil,
 * and metadata.json, which Core ML's compiler writes beside it.
 */
#ifndef CORE_MIL_COREML_PACKAGE_COMPILED_H
#define CORE_MIL_COREML_PACKAGE_COMPILED_H

#include "core/mil/coreml/package.h"

/* Describes the function by what its text says of its parameters, a feature each: nothing is added where no shape is
 * free. */
PROPANE_CHECK propane_status package_compiled_shapes(const mil_function *f, const mil_feature *features,
                                                     propane_error *err);
/* Reads the folder's metadata.json, if there is one: what the model says of itself, images, and the order of inputs and
 * outputs, which model.mil does not keep. Core ML itself does without that file, so lists that are not those of the
 * program count for nothing; one that is no JSON is an error. */
PROPANE_CHECK propane_status package_compiled_metadata(mil_module *m, const char *folder, propane_error *err);

#endif
