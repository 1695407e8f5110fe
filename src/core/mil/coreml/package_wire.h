/* SPDX-License-Identifier: MIT
 * Unpacks model files into messages, after checking the bytes. Private to src/core/mil/coreml/package*.c.
 */
#ifndef CORE_MIL_COREML_PACKAGE_WIRE_H
#define CORE_MIL_COREML_PACKAGE_WIRE_H

#include "core/base/status.h"
#include "core/mil/coreml/coreml.pb-c.h"

/* Unpacks the message in `data`; free it with package_wire_free. `source` names the file in messages. */
PROPANE_CHECK propane_status package_wire_unpack(const void *data, size_t bytes, const char *source,
                                                 Coreml__Model **out, propane_error *err);
void package_wire_free(Coreml__Model *model);
/* Returns the sequence of models, or NULL if `model` is not a pipeline. */
const Coreml__Pipeline *package_wire_pipeline(const Coreml__Model *model);

#endif
